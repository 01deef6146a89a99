package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/urfave/cli/v2"

	"gchat-hooks/gchat"
	"gchat-hooks/gchat/wording"
	"gchat-hooks/poller"
	"gchat-hooks/state"
	"gchat-hooks/state/config"
)

func (p Program) sendCommand() *cli.Command {
	return &cli.Command{
		Name:            "send",
		HideHelpCommand: true, // "help" is a message like any other
		Usage:           "send a message to Chat (also as gchat-send)",
		UsageText:       "gchat-send [OPTIONS] MESSAGE\ngchat-send [OPTIONS] -        reads the message from standard input",
		Description: "Plain:   gchat-send \"Hello from Claude Code\"\n" +
			"Typed:   gchat-send --type task_completion \"Epic 3 completed. 12/12 subtasks validated.\"\n" +
			"Reply:   gchat-send --thread-key ask-user-12345 \"Follow-up to the question\"\n" +
			"Piped:   make 2>&1 | tail -20 | gchat-send --type error --code -\n" +
			"A message that looks like a flag:  gchat-send -- \"--bogus is no flag\"\n" +
			"Exit codes: 0 sent, 1 no webhook URL, 2 not delivered (it stays in the outbox), 4 wrong arguments",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "type", Value: "plain", Usage: "`TYPE`: " + reportTypeNames()},
			&cli.StringFlag{
				Name:  "webhook",
				Usage: "send to `URL` instead of the configured one; other users of this machine can see it in the process list",
			},
			&cli.StringFlag{
				Name:  "thread-key",
				Usage: "reply in the thread with the key `KEY`; the first message starts it",
			},
			&cli.StringFlag{
				Name:  "thread-name",
				Usage: "reply in the thread `NAME`, spaces/S/threads/T",
			},
			&cli.StringFlag{
				Name: "session",
				Usage: "`NAME` of the session, in the header; its messages share a thread " +
					"(default: $CLAUDE_SESSION_ID, else the name in its questions, else the folder)",
			},
			&cli.StringFlag{Name: "title", Usage: "bold `LINE` above the message"},
			&cli.BoolFlag{
				Name:  "code",
				Usage: "show the message as a program's output, not as Markdown",
			},
			&cli.StringSliceFlag{
				Name: "file",
				Usage: "attach the file `PATH`, on the built-in page; can be repeated. " +
					"Google Chat gets its name",
			},
			&cli.BoolFlag{Name: "quiet", Usage: "print nothing when the message was sent"},
			&cli.BoolFlag{Name: "json", Usage: "print the message's name and its thread's name"},
			&cli.BoolFlag{Name: "dry-run", Usage: "print what would be posted, and post nothing"},
			&cli.BoolFlag{
				Name:  "queue",
				Usage: "put the message into the outbox and return; the poller sends it",
			},
			// the program was called as gchat-send.sh, an older script's name
			&cli.BoolFlag{Name: "script", Hidden: true},
			&cli.StringFlag{
				Name:  "id",
				Usage: "if a message with this `ID` was sent there within ten minutes, send nothing",
			},
			&cli.BoolFlag{
				Name:  "no-queue",
				Usage: "send it now or not at all: if that fails, it is not kept",
			},
		},
		Action: func(c *cli.Context) error {
			if url := c.String("webhook"); url != "" {
				// In the environment, so that the poller that this command starts has it,
				// too.
				_ = os.Setenv("GOOGLE_CHAT_WEBHOOK_URL", url) // cannot fail with an argument's text
			}
			return (&messageSender{Program: p, flags: c, log: state.NewLog(p.env, "send")}).run(c.Context)
		},
	}
}

const (
	// sendTimeout is how long gchat-send waits for its message's receipt. Its caller
	// waits for it meanwhile.
	sendTimeout = 1800 * time.Millisecond
	// maxMessageBytes bounds a message, in bytes. A message of this length is posted in
	// 16 parts. More text than that is a file.
	maxMessageBytes = 500_000
)

// messageSender is gchat-send: one message from a person, a script or Claude itself.
type messageSender struct {
	Program
	flags *cli.Context
	log   *state.Log
	files []sendFile
}

// Exit codes of gchat-send. 3 is unused: it means "curl or jq not found" in
// gchat-send.sh, the script that this command replaces.
const exitNoWebhook, exitNotDelivered = 1, 2

// reportTypeNames lists the report types for people.
func reportTypeNames() string {
	return strings.ReplaceAll(strings.Trim(fmt.Sprint(state.ReportTypes), "[]"), " ", ", ")
}

// legacyTypes are the names that callers of older scripts give to report types.
var legacyTypes = map[string]string{
	"message":  string(state.ReportPlain),
	"progress": string(state.ReportProgressUpdate),
}

func (s *messageSender) run(ctx context.Context) error {
	m, err := s.buildMessage(s.flags.Args().Slice())
	if err != nil {
		return usageError(err, "gchat-send --help")
	}
	if s.flags.Bool("dry-run") {
		return s.printDryRun(m)
	}
	cfg := config.Load(s.env, m.ProjectDir)
	cfg.ReadPolicy = gchat.ReadPolicy
	s.log.AddSecrets(cfg.Secrets(s.env)...)
	for _, problem := range append(cfg.Problems, cfg.Misspellings...) {
		fmt.Fprintln(s.errOut, "gchat-send: warning:", s.log.Redact(problem.Error()))
	}
	if err := s.checkWebhook(m, cfg); err != nil {
		return err
	}
	if err := s.uploadFiles(ctx, cfg, m); err != nil {
		return exitError(fmt.Errorf("nothing was sent: %w", err), gchat.Hint(err), exitNotDelivered)
	}
	// The time starts here: a program that pipes its output into this command may be
	// slow, and so may an upload.
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	if s.flags.Bool("no-queue") {
		// No rule and no quiet hours hold it back, neither here nor in the poller.
		cfg.Reports, m.IsUrgent = nil, true
	}
	// A hub that hangs takes no longer than ctx allows. enqueue reports the error.
	_ = cfg.ApplyPolicies(ctx, s.env)
	out, err := s.enqueue(ctx, cfg, m)
	switch {
	case errors.Is(err, config.ErrNoWebhook):
		return exitError(err, gchat.Hint(err), exitNoWebhook)
	case errors.Is(err, config.ErrUnreadablePolicy):
		return exitError(err, "ask its administrator to correct it; "+
			"gchat-hooks doctor reads it again", exitNotDelivered)
	case err != nil:
		return exitError(fmt.Errorf("save message: %w", err), "free disk space, "+
			"or repair the state folder; in a sandbox, let gchat-hooks write there",
			exitNotDelivered)
	case out.IsOff:
		text := "not sent: the configuration or a policy turns " + s.flags.String("type") + " off"
		return s.printResult(text, sendResult{Off: true})
	case !out.HeldUntil.IsZero():
		text := "held until " + out.HeldUntil.Format("Mon 15:04")
		return s.printResult(text, sendResult{Queued: true, HeldUntil: out.HeldUntil})
	case s.flags.Bool("queue"):
		_ = s.startPoller()
		return s.printResult("queued", sendResult{Queued: true})
	}
	return s.reportDelivery(ctx, out)
}

// enqueue writes the message into the outbox. If no poller runs, this process acts as the
// poller until the message is sent or its first try has failed.
func (s *messageSender) enqueue(
	ctx context.Context, cfg *config.Config, m *state.Message,
) (out config.ReportResult, err error) {
	var lock *state.Lock // nil: another process is the poller
	if !s.flags.Bool("queue") {
		lock, _ = state.LockPoller(s.env)
	}
	if lock == nil {
		m.Parts = nil // the poller words it when it sends it
	} else {
		// This process sends it at once. If it is killed, the next poller sees that there
		// was a try, and looks whether the message arrived.
		m.FirstTriedAt = time.Now().UTC()
		defer func() {
			_ = lock.UnlockPoller(s.env, s.self, 0)
			s.ensurePoller() // after a restart of the machine nothing else may start one
		}()
	}
	out, err = config.EnqueueReport(s.env, cfg, m, config.ReportOn)
	isDue := err == nil && !out.IsOff && !out.IsRepeated && out.HeldUntil.IsZero()
	if lock != nil && isDue {
		options := poller.Options{Env: s.env, Log: s.log, Now: time.Now}
		out.Message, err = poller.SendNow(ctx, options, cfg, out.Message)
	}
	return out, err
}

// printDryRun prints what would be posted. It does not look for a webhook.
func (s *messageSender) printDryRun(m *state.Message) error {
	if m.ThreadKey == "" && m.ThreadName == "" && m.SessionID != "" {
		m.ThreadKey = state.SessionThreadKey(m.SessionID)
	}
	for _, text := range m.Parts {
		thread := cmp.Or(m.ThreadName, state.FindThreadName(s.env, m.ThreadKey))
		post := gchat.Post{Text: text, ThreadName: thread, ThreadKey: m.ThreadKey}
		fmt.Fprintf(s.out, "%s\n", post.Body())
	}
	return nil
}

// checkWebhook checks that the configured URL is a webhook's, and that the thread is in
// its space. The poller checks a URL that webhook_url_command prints.
func (s *messageSender) checkWebhook(m *state.Message, cfg *config.Config) error {
	if cfg.WebhookURL == "" {
		return nil
	}
	hook, err := gchat.ParseWebhook(cfg, cfg.WebhookURL)
	if err != nil {
		return exitError(err, gchat.Hint(err), exitNoWebhook)
	}
	if m.ThreadName != "" && gchat.SpaceOf(m.ThreadName) != hook.Space {
		return usageError(fmt.Errorf("--thread-name is not in the webhook's space, %s", hook.Space),
			"gchat-send --help")
	}
	return nil
}

func (p Program) outbox() state.Outbox { return state.OutboxIn(state.UserStateDir(p.env)) }

// buildMessage reads the message and the flags. Its errors are the caller's mistakes.
func (s *messageSender) buildMessage(args []string) (*state.Message, error) {
	text, err := s.readText(args)
	if err != nil {
		return nil, err
	}
	kind, title, session := s.flags.String("type"), s.flags.String("title"), s.flags.String("session")
	threadKey, threadName := s.flags.String("thread-key"), s.flags.String("thread-name")
	isFromScript, isCode := s.flags.Bool("script"), s.flags.Bool("code")
	reportType := state.ReportType(cmp.Or(legacyTypes[kind], kind))
	if isFromScript && !slices.Contains(state.ReportTypes, reportType) {
		reportType = state.ReportPlain // gchat-send.sh accepts any type, such as "review"
	}
	allText := text + title + session + threadKey
	switch {
	case !slices.Contains(state.ReportTypes, reportType):
		return nil, fmt.Errorf("no such type: %q; the types are %s", kind, reportTypeNames())
	case strings.TrimSpace(text) == "":
		return nil, errors.New(
			"no message. Usage: gchat-send [OPTIONS] MESSAGE, or - to read it from standard input",
		)
	case len(text) > maxMessageBytes:
		return nil, fmt.Errorf("the message is longer than %d bytes", maxMessageBytes)
	case strings.ContainsRune(allText, 0) || !utf8.ValidString(allText):
		return nil, errors.New("the message is not text: it is not valid UTF-8, or has a NUL byte")
	case threadKey != "" && threadName != "":
		return nil, errors.New("--thread-key and --thread-name cannot be used together")
	case threadName != "" && !gchat.IsThreadName(threadName):
		return nil, fmt.Errorf("--thread-name must look like spaces/S/threads/T, not %q", threadName)
	case s.flags.Bool("queue") && s.flags.Bool("no-queue"):
		return nil, errors.New("--queue and --no-queue cannot be used together")
	}
	project := state.FindProjectDir(s.env)
	if isCode {
		text = wording.CodeBlock(text)
	}
	m := &state.Message{
		Report: &state.Report{
			Type:         reportType,
			At:           time.Now(),
			Title:        title,
			Text:         text,
			IsChatSyntax: isFromScript && !isCode,
		},
		SessionID:  cmp.Or(s.env("CLAUDE_CODE_SESSION_ID"), session, s.env("CLAUDE_SESSION_ID")),
		ProjectDir: project,
		ThreadKey:  threadKey,
		ThreadName: threadName,
		// A random key: what a person or a script sends twice is posted twice. Only a
		// hook's key comes from its text.
		Key: cmp.Or(s.flags.String("id"), uuid.NewString()),
	}
	if reportType != state.ReportPlain {
		m.Report.SessionName = s.sessionName(session, project)
	}
	m.Parts = wording.ReportTexts(*m.Report)
	if len(m.Parts) == 0 {
		return nil, errors.New("no message: it has no visible text")
	}
	return m, nil
}

// readText reads the files to attach, and returns the message's text: from the arguments,
// or from standard input. Without one, it is the files' names.
func (s *messageSender) readText(args []string) (text string, err error) {
	text = strings.Join(args, " ")
	if len(args) == 1 && args[0] == "-" {
		b, err := io.ReadAll(io.LimitReader(s.in, maxMessageBytes+1))
		if err != nil {
			return "", fmt.Errorf("read message: %w", err)
		}
		text = strings.TrimRight(string(b), "\n")
	}
	s.files, err = readSendFiles(s.flags.StringSlice("file"))
	if err == nil && strings.TrimSpace(text) == "" {
		text = fileNames(s.files)
	}
	return text, err
}

// sessionName is the session's name in the header: the one given, the one that a launch
// script set, the one that its questions have, or the name of the project's folder.
func (s *messageSender) sessionName(session, project string) string {
	name := cmp.Or(session, s.env("CLAUDE_SESSION_ID"))
	if id := s.env("CLAUDE_CODE_SESSION_ID"); name == "" && id != "" {
		if known, err := state.SessionsIn(state.UserStateDir(s.env)).Get(id); err == nil {
			name = known.Name
		}
	}
	return cmp.Or(name, filepath.Base(project))
}

// reportDelivery prints what became of an enqueued message. If this process did not send
// it, it waits for the receipt first.
func (s *messageSender) reportDelivery(ctx context.Context, out config.ReportResult) (err error) {
	m := out.Message
	if !m.IsFinal() {
		var updated *state.Message
		err = state.AddToIndex(s.env, state.IndexEntry{
			RecordType: state.IndexedMessage,
			Path:       m.Path,
			ProjectDir: m.ProjectDir,
		})
		if err == nil {
			updated, err = state.Await(ctx, s.env, s.self, m.Path, (*state.Message).IsFinal)
		}
		m = cmp.Or(updated, m)
	}
	isDropped := s.flags.Bool("no-queue") && !out.IsRepeated && m.SentAt.IsZero() &&
		s.outbox().RemoveMessage(s.env, m) == nil
	if !isDropped && !m.IsFinal() {
		_ = s.startPoller()
	}
	switch {
	case isDropped && m.SetAsideReason == "" && !m.FirstTriedAt.IsZero():
		// The try was interrupted, or goes on in the poller.
		return exitError(fmt.Errorf("it may have arrived, and is not kept: %s", s.failureReason(m)),
			"look in Chat; without --no-queue, gchat-hooks looks, "+
				"and sends it again if it is missing", exitNotDelivered)
	case isDropped:
		return exitError(fmt.Errorf("not delivered, and not kept: %s", s.failureReason(m)),
			"without --no-queue, it stays in the outbox until it is delivered", exitNotDelivered)
	case err != nil && ctx.Err() == nil:
		return exitError(fmt.Errorf("not delivered: %w", err),
			"gchat-hooks status", exitNotDelivered)
	case m.SetAsideReason != "":
		return exitError(fmt.Errorf("not delivered: %s", s.failureReason(m)),
			"it is set aside; `gchat-hooks status` shows it, "+
				"`gchat-hooks flush --dead` sends it again", exitNotDelivered)
	case m.SentAt.IsZero():
		return exitError(fmt.Errorf("not delivered yet: %s", s.failureReason(m)),
			"it stays in the outbox and is sent as soon as that works; "+
				"`gchat-hooks status` shows it", exitNotDelivered)
	}
	if m.SessionID == "" && m.ThreadKey == "" && s.flags.String("id") == "" {
		// No other process asks for its receipt.
		_ = s.outbox().RemoveMessage(s.env, m)
	}
	word := "sent"
	if out.IsRepeated {
		word = "already sent"
	}
	return s.printResult(word, sendResult{
		Name:       m.MessageName,
		ThreadName: m.ThreadName,
		Repeated:   out.IsRepeated,
	})
}

// failureReason says why a message was not delivered.
func (s *messageSender) failureReason(m *state.Message) string {
	return s.log.Redact(cmp.Or(m.SetAsideReason, m.LastError, "no result came within two seconds"))
}

// sendResult is what --json prints. thread has the shape that it has in Chat's own
// messages; thread_name is easier to read in a shell.
type sendResult struct {
	Name       string            `json:"name,omitempty"`
	ThreadName string            `json:"thread_name,omitempty"`
	Thread     map[string]string `json:"thread,omitempty"`
	Repeated   bool              `json:"repeated,omitempty"`
	Queued     bool              `json:"queued,omitempty"`
	HeldUntil  time.Time         `json:"held_until,omitzero"`
	Off        bool              `json:"off,omitempty"`
}

func (s *messageSender) printResult(text string, r sendResult) error {
	switch {
	case s.flags.Bool("quiet"), s.flags.Bool("script") && r.ThreadName == "":
	case s.flags.Bool("script"): // the callers of gchat-send.sh keep the thread's name
		fmt.Fprintln(s.out, r.ThreadName)
	case s.flags.Bool("json"):
		if r.ThreadName != "" {
			r.Thread = map[string]string{"name": r.ThreadName}
		}
		return json.NewEncoder(s.out).Encode(r)
	default:
		fmt.Fprintln(s.out, strings.TrimSpace(text+" "+r.Name))
	}
	return nil
}

func (p Program) flushCommand() *cli.Command {
	return &cli.Command{
		Name:  "flush",
		Usage: "send waiting messages now",
		Flags: []cli.Flag{
			&cli.DurationFlag{Name: "timeout", Value: time.Minute, Usage: "stop after `TIME`"},
			&cli.BoolFlag{Name: "dead", Usage: "also send again what Google Chat refused"},
			&cli.BoolFlag{Name: "forget-dead", Usage: "delete what Google Chat refused"},
			&cli.BoolFlag{
				Name:  "held",
				Usage: "also send what is held back for a digest or by quiet hours",
			},
		},
		Action: p.flush,
	}
}

// flush sends until nothing that can be sent is left, or the time is up. Held messages
// stay in the outbox, unless --held is given.
func (p Program) flush(c *cli.Context) error {
	box, retriesDead := p.outbox(), c.Bool("dead")
	if c.Bool("forget-dead") {
		for _, m := range box.SetAside() {
			if err := box.RemoveMessage(p.env, m); err != nil {
				return fmt.Errorf("delete dead message: %w", err)
			}
		}
	}
	if retriesDead {
		if _, err := box.RetrySetAside(time.Now()); err != nil {
			return fmt.Errorf("retry dead messages: %w", err)
		}
	}
	if err := p.retryNow(c.Bool("held")); err != nil {
		return fmt.Errorf("retry waiting messages: %w", err)
	}
	ctx, cancel := context.WithTimeout(c.Context, c.Duration("timeout"))
	defer cancel()
	for pause := time.Tick(100 * time.Millisecond); ctx.Err() == nil && p.hasUnsent(); {
		// Again in each round: the poller that runs may end at any time.
		if _, err := state.StartPoller(p.env, p.self); err != nil {
			return err
		}
		select {
		case <-pause:
		case <-ctx.Done():
		}
	}
	refused := len(box.SetAside())
	switch due := p.dueCount(); {
	case ctx.Err() != nil && due > 0:
		// without a timeout, what is due came later: the poller sends it
		return exitError(fmt.Errorf("messages that are not sent yet: %d", due),
			"`gchat-hooks status` shows them, and why they wait", exitNotDelivered)
	case retriesDead && refused > 0:
		return exitError(fmt.Errorf("messages that were refused again: %d", refused),
			"`gchat-hooks status` says why, "+
				"and `gchat-hooks flush --forget-dead` deletes them", exitNotDelivered)
	}
	return nil
}

// dueCount is the number of messages that this environment's poller can send now.
func (p Program) dueCount() (n int) {
	environment := state.Environment(p.env)
	waiting, _ := p.outbox().Waiting()
	for _, m := range waiting {
		isOurs := m.Environment == "" || m.Environment == environment
		isHeld := m.FailedTries == 0 && time.Now().Before(m.NotBefore)
		if isOurs && !isHeld {
			n++
		}
	}
	return n
}

// hasUnsent reports whether this environment's poller has something to send: a message, a
// note, or a session's summary that it has to enqueue first.
func (p Program) hasUnsent() bool {
	environment := state.Environment(p.env)
	entries, _ := state.IndexEntries(p.env)
	sessions, _ := state.SessionsIn(state.UserStateDir(p.env)).All()
	owesNote := func(entry *state.IndexEntry) bool {
		isOurs := entry.RecordType == state.IndexedQuestion && entry.Environment == environment
		q, err := state.LoadQuestionInPlace(entry.Path)
		return isOurs && err == nil && len(q.OwedNotes) > 0
	}
	owesSummary := func(s *state.Session) bool {
		return !s.SummaryOwedFor.IsZero() && s.Environment == environment
	}
	// The messages are counted last: the poller turns notes and summaries into messages,
	// and one that it turned meanwhile must not be missed.
	return slices.ContainsFunc(entries, owesNote) || slices.ContainsFunc(sessions, owesSummary) ||
		p.dueCount() > 0
}

// retryNow makes messages due that wait for another try: a person has repaired what
// stopped them. With includesHeld it does so for held messages, too.
func (p Program) retryNow(includesHeld bool) (errs error) {
	now := time.Now().UTC()
	waiting, _ := p.outbox().Waiting()
	for _, m := range waiting {
		if m.FailedTries > 0 || includesHeld {
			_, err := p.outbox().Change(m.Path, func(m *state.Message) {
				m.NotBefore = now
				m.IsUrgent = m.IsUrgent || includesHeld // else quiet hours would hold it again
			})
			errs = errors.Join(errs, err)
			state.CallPoller(p.env, m.Environment)
		}
	}
	spaces := state.SpacesIn(state.UserStateDir(p.env))
	knownSpaces, _ := spaces.All()
	for _, space := range knownSpaces {
		if len(space.PausedWebhooks) > 0 || space.WriteDelay(now) > 0 {
			_, err := spaces.Change(space.Chat, func(space *state.Space) {
				space.NotBefore = time.Time{}
				for webhook, pause := range space.PausedWebhooks {
					pause.NotBefore = now
					space.PausedWebhooks[webhook] = pause
				}
			})
			errs = errors.Join(errs, err)
		}
	}
	return errs
}
