package poller

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode"

	"gchat-hooks/state"
)

const (
	defaultLogLines = 50
	// tailBytes bounds what is read of the end of a log: nothing keeps launchd's own files short.
	tailBytes = 1 << 20
	logLook   = 300 * time.Millisecond
)

// LogOptions are what Logs shows.
type LogOptions struct {
	Lines  int    // of each file, at most; 0 is 50
	Follow bool   // show what is added, until ctx ends
	Job    string // only what this job wrote; "" for the hooks' lines, too
}

// Logs prints the last lines of the log in a person's form, and of what the daemon printed itself.
func (s *Service) Logs(ctx context.Context, o LogOptions) error {
	redact := &state.Redactor{} // the log itself is clean; what a crash printed is not
	redact.Hide(s.Env("GOOGLE_CHAT_WEBHOOK_URL"))
	show := func(line []byte) (string, bool) {
		text, job := readable(line)
		if o.Job != "" && job != "" && job != o.Job {
			return "", false
		}
		return redact.Clean(text), true
	}
	files := []*logFile{{path: state.LogPath(s.Env)}}
	if s.goos() == "darwin" {
		dir := filepath.Dir(state.LogPath(s.Env))
		files = append(files, &logFile{path: filepath.Join(dir, serviceName+".log")}, &logFile{path: filepath.Join(dir, serviceName+".err")})
	}
	shown := 0
	for i, f := range files {
		lines, err := f.tail(show, cmp.Or(max(o.Lines, 0), defaultLogLines))
		if err != nil {
			return fmt.Errorf("read the log: %w", err)
		}
		if i > 0 && len(lines) > 0 {
			s.say("-- %s", f.path)
		}
		for _, line := range lines {
			s.say("%s", line)
		}
		shown += len(lines)
	}
	if shown == 0 {
		s.say("the log is empty: %s", state.LogPath(s.Env))
	}
	if s.goos() == "linux" {
		s.say("-- what systemd says of it: journalctl --user -u %s -n %d", serviceName, cmp.Or(max(o.Lines, 0), defaultLogLines))
	}
	for o.Follow && ctx.Err() == nil {
		for _, f := range files {
			for _, line := range f.added() {
				if text, ok := show(line); ok {
					s.say("%s", text)
				}
			}
		}
		sleep(ctx, logLook)
	}
	return nil
}

// logFile is a log and how far it was shown.
type logFile struct {
	path string
	was  os.FileInfo
	at   int64
}

// tail are the last n lines that show takes, of the end of the file. One that is not there has none.
func (f *logFile) tail(show func([]byte) (string, bool), n int) (lines []string, err error) {
	file, err := os.Open(f.path)
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if f.was, err = file.Stat(); err != nil {
		return nil, err
	}
	from := max(f.was.Size()-tailBytes, 0)
	b, err := io.ReadAll(io.NewSectionReader(file, from, f.was.Size()-from))
	if err != nil {
		return nil, err
	}
	if from > 0 {
		_, b, _ = bytes.Cut(b, []byte("\n")) // the first line is cut
	}
	end := bytes.LastIndexByte(b, '\n') + 1
	f.at = f.was.Size() - int64(len(b)-end) // a line that is being written comes with added
	for _, line := range slices.Backward(slices.Collect(bytes.Lines(b[:end]))) {
		if text, ok := show(line); ok {
			lines = append(lines, text)
		}
		if len(lines) == n {
			break
		}
	}
	slices.Reverse(lines)
	return lines, nil
}

// added are the whole lines that came since the last call. A log that was begun anew is read from its beginning.
func (f *logFile) added() (lines [][]byte) {
	file, err := os.Open(f.path)
	if err != nil {
		return nil
	}
	defer file.Close()
	is, err := file.Stat()
	if err != nil {
		return nil
	}
	if f.was == nil || !os.SameFile(f.was, is) || is.Size() < f.at {
		f.at = 0
	}
	f.was = is
	b, _ := io.ReadAll(io.NewSectionReader(file, f.at, tailBytes))
	end := bytes.LastIndexByte(b, '\n') + 1
	f.at += int64(end)
	if end == 0 && len(b) == tailBytes {
		f.at += tailBytes // one endless line
	}
	return slices.Collect(bytes.Lines(b[:end]))
}

// readable is a log line as a person reads it, and the job that wrote it: "" when the line is no JSON of ours.
func readable(line []byte) (text, job string) {
	var entry map[string]any
	if json.Unmarshal(line, &entry) != nil {
		return printable(strings.TrimRight(string(line), "\r\n")), ""
	}
	take := func(name string) string {
		v, ok := entry[name]
		if delete(entry, name); !ok {
			return ""
		}
		if s, ok := v.(string); ok {
			return s
		}
		b, _ := json.Marshal(v)
		return string(b)
	}
	at := take("time")
	if t, err := time.Parse(time.RFC3339Nano, at); err == nil {
		at = t.Local().Format(time.DateTime)
	}
	job = take("job")
	text = strings.Join([]string{at, fmt.Sprintf("%-5s", strings.ToUpper(take("level"))), job + "[" + take("pid") + "]", take("message")}, " ")
	for _, name := range slices.Sorted(maps.Keys(entry)) {
		value := take(name)
		if value == "" || strings.ContainsAny(value, " \t\n\"") {
			value = fmt.Sprintf("%q", value)
		}
		text += " " + name + "=" + value
	}
	return printable(text), job
}

// printable is a line that does nothing to a terminal: a log holds what other people wrote.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) || unicode.IsSpace(r) && r < unicode.MaxASCII && r != '\r' && r != '\v' && r != '\f' {
			return r
		}
		return unicode.ReplacementChar
	}, s)
}
