package cli

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"gchat-hooks/cli/claudecheck"
	"gchat-hooks/gchat"
	"gchat-hooks/gchat/wording"
	"gchat-hooks/inject"
	steering "gchat-hooks/poller/commands"
	"gchat-hooks/poller/service"
	"gchat-hooks/state"
	"gchat-hooks/state/config"
)

func (p Program) statusCommand() *cli.Command {
	return &cli.Command{
		Name:  "status",
		Usage: "show problems, open questions, sessions, and messages that wait to be sent",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "json", Usage: "print a JSON object"},
		},
		Action: p.printStatus,
	}
}

// printStatus prints the status. It removes secrets, also from what records and logs
// hold.
func (p Program) printStatus(c *cli.Context) error {
	cfg := config.Load(p.env, state.ProjectDir(p.env))
	cfg.ReadPolicy = gchat.ReadPolicy
	_ = cfg.ApplyPolicies(c.Context, p.env) // its error becomes one of cfg.Problems
	var redact state.Redactor
	redact.AddSecrets(cfg.Secrets(p.env)...)
	r := collectStatus(p.env, cfg, &redact)
	r.hasStartedPoller = p.ensurePoller() && len(r.Pollers) == 0
	text := r.text()
	if c.Bool("json") {
		text = indentedJSON(r)
	}
	_, err := io.WriteString(p.out, redact.Redact(text))
	return err
}

// ensurePoller starts a poller if there is work for one and none runs: it may have been
// killed, or the machine restarted.
func (p Program) ensurePoller() (started bool) {
	return p.needsPoller() && p.startPoller() == nil
}

// needsPoller reports whether this environment has an open question, a session that takes
// messages from its thread, or something to send. An open question whose Claude Code has
// ended moves to this environment if its own has no poller: else no poller would close
// it.
func (p Program) needsPoller() bool {
	environment, now := state.Environment(p.env), time.Now()
	questions, _ := state.ReadIndexedQuestions(p.env, state.OpenStatusTexts...)
	for _, q := range questions {
		if inject.HasEnded(q.ClaudePID, q.ClaudeStart) {
			_ = state.AddQuestionToIndex(p.env, q) // does nothing if its environment has a poller
		}
		entry, err := state.ReadIndexEntry(state.IndexFile(p.env, q.Path))
		if err == nil && entry.Environment == environment {
			return true
		}
	}
	sessions, _ := state.SessionsIn(state.UserStateDir(p.env)).All()
	isListening := func(s *state.Session) bool {
		return s.Environment == environment && steering.AcceptsInput(s, now)
	}
	return slices.ContainsFunc(sessions, isListening) || p.hasUnsent()
}

// startPoller starts a poller if none runs. It tries twice: a poller that was just killed
// may hold its lock for a moment.
func (p Program) startPoller() error {
	started, err := state.StartPoller(p.env, p.self)
	if started || err != nil {
		return err
	}
	time.Sleep(20 * time.Millisecond)
	_, err = state.StartPoller(p.env, p.self)
	return err
}

// statusReport is what status shows, and what --json prints: its keys are a contract.
// Times are RFC 3339 in UTC; an unknown one is left out. It contains no secret.
type statusReport struct {
	At        time.Time       `json:"generated_at"`
	Questions []openQuestion  `json:"questions"` // of all kinds, the oldest first
	Sessions  []sessionStatus `json:"sessions"`  // seen within a day
	Outbox    outboxStatus    `json:"outbox"`
	// the spaces that cannot be read or written to at the moment
	Spaces        []spaceStatus  `json:"spaces"`
	Pollers       []pollerStatus `json:"pollers"`       // those that run
	SetAside      []string       `json:"set_aside"`     // records that do not parse
	Configuration []string       `json:"configuration"` // problems for a person to solve
	Errors        []logError     `json:"errors"`        // the last ones of a day, the oldest first

	// the versions of Claude Code of the sessions that run
	Claude []claudeStatus `json:"claude"`

	hasStartedPoller bool // no poller was running, and this command started one
}

// sessionStatus is a session that seems to run.
type sessionStatus struct {
	*steering.ListedSession
	Questions int    `json:"questions"` // how many are open, also those that are answered
	ThreadURL string `json:"thread_url,omitempty"`
}

// claudeStatus says whether a version of Claude Code works with this program.
type claudeStatus struct {
	Version   string    `json:"version"`
	CheckedAt time.Time `json:"checked_at,omitzero"` // on this machine
	IsKnown   bool      `json:"known"`               // it was checked with this release
	// Problems are the meanings of what does not hold.
	Problems []string `json:"problems"`
	// Failure says why not everything could be checked.
	Failure string `json:"failure,omitempty"`
}

// outboxStatus is the outbox: what waits for Google Chat or for an agent, and what Google
// Chat has refused.
type outboxStatus struct {
	ToSend    int             `json:"to_send"` // without held messages
	Oldest    time.Time       `json:"oldest,omitzero"`
	Held      int             `json:"held"` // held for a digest or by quiet hours
	HeldUntil time.Time       `json:"held_until,omitzero"`
	Tried     []messageStatus `json:"tried"` // a try failed, and another follows
	Dead      []messageStatus `json:"dead"`  // refused, and not tried again
}

// messageStatus is a message in the outbox that has not arrived.
type messageStatus struct {
	CreatedAt time.Time `json:"created_at"`
	Kind      string    `json:"kind"`
	Text      string    `json:"text"` // its beginning; of a wake message, the agent's session
	Tries     int       `json:"tries"`
	Error     string    `json:"error"`
}

// spaceStatus is a problem with a space that a person has to solve, or a pause that Chat
// has asked for.
type spaceStatus struct {
	Chat string `json:"chat"`
	// "paused" (a webhook does not work), "left alone" (see troubleRateLimited), or
	// "replies not read"
	Trouble string    `json:"trouble"`
	Why     string    `json:"why"`
	Since   time.Time `json:"since,omitzero"`
	Until   time.Time `json:"until,omitzero"` // only of "left alone"
}

// troubleRateLimited is the JSON word for a space that Chat told us not to write to for a
// while. A person reads "paused until …".
const troubleRateLimited = "left alone"

// pollerStatus is a poller that runs.
type pollerStatus struct {
	state.Heartbeat
	Silent   bool      `json:"silent,omitempty"` // no heartbeat: it is stopped, or hangs
	LastPoll time.Time `json:"last_poll,omitzero"`
}

const (
	// recentPeriod is how far back sessions and errors are shown.
	recentPeriod = 24 * time.Hour
	// maxErrors is how many errors are shown.
	maxErrors = 5
)

// collectStatus reads what status reports. A file that cannot be read becomes a line of
// the report.
func collectStatus(env state.Getenv, cfg *config.Config, redact *state.Redactor) *statusReport {
	now, changedAt := time.Now(), lastConfigChange(env)
	records, badQuestions := readOpenQuestions(env, now)
	questions := openQuestions(env, records, redact)
	sessions, badSessions := sessionStatuses(env, cfg, now, records, redact)
	outbox, badMessages := outboxStatusOf(state.OutboxIn(state.UserStateDir(env)), now, redact)
	spaces, badSpaces := spaceStatuses(env, now, changedAt, len(questions) == 0)
	pollers := pollerStatuses(env, now)
	since := now.Add(-recentPeriod)
	if changedAt.After(since) {
		since = changedAt
	}
	return &statusReport{
		At:            now.UTC().Truncate(time.Second),
		Questions:     questions,
		Sessions:      sessions,
		Outbox:        outbox,
		Spaces:        spaces,
		Pollers:       pollers,
		SetAside:      errorTexts(slices.Concat(badQuestions, badSessions, badMessages, badSpaces)),
		Configuration: configurationProblems(env, cfg, pollers),
		Errors:        lastErrors(env, since),
		Claude:        claudeStatuses(env, sessions),
	}
}

// claudeStatuses are the versions of Claude Code that run, each once.
func claudeStatuses(env state.Getenv, sessions []sessionStatus) []claudeStatus {
	statuses := []claudeStatus{}
	for _, s := range sessions {
		version := s.ClaudeVersion()
		isListed := func(c claudeStatus) bool { return c.Version == version }
		if version == "" || slices.ContainsFunc(statuses, isListed) {
			continue
		}
		check, isKnown := state.LoadClaudeCheck(env, version)
		statuses = append(statuses, claudeStatus{
			version, check.CheckedAt, isKnown,
			append([]string{}, claudecheck.Meanings(check.Broken)...), check.Failure,
		})
	}
	return statuses
}

// line says whether a version works, if nothing is known not to hold.
func (c claudeStatus) line() string {
	name := "Claude Code " + c.Version
	switch {
	case c.Failure != "":
		return claudecheck.FailureText(c.Version, c.Failure)
	case !c.IsKnown:
		return name + " was not checked: gchat-hooks doctor --claude tries whether it works"
	}
	return name + ": works with this version of gchat-hooks"
}

func errorTexts(errs []error) []string {
	texts := []string{}
	for _, err := range errs {
		texts = append(texts, err.Error())
	}
	return texts
}

// sessionStatuses are the sessions that run and were seen within a day, as ListSessions
// orders them.
func sessionStatuses(
	env state.Getenv, cfg *config.Config, now time.Time,
	questions []*state.Question, redact *state.Redactor,
) (statuses []sessionStatus, unreadable []error) {
	statuses = []sessionStatus{}
	perSession := map[string]int{}
	for _, q := range questions {
		perSession[q.ClaudeSession()]++
	}
	list, unreadable := steering.ListSessions(env, cfg, questions, now)
	for _, s := range list {
		if s.HasEnded() || now.Sub(s.LastSeen) >= recentPeriod {
			continue
		}
		s.LastWords = redact.Redact(s.LastWords)
		status := sessionStatus{
			ListedSession: s, Questions: perSession[s.ID],
			ThreadURL: gchat.ThreadLink(s.Chat, s.ThreadName),
		}
		for _, id := range s.FormerIDs {
			status.Questions += perSession[id]
		}
		statuses = append(statuses, status)
	}
	return statuses, unreadable
}

// spaceStatuses are the problems of all spaces. With no open question, nothing reads the
// spaces. A reading problem that is older than the configuration is then left out: it may
// be solved, and the next question will show that.
func spaceStatuses(
	env state.Getenv, now, changedAt time.Time, isQuiet bool,
) (statuses []spaceStatus, unreadable []error) {
	statuses = []spaceStatus{}
	spaces, unreadable := state.SpacesIn(state.UserStateDir(env)).All()
	for _, s := range spaces {
		if s.ReadTrouble != nil && isQuiet && s.ReadTrouble.Since.Before(changedAt) {
			s.ReadTrouble = nil
		}
		statuses = append(statuses, spaceStatusesOf(s, now)...)
	}
	return statuses, unreadable
}

// pollerStatuses are the pollers that run.
func pollerStatuses(env state.Getenv, now time.Time) []pollerStatus {
	statuses := []pollerStatus{}
	for _, h := range state.ReadHeartbeats(env) {
		if !h.IsAlive {
			continue
		}
		status := pollerStatus{Heartbeat: h, Silent: h.IsSilent(now)}
		if h.IsDaemon {
			status.LastPoll = service.LastPoll(env).UTC()
		}
		statuses = append(statuses, status)
	}
	return statuses
}

// configurationProblems are what a person has to set up or to correct.
func configurationProblems(env state.Getenv, cfg *config.Config, pollers []pollerStatus) []string {
	problems := []string{}
	for _, p := range pollers {
		if problem, hint := p.DescribeUnreadable(); problem != "" {
			problems = append(problems, problem+": "+hint)
		}
	}
	if place := state.ReadLockFolder(env); place != nil {
		problems = append(problems, place.Describe())
	}
	if service.IsSpaceDown(env) {
		problems = append(
			problems,
			"the page's server does not run, but its service is installed: "+service.StartSpaceCommand,
		)
	}
	if !cfg.CanSend() && len(cfg.Problems) == 0 {
		problems = append(problems, "not connected to Google Chat or the page yet: gchat-hooks setup")
	}
	problems = append(problems, errorTexts(slices.Concat(cfg.Problems, cfg.Misspellings))...)
	for _, err := range gchat.LoadHubClient(cfg.CredentialsFile).Problems(version()) {
		problems = append(problems, err.Error()+": "+gchat.Hint(err))
	}
	return problems
}

// lastConfigChange is the time of the person's last change of the configuration, or
// login.
func lastConfigChange(env state.Getenv) (last time.Time) {
	project := filepath.Join(state.ProjectDir(env), ".claude", "gchat-hooks.json")
	for _, path := range []string{state.ConfigFile(env), config.LoginFile(env), project} {
		if info, err := os.Stat(path); err == nil && info.ModTime().After(last) {
			last = info.ModTime()
		}
	}
	return last
}

func outboxStatusOf(
	box state.Outbox, now time.Time, redact *state.Redactor,
) (o outboxStatus, unreadable []error) {
	o = outboxStatus{Tried: []messageStatus{}, Dead: []messageStatus{}}
	waiting, unreadable := box.Waiting()
	var held []time.Time
	for _, m := range waiting { // the oldest first
		switch {
		case m.FailedTries > 0:
			o.Tried = append(o.Tried, messageStatusOf(m, redact))
		case now.Before(m.NotBefore):
			held = append(held, m.NotBefore.UTC())
			continue
		}
		o.ToSend++
		o.Oldest = cmp.Or(o.Oldest, m.CreatedAt.UTC())
	}
	o.Held = len(held)
	if o.Held > 0 {
		o.HeldUntil = slices.MinFunc(held, time.Time.Compare)
	}
	for _, m := range box.SetAside() {
		o.Dead = append(o.Dead, messageStatusOf(m, redact))
	}
	return o, unreadable
}

func messageStatusOf(m *state.Message, redact *state.Redactor) messageStatus {
	s := messageStatus{CreatedAt: m.CreatedAt.UTC(), Kind: string(m.Type), Tries: m.FailedTries}
	switch {
	case m.Wake != nil:
		s.Text = m.Wake.Trigger + " to " + m.Wake.AgentSession
	case m.Call != nil:
		s.Text = m.Call.Title + ": " + m.Call.Text
	case len(m.Parts) > 0:
		s.Text = m.Parts[min(m.PartsSent, len(m.Parts)-1)]
	case m.Report != nil:
		s.Text = m.Report.Text
	}
	if m.Report != nil {
		s.Kind = cmp.Or(m.Report.RuleKind, string(m.Report.Type))
	}
	s.Text = wording.Cut(wording.SafeLine(redact.Redact(s.Text)), 80)
	s.Error = state.OneLine(redact.Redact(cmp.Or(m.SetAsideReason, m.LastError)))
	return s
}

// spaceStatusesOf are the problems of one space.
func spaceStatusesOf(s *state.Space, now time.Time) (statuses []spaceStatus) {
	if t := s.ReadTrouble; t != nil {
		why := t.Why
		if t.IsDegraded {
			why = "degraded, tried once a minute: " + why
		}
		statuses = append(statuses, spaceStatus{
			Chat: s.Chat, Trouble: "replies not read", Why: why, Since: t.Since.UTC(),
		})
	}
	for _, p := range s.PausedWebhooks {
		statuses = append(statuses, spaceStatus{
			Chat: s.Chat, Trouble: "paused", Why: p.Why, Since: p.Since.UTC(),
		})
	}
	if s.WriteDelay(now) > 0 {
		statuses = append(statuses, spaceStatus{
			Chat: s.Chat, Trouble: troubleRateLimited, Why: s.Why, Until: s.NotBefore.UTC(),
		})
	}
	return statuses
}

// logError is an error line of the log, as status shows it.
type logError struct {
	Time    time.Time `json:"time"`
	Job     string    `json:"job"`
	Message string    `json:"message"`
	Cause   string    `json:"error,omitempty"`
	Hint    string    `json:"hint,omitempty"`
	Until   string    `json:"until,omitempty"` // the log message that says that it is over
}

// lastErrors are the log's last errors since a time, the oldest first. An error is left
// out if the message that ends it was logged after it.
func lastErrors(env state.Getenv, since time.Time) []logError {
	errs := []logError{}
	b, _ := state.ReadPlainOrLink(state.LogPath(env), state.MaxFileSize)
	for line := range bytes.Lines(b) {
		mayEnd := func(earlier logError) bool {
			return earlier.Until != "" && bytes.Contains(line, []byte(earlier.Until))
		}
		// Most lines of a large log need not be parsed.
		if !bytes.Contains(line, []byte(`"error"`)) && !slices.ContainsFunc(errs, mayEnd) {
			continue
		}
		var e struct {
			logError
			Level string `json:"level"`
		}
		if json.Unmarshal(line, &e) != nil || e.Time.Before(since) {
			continue
		}
		errs = slices.DeleteFunc(errs, func(earlier logError) bool {
			return earlier.Until != "" && earlier.Until == e.Message
		})
		if e.Level == "error" {
			errs = append(errs, e.logError)
		}
	}
	return errs[max(0, len(errs)-maxErrors):]
}

// text is the report for a person, with the problems first. Each thing has a line, and
// its details stand below it, indented.
func (r *statusReport) text() string {
	var text reportText
	r.addProblems(&text)
	text.addLine("", "questions: %d open", len(r.Questions))
	for _, q := range r.Questions {
		text.addLine("  ", "%s, %s old, %s, %s: %s, %s",
			q.ThreadKey, shortDuration(r.At.Sub(q.AskedAt)), q.SessionName,
			q.Mode, deliveryText(q), q.ProjectDir)
		for _, line := range questionLines(q) {
			text.addLine("      ", "%s", line)
		}
	}
	text.addLine("", "sessions: %d seen within a day", len(r.Sessions))
	for _, s := range r.Sessions {
		text.addLine("  ", "%s, since %s, last seen %s ago, %s",
			s.Name, localTime(s.Since), shortDuration(r.At.Sub(s.LastSeen)), s.ProjectDir)
		for _, line := range sessionLines(s, r.At) {
			text.addLine("      ", "%s", line)
		}
	}
	for _, c := range r.Claude {
		if len(c.Problems) == 0 {
			text.addLine("", "%s", c.line())
		}
	}
	r.addDelivery(&text)
	return text.String()
}

// reportText is a report, line by line.
type reportText struct{ strings.Builder }

// addLine adds a line. Line breaks in its arguments are replaced.
func (t *reportText) addLine(indent, format string, args ...any) {
	fmt.Fprintln(t, indent+state.OneLine(fmt.Sprintf(format, args...)))
}

func (r *statusReport) addProblems(text *reportText) {
	for _, c := range r.Claude {
		for _, problem := range c.Problems {
			text.addLine("", "Claude Code %s: %s", c.Version, problem)
		}
	}
	for _, problem := range r.Configuration {
		text.addLine("", "configuration: %s", problem)
	}
	for _, s := range r.Spaces {
		when := "since " + localTime(s.Since)
		if s.Since.IsZero() {
			when = "until " + localTime(s.Until)
		}
		trouble := s.Trouble
		if trouble == troubleRateLimited {
			trouble = "paused"
		}
		text.addLine("", "%s: %s %s: %s", trouble, s.Chat, when, s.Why)
	}
	for _, m := range r.Outbox.Tried {
		text.addLine("", "waiting: %s %s %q, tried %d times: %s",
			localTime(m.CreatedAt), m.Kind, m.Text, m.Tries, m.Error)
	}
	for _, m := range r.Outbox.Dead {
		text.addLine("", "dead: %s %s %q: %s", localTime(m.CreatedAt), m.Kind, m.Text, m.Error)
	}
	if len(r.Outbox.Dead) > 0 {
		text.addLine("", "gchat-hooks flush --dead sends the dead ones again, --forget-dead deletes them")
	}
	if len(r.Errors) > 0 {
		text.addLine("", "errors: gchat-hooks logs --level error shows more")
	}
	for _, e := range r.Errors {
		text.addLine("  ", "%s %s %s: %s", localTime(e.Time), e.Job, e.Message, e.Cause)
		if e.Hint != "" {
			text.addLine("      ", "hint: %s", e.Hint)
		}
	}
	for _, problem := range r.SetAside {
		text.addLine("", "set aside: %s", problem)
	}
}

// addDelivery adds the lines of the outbox and of the pollers.
func (r *statusReport) addDelivery(text *reportText) {
	o := r.Outbox
	if o.ToSend > 0 {
		text.addLine("", "outbox: %d to send, the oldest since %s", o.ToSend, localTime(o.Oldest))
	} else {
		text.addLine("", "outbox: nothing to send")
	}
	if o.Held > 0 {
		until := o.HeldUntil.Local().Format("Mon 15:04")
		text.addLine("", "held back: %d, until %s; gchat-hooks flush --held sends them now", o.Held, until)
	}
	for _, p := range r.Pollers {
		text.addLine("", "%s", p.line(r.At))
	}
	switch {
	case r.hasStartedPoller:
		text.addLine("", "poller: none was running; one is started now")
	case len(r.Pollers) == 0:
		text.addLine("", "poller: none runs; the next hook or command starts one")
	}
}

// sessionLines are a session's details: what it does, what was said last, and its thread.
func sessionLines(s sessionStatus, now time.Time) (lines []string) {
	activity := s.State
	if activity != "" && !s.StateSince.IsZero() {
		activity += " for " + shortDuration(now.Sub(s.StateSince))
	}
	if waits := wording.CountWaits(s.WaitKinds()); waits != "" {
		activity += ": " + waits
	}
	speaker := "Claude"
	if s.IsPersonLast {
		speaker = "you"
	}
	if s.LastWords != "" {
		lines = append(lines, fmt.Sprintf("%s: %q", speaker, s.LastWords))
	}
	return slices.DeleteFunc(append([]string{activity, s.Terminal}, append(lines, s.ThreadURL)...),
		func(line string) bool { return line == "" })
}

// deliveryText says what becomes of a reply, or whose reply is on its way to Claude.
func deliveryText(q openQuestion) string {
	if q.Status != state.Answered {
		return delivererTexts[q.Deliverer]
	}
	senders := map[string]string{"": "by a person", state.LocalSender: "on this machine"}
	return "answered " + cmp.Or(senders[q.AnsweredBy], "by "+q.AnsweredBy) + ", on its way to Claude"
}

func (p pollerStatus) line(now time.Time) string {
	who := fmt.Sprintf("pid %d, on %s", p.PID, p.Machine)
	if p.IsDryRun {
		who += ", a dry run: nothing is typed into any session"
	}
	switch {
	case p.Silent:
		return fmt.Sprintf("poller stopped: %s, no sign of life for %s: "+
			"continue it (fg in its terminal), or end it", who, shortDuration(now.Sub(p.BeatAt)))
	case p.IsDaemon && p.LastPoll.IsZero():
		return fmt.Sprintf("daemon: %s, no poll yet", who)
	case p.IsDaemon:
		return fmt.Sprintf("daemon: %s, last poll %s", who, localTime(p.LastPoll))
	}
	return fmt.Sprintf("poller: %s, since %s", who, localTime(p.StartedAt))
}

// delivererTexts say of an open question what becomes of a reply.
var delivererTexts = map[state.Deliverer]string{
	state.DelivererHook:   "waiting for you",
	state.DelivererPoller: "waiting for you; the reply is typed into tmux",
	state.DelivererLater:  "Claude reads the reply with its next step",
	state.DelivererNone:   "only the terminal can answer",
}

// maxQuestionBytes is how much of a question a line shows, in bytes.
const maxQuestionBytes = 200

// questionLines are a question's details: its text, and where it is posted.
func questionLines(q openQuestion) []string {
	lines := []string{fmt.Sprintf("%q", wording.Cut(state.OneLine(q.Question), maxQuestionBytes))}
	if q.Questions > 1 {
		lines[0] += fmt.Sprintf(" and %d more", q.Questions-1)
	}
	if q.HandedOver != nil {
		since := q.HandedOver.Local().Format("15:04")
		lines = append(lines, "in the terminal since "+since+": answer it there")
	}
	if q.Status == state.TimedOut {
		lines = append(lines, "nobody replied in time; a reply still counts")
	}
	switch {
	case q.PostError != "":
		lines = append(lines, "not posted: "+q.PostError)
	case !q.Posted:
		lines = append(lines, "not posted yet")
	case q.ThreadName != "":
		lines = append(lines, cmp.Or(q.ThreadURL, "posted in "+q.ThreadName))
	}
	return lines
}

func localTime(t time.Time) string { return t.Local().Format(time.DateTime) }

// shortDuration is a time span for people: 45s, 3m, 2h5m, 3d.
func shortDuration(d time.Duration) string {
	switch d = max(d, 0); {
	case d < time.Minute:
		return d.Truncate(time.Second).String()
	case d < 24*time.Hour:
		return strings.TrimSuffix(d.Truncate(time.Minute).String(), "0s")
	}
	return fmt.Sprintf("%dd", d/(24*time.Hour))
}
