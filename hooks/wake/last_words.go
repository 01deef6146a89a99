package wake

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"gchat-hooks/hooks"
	"gchat-hooks/state"
)

// spoken is what Claude said last, as far as it is to be told.
type spoken struct {
	words      string // "" when it said nothing, or that cannot be read
	entry      string // of the transcript, that the words are from; "" for those of the event itself
	transcript string // its size and time
	lags       bool   // the transcript may still get the words of this turn
}

// A turn's end can be told before the transcript says what Claude said: 2.1.45, which does not say it in the event, writes it
// 30 to 450 ms later, on a busy machine 800.
const (
	transcriptLag  = 2 * time.Second
	transcriptLook = 10 * time.Millisecond
)

// lastWords is what Claude said last. Words of an earlier turn count where no message has carried them: they may be all that
// this turn had to say, and a screen says less.
func (f *fire) lastWords() spoken {
	path := text(f.news.Transcript)
	if said := readable(text(f.news.LastWords)); said != "" {
		return spoken{words: said, transcript: fingerprint(path)}
	}
	if path == "" {
		return spoken{}
	}
	known := state.PeekWakeMemory(state.UserState(f.Env), f.sight.session, f.Env("TMUX_PANE"))
	now := spoken{transcript: fingerprint(path)} // before it is read: what is written meanwhile is new
	said, err := hooks.LastWords(path, false)
	words := readable(said.Text)
	fresh := said.Entry != known.Said
	if said.Entry == "" || known.Said == "" {
		fresh = textID(words) != known.Text
	}
	if there := words != "" && said.Last && !said.Earlier && fresh; !there {
		gone := err != nil && !errors.Is(err, fs.ErrNotExist) // a session's first hooks come before its first line
		if gone {
			f.Log().Error().Err(err).Msg("transcript not read; the message tells what is on the screen")
		}
		// An event that comes twice finds all as it was: nothing is awaited then.
		same := now.transcript == known.Transcript && f.sight.screen != "" && f.sight.hash() == known.Pane
		now.lags = f.old() && !gone && !same && mayCome(path)
		if f.trigger.event == "Notification" || !fresh && (said.Earlier || now.lags) {
			return now // what the session waits for, or has done, is on the screen
		}
	}
	now.words, now.entry = words, said.Entry
	return now
}

// awaitWords waits until the transcript has the words of this turn.
func (f *fire) awaitWords() spoken {
	for deadline := time.Now().Add(transcriptLag); ; time.Sleep(transcriptLook) {
		if said := f.lastWords(); !said.lags || time.Now().After(deadline) {
			return said
		}
	}
}

// old says whether the event is one of an old version, whose transcript lags: it says neither the last words nor a prompt's
// id.
func (f *fire) old() bool {
	return f.trigger.event == "Stop" && len(f.news.LastWords) == 0 && f.event.PromptID == "" && len(f.news.Mode) > 0
}

// mayCome says whether Claude Code may still write this transcript: its folder is there, or is one of the projects' folders
// that it makes with a session's first line, in a folder of its configuration that is there.
func mayCome(path string) bool {
	dir := filepath.Dir(path)
	if projects := filepath.Dir(dir); filepath.Base(projects) == "projects" {
		dir = filepath.Dir(projects)
	}
	info, err := os.Stat(dir)
	return err == nil && info.IsDir()
}

// fingerprint tells one state of a file from another.
func fingerprint(path string) string {
	info, err := os.Stat(path)
	if err != nil {
		return "none"
	}
	return fmt.Sprint(info.Size(), " ", info.ModTime().UnixNano())
}
