package poller

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"gchat-hooks/state"
)

const (
	defaultLogLines = 50
	logLook         = 300 * time.Millisecond
)

// LogOptions are what is shown of a log.
type LogOptions struct {
	Lines  int    // of each file, at most; 0 is 50
	Follow bool   // show what is added, until ctx ends
	Job    string // only what this job wrote; "" for the hooks' lines, too
	Level  string // only lines of this level and above; "" for all
	// About are the names and ids of the sessions and questions whose lines are shown; nil for all. It is asked again for
	// what is added, since a session goes on asking.
	About  func() map[string]bool
	JSON   bool // the lines as they stand, for a program
	Colour bool // levels that matter stand out
}

// ShowLog prints the last lines of the log in a person's form, or as they stand.
func ShowLog(ctx context.Context, env state.Getenv, out io.Writer, o LogOptions) error {
	s := newLogShow(env, out, o)
	n, err := s.begin(&logFile{path: state.LogPath(env)}, "")
	if err != nil {
		return err
	}
	if n == 0 && !o.JSON {
		what := "the log is empty"
		if o.Level != "" || o.About != nil {
			what = "the log holds nothing of that"
		}
		s.say("%s: %s", what, state.LogPath(env))
	}
	s.follow(ctx)
	return s.err
}

// logShow shows log files.
type logShow struct {
	LogOptions
	out    io.Writer
	redact *state.Redactor // the log itself is clean; what a crash printed is not
	names  map[string]bool
	files  []*logFile
	err    error // of out
}

func newLogShow(env state.Getenv, out io.Writer, o LogOptions) *logShow {
	s := &logShow{LogOptions: o, out: out, redact: &state.Redactor{}}
	s.redact.Hide(env("GOOGLE_CHAT_WEBHOOK_URL"))
	s.ask()
	return s
}

func (s *logShow) ask() {
	if s.About != nil {
		s.names = s.About()
	}
}

func (s *logShow) say(format string, args ...any) {
	if _, err := fmt.Fprintf(s.out, format+"\n", args...); err != nil && s.err == nil {
		s.err = fmt.Errorf("print the log: %w", err)
	}
}

// line is a line as it is shown, if it is.
func (s *logShow) line(line []byte) (string, bool) {
	l := parseLogLine(line)
	if s.Job != "" && l.job != "" && l.job != s.Job || !l.atLeast(s.Level) || s.About != nil && !l.about(s.names) {
		return "", false
	}
	if s.JSON && l.rest != nil {
		return s.redact.Clean(PrintableJSON(strings.TrimRight(string(line), "\r\n"))), true
	}
	text := s.redact.Clean(l.String())
	if s.Colour && l.rest != nil {
		switch {
		case l.atLeast("error"):
			text = "\x1b[31m" + text + "\x1b[0m"
		case l.level == "warn":
			text = "\x1b[33m" + text + "\x1b[0m"
		}
	}
	return text, true
}

// begin shows the last lines of a file, under a title where there is one and lines are, and returns how many they were.
func (s *logShow) begin(f *logFile, title string) (int, error) {
	lines, err := f.tail(s.line, cmp.Or(max(s.Lines, 0), defaultLogLines), mostTail)
	if err != nil {
		return 0, fmt.Errorf("read the log: %w", err)
	}
	if title != "" && len(lines) > 0 {
		s.say("-- %s", title)
	}
	for _, line := range lines {
		s.say("%s", line)
	}
	s.files = append(s.files, f)
	return len(lines), nil
}

// follow shows what is added, where that is wanted, until ctx ends or nobody reads it any more.
func (s *logShow) follow(ctx context.Context) {
	for s.Follow && ctx.Err() == nil && s.err == nil && !NobodyReads(s.out) {
		for _, f := range s.files {
			added := f.added()
			if len(added) > 0 {
				s.ask()
			}
			for _, line := range added {
				if text, ok := s.line(line); ok {
					s.say("%s", text)
				}
			}
		}
		sleep(ctx, logLook)
	}
}
