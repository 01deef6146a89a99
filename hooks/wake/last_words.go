package wake

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"gchat-hooks/hooks"
	"gchat-hooks/state"
)

// spoken is what Claude said last, as far as it is to be told.
type spoken struct {
	words      string // "" when it said nothing, or that cannot be read
	entry      string // of the transcript, that the words are from; "" for those of the event itself
	transcript string // its size and time
}

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
	said, err := hooks.LastWords(path)
	words := readable(said.Text)
	fresh := said.Entry != known.Said
	if said.Entry == "" || known.Said == "" {
		fresh = textID(words) != known.Text
	}
	if there := words != "" && said.Last && !said.Earlier && fresh; !there {
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // a session's first hooks come before its first line
			f.Log().Error().Err(err).Msg("transcript not read; the message tells what is on the screen")
		}
		if f.trigger.event == "Notification" || !fresh && said.Earlier {
			return now // what the session waits for, or has done, is on the screen
		}
	}
	now.words, now.entry = words, said.Entry
	return now
}

// fingerprint tells one state of a file from another.
func fingerprint(path string) string {
	info, err := os.Stat(path)
	if err != nil {
		return "none"
	}
	return fmt.Sprint(info.Size(), " ", info.ModTime().UnixNano())
}
