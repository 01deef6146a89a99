package state

import (
	"fmt"
	"strings"
	"time"
)

// QuoteForShell returns s quoted as one word of a POSIX shell; a plain word stays as it
// is.
func QuoteForShell(s string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+:@%,"
	if s != "" && strings.Trim(s, plain) == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// UserError is an error for a person: a command prints it and exits with Code.
type UserError struct {
	Err       error  // what went wrong
	Hint      string // what to do about it; "" for nothing
	Code      int    // the command's exit code; 0 means 1
	IsPrinted bool   // the command has printed it on stdout; nothing more is printed
}

func (e *UserError) Error() string { return e.Err.Error() }
func (e *UserError) Unwrap() error { return e.Err }

// DescribeDuration returns a duration as a person says it, such as "30 minutes".
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
