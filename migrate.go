package main

import (
	"fmt"
	"io"
	"time"

	"gchat-hooks/hooks/migrate"
)

// migration takes a harness from a relay agent to gchat-hooks, or back.
type migration struct {
	out           io.Writer
	harness       string
	apply, revert bool
}

// refused are files that a migration left as they were.
type refused struct{ error }

func (refused) ExitCode() int { return 2 }
func (refused) Hint() string  { return "look at those files; the rest is done" }

func (m migration) run() error {
	if m.revert {
		out, err := migrate.Revert(m.harness)
		return m.tell(out, err)
	}
	plan, err := migrate.Find(m.harness, time.Now())
	if err != nil {
		return err
	}
	if m.apply {
		out, err := plan.Apply()
		err = m.tell(out, err)
		if out != nil {
			fmt.Fprint(m.out, plan.LookAt(" (by the lines from before)"))
		}
		return err
	}
	fmt.Fprint(m.out, plan.Diff(), plan.Summary())
	if len(plan.Changes) > 0 {
		fmt.Fprintln(m.out, "Nothing was written. --apply does it, and --revert takes it back, byte for byte.")
	}
	return nil
}

func (m migration) tell(o *migrate.Outcome, err error) error {
	if o != nil {
		for _, line := range o.Done {
			fmt.Fprintln(m.out, line)
		}
		for _, look := range o.Refused {
			fmt.Fprintln(m.out, "left as it is:", look)
		}
	}
	if err == nil && o != nil && len(o.Refused) > 0 {
		err = refused{fmt.Errorf("%d files were left as they are", len(o.Refused))}
	}
	return err
}
