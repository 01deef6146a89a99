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
	"strings"
	"time"
	"unicode/utf8"

	"github.com/urfave/cli/v2"

	"gchat-hooks/gchat"
	"gchat-hooks/inject"
	"gchat-hooks/poller"
	"gchat-hooks/state"
)

func (p Program) sendCommand() *cli.Command {
	return &cli.Command{
		Name:            "send",
		HideHelpCommand: true, // "help" is a message like any other
		Usage:           "send a message to the space (also as gchat-send)",
		UsageText:       "gchat-send [OPTIONS] MESSAGE\ngchat-send [OPTIONS] -        reads the message from standard input",
		Description: "Plain:   gchat-send \"Hello from Claude Code\"\n" +
			"Typed:   gchat-send --type task_completion \"Epic 3 completed. 12/12 subtasks validated.\"\n" +
			"Reply:   gchat-send --thread-key ask-user-12345 \"Follow-up to the question\"\n" +
			"Piped:   make 2>&1 | tail -20 | gchat-send --type error --code -\n" +
			"Exit codes: 0 sent, 1 no webhook URL, 2 not delivered (it stays in the outbox), 4 wrong arguments",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "type", Value: "plain", Usage: "`TYPE`: " + strings.Join(reportTypes(), ", ")},
			&cli.StringFlag{
				Name:  "webhook",
				Usage: "`URL` to send to, not the configured one; other users of this machine can see a command line",
			},
			&cli.StringFlag{Name: "thread-key", Usage: "reply in the thread of `KEY`, which begins it if need be"},
			&cli.StringFlag{Name: "thread-name", Usage: "reply in the thread `NAME`, spaces/S/threads/T"},
			&cli.StringFlag{
				Name: "session",
				Usage: "`NAME` of the session, in the header; its messages share a thread " +
					"(default: $CLAUDE_SESSION_ID, the tmux session, $TMUX_PANE, the folder)",
			},
			&cli.StringFlag{Name: "title", Usage: "bold `LINE` above the message"},
			&cli.BoolFlag{Name: "code", Usage: "the message is a program's output: shown as it stands, not read as Markdown"},
			&cli.BoolFlag{Name: "quiet", Usage: "print nothing when all goes well; the exit code tells"},
			&cli.BoolFlag{Name: "json", Usage: "print the message's name and its thread's name"},
			&cli.BoolFlag{Name: "dry-run", Usage: "print what would be posted, and post nothing"},
			&cli.BoolFlag{Name: "queue", Usage: "leave the message in the outbox for another process to send, and return"},
			&cli.BoolFlag{Name: "no-queue", Usage: "send it now or never: what is not delivered is not kept"},
		},
		Action: func(c *cli.Context) error {
			if url := c.String("webhook"); url != "" { // also for the process that sends what is left in the outbox
				if err := os.Setenv("GOOGLE_CHAT_WEBHOOK_URL", url); err != nil {
					return usage(errors.New("--webhook takes a URL"), "gchat-send --help")
				}
			}
			s := send{
				self: p.self, env: os.Getenv, in: p.in, out: p.out, errOut: p.errOut,
				kind: c.String("type"), title: c.String("title"), code: c.Bool("code"),
				threadKey: c.String("thread-key"), threadName: c.String("thread-name"), session: c.String("session"),
				quiet: c.Bool("quiet"), dryRun: c.Bool("dry-run"), asJSON: c.Bool("json"),
				queueOnly: c.Bool("queue"), withoutDisk: c.Bool("no-queue"),
			}
			return s.run(c.Context, c.Args().Slice())
		},
	}
}

const (
	// sendBound is how long gchat-send tries itself, from its start: its caller waits.
	sendBound = 1800 * time.Millisecond
	// maxMessage bounds a message, in bytes: more is a file and no message. It makes 16 parts.
	maxMessage = 500_000
	// maxThreadKey is Chat's own limit, in characters.
	maxThreadKey = 4000
)

// send is gchat-send: one message from a person, a script or Claude itself.
type send struct {
	self                   string
	env                    state.Getenv
	in                     io.Reader
	out, errOut            io.Writer
	began                  time.Time
	kind, title            string
	threadKey, threadName  string
	session                string // "" finds it
	quiet, dryRun, asJSON  bool
	code                   bool // the message is no Markdown but a program's output
	queueOnly, withoutDisk bool
}

// Exit codes of gchat-send. 3 was "curl or jq not found" in the first design, and stays unused.
const (
	exitNoWebhook    = 1
	exitNotDelivered = 2
)

func reportTypes() (all []string) {
	for _, t := range gchat.ReportTypes() {
		all = append(all, string(t))
	}
	return all
}

// olderTypes are the types that callers of earlier scripts give.
var olderTypes = map[string]string{"message": string(gchat.Plain), "progress": string(gchat.ProgressUpdate)}

func (s *send) run(ctx context.Context, args []string) error {
	report, err := s.report(ctx, args)
	if err != nil {
		return usage(err, "gchat-send --help")
	}
	if s.dryRun {
		for _, text := range report.Texts() {
			post := gchat.Post{Text: text, ThreadName: report.ThreadName, ThreadKey: report.Thread()}
			fmt.Fprintf(s.out, "%s\n", post.Body())
		}
		return nil
	}
	// From here on: what is piped into us may take its time.
	s.began = time.Now()
	ctx, cancel := context.WithDeadline(ctx, s.began.Add(sendBound))
	defer cancel()
	p := &poller.Poller{Env: s.env, Log: state.NewLog(s.env, "send"), Probe: true}
	for _, problem := range state.LoadConfig(s.env, report.ProjectDir).Problems {
		fmt.Fprintln(s.errOut, "gchat-send: warning:", p.Log.Clean(problem.Error()))
	}
	hook, err := p.Webhook(ctx, report.ProjectDir)
	switch {
	case errors.Is(err, state.ErrNoWebhook), errors.Is(err, gchat.ErrNotWebhook):
		return failed(err, gchat.Hint(err), exitNoWebhook)
	case err == nil:
		report.Chat = hook.Chat()
		if s.threadName != "" && !strings.HasPrefix(s.threadName, hook.Space+"/threads/") {
			return usage(fmt.Errorf("--thread-name is not of the webhook's space, %s", hook.Space), "gchat-send --help")
		}
	} // else a command could not tell the webhook: the message is kept for when it can
	if s.withoutDisk {
		return s.post(ctx, p, report)
	}
	out, err := p.PutReport(report)
	switch {
	case err != nil:
		return failed(fmt.Errorf("message not kept: %w", err),
			"free the disk or mend the state folder; --no-queue sends without it", exitNotDelivered)
	case out.Off:
		return s.say("not sent: the configuration has "+report.What()+" off", result{Off: true})
	case !out.HeldUntil.IsZero():
		s.wake()
		return s.say("held until "+out.HeldUntil.Format("Mon 15:04"), result{Queued: true, HeldUntil: &out.HeldUntil})
	case s.queueOnly:
		s.wake()
		return s.say("queued", result{Queued: true})
	}
	return s.deliver(ctx, p, out)
}

// report reads the message and the flags. Its errors are the caller's mistakes.
func (s *send) report(ctx context.Context, args []string) (poller.Report, error) {
	text := strings.Join(args, " ")
	if len(args) == 1 && args[0] == "-" {
		b, err := io.ReadAll(io.LimitReader(s.in, maxMessage+1))
		if err != nil {
			return poller.Report{}, fmt.Errorf("read message: %w", err)
		}
		text = strings.TrimRight(string(b), "\n")
	}
	t := gchat.ReportType(cmp.Or(olderTypes[s.kind], s.kind))
	switch {
	case !t.Known():
		return poller.Report{}, fmt.Errorf("no such type: %q; there are %s", s.kind, strings.Join(reportTypes(), ", "))
	case strings.TrimSpace(text) == "":
		return poller.Report{}, errors.New("no message; - reads it from standard input")
	case len(text) > maxMessage:
		return poller.Report{}, fmt.Errorf("the message is longer than %d bytes", maxMessage)
	case strings.ContainsRune(text+s.title+s.session+s.threadKey, 0):
		return poller.Report{}, errors.New("the message holds a NUL byte: it is no text")
	case !utf8.ValidString(text + s.title + s.session + s.threadKey):
		return poller.Report{}, errors.New("the message is not valid UTF-8")
	case s.threadKey != "" && s.threadName != "":
		return poller.Report{}, errors.New("--thread-key and --thread-name exclude each other")
	case utf8.RuneCountInString(s.threadKey) > maxThreadKey:
		return poller.Report{}, fmt.Errorf("--thread-key is longer than %d characters", maxThreadKey)
	case s.threadName != "" && !gchat.IsThreadName(s.threadName):
		return poller.Report{}, fmt.Errorf("--thread-name takes spaces/S/threads/T, not %q", s.threadName)
	case s.queueOnly && s.withoutDisk:
		return poller.Report{}, errors.New("--queue and --no-queue exclude each other")
	}
	project, err := filepath.Abs(state.ProjectDir(s.env))
	if err != nil {
		return poller.Report{}, err
	}
	if s.code {
		text = gchat.CodeBlock(text)
	}
	r := poller.Report{
		Report:     gchat.Report{Type: t, At: time.Now(), Title: s.title, Text: text},
		SessionID:  cmp.Or(s.env("CLAUDE_CODE_SESSION_ID"), s.session, s.env("CLAUDE_SESSION_ID")),
		ProjectDir: project, ThreadKey: s.threadKey, ThreadName: s.threadName,
	}
	if t != gchat.Plain {
		r.Session = s.sessionName(ctx)
	}
	if len(r.Texts()) == 0 {
		return poller.Report{}, errors.New("no message: nothing in it can be seen")
	}
	return r, nil
}

// sessionName is what the header calls the session: as given, as launch scripts set it, the tmux session, its pane, or the
// project's folder.
func (s *send) sessionName(ctx context.Context) string {
	name := cmp.Or(s.session, s.env("CLAUDE_SESSION_ID"))
	if name == "" {
		name, _ = inject.TmuxNames(ctx, s.env)
	}
	if name = cmp.Or(name, s.env("TMUX_PANE")); name != "" {
		return name
	}
	if id := s.env("CLAUDE_CODE_SESSION_ID"); id != "" {
		return filepath.Base(state.ProjectDir(s.env)) + "-" + id[:min(8, len(id))]
	}
	dir, err := filepath.Abs(state.ProjectDir(s.env))
	if err != nil {
		dir = "."
	}
	return filepath.Base(dir)
}

// deliver sends what waits until our message is there, or the time is up.
func (s *send) deliver(ctx context.Context, p *poller.Poller, out poller.Outcome) error {
	defer func() {
		if p.Left() {
			s.wake()
		}
	}()
	fate := poller.Fate{}
	for {
		left := p.SendUntil(ctx, out.Message.Chat, func() bool { return p.FateOf(out).Known() })
		fate = p.FateOf(out)
		if fate.Known() || ctx.Err() != nil || left.Again.After(s.began.Add(sendBound)) {
			break
		}
		wait := max(time.Until(left.Again), 5*time.Millisecond) // less where another process is sending it
		select {
		case <-time.After(wait):
		case <-ctx.Done():
		}
	}
	switch {
	case fate.Arrived:
		word := "sent"
		if out.Repeated {
			word = "already sent, less than a minute ago"
		}
		return s.say(word, result{Name: fate.Name, ThreadName: fate.ThreadName, Repeated: out.Repeated})
	case fate.Refused != "":
		return failed(fmt.Errorf("not delivered: %s", fate.Refused),
			"it was put aside; `gchat-hooks status` shows it, `gchat-hooks flush --dead` tries it again", exitNotDelivered)
	}
	why := cmp.Or(fate.LastError, "it has not been its turn within two seconds")
	return failed(fmt.Errorf("not delivered yet: %s", why),
		"it stays in the outbox and is sent as soon as that works; `gchat-hooks status` shows it", exitNotDelivered)
}

// post sends without the outbox: once, now or never.
func (s *send) post(ctx context.Context, p *poller.Poller, r poller.Report) error {
	posted, err := p.PostNow(ctx, r)
	if err != nil {
		return failed(fmt.Errorf("not delivered, and not kept: %s", p.Log.Clean(err.Error())),
			"without --no-queue it would stay in the outbox until it is", exitNotDelivered)
	}
	return s.say("sent", result{Name: posted.Name, ThreadName: posted.ThreadName})
}

func (s *send) wake() { _ = poller.StartFlusher(s.env, s.self) }

// result is what --json prints. thread is in the shape of Chat's own messages, thread_name is for a shell.
type result struct {
	Name       string     `json:"name,omitempty"`
	ThreadName string     `json:"thread_name,omitempty"`
	Thread     *thread    `json:"thread,omitempty"`
	Repeated   bool       `json:"repeated,omitempty"`
	Queued     bool       `json:"queued,omitempty"`
	HeldUntil  *time.Time `json:"held_until,omitempty"`
	Off        bool       `json:"off,omitempty"`
}

type thread struct {
	Name string `json:"name"`
}

func (s *send) say(words string, r result) error {
	switch {
	case s.quiet:
	case s.asJSON:
		if r.ThreadName != "" {
			r.Thread = &thread{r.ThreadName}
		}
		return json.NewEncoder(s.out).Encode(r)
	default:
		fmt.Fprintln(s.out, strings.TrimSpace(words+" "+r.Name))
	}
	return nil
}
