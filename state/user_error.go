package state

import (
	"fmt"
	"strings"
	"time"
)

// QuoteForShell is a word as a POSIX shell takes it.
func QuoteForShell(s string) string {
	if s != "" &&
		strings.Trim(
			s,
			"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+:@%,",
		) == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// UserError is an error as a person reads it: a command ends with it.
type UserError struct {
	Err       error  // what is wrong
	Hint      string // what to do about it; "" where there is nothing to add
	Code      int    // the command's exit code; 0 stands for 1
	IsPrinted bool   // the command has told it on stdout: nothing more is printed
}

func (e *UserError) Error() string { return e.Err.Error() }
func (e *UserError) Unwrap() error { return e.Err }

// DescribeDuration is a duration as a person says it: "30 minutes".
func DescribeDuration(d time.Duration) string {
	withUnit := func(n int64, unit string) string {
		if n != 1 {
			unit += "s"
		}
		return fmt.Sprintf("%d %s", n, unit)
	}
	switch {
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d >= 2*time.Hour && d%time.Hour == 0:
		return withUnit(int64(d/time.Hour), "hour")
	case d >= time.Minute && d%time.Minute == 0:
		return withUnit(int64(d/time.Minute), "minute")
	}
	return withUnit(int64(d.Round(time.Second)/time.Second), "second")
}
