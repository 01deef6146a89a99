package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/rs/zerolog"
	"github.com/urfave/cli/v2"

	"gchat-hooks/poller"
	"gchat-hooks/state"
)

func (p Program) logsCommand() *cli.Command {
	return &cli.Command{
		Name:  "logs",
		Usage: "print the log's last lines",
		Flags: []cli.Flag{
			&cli.IntFlag{Name: "lines", Value: 50, Usage: "how `MANY` lines"},
			&cli.BoolFlag{Name: "follow", Usage: "go on with what is written from now on"},
			&cli.StringFlag{Name: "level", Usage: "only lines of `LEVEL` and above: debug, info, warn, error"},
			&cli.StringFlag{Name: "session", Usage: "only lines about the session `NAME` and its questions"},
			&cli.BoolFlag{Name: "json", Usage: "the lines as they stand, JSON each"},
		},
		Action: func(c *cli.Context) error {
			return logs{
				env: os.Getenv, out: p.out, lines: c.Int("lines"), follow: c.Bool("follow"), level: c.String("level"), session: c.String("session"), asJSON: c.Bool("json"),
			}.run(c.Context)
		},
	}
}

// logs shows the log: what all jobs of this machine wrote.
type logs struct {
	env     state.Getenv
	out     io.Writer
	lines   int
	follow  bool
	level   string
	session string
	asJSON  bool
}

// logLevels are the names that --level takes.
var logLevels = []string{"trace", "debug", "info", "warn", "error", "fatal", "panic"}

func (l logs) run(ctx context.Context) error {
	const help = "gchat-hooks logs --help"
	if l.lines < 1 {
		return usage(errors.New("--lines takes a number from 1 on"), help)
	}
	if l.level != "" && !slices.Contains(logLevels, l.level) {
		return usage(fmt.Errorf("--level takes one of %s", strings.Join(logLevels, ", ")), help)
	}
	log := &logFile{path: state.LogPath(l.env)}
	older, _ := os.ReadFile(log.path + ".1")
	all, err := log.added()
	if err != nil {
		return fmt.Errorf("read the log: %w", err)
	}
	var last [][]byte
	names := l.names()
	for _, line := range slices.Backward(append(slices.Collect(bytes.Lines(older)), all...)) {
		if len(last) < l.lines && l.wants(line, names) {
			last = append(last, line)
		}
	}
	if len(last) == 0 && !l.asJSON {
		fmt.Fprintf(l.out, "the log holds nothing of that: %s\n", log.path)
	}
	for _, line := range slices.Backward(last) {
		err = errors.Join(err, l.print(line))
	}
	for l.follow && err == nil && ctx.Err() == nil && !poller.NobodyReads(l.out) {
		select {
		case <-ctx.Done():
		case <-time.After(300 * time.Millisecond):
		}
		if all, err = log.added(); len(all) > 0 {
			names = l.names() // a session goes on asking
		}
		for _, line := range all {
			if l.wants(line, names) {
				err = errors.Join(err, l.print(line))
			}
		}
	}
	return err
}

// wants says whether a line is of the level and about the session. What is not JSON is a crash, most likely.
func (l logs) wants(line []byte, names map[string]bool) bool {
	var entry map[string]any
	isJSON := json.Unmarshal(line, &entry) == nil
	if level, _ := entry["level"].(string); isJSON && slices.Index(logLevels, level) < slices.Index(logLevels, l.level) {
		return false
	}
	about := l.session == ""
	for _, member := range []string{"session", "session_id", "session_name", "tmux_session", "question"} {
		name, _ := entry[member].(string)
		about = about || names[name]
	}
	return about
}

func (l logs) print(line []byte) (err error) {
	switch {
	case !json.Valid(line):
		_, err = io.WriteString(l.out, plain(string(line)))
	case l.asJSON:
		_, err = io.WriteString(l.out, new(state.Redactor).Clean(state.PrintableJSON(string(line))))
	default:
		harmless := func(entry map[string]any) error {
			for name, v := range entry {
				if text, ok := v.(string); ok {
					entry[name] = plain(text)
				}
			}
			return nil
		}
		plainly := !terminalOf(l.out, l.env).colour
		w := zerolog.ConsoleWriter{Out: l.out, NoColor: plainly, TimeFormat: time.DateTime, FormatPrepare: harmless}
		_, err = w.Write(line)
	}
	return err
}

// names are what lines about the session call it, or its questions: some jobs know only the one, some only the other.
func (l logs) names() map[string]bool {
	if l.session == "" {
		return nil
	}
	names := map[string]bool{l.session: true}
	box := state.LedgersIn(state.UserState(l.env))
	running, _ := box.Running()
	ended, _ := box.Ended()
	for _, x := range append(running, ended...) {
		if x.SessionName == l.session || x.SessionID == l.session {
			names[x.SessionID], names[x.SessionName] = true, true
		}
	}
	p := &poller.Poller{Env: l.env, Log: state.NewLog(l.env, "logs")}
	for _, q := range p.AllQuestions() {
		if q.SessionName == l.session || q.SessionID == l.session || q.ClaudeSessionID == l.session || q.TmuxSession == l.session {
			for _, name := range []string{q.SessionID, q.ClaudeSessionID, q.SessionName, q.QuestionID} {
				names[name] = true
			}
		}
	}
	delete(names, "")
	return names
}

// logFile is the log, and how far it was read.
type logFile struct {
	path string
	file *os.File // nil: not begun
	half []byte   // of a line that is being written
}

// added are the whole lines that came since the last call, of a log that was begun anew too.
func (f *logFile) added() (lines [][]byte, err error) {
	for {
		if f.file == nil {
			file, err := os.Open(f.path)
			if errors.Is(err, fs.ErrNotExist) {
				return lines, nil
			}
			if err != nil {
				return lines, err
			}
			f.file = file
		}
		now, nerr := os.Stat(f.path)
		was, werr := f.file.Stat()
		b, err := io.ReadAll(f.file)
		if err != nil {
			return lines, err
		}
		b = append(f.half, b...)
		end := bytes.LastIndexByte(b, '\n') + 1
		lines, f.half = append(lines, slices.Collect(bytes.Lines(b[:end]))...), bytes.Clone(b[end:])
		if nerr != nil || werr != nil || os.SameFile(now, was) {
			return lines, nil
		}
		f.file.Close()
		f.file, f.half = nil, nil
	}
}

// logError is an error line of the log, as status shows it.
type logError struct {
	Time    time.Time `json:"time"`
	Job     string    `json:"job"`
	Message string    `json:"message"`
	Cause   string    `json:"error,omitempty"`
	Hint    string    `json:"hint,omitempty"`
}

// lastErrors are the last n errors of the log since then, the oldest first, as far as its last megabyte goes back.
func lastErrors(env state.Getenv, n int, since time.Time) (errs []logError) {
	f, err := os.Open(state.LogPath(env))
	if err != nil {
		return nil
	}
	defer f.Close()
	_, _ = f.Seek(-1<<20, io.SeekEnd) // a shorter one is read from its beginning
	b, _ := io.ReadAll(f)
	for _, line := range slices.Backward(slices.Collect(bytes.Lines(b))) {
		var e logError
		isError := bytes.Contains(line, []byte(`"level":"error"`)) && json.Unmarshal(line, &e) == nil
		if isError && len(errs) < n && !e.Time.Before(since) {
			errs = append(errs, e)
		}
	}
	slices.Reverse(errs)
	return errs
}
