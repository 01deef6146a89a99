package wake

import (
	"context"
	"time"

	"gchat-hooks/inject"
	"gchat-hooks/state"
)

// sight is the session as tmux shows it.
type sight struct {
	session string
	others  []string  // sessions that share the pane
	pane    string    // its id; "" when tmux could not be asked
	wanted  int       // lines that were asked for
	asked   time.Time // when tmux was asked
	seen    time.Time // when it had answered
	screen  string    // with styles; "" when tmux could not be asked
	raw     []string  // the last lines of the pane
	lines   []string  // the same as they are told: without box drawing and blank lines
}

// keep leaves out what is before the last lines.
func (s *sight) keep(lines int) {
	s.raw = s.raw[max(0, len(s.raw)-lines):]
	s.lines = clean(s.raw)
}

// hash tells one look of the pane from another; a bar that fills is another one.
func (s *sight) hash() string { return hash(s.raw...) }

// look asks tmux. When that is gone it is the session that the pane was last seen in, without a screen.
func (f *fire) look(ctx context.Context, lines int) (sight, error) {
	asked := time.Now()
	ctx, cancel := context.WithTimeout(ctx, tmuxBound)
	defer cancel()
	seen, err := inject.Look(ctx, f.Env("TMUX"), f.Env("TMUX_PANE"), lines)
	user := state.UserState(f.Env)
	if err != nil {
		if name := state.WakePane(user, f.place()); name != "" {
			f.Log().Warn().Err(err).Str("session", name).Msg("tmux not asked; the message says nothing of the screen")
			return sight{session: name, asked: asked, wanted: lines}, nil
		}
		return sight{}, err
	}
	_ = state.RememberWakePane(user, f.place(), seen.Session) // only for when tmux is gone
	return sight{
		session: seen.Session, others: seen.Others, pane: seen.Pane,
		wanted: lines, asked: asked, seen: time.Now(), screen: seen.Screen, raw: seen.Lines,
	}, nil
}

// place is the pane, as this process knows it.
func (f *fire) place() string { return f.Env("TMUX") + " " + f.Env("TMUX_PANE") }
