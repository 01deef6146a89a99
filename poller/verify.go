package poller

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/google/renameio/v2"
	"github.com/google/uuid"

	"gchat-hooks/gchat"
	"gchat-hooks/state"
)

const (
	// verifyPatience is how long the check waits for a message to be listed, and how long Chat may ask it to stand back.
	verifyPatience = time.Minute
	// verifyLook is the first pause between two lists when a message is not there yet; it doubles up to a second, well
	// within the 900 reads a minute that Google allows in a space.
	verifyLook = 100 * time.Millisecond
)

// Verify is the correlation check: whether a project's space does what binding replies to questions rests on. It posts
// through the configured webhook, lists through the configured API, and judges replies as the inbox does, but keeps
// nothing in the project's state: no hook and no daemon sees its questions.
type Verify struct {
	*Poller
	ProjectDir string        // whose configuration is checked; absolute
	NoHuman    bool          // skip the scenario that waits for a person
	Wait       time.Duration // for that person
	Timeout    time.Duration // of the question that gets no answer
	Patience   time.Duration // 0 is a minute

	// Keep writes the report down: when the check begins, after each scenario, and at the end. It may be nil.
	Keep func(*VerifyReport) error
	// Tell has a sentence for the person who is to reply. It may be nil.
	Tell func(sentence string)
}

// mismatch is what a scenario found to be otherwise than it has to be.
type mismatch struct {
	why, hint string
	last      bool // the scenarios after it could find nothing else
}

func (m *mismatch) Error() string { return m.why }

func found(hint, why string, args ...any) error {
	return &mismatch{why: fmt.Sprintf(why, args...), hint: hint}
}

// verifyScenarios are the check, in order.
var verifyScenarios = []struct {
	name, title string
	human       bool
	run         func(*check, context.Context) error
}{
	{name: "thread", title: "thread created and mapped", run: (*check).threadMapped},
	{name: "two-threads", title: "two threads without cross-talk", run: (*check).noCrossTalk},
	{name: "reply", title: "human reply told from bot", human: true, run: (*check).humanReply},
	{name: "timeout", title: "timeout without a reply", run: (*check).timesOut},
}

// check is a run.
type check struct {
	*Verify
	run      string
	cfg      *state.Config
	hook     *gchat.Webhook
	reader   *gchat.Reader
	quota    state.Quota
	patience time.Duration

	from   time.Time // what is listed is younger; the server's clock
	exact  bool      // from is known by a message of ours
	listed []gchat.Message
	posts  int
	ours   map[string]bool // names of all messages that the run posted
	res    *VerifyResult   // of the scenario that runs
	open   []*begun        // its threads
}

// Run runs the scenarios one after another; ctx cuts it short. The error says why none could begin: state.ErrNoWebhook,
// gchat.ErrNotWebhook, gchat.ErrCredentials and whatever else listing and Keep return. Then nothing was posted. What a
// scenario finds stands in the report only.
func (v *Verify) Run(ctx context.Context) (*VerifyReport, error) {
	c, err := v.prepare(ctx)
	if err != nil {
		return nil, err
	}
	report := &VerifyReport{Run: c.run, Chat: c.hook.Chat(), Began: v.now().UTC(), Scenarios: []VerifyResult{}}
	if err := v.keep(report); err != nil {
		return report, err
	}
	stopped, passed := "", true
	for _, s := range verifyScenarios {
		res := VerifyResult{Scenario: s.name, Title: s.title}
		switch {
		case ctx.Err() != nil:
			res.Status, res.Why = VerifyNotRun, "interrupted"
		case stopped != "":
			res.Status, res.Why = VerifyNotRun, stopped
		case s.human && v.NoHuman:
			res.Status, res.Why = VerifySkipped, "no person was to be asked"
		default:
			c.res, c.open = &res, nil
			err := s.run(c, ctx)
			if c.settle(ctx, err); c.hopeless(err) {
				stopped = "what stopped \"" + s.title + "\" would stop it too"
			}
			c.endThreads(ctx, err == nil)
		}
		passed = passed && (res.Status == VerifyPass || res.Status == VerifySkipped)
		report.Scenarios = append(report.Scenarios, res)
		if err := v.keep(report); err != nil {
			return report, err
		}
	}
	report.Ended, report.Passed = v.now().UTC(), passed
	return report, v.keep(report)
}

func (v *Verify) keep(r *VerifyReport) error {
	if v.Keep == nil {
		return nil
	}
	return v.Keep(r)
}

func (v *Verify) tell(format string, args ...any) {
	if v.Tell != nil {
		v.Tell(fmt.Sprintf(format, args...))
	}
}

// prepare finds out whether there is a webhook to post through and whether the space can be read, before anything is
// posted: a thread that cannot be read back is of no use.
func (v *Verify) prepare(ctx context.Context) (*check, error) {
	c := &check{Verify: v, run: uuid.NewString()[:8], patience: cmp.Or(v.Patience, verifyPatience), ours: map[string]bool{}}
	c.cfg = v.config(v.ProjectDir)
	var err error
	if c.hook, err = v.webhook(ctx, c.cfg); err != nil {
		return nil, err
	}
	c.quota = v.outbox().Quota(c.hook.Chat())
	if c.reader, err = gchat.NewReader(ctx, v.endpoint(c.cfg, c.hook), c.cfg.CredentialsFile); err != nil {
		return nil, err
	}
	c.from = v.now().Add(-clockSlack) // until a message of ours tells Chat's clock
	_, err = c.list(ctx)
	return c, err
}

// settle writes down how a scenario ended.
func (c *check) settle(ctx context.Context, err error) {
	var m *mismatch
	switch {
	case err == nil:
		c.res.Status = VerifyPass
	case errors.As(err, &m):
		c.res.Status, c.res.Why, c.res.Hint = VerifyFail, c.Log.Clean(m.why), m.hint
	case ctx.Err() != nil:
		c.res.Status, c.res.Why = VerifyCut, "interrupted"
	default:
		c.res.Status, c.res.Why, c.res.Hint = VerifyFail, c.Log.Clean(err.Error()), VerifyHint(err)
	}
}

// hopeless says that the next scenario would end as this one did: Chat cannot be posted to, or not be read.
func (c *check) hopeless(err error) bool {
	var m *mismatch
	if errors.As(err, &m) {
		return m.last
	}
	return err != nil
}

// VerifyHint says what a person can do about an error of Run, or of a login. Unlike elsewhere, nothing tries again by itself.
func VerifyHint(err error) string {
	var m *mismatch
	switch {
	case errors.As(err, &m):
		return m.hint
	case errors.Is(err, state.ErrNoWebhook), errors.Is(err, gchat.ErrCredentials), errors.Is(err, gchat.ErrNotWebhook),
		errors.Is(err, gchat.ErrNotTold), errors.Is(err, gchat.ErrEndpoint):
		return gchat.Hint(err)
	case gchat.TooMany(err), waitOf(err) > 0:
		return "the space's quota is used up, by this program or another one: run it again in some minutes"
	case gchat.Overloaded(err), errors.Is(err, gchat.ErrNonsense):
		return "Google Chat has trouble, or something answers in its place (a proxy): run it again later"
	case gchat.NobodyAt(err) != "":
		return gchat.Hint(err)
	case !gchat.Answered(err):
		return "Google Chat could not be reached: check the network, and GCHAT_API_ENDPOINT where it is set"
	}
	return gchat.Hint(err)
}

// VerifyReport is what a run of the correlation check found. It is written to a file as JSON.
type VerifyReport struct {
	Run       string         `json:"run"`            // eight hex digits: the keys of its threads begin verify-{run}-
	Chat      string         `json:"chat"`           // host/spaces/S
	File      string         `json:"file,omitempty"` // where the report is
	Began     time.Time      `json:"began"`          // this machine's clock, UTC
	Ended     time.Time      `json:"ended,omitzero"` // zero while it runs, and after kill -9
	Passed    bool           `json:"passed"`         // all scenarios passed or were skipped as asked
	Scenarios []VerifyResult `json:"scenarios"`
}

// VerifyStatus is what became of a scenario.
type VerifyStatus string

const (
	VerifyPass    VerifyStatus = "pass"
	VerifyFail    VerifyStatus = "fail"
	VerifySkipped VerifyStatus = "skipped" // as the caller asked
	VerifyCut     VerifyStatus = "cut"     // it was begun, and interrupted
	VerifyNotRun  VerifyStatus = "not run" // an earlier one left no way to
)

// VerifyResult is one scenario. Times are milliseconds.
type VerifyResult struct {
	Scenario    string         `json:"scenario"` // thread, two-threads, reply or timeout
	Title       string         `json:"title"`
	Status      VerifyStatus   `json:"status"`
	Why         string         `json:"why,omitempty"`  // not passed: a sentence for a person
	Hint        string         `json:"hint,omitempty"` // what that person can do
	Threads     []VerifyThread `json:"threads,omitempty"`
	PostMS      []float64      `json:"post_ms,omitempty"`   // each post, in order, from the request to Chat's answer
	ListedMS    []float64      `json:"listed_ms,omitempty"` // each wait from the answer to a post until a list has it
	Answer      *VerifyAnswer  `json:"answer,omitempty"`
	Refused     []string       `json:"refused,omitempty"`      // senders of replies who may not answer
	BotMessages int            `json:"bot_messages,omitempty"` // in the question's thread, not taken for replies
	Elsewhere   int            `json:"elsewhere,omitempty"`    // people's messages in other threads, not taken for replies
	WaitedMS    float64        `json:"waited_ms,omitempty"`    // for a reply, once the question was there
	Notes       []string       `json:"notes,omitempty"`        // what was seen beside and fails nothing
}

// VerifyThread is how Chat mapped a thread key.
type VerifyThread struct {
	Key      string   `json:"key"`                // verify-{run}-…
	Name     string   `json:"name"`               // spaces/S/threads/T; "" when no answer of Chat's told it
	Messages []string `json:"messages,omitempty"` // posted there by the check: spaces/S/messages/M
}

// VerifyAnswer is a person's reply and what it was read as.
type VerifyAnswer struct {
	Message string `json:"message"`        // spaces/S/messages/M
	By      string `json:"by"`             // users/ID
	Name    string `json:"name,omitempty"` // where Chat gives one
	Text    string `json:"text"`           // as it was typed
	ReadAs  string `json:"read_as"`        // the option's label, or the text
	Kind    string `json:"kind"`           // single_select or custom_text
}

// Save replaces the file at path with the report, 0600, whatever permissions an older file had.
func (r *VerifyReport) Save(path string) error {
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	_ = os.Chmod(path, 0o600) // renameio keeps the permissions of an older file
	if err := renameio.WriteFile(path, append(b, '\n'), 0o600, renameio.WithTempDir(filepath.Dir(path))); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}

func milliseconds(d time.Duration) float64 { return float64(d.Round(100*time.Microsecond)) / 1e6 }
