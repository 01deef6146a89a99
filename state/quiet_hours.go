package state

import (
	"encoding/json"
	"fmt"
	"time"
	_ "time/tzdata" // a small container has no time zones of its own
)

// QuietHours are the part of each day in which reports are held back: {"from": "22:00", "to": "07:00", "time_zone":
// "Europe/Berlin"}, the machine's own zone when none is given.
type QuietHours struct {
	From, To Clock
	Zone     *time.Location
}

// Clock is a time of day, in minutes since midnight.
type Clock int

// UnmarshalJSON reads quiet hours; hours that never or always hold are refused.
func (q *QuietHours) UnmarshalJSON(b []byte) error {
	var v struct {
		From string `json:"from"`
		To   string `json:"to"`
		Zone string `json:"time_zone"`
	}
	if err := json.Unmarshal(b, &v); err != nil {
		return err
	}
	for _, c := range []struct {
		at *Clock
		s  string
	}{{&q.From, v.From}, {&q.To, v.To}} {
		t, err := time.Parse("15:04", c.s)
		if err != nil {
			return fmt.Errorf("%q is not a time of day such as 22:00", c.s)
		}
		*c.at = Clock(t.Hour()*60 + t.Minute())
	}
	if q.From == q.To {
		return fmt.Errorf("from and to are both %s", v.From)
	}
	q.Zone = time.Local
	if v.Zone != "" {
		var err error
		if q.Zone, err = time.LoadLocation(v.Zone); err != nil {
			return fmt.Errorf("time_zone: %w", err)
		}
	}
	return nil
}

// Until says whether t is in quiet hours (nil has none), and when they end.
func (q *QuietHours) Until(t time.Time) (end time.Time, quiet bool) {
	if q == nil {
		return time.Time{}, false
	}
	t = t.In(q.Zone)
	day, now := t.Day(), Clock(t.Hour()*60+t.Minute())
	switch overnight := q.From > q.To; {
	case overnight && now >= q.From:
		day++
	case overnight && now < q.To, now >= q.From && now < q.To:
	default:
		return time.Time{}, false
	}
	// time.Date knows on which days the clock is changed.
	return time.Date(t.Year(), t.Month(), day, int(q.To)/60, int(q.To)%60, 0, 0, q.Zone), true
}
