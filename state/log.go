package state

import (
	"os"
	"path/filepath"
	"sync"

	"github.com/rs/zerolog"
)

// maxLog is when the log is renamed to .1 and begun anew, in bytes.
const maxLog = 10 << 20

// Log is ~/.claude/logs/gchat-hooks.log: JSON lines without secrets, capped at 10 MB and one old file. What cannot be logged is
// dropped: a log must not break a hook.
type Log struct {
	zerolog.Logger
	Redactor

	path string
	mu   sync.Mutex
	said map[string]bool // what Once logged since the last Forget
}

// setTimes sets how times are written, which zerolog keeps for all its users.
var setTimes = sync.OnceFunc(func() { zerolog.TimeFieldFormat = "2006-01-02T15:04:05.000Z07:00" })

// NewLog is the log of one process; job is the name that it runs under.
func NewLog(env Getenv, job string) *Log {
	l := &Log{path: LogPath(env)}
	setTimes()
	l.Logger = zerolog.New(l).With().Timestamp().Str("job", job).Int("pid", os.Getpid()).Logger()
	return l
}

// LogPath is where the log is.
func LogPath(env Getenv) string {
	return filepath.Join(Home(env), ".claude", "logs", "gchat-hooks.log")
}

// Write takes one line from zerolog. A daemon lives long, so each line opens the file that stands there now.
func (l *Log) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if info, err := os.Stat(l.path); err == nil && info.Size() > maxLog {
		// Two processes may both rename; the second then renames a fresh, short file, and that is all that is lost.
		_ = os.Rename(l.path, l.path+".1")
	}
	if MakeDir(filepath.Dir(l.path)) != nil {
		return len(line), nil
	}
	f, err := os.OpenFile(l.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return len(line), nil
	}
	defer f.Close()
	_, _ = f.WriteString(l.Clean(string(line)))
	return len(line), nil
}

// mostSaid bounds what is remembered as said, and so how much a long run of faults writes.
const mostSaid = 1000

// variable are words of an error that may be others each time: names of temporary files, numbers of ports and processes.
var variable = Pattern(`[\w.-]*[0-9]{5}[\w.-]*`)

// Once logs an error, where there is one, that may come again at any moment. The same one is logged again after Forget.
func (l *Log) Once(err error, what string) {
	if err == nil {
		return
	}
	text := l.Clean(err.Error())
	l.mu.Lock()
	key := what + variable().ReplaceAllString(text, "#")
	news := !l.said[key] && len(l.said) < mostSaid
	if l.said == nil {
		l.said = map[string]bool{}
	}
	if news {
		l.said[key] = true
	}
	l.mu.Unlock()
	if news {
		l.Error().Str("error", text).Msg(what)
	}
}

// Forget has Once log again what it logged before.
func (l *Log) Forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.said = nil
}
