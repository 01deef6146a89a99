package state

import "context"

// Level says how bad a finding of `gchat-hooks doctor` is.
type Level string

const (
	LevelOK   Level = "ok"
	LevelWarn Level = "warn" // something does not work as it could, or will not before long
	LevelFail Level = "fail" // questions are not asked, or not answered, in Chat; or a secret lies open
	LevelSkip Level = "skip" // it was not looked at, and why
)

// Finding is what a check of `gchat-hooks doctor` has to say in one line. None of its words may be a secret.
type Finding struct {
	ID    string `json:"id"` // of the check, stable: room.thing
	Level Level  `json:"level"`
	What  string `json:"what"`
	Means string `json:"means,omitempty"` // what it keeps from working
	Mend  string `json:"mend,omitempty"`  // the command or the change that mends it
	Fixed string `json:"fixed,omitempty"` // what --fix did about it

	// Fix mends it where that is safe: nothing a person wrote is changed. It says what it did. nil: a person has to.
	Fix func() (did string, err error) `json:"-"`
}

// Check is one look at how things are. It changes nothing, ends soon after its context, and has one finding at least.
type Check struct {
	ID  string
	Run func(ctx context.Context) []Finding
}

// Fine is the finding of a check that found nothing wrong.
func Fine(what string) []Finding { return []Finding{{Level: LevelOK, What: what}} }

// Skipped is the finding of a check that could not be made, or does not apply.
func Skipped(why string) []Finding { return []Finding{{Level: LevelSkip, What: why}} }
