package space

import (
	"net/http"
	"time"
)

// Week is what was counted in the last seven days.
type Week struct {
	Days   []Day      `json:"days"`   // each of them, the oldest first
	Totals []Total    `json:"totals"` // of all seven
	Waits  []StepTime `json:"waits"`
}

// Day is what was asked on one day, and how it ended.
type Day struct {
	Date       string `json:"date"` // 2026-11-29
	Asked      int    `json:"asked"`
	InChat     int    `json:"chat"`     // answered in Chat
	InTerminal int    `json:"terminal"` // answered in the terminal
	Messages   int    `json:"messages"` // that were sent
	Lost       int    `json:"lost"`     // replies that never reached Claude
}

// Total is how often something happened.
type Total struct {
	What  string `json:"what"`
	Count int    `json:"count"`
}

// StepTime is how long a step took, in seconds: the median, and what 95 % did not exceed.
type StepTime struct {
	Step   string  `json:"step"`
	Median float64 `json:"median"`
	P95    float64 `json:"p95"`
}

// WeekDays returns the dates of the last seven days, the oldest first.
func WeekDays(now time.Time) (dates []string) {
	for daysAgo := 6; daysAgo >= 0; daysAgo-- {
		dates = append(dates, now.AddDate(0, 0, -daysAgo).Format(time.DateOnly))
	}
	return dates
}

// serveWeek serves the figures of the last seven days.
func (s *Space) serveWeek(*http.Request) (any, error) {
	if s.describeWeek == nil {
		return struct{}{}, nil
	}
	return s.describeWeek(), nil
}
