package hooks

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/google/uuid"

	"gchat-hooks/inject"
	"gchat-hooks/state"
	"gchat-hooks/state/config"
)

// busyBound is how long a hook that waits for a person waits for a folder of records that another process holds.
const busyBound = time.Minute

// mayWait says whether this event's hook may take as long as the person takes.
func (h *Hook) mayWait(e *Event) bool {
	if h.Job != nil {
		return h.Waits != nil && h.Waits(h, e)
	}
	switch {
	case h.Name == "gchat-ask-user-rewake":
		return true
	case h.Name != "gchat-ask-user-forward":
		return false
	case e.HookEventName == "PreToolUse" && e.ToolName == askTool:
		row := h.rules(e).AskMode.Row()
		return row.Hook && !row.Dialog
	}
	return asksPerson[e.HookEventName]
}

// config is the configuration that counts for this project, read once.
func (h *Hook) config() *config.Config {
	if h.asked.cfg == nil {
		h.asked.cfg = config.Load(h.Env, state.ProjectDir(h.Env))
		h.asked.cfg.ReadPolicy = h.ReadPolicy
		for _, err := range h.asked.cfg.Problems {
			h.log.Error().Err(err).Str("hint", "gchat-hooks doctor says what to do").Msg("configuration")
		}
	}
	return h.asked.cfg
}

// keeps says whether a policy keeps a kind in the terminal. It reads the policies, so only a hook asks that is about to ask or
// report; a hub's may take three seconds.
func (h *Hook) keeps(ctx context.Context, cfg *config.Config, kind state.Kind) bool {
	h.logFailed(cfg.Restrict(ctx, h.Env), "policy")
	return !cfg.Terms(kind, "").Asked
}

// rules are what the configuration says of this session. Rules name it by $CLAUDE_SESSION_ID, else by its tmux session; where
// there is none, that is not found out.
func (h *Hook) rules(e *Event) *config.SessionRules {
	if h.asked.rules == nil {
		name := h.Env("CLAUDE_SESSION_ID")
		a := config.Asked{
			Session: name, Named: name != "", Project: state.ProjectDir(h.Env), OutputStyle: h.Env("CLAUDE_OUTPUT_STYLE"),
		}
		if !a.Named && len(h.config().Rules) > 0 {
			a.Session = cmp.Or(h.session(e).TmuxSession, h.session(e).Name)
		}
		rules := h.config().For(a)
		h.asked.rules = &rules
	}
	return h.asked.rules
}

// inOtherTerminal says whether another Claude Code asked, which still lives: a session can be resumed in two terminals, and
// the events of one do not end the dialog of the other.
func (h *Hook) inOtherTerminal(q *state.Question) bool {
	if q.ClaudePID == 0 {
		return false
	}
	pid := h.claudePID()
	return pid != 0 && pid != q.ClaudePID && !inject.Ended(q.ClaudePID, q.ClaudeStart)
}

// forward is gchat-ask-user-forward. PreToolUse writes the question down and prints nothing, in deny mode it denies the
// call; PermissionRequest waits for the reply beside the open dialog, and answers with it: of a question, a permission or a plan.
//
// Notification tells of a dialog in the terminal that no PermissionRequest came for.
func (h *Hook) forward(ctx context.Context, e *Event) error {
	if e.HookEventName == "Notification" {
		return h.forwardNotification(e)
	}
	asks, dialog := e.ToolName == askTool, e.HookEventName == "PermissionRequest"
	if !asksPerson[e.HookEventName] && (e.HookEventName != "PreToolUse" || !asks) || dialog && e.ToolName == "" {
		return nil
	}
	mode := h.rules(e).AskMode
	row := mode.Row()
	switch {
	case !row.Asks:
		return nil
	case !asks:
		return h.permission(ctx, e)
	case h.keeps(ctx, h.config(), state.AskedQuestion):
		return nil
	case row.Marker && !dialog:
		if goesOn, err := h.deny(ctx, e); !goesOn {
			return err
		}
		mode = state.Native
	case row.Marker:
		q, err := h.reclaim(e)
		if err != nil {
			return err
		}
		if q != nil {
			return h.wait(ctx, e, q)
		}
		mode = state.Native
	case row.Pane && dialog && h.session(e).TmuxPane != "":
		return nil // the poller types the answer; outside tmux it cannot, and this hook waits after all
	}
	return h.askBeside(ctx, e, mode)
}

func (h *Hook) forwardNotification(e *Event) error {
	permission, dialog := waits[string(e.Notification)]
	if !dialog || !h.rules(e).AskMode.Row().Asks {
		return nil
	}
	h.asked.listens = !h.unattended()
	return h.noteDialog(e, state.NewDialog(permission, string(e.Message)))
}

// askBeside writes the question of a call down, once, and waits for its reply where this event's
// hook is the one to do so.
func (h *Hook) askBeside(ctx context.Context, e *Event, mode state.Mode) error {
	h.session(e) // it may ask tmux, which may not be done under the lock
	failed, folders := error(nil), h.folders(state.QuestionsIn)
	// PreToolUse may have found the disk full a moment ago, and the project's folder with it.
	elsewhere := h.ofSession(e, folders[1:], callTexts(e)...)
	q, err := h.record(ctx, e, folders, func(have []*state.Question) *state.Question {
		q := h.ofCall(e, append(have, elsewhere...))
		if q == nil { // PermissionRequest writes it down, too, where PreToolUse is not registered
			q, failed = h.question(e, mode)
		}
		return q
	}, callTexts(e)...)
	switch {
	case err != nil || failed != nil:
		return cmp.Or(err, failed)
	case !h.mayWait(e):
		h.StartPoller()
		return nil
	case !q.Status.Open() || q.HandedOver != nil:
		return nil
	}
	return h.wait(ctx, e, q)
}

// ofCall finds the question of an event's call, by tool_use_id. PermissionRequest has none, nor has what it wrote down itself:
// then equal input tells, and the question is open. A closed one is returned where the event came once more; nil for none.
func (h *Hook) ofCall(e *Event, qs []*state.Question) (over *state.Question) {
	for _, q := range qs {
		if e.ToolUseID != "" && q.ToolUseID == e.ToolUseID {
			return q
		}
	}
	hash := callHash(e.ToolName, e.ToolInput)
	for _, q := range qs {
		switch {
		case q.InputHash != hash, q.ToolUseID != "" && e.ToolUseID != "", h.inOtherTerminal(q):
		case q.Status.Open() && inject.Ended(q.ClaudePID, q.ClaudeStart):
			// the session was resumed after a crash: that dialog is not this one
		case q.Status.Open():
			return q
		case q.ToolUseID != "" && q.PromptID == string(e.PromptID):
			over = q // PreToolUse would have written a new question down
		}
	}
	return over
}

// callTexts stand in the files of the questions that ofCall may find.
func callTexts(e *Event) []string { return nonEmpty(e.ToolUseID, callHash(e.ToolName, e.ToolInput)) }

// callHash is equal for the events of one call, but for a plan's: they carry the same input, though not the same bytes, and
// PostToolUse adds the answers to the questions.
func callHash(tool string, input json.RawMessage) string {
	var in any
	if len(input) > 0 && json.Unmarshal(input, &in) != nil {
		return ""
	}
	if members, ok := in.(map[string]any); ok && tool == askTool {
		in = members["questions"]
	}
	b, _ := json.Marshal([]any{tool, in}) // sorts the keys
	return state.Hash(16, string(b))
}

// close ends a question; what its thread is told of that is the poller's.
func (h *Hook) close(path string, to state.Status, by string) {
	h.tryAgain(closeBound, func() error {
		ended, err := state.CloseQuestion(path, to, by, nil)
		if ended {
			h.StartPoller()
		}
		return err
	})
}

func (h *Hook) question(e *Event, mode state.Mode) (*state.Question, error) {
	if e.SessionID == "" {
		return nil, errors.New("hook event: session_id is missing")
	}
	id, s := uuid.New().String(), h.session(e)
	q := &state.Question{
		QuestionID: id, SessionID: state.SessionID(h.Env, e.SessionID), ClaudeSessionID: e.SessionID, SessionName: s.Name,
		TmuxSession: s.TmuxSession, TmuxPane: s.TmuxPane, TmuxSocket: s.TmuxSocket,
		ClaudePID: s.ClaudePID, ClaudeStart: s.ClaudeStart,
		AskedAt: time.Now().UTC().Truncate(time.Millisecond), ThreadKey: state.ThreadKey(id),
		Status: state.Pending, Remind: h.config().Remind, Mode: mode, ProjectDir: s.ProjectDir, CWD: e.CWD,
		PromptID: string(e.PromptID), ToolUseID: e.ToolUseID, AgentID: string(e.AgentID),
		InputHash: callHash(e.ToolName, e.ToolInput), Machine: state.MachineName(),
	}
	if e.ToolName == askTool {
		prompts, err := e.prompts()
		if err != nil {
			return nil, err
		}
		q.Questions = prompts
		hasModel := h.Env("ANTHROPIC_API_KEY")+h.Env("ANTHROPIC_BASE_URL") != ""
		q.AskerWords = hasModel && h.config().Format == "haiku" && h.Self != ""
		q.Hidden = e.HookEventName == "PreToolUse" && h.mayWait(e) && !h.unattended()
	}
	if q.Mode.Row().Marker {
		q.QuestionID = state.MarkerID(q.SessionID, id)
		q.ThreadKey, q.TimeoutPolicy = q.QuestionID, h.rules(e).TimeoutPolicy
		q.TimesOutAt = new(q.AskedAt.Add(h.config().ReplyTimeout))
	}
	if q.AskerWords {
		h.asked.words = q.QuestionID
	}
	return q, nil
}

// record writes a question into the first of these folders that can be written, and announces it to the poller. A question that
// a killed hook did not announce is announced now.
//
// A hook that waits for a person also waits for a folder that another process holds, for at most busyBound.
func (h *Hook) record(ctx context.Context, e *Event, folders []state.Questions,
	decide func([]*state.Question) *state.Question, texts ...string) (*state.Question, error) {
	var errs []error
	began := time.Now()
	for _, folder := range folders {
		q, err := folder.Record(e.SessionID, decide, texts...)
		for errors.Is(err, state.ErrLocked) && h.mayWait(e) && ctx.Err() == nil && time.Since(began) < busyBound {
			q, err = folder.Record(e.SessionID, decide, texts...)
		}
		if err == nil && q != nil && q.Status.Open() {
			err := state.Register(h.Env, filepath.Dir(folder.Dir), q.ProjectDir)
			h.logFailed(err, "project not registered; status does not show it")
			err = state.AnnounceQuestion(h.Env, q)
			if h.asked.words == q.QuestionID {
				h.logFailed(state.StartWords(h.Self, q.Path), "question not worded")
			}
			return q, err
		}
		if err == nil {
			return q, nil
		}
		errs = append(errs, err)
		if errors.Is(err, state.ErrLocked) {
			break // the project can be written, only not now
		}
	}
	return nil, fmt.Errorf("write question down: %w", errors.Join(errs...))
}

// folders are those that a question of this project may be in: the project's state, and for a checkout that cannot be written
// the person's own.
func (h *Hook) folders(of func(projectState string) state.Questions) (all []state.Questions) {
	for _, dir := range state.ProjectStates(h.Env) {
		all = append(all, of(dir))
	}
	return all
}

// own is the folder of what lets Claude act, or tells it what to do: the person's own, since Claude may write into the project.
func (h *Hook) own() []state.Questions {
	return []state.Questions{state.QuestionsIn(state.SpareState(h.Env))}
}

// wait waits for the answer and prints it. Told to end (Esc, quit), it closes the question. It gives up by itself just before
// Claude Code would kill it: the question then stays open in the terminal. So does one whose dialog it hides, and may not hide
// any longer.
func (h *Hook) wait(ctx context.Context, e *Event, q *state.Question) error {
	path := q.Path
	patience := time.Duration(0)
	if state.AmongMarkers(path) { // a hook that waited to wake the session lets go of it
		patience = denyBound
	}
	var lock *state.Lock
	err := again(patience, func() (err error) {
		lock, err = state.LockWaiter(h.Env, path)
		return err
	})
	switch {
	case errors.Is(err, state.ErrLocked):
		return nil // the same event from a second install, or an equal question at the same time: one of them waits
	case err != nil:
		return err
	}
	defer lock.Unlock()
	asked := q
	dismiss := func() { h.dismiss(e, asked) }
	told := context.AfterFunc(ctx, dismiss) // at once, not when everything has ended: Claude Code may follow up with SIGKILL
	waiting, cancel := context.WithTimeout(ctx, config.HookTimeout-30*time.Second)
	defer cancel()
	if !q.Drawn() {
		go h.guardDialog(waiting, path, cancel)
	}
	q, err = state.Await(waiting, h.Env, h.Self, path, func(q *state.Question) bool {
		return q.Status != state.Pending || q.HandedOver != nil
	})
	if !told() { // from here on the answer is on its way, and a signal changes nothing
		dismiss()
		return nil
	}
	if h.isUnasked(err) || err != nil && errors.Is(err, waiting.Err()) {
		q, err = h.leaveToTerminal(path)
	}
	switch {
	case errors.Is(err, state.ErrUnserved), errors.Is(err, fs.ErrNotExist):
		return nil
	case err == nil && q.Status == state.Cancelled && q.ResolvedBy == state.Dismissed:
		return h.decide(e, rowOf(q.Kind).brokenOff)
	case err != nil || q.Status != state.Answered:
		return err // closed otherwise: the dialog had its answer, or is to get it in the terminal
	}
	return h.handOver(e, q)
}

// isUnasked reports whether a wait ended because nobody is asked. It logs why, for status.
func (h *Hook) isUnasked(err error) bool {
	unasked := errors.Is(err, state.ErrNoPoller)
	if unasked {
		h.logFailed(err, "nobody is asked in Chat")
	}
	return unasked
}

// dismiss closes a question whose hook was told to end: after Esc, or when Claude Code ends. A permission that was allowed
// in the terminal is none that Esc refused: Claude Code ends its hook, too.
func (h *Hook) dismiss(e *Event, q *state.Question) {
	defer h.catch()
	by := state.Dismissed
	if q.Kind.Row().Decides {
		if endedAs(e, q) == ran {
			h.tryAgain(closeBound, func() error { return h.confirmDecision(q, ran) })
			return
		}
		if scriptRuns(e, q) {
			by = state.Unseen
		}
	}
	h.close(q.Path, state.Cancelled, by)
}

// guardDialog calls end where a hidden dialog may not be hidden any longer and no poller sees
// to that. A poller looks at the keyboard, too, and hands the dialog over itself.
func (h *Hook) guardDialog(ctx context.Context, path string, end func()) {
	defer h.catch()
	cfg := config.Personal(h.Env)
	for pause := postBound; state.Sleep(ctx, pause); {
		pause = postBound
		q, err := state.LoadQuestion(path)
		if err != nil {
			continue // with the next look
		}
		someone := q.Approvers == nil || len(*q.Approvers) > 0
		holding := state.Holding{Someone: someone, Unseen: cfg.BackgroundWait}
		hold, until := state.MayHold(q, holding, time.Now())
		beat := state.ReadBeat(h.Env, state.Environment(h.Env))
		switch {
		case hold:
			pause = max(time.Until(until), postBound)
		case beat.Lives && !beat.Silent(time.Now()): // a poller sees to it
			pause = max(cfg.BackgroundWait, postBound)
		case !time.Now().Before(state.QuietFrom(q, holding)):
			end()
			return
		}
	}
}

// leaveToTerminal ends the wait for a reply: a hidden dialog is handed over, unless a reply was
// faster. It returns the record as it then stands.
func (h *Hook) leaveToTerminal(path string) (q *state.Question, err error) {
	err = again(closeBound, func() error {
		q, err = state.ChangeQuestion(path, func(q *state.Question) { q.HandOver(time.Now()) })
		return err
	})
	if err == nil && q.HandedOver != nil {
		h.StartPoller()
	}
	return q, err
}

// handOver prints what Claude Code takes for an answer to the question, permission or plan of this event, where one is known, and
// writes that down.
func (h *Hook) handOver(e *Event, q *state.Question) error {
	members, told, err := rowOf(q.Kind).answer(e, q)
	if err != nil || members == nil {
		return err
	}
	if q.Kind.Row().Own {
		b, _ := json.Marshal(told)
		err := h.audit(q, string(b))
		label, _ := q.Decision()
		if err != nil && !state.Refuses(label) {
			return fmt.Errorf("a yes that cannot be written down is none: %w", err)
		}
		h.logFailed(err, "decision not in the audit log")
	}
	if err := h.decide(e, members); err != nil {
		return err
	}
	h.tryAgain(writeBound, func() error { return markPrinted(q.Path) }) // the poller would take the answer for a lost one
	return nil
}

// decide prints what Claude Code takes for the decision of an event; nothing where there is none.
func (h *Hook) decide(e *Event, members map[string]any) error {
	if members == nil {
		return nil
	}
	members["hookEventName"] = e.HookEventName
	return h.Print(map[string]any{"hookSpecificOutput": members})
}

// answerQuestion is what Claude Code takes for the answer to a question, also in hold mode, before
// a dialog is drawn (from 2.1.85 on).
func answerQuestion(e *Event, q *state.Question) (members map[string]any, told any, err error) {
	isHeld := e.HookEventName == "PreToolUse"
	switch {
	case q.Declined != "" && isHeld:
		return map[string]any{"permissionDecision": "deny", "permissionDecisionReason": declineText(q)}, nil, nil
	case q.Declined != "":
		return map[string]any{"decision": map[string]any{"behavior": "deny", "message": declineText(q)}}, nil, nil
	}
	input, err := answeredInput(e.ToolInput, q)
	if isHeld {
		return map[string]any{"permissionDecision": "allow", "updatedInput": input}, nil, err
	}
	return map[string]any{"decision": map[string]any{"behavior": "allow", "updatedInput": input}}, nil, err
}

func markPrinted(path string) error {
	_, err := state.NoteQuestion(path, func(q *state.Question) {
		q.Printed, q.PrintedAt = true, new(time.Now().UTC())
	})
	return err
}

// annotation is what Claude Code's dialog notes beside an answer; it passes both on to Claude.
type annotation struct {
	Preview string `json:"preview,omitempty"`
	Notes   string `json:"notes,omitempty"`
}

// answeredInput is the call's whole input with the answers put in: Claude Code takes nothing less (a bare allow answers
// the question with nothing). Members that we do not know go back as they came.
func answeredInput(toolInput json.RawMessage, q *state.Question) (json.RawMessage, error) {
	in := map[string]json.RawMessage{}
	if err := json.Unmarshal(toolInput, &in); err != nil {
		return nil, fmt.Errorf("answer input: %w", err)
	}
	notes := map[string]annotation{}
	for _, prompt := range q.Questions {
		a := annotation{Notes: q.Notes[prompt.Question]}
		for _, o := range prompt.Options {
			if !prompt.MultiSelect && o.Label == q.Answers[prompt.Question] {
				a.Preview = o.Preview
				break
			}
		}
		if a != (annotation{}) {
			notes[prompt.Question] = a
		}
	}
	in["answers"], _ = json.Marshal(q.Answers) // texts by texts
	if len(notes) > 0 {
		in["annotations"], _ = json.Marshal(notes)
	}
	return json.Marshal(in)
}

// Print writes one JSON object to stdout, whole or not at all. An error is that of a pipe whose other end is gone.
func (h *Hook) Print(v any) error {
	b, err := json.Marshal(v)
	if err == nil {
		_, err = h.Stdout.Write(append(putSurrogatesBack(b), '\n'))
	}
	if err != nil {
		return fmt.Errorf("print decision: %w", err)
	}
	return nil
}
