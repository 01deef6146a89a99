package poller

import (
	"fmt"
	"time"
)

// Spoken is a duration as people say it: "30 minutes", "1 hour", "20 seconds".
func Spoken(d time.Duration) string {
	say := func(n int64, unit string) string {
		if n != 1 {
			unit += "s"
		}
		return fmt.Sprintf("%d %s", n, unit)
	}
	switch {
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d >= 2*time.Hour && d%time.Hour == 0:
		return say(int64(d/time.Hour), "hour")
	case d >= time.Minute && d%time.Minute == 0:
		return say(int64(d/time.Minute), "minute")
	}
	return say(int64(d.Round(time.Second)/time.Second), "second")
}
