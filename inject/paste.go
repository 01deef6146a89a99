package inject

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"
)

// Paste pastes text into the pane, as a person pastes from a clipboard: several lines arrive as one text when the program
// has asked for bracketed pastes, as Claude Code does (-p), and with the line breaks that they have (-r). Text that Clean
// would change is refused: an escape sequence in it could end the paste early. A buffer of our own carries it and is gone
// afterwards, also when nothing was pasted.
func (s Server) Paste(ctx context.Context, pane, text string) (err error) {
	if err := mustBeClean(text); err != nil {
		return fmt.Errorf("paste text: %w", err)
	}
	if text == "" {
		return nil // tmux makes no buffer of nothing
	}
	buffer := "gchat-hooks-" + rand.Text()
	defer func() {
		if err != nil { // also when the load did not answer: it may have arrived
			_, _ = s.call(context.WithoutCancel(ctx), nil, "delete-buffer", "-b", buffer)
		}
	}()
	if _, err := s.call(ctx, strings.NewReader(text), "load-buffer", "-b", buffer, "-"); err != nil {
		return fmt.Errorf("load paste buffer: %w", err)
	}
	if err := s.hand(ctx, pane, "paste-buffer -p -r -d -b "+buffer+" -t "+pane); err != nil {
		return fmt.Errorf("paste text: %w", err)
	}
	return nil
}
