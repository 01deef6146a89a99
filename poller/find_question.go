package poller

import (
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
	return nil, err
}
