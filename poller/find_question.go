package poller

import (
	"cmp"
	"path/filepath"

	"gchat-hooks/state"
)

// FindQuestion finds a question by its id, its thread's key or its thread's name, in all projects that are known and in this
// process's own; the newest of several, nil for none.
func (p *Poller) FindQuestion(by string) (*state.Question, error) {
	dirs, err := p.stateDirs()
	if own, aerr := filepath.Abs(state.ProjectState(p.Env)); aerr == nil {
		dirs = append(dirs, own, state.SpareState(p.Env))
	}
	qs, bad := (&state.Scan{}).Questions(dirs, p.Folders...)
	for _, err := range bad {
		p.Log.Error().Err(err).Msg("question passed over")
	}
	for _, q := range qs {
		if by != "" && (q.QuestionID == by || q.ThreadKey == by || q.ThreadName == by) {
			return q, nil
		}
	}
	for _, dir := range dirs { // another program's, by the name of its file
		if by != filepath.Base(by) {
			break
		}
		if q, err := state.PeekQuestion(filepath.Join(state.MarkersIn(dir).Dir, by+".json")); err == nil && q.QuestionID == by {
			return q, nil
		}
	}
	return nil, err
}

// AdoptMarker makes a marker ours that another program wrote down, since a person wants its reply waited for: the space
// follows from its project's configuration, its thread from its name or its key.
func (p *Poller) AdoptMarker(q *state.Question) (*state.Question, error) {
	chat, space := p.chatFor(q)
	return state.UpdateQuestion(q.Path, func(q *state.Question) error {
		q.Mode, q.MessageSent, q.ThreadName = state.Deny, true, cmp.Or(q.ThreadName, p.ThreadOf(q.ThreadKey))
		if q.Chat == "" {
			q.Chat, q.Space = chat, space
		}
		if q.ProjectDir == "" {
			q.ProjectDir = p.projectOf(stateDirOf(q))
		}
		if q.SessionName == "" {
			q.SessionName = q.SessionID
		}
		return nil
	})
}
