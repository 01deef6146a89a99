package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// ReportRule is what becomes of a kind of report.
type ReportRule string

const (
	ReportOn     ReportRule = "on"     // sent at once
	ReportOff    ReportRule = "off"    // not sent
	ReportDigest ReportRule = "digest" // collected, and sent as one message every digest_every
)

// ReportRule is what the person set for the first of the kinds that they set something for; "" when for none. Kinds are
// the message types (task_completion, …) and the finer subagent_done, task_done and permission.
func (c *Config) ReportRule(kinds ...string) ReportRule {
	for _, k := range kinds {
		if r := c.Reports[k]; r != "" {
			return r
		}
	}
	return ""
}

// NotificationRoute is what becomes of one of Claude Code's notification types. In the file it is "on", "off", or
// {"type": "error", "prefix": "[Alert]"}.
type NotificationRoute struct {
	Off    bool
	Type   string // message type; "" for the usual one
	Prefix string // in place of the type's; "" for the usual one
}

var errRoute = errors.New(`it takes "on", "off", or {"type": …, "prefix": …}`)

// UnmarshalJSON reads the forms that a route can have.
func (r *NotificationRoute) UnmarshalJSON(b []byte) error {
	var v any
	if err := json.Unmarshal(b, &v); err != nil {
		return err
	}
	*r = NotificationRoute{}
	switch v := v.(type) {
	case nil:
		r.Off = true // as the first design writes "suppressed"
	case bool:
		r.Off = !v
	case string:
		if v = strings.ToLower(strings.TrimSpace(v)); v != "on" && v != "off" {
			return errRoute
		}
		r.Off = v == "off"
	case map[string]any:
		r.Type, _ = v["type"].(string)
		r.Prefix, _ = v["prefix"].(string)
	default:
		return errRoute
	}
	return nil
}

// reportSettings are the parts of a configuration file that are about reports.
type reportSettings struct {
	rules    map[string]ReportRule
	routes   map[string]NotificationRoute
	quiet    *QuietHours
	problems []error
}

// readReportSettings leaves out what it cannot read: a slip in the quiet hours is no reason to send no questions.
func readReportSettings(file map[string]json.RawMessage) (s reportSettings) {
	s.rules, s.routes = map[string]ReportRule{}, map[string]NotificationRoute{}
	each := func(name string, take func(key string, raw json.RawMessage) error) {
		var members map[string]json.RawMessage
		if raw, ok := file[name]; !ok {
			return
		} else if err := json.Unmarshal(raw, &members); err != nil {
			s.problems = append(s.problems, fmt.Errorf("%s: %w", name, err))
		}
		for key, raw := range members {
			if err := take(key, raw); err != nil {
				s.problems = append(s.problems, fmt.Errorf("%s: %s: %w", name, key, err))
			}
		}
	}
	each("reports", func(kind string, raw json.RawMessage) error {
		var r ReportRule
		_ = json.Unmarshal(raw, &r)
		switch r = ReportRule(strings.ToLower(strings.TrimSpace(string(r)))); r {
		case ReportOn, ReportOff, ReportDigest:
			s.rules[kind] = r
			return nil
		}
		return errors.New("it takes on, off or digest")
	})
	each("notifications", func(name string, raw json.RawMessage) error {
		var r NotificationRoute
		if err := json.Unmarshal(raw, &r); err != nil {
			return err
		}
		s.routes[name] = r
		return nil
	})
	if raw, ok := file["quiet_hours"]; ok && string(raw) != "null" {
		q := &QuietHours{}
		if err := json.Unmarshal(raw, q); err != nil {
			s.problems = append(s.problems, fmt.Errorf("quiet_hours: %w", err))
		} else {
			s.quiet = q
		}
	}
	return s
}

// takeReports lets the highest layer that says something about a kind, a notification or the quiet hours decide it.
func (c *Config) takeReports(layers []layer) {
	c.Reports, c.Notifications = map[string]ReportRule{}, map[string]NotificationRoute{}
	for _, l := range layers {
		for kind, r := range l.reports.rules {
			if c.Reports[kind] == "" {
				c.Reports[kind] = r
			}
		}
		for name, r := range l.reports.routes {
			if _, ok := c.Notifications[name]; !ok {
				c.Notifications[name] = r
			}
		}
		c.Problems = append(c.Problems, l.reports.problems...)
		if c.Quiet == nil {
			c.Quiet = l.reports.quiet
		}
	}
}
