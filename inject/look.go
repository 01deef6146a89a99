package inject

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
)

var styled = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\x1b\[[0-9;:]*m`) })

// Sight is what a pane showed at one moment.
type Sight struct {
	Pane    string   // its id
	Session string   // tmux's name
	Others  []string // names of other sessions that show the pane: of its group, or with a linked window
	Screen  string   // the visible screen with its styles, as Capture gives it: for ReadScreen
	Lines   []string // the last lines without styles, what has scrolled off the top included, the empty rest left out
}

// Look takes a pane's session, its screen and its last lines with one call of tmux. pane is an id (%N); "" is the active
// pane of the session that tmux ($TMUX: "socket,pid,session") names. Errors are ErrNoServer, ErrNoPane, ErrNoSession and a
// tmux that does not answer.
func Look(ctx context.Context, tmux, pane string, lines int) (Sight, error) {
	target := pane
	if _, own, _ := strings.Cut(tmux, ","); target == "" {
		_, session, _ := strings.Cut(own, ",")
		if _, err := strconv.Atoi(session); err != nil {
			return Sight{}, fmt.Errorf("look at session %q: %w", session, ErrNoSession)
		}
		target = "$" + session + ":"
	} else if !paneID().MatchString(pane) {
		return Sight{}, fmt.Errorf("look at pane %q: %w", pane, ErrNoPane)
	}
	const format = "#{pane_height} #{pane_id} #{||:#{session_grouped},#{window_linked}} #{session_name}"
	out, err := ServerOf(tmux).call(ctx, nil, "display-message", "-p", "-t", target, format, ";",
		"capture-pane", "-p", "-e", "-t", target, "-S", strconv.Itoa(-lines))
	if err != nil {
		return Sight{}, fmt.Errorf("look at pane: %w", err)
	}
	first, capture, _ := strings.Cut(out, "\n")
	words := strings.SplitN(first, " ", 4)
	height, err := strconv.Atoi(words[0])
	if err != nil || len(words) < 4 {
		return Sight{}, fmt.Errorf("look at pane: %w", ErrNoPane)
	}
	s := Sight{Pane: words[1], Session: words[3]}
	if words[2] == "1" {
		all, err := ServerOf(tmux).Panes(ctx)
		if err != nil {
			return Sight{}, fmt.Errorf("look at pane: %w", err)
		}
		for _, p := range all {
			if p.ID == s.Pane && p.Session != s.Session {
				s.Others = append(s.Others, p.Session)
			}
		}
	}
	all := strings.SplitAfter(capture, "\n")
	if n := len(all); all[n-1] == "" {
		all = all[:n-1]
	}
	above := max(0, len(all)-height)
	// A style goes on over the end of a line.
	styles := styled().FindAllString(strings.Join(all[:above], ""), -1)
	s.Screen = strings.Join(append(styles, all[above:]...), "")
	for _, l := range readCapture(capture) {
		s.Lines = append(s.Lines, l.text)
	}
	s.Lines = s.Lines[max(0, len(s.Lines)-lines):]
	return s, nil
}
