package config

import (
	"fmt"
	"testing"
	"time"

	"gchat-hooks/e2e/kit"
)

func TestReportRules_Settings(t *testing.T) {
	p := newPlace(t)
	p.write(projectFile, `{
		"reports": {"heartbeat": "off", "progress_update": "nonsense"}, "quiet_hours": {"from": "25:00", "to": "7"}}`)
	p.write(personFile, `{
		"webhook_url": "https://chat.example/x", "reports": {"heartbeat": "on", "progress_update": "Digest"},
		"quiet_hours": {"from": "22:30", "to": "07:00", "time_zone": "Asia/Kathmandu"}, "writes_per_minute": 20}`)
	c := p.load()
	kit.Equalf(t, c.ReportRule("heartbeat"), ReportOff, "heartbeat, by the project's file")
	kit.Equalf(t, c.ReportRule("subagent_done", "progress_update"), ReportDigest, "subagent_done")
	kit.Equalf(t, c.ReportRule("error"), "", "error")
	kit.True(t, c.QuietHours != nil && c.QuietHours.From == 22*60+30 &&
		c.QuietHours.TimeZone.String() == "Asia/Kathmandu",
		"quiet hours: %+v", c.QuietHours)
	kit.True(t, c.WritesPerMinute == 20 && c.WebhookURL != "",
		"%d a minute, %q", c.WritesPerMinute, c.WebhookURL)
	// What is wrong is said, and takes nothing else along.
	said := fmt.Sprint(c.Problems)
	kit.Contains(t, said, "reports: progress_update: it takes on, off, digest")
	kit.Contains(t, said, `quiet_hours: "25:00" is not a time of day`)
}

func TestReportRules_QuietHours(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	kit.NoError(t, err)
	night := &QuietHours{From: 22 * 60, To: 7 * 60, TimeZone: berlin}
	lunch := &QuietHours{From: 12 * 60, To: 13*60 + 30, TimeZone: berlin}
	for _, tt := range []struct {
		name, now, until string
		q                *QuietHours
	}{
		{"none", "2026-11-21T23:00:00+01:00", "", nil},
		{"before the night", "2026-11-21T21:59:59+01:00", "", night},
		{"its first minute", "2026-11-21T22:00:00+01:00", "2026-11-22T07:00:00+01:00", night},
		{"after midnight", "2026-11-22T00:10:00+01:00", "2026-11-22T07:00:00+01:00", night},
		{"its last second", "2026-11-22T06:59:59+01:00", "2026-11-22T07:00:00+01:00", night},
		{"in the morning", "2026-11-22T07:00:00+01:00", "", night},
		{"asked in another zone", "2026-11-21T22:30:00Z", "2026-11-22T07:00:00+01:00", night},
		{"the last day of a year", "2026-12-31T23:30:00+01:00", "2027-01-01T07:00:00+01:00", night},
		{"clocks go forward", "2026-03-28T23:30:00+01:00", "2026-03-29T07:00:00+02:00", night},
		{"clocks go back", "2026-10-24T23:30:00+02:00", "2026-10-25T07:00:00+01:00", night},
		{"within a day", "2026-11-21T12:30:00+01:00", "2026-11-21T13:30:00+01:00", lunch},
		{"after lunch", "2026-11-21T13:30:00+01:00", "", lunch},
	} {
		t.Run(tt.name, func(t *testing.T) {
			now, err := time.Parse(time.RFC3339, tt.now)
			kit.NoError(t, err)
			end, quiet := tt.q.EndAfter(now)
			kit.Must(t, quiet == (tt.until != ""), "quiet: %v", quiet)
			kit.True(t, !quiet || end.Format(time.RFC3339) == tt.until,
				"until %s, want %s", end.Format(time.RFC3339), tt.until)
		})
	}
}
