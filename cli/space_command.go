package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/mdp/qrterminal/v3"
	"github.com/urfave/cli/v2"

	"gchat-hooks/gchat"
	"gchat-hooks/gchat/space"
	steering "gchat-hooks/poller/commands"
	"gchat-hooks/poller/service"
	"gchat-hooks/state"
	"gchat-hooks/state/config"
)

func (p Program) spaceCommand() *cli.Command {
	return &cli.Command{
		Name:  "space",
		Usage: "print the link of the page on this machine, and run the page's server",
		Description: "Print the link:            gchat-hooks space   (if the page's server does not run, it runs here)\n" +
			"Let a phone reach it, too: gchat-hooks space --phone\n" +
			"By https, behind a proxy:  gchat-hooks space --https HOST\n" +
			"All use the configuration that gchat-hooks setup --space writes. " +
			"Without flags, it uses those of the last time.",
		Flags: append([]cli.Flag{
			listenFlag(),
			&cli.BoolFlag{Name: "phone", Usage: "let a phone reach the page, by a link with a key"},
			&cli.BoolFlag{Name: "service", Hidden: true},  // the system runs it
			&cli.BoolFlag{Name: "detached", Hidden: true}, // startDetachedSpace runs it
		}, httpsFlags()...),
		Action: func(c *cli.Context) error {
			lastFlags, _ := lastSpace(p.env)
			if c.NumFlags() == 0 {
				setFlags(c, splitFlags(lastFlags)) // the flags of the last time
			}
			d, err := newSpaceServer(p, c)
			if err != nil {
				return err
			}
			d.isService, d.isDetached = c.Bool("service"), c.Bool("detached")
			err = d.run(c.Context)
			if err != nil && (d.isService || d.isDetached) {
				log := state.NewLog(os.Getenv, "gchat-hooks-space")
				log.Error().Err(err).Msg("the page's server does not run")
			}
			return err
		},
		Subcommands: []*cli.Command{p.devicesCommand(), {
			Name: "uninstall", Usage: "stop the page's server and remove its service",
			Action: func(c *cli.Context) error {
				unit := service.NewSpace(os.Getenv, p.self, p.out)
				if _, isInstalled := unit.FindFile(); !isInstalled && endSpace(p.env) {
					fmt.Fprintln(p.out, "the page's server has ended; it starts again when it is needed")
					return nil
				}
				return unit.Uninstall(c.Context)
			},
		}},
	}
}

// defaultSpaceAddress is where the space listens if a person gives no address.
const defaultSpaceAddress = "127.0.0.1:8765"

func listenFlag() *cli.StringFlag {
	return &cli.StringFlag{
		Name: "listen", Aliases: []string{"address"}, Value: defaultSpaceAddress,
		Usage: "`ADDRESS` of the page's server on this machine; --phone opens its port to the network, too",
	}
}

// spaceServer serves the embedded space at an address. Our own programs reach it only on
// loopback, since they send nothing unencrypted over a network. A phone reaches it at the
// machine's other addresses.
type spaceServer struct {
	Program
	host        string // a loopback address
	port        int
	allowsPhone bool
	public      publicPage // by https; with it the phone has no other way
	dataDir     string
	isService   bool // the system runs it
	isDetached  bool // startDetachedSpace started it, for a process that needs it
	sessions    *steering.SessionLister
}

// newSpaceServer makes the server that a command's flags describe.
func newSpaceServer(p Program, c *cli.Context) (*spaceServer, error) {
	public, err := newPublicPage(c)
	if err != nil {
		return nil, err
	}
	listen, allowsPhone := c.String("listen"), c.Bool("phone") || public.exists()
	host, number, err := net.SplitHostPort(listen)
	port, portErr := strconv.ParseUint(number, 10, 16)
	if host == "" || net.ParseIP(host).IsUnspecified() {
		host, allowsPhone = "127.0.0.1", true
	}
	if err != nil || portErr != nil || !net.ParseIP(host).IsLoopback() {
		err := fmt.Errorf("%q is not of the form 127.0.0.1:PORT: "+
			"hooks reach the page's server only on this machine", listen)
		return nil, usageError(err, "--phone lets a phone reach it, too")
	}
	return &spaceServer{
		Program:     p,
		host:        host,
		port:        int(port),
		allowsPhone: allowsPhone,
		public:      public,
		dataDir:     spaceDir(p.env),
		sessions:    &steering.SessionLister{},
	}, nil
}

// spaceDir is the folder in which the embedded space keeps its data.
func spaceDir(env state.Getenv) string { return filepath.Join(state.UserStateDir(env), "space") }

// isSpaceRunning reports whether a process serves the embedded space.
func isSpaceRunning(env state.Getenv) bool {
	return state.IsLocked(filepath.Join(spaceDir(env), "lock"))
}

const (
	// spaceStartTimeout is how long startDetachedSpace waits until the space listens.
	spaceStartTimeout = 3 * time.Second
	// spaceRetryPause is how long this process starts no space after a start has failed.
	spaceRetryPause = 10 * time.Second
	// spaceIdleTimeout is how long a detached space runs after its last use.
	spaceIdleTimeout = 24 * time.Hour
	// spaceCheckInterval is how often a detached space checks whether it is still needed.
	spaceCheckInterval = 10 * time.Second
)

// lastSpaceFailure is the time at which this process last failed to start the space.
var lastSpaceFailure struct {
	sync.Mutex
	at time.Time
}

// startSpace starts the embedded space for a connection to a port: gchat.StartSpace calls
// it when nothing listens there. It does so only if the space had that port the last
// time, and if the system does not run it as a service.
func (p Program) startSpace(port int) {
	lastSpaceFailure.Lock()
	defer lastSpaceFailure.Unlock()
	lastFlags, _ := lastSpace(p.env)
	flags := splitFlags(lastFlags)
	_, isInstalled := service.NewSpace(p.env, p.self, io.Discard).FindFile()
	hadPort := len(flags) >= 2 && strings.HasSuffix(flags[1], ":"+strconv.Itoa(port))
	if isInstalled || !hadPort || time.Since(lastSpaceFailure.at) < spaceRetryPause {
		return
	}
	// Only one of several processes starts it.
	startLock, err := state.LockWithTimeout(filepath.Join(spaceDir(p.env), "starts"))
	if err != nil {
		return
	}
	defer startLock.Unlock()
	if !isSpaceRunning(p.env) && !p.startDetachedSpace(flags) {
		lastSpaceFailure.at = time.Now()
	}
}

// startDetachedSpace starts the space in a process that outlives this one. It reports
// whether the space listens.
func (p Program) startDetachedSpace(flags []string) bool {
	read, write, err := os.Pipe()
	if err != nil {
		return false
	}
	defer read.Close()
	cmd := state.DetachedCommand(p.self, append([]string{"space", "--detached"}, flags...)...)
	cmd.Stdout = write
	err = cmd.Start()
	write.Close()
	if err != nil {
		return false
	}
	go func() { _ = cmd.Wait() }()
	_ = read.SetReadDeadline(time.Now().Add(spaceStartTimeout))
	n, _ := read.Read(make([]byte, 1)) // the space prints a line when it listens, or ends
	return n > 0
}

// endSpace ends a detached space, and reports whether there was one. A space that a
// person or the system runs stays.
func endSpace(env state.Getenv) bool {
	_, pid := lastSpace(env)
	if pid == 0 || !isSpaceRunning(env) {
		return false
	}
	_ = syscall.Kill(pid, syscall.SIGTERM)
	// Requests under way may take 5 seconds to finish: wait up to 7.
	for tries := 0; tries < 350 && isSpaceRunning(env); tries++ {
		time.Sleep(20 * time.Millisecond)
	}
	return true
}

// hostPort is where hooks find the space, as HOST:PORT.
func (d *spaceServer) hostPort() string { return net.JoinHostPort(d.host, strconv.Itoa(d.port)) }
func (d *spaceServer) baseURL() string  { return "http://" + d.hostPort() }

// flags are the flags by which `gchat-hooks space` and `gchat-hooks setup --space` make
// the same server.
func (d *spaceServer) flags() []string {
	if d.allowsPhone {
		return append([]string{"--listen", d.hostPort(), "--phone"}, d.public.flags()...)
	}
	return []string{"--listen", d.hostPort()}
}

// flagLine is the flags as one line, which is kept in the space's folder.
func (d *spaceServer) flagLine() string { return joinFlags(d.flags()) }

// lastSpace returns the flags of the space that runs or ran last. If it was a detached
// space on this machine, pid is its process, which may have ended since.
func lastSpace(env state.Getenv) (flagLine string, pid int) {
	flagLine, process, _ := strings.Cut(space.LoadAddress(spaceDir(env)), "\n")
	machine := ""
	_, err := fmt.Sscan(process, &pid, &machine)
	isHere := err == nil && machine == state.PIDScope()
	if !isHere || pid < 2 {
		return flagLine, 0
	}
	return flagLine, pid
}

// listen opens the space and its listener. If another process serves the space already,
// it returns the space without a listener, for its addresses. The space's folder says so:
// nothing is sent to the port, where another program may listen.
func (d *spaceServer) listen() (*space.Space, net.Listener, error) {
	if !d.isDetached {
		// While this process ends a detached space and opens its own, no other process
		// may start one. A detached space does not lock: the process that starts it has
		// the lock.
		if startLock, err := state.LockWithTimeout(filepath.Join(d.dataDir, "starts")); err == nil {
			defer startLock.Unlock()
		}
	}
	lastFlags, _ := lastSpace(d.env)
	if d.isService || lastFlags != d.flagLine() {
		endSpace(d.env)
	}
	if isSpaceRunning(d.env) {
		s, err := space.LoadAddresses(d.dataDir)
		if err == nil && lastFlags != d.flagLine() {
			err = exitError(fmt.Errorf("%w, with %s", errSpaceRuns, lastFlags), endSpaceHint, exitFailed)
		}
		return s, nil, err
	}
	listen := d.hostPort()
	isBehindProxy := d.public.exists() && !d.public.servesTLS()
	if d.allowsPhone && !isBehindProxy {
		listen = fmt.Sprintf(":%d", d.port)
	}
	ln, err := net.Listen("tcp", listen)
	if errors.Is(err, syscall.EADDRINUSE) {
		err = fmt.Errorf("another program uses port %d (lsof -i :%d names it)", d.port, d.port)
		return nil, nil, exitError(err, "this one is free: --listen "+d.freeAddress(), exitFailed)
	}
	if err != nil {
		return nil, nil, err
	}
	d.port = ln.Addr().(*net.TCPAddr).Port
	ln = d.public.listenTLS(d.env, ln)
	if err := state.MakeFolder(d.dataDir); err != nil {
		return nil, nil, errors.Join(err, ln.Close())
	}
	s, err := space.Open(space.Options{
		DataDir:         d.dataDir,
		LockFile:        state.MakeLockTarget(filepath.Join(d.dataDir, "lock")),
		AllowsPhone:     d.allowsPhone && !d.public.exists(),
		HTTPSHost:       d.public.name(),
		IsDirect:        true,
		DescribeSession: d.pageSession,
		ListSessions:    d.pageSessions,
		ListProjects:    d.pageProjects,
		DescribeWeek:    d.pageWeek,
		StartedThread:   d.pageStartedThread,
		ReadShownText:   d.pageShownText,
		CheckForm:       d.pageFormProblems,
		PushSettings:    d.pushSettings,
		OnActivity:      d.callPoller, // nothing else may read it
	})
	if err != nil {
		return nil, nil, errors.Join(err, ln.Close())
	}
	addressNote := d.flagLine()
	if d.isDetached { // a process that needs the space otherwise ends this one
		addressNote += fmt.Sprintf("\n%d %s", os.Getpid(), state.PIDScope())
	}
	err = errors.Join(
		listenForUser(os.Getenv, s, d.port),
		space.SaveAddress(d.dataDir, addressNote),
	)
	if err != nil {
		err = errors.Join(err, ln.Close(), s.Close())
	}
	return s, ln, err
}

// callPoller starts a poller if it has to read what a person did on the page. That may be
// in the thread of a session that has ended.
func (d *spaceServer) callPoller(isWaiting bool) {
	sessions, _ := state.SessionsIn(state.UserStateDir(d.env)).All()
	environment := state.Environment(d.env)
	hasThread := func(s *state.Session) bool {
		return s.Environment == environment && s.AcceptsCommands
	}
	if isWaiting || d.needsPoller() || slices.ContainsFunc(sessions, hasThread) {
		_ = d.startPoller()
	}
}

// freeAddress is the address with the next port that no program listens at.
func (d *spaceServer) freeAddress() string {
	next := *d
	for next.port < 1<<16-1 {
		next.port++
		ln, err := net.Listen("tcp", next.hostPort())
		if err == nil {
			ln.Close()
			break
		}
	}
	return next.hostPort()
}

// pageSession is what the page shows of a thread's session.
func (d *spaceServer) pageSession(ctx context.Context, thread string) space.Session {
	activity, commands, isOutside := steering.DescribeThread(ctx, d.env, thread)
	session := space.Session{State: activity, AcceptsCommands: commands}
	if isOutside {
		session.OutsideTmux = state.OutsideTmuxWarning
	}
	session.Progress = d.pageProgress(ctx, thread)
	return session
}

// pageProgress is what the page shows of the turn that a thread's session works on, or
// nil.
func (d *spaceServer) pageProgress(ctx context.Context, thread string) *space.Progress {
	cfg := config.LoadPersonal(d.env)
	_ = cfg.ApplyPolicies(ctx, d.env) // after an error no text is shown
	calls, words := steering.ThreadProgress(d.env, cfg, thread)
	if len(calls) == 0 && words == "" {
		return nil
	}
	var redact state.Redactor
	redact.AddSecrets(cfg.Secrets(d.env)...)
	progress := &space.Progress{Calls: []string{}, Words: redact.Redact(words)}
	for _, call := range calls {
		progress.Calls = append(progress.Calls, redact.Redact(call))
	}
	return progress
}

// maxPageSessions is how many sessions the page gets. Those that ended first are left
// out.
const maxPageSessions = 300

// pageSessions returns the sessions that the page lists. A thread of another space is
// left out.
func (d *spaceServer) pageSessions(ctx context.Context) []space.ListedSession {
	cfg := config.LoadPersonal(d.env)
	_ = cfg.ApplyPolicies(ctx, d.env) // after an error no text is shown
	var redact state.Redactor
	redact.AddSecrets(cfg.Secrets(d.env)...)
	questions, _ := readOpenQuestions(d.env, time.Now())
	list, _ := d.sessions.List(d.env, cfg, questions, time.Now())
	sessions := []space.ListedSession{}
	for _, s := range list[:min(maxPageSessions, len(list))] {
		listed := space.ListedSession{
			ID:         s.ID,
			FormerIDs:  s.FormerIDs,
			Name:       s.Name,
			Project:    s.Project,
			State:      s.State,
			StateSince: timeText(s.StateSince),
			LastSeen:   timeText(s.LastSeen),
			LastWords:  redact.Redact(s.LastWords),
			PersonLast: s.IsPersonLast,
		}
		if gchat.IsLocalChat(s.Chat) {
			listed.Thread = s.ThreadName
		}
		for _, w := range s.Waits {
			listed.Waits = append(listed.Waits, space.Wait{
				Kind: w.Kind, Thread: w.ThreadName, Since: timeText(w.Since),
			})
		}
		sessions = append(sessions, listed)
	}
	return sessions
}

// timeText is a time for the page; "" if it is not known.
func timeText(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

// pageProjects returns the projects that the page offers for a new session, and whether
// it may start one. A name that the page would have to change to show it safely is left
// out.
func (d *spaceServer) pageProjects() (names []string, canStart bool) {
	if !config.LoadPersonal(d.env).CanStartSessions {
		return nil, false
	}
	for _, dir := range steering.StartableProjects(d.env) {
		if name := filepath.Base(dir); name == state.OneLine(name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names), true
}

// listenForUser opens a socket that only this user's programs can reach, and records that
// connections to the port go to that socket.
func listenForUser(env state.Getenv, s *space.Space, port int) error {
	socket, err := s.ListenOnSocket()
	if err == nil {
		err = state.WriteSpaceSocket(env, port, socket)
	}
	if err != nil {
		return fmt.Errorf("listen for this user's programs: %w", err)
	}
	return nil
}

// errSpaceRuns means that another process serves the space. endSpaceHint says how to end
// it.
var errSpaceRuns = errors.New("the page's server is already running")

const endSpaceHint = "end it where it runs (Ctrl-C; gchat-hooks space uninstall, if the system runs it), then try again"

// run serves the embedded space until ctx ends.
func (d *spaceServer) run(ctx context.Context) error {
	if !d.isDetached && !d.isService {
		if err := d.public.check(); err != nil {
			return err
		}
	}
	s, ln, err := d.listen()
	if err != nil {
		return err
	}
	if ln == nil && d.isService { // the system tries again until the other process has ended
		return errSpaceRuns
	}
	if !d.isDetached {
		d.printPages(s)
		if !d.isService {
			d.printVariables(s)
		}
	}
	if ln == nil {
		fmt.Fprintln(d.out, "\nThe page's server is already running: there is nothing to do.")
		return nil
	}
	defer ln.Close()
	defer s.Close()
	go d.ensurePoller() // after a restart of the machine nothing else may start one
	if d.isDetached || d.isService {
		fmt.Fprintln(d.out, "the page's server listens") // startDetachedSpace waits for a line
		err = space.Serve(d.contextWhileNeeded(ctx, s), ln, s)
		if err == nil && d.isService && ctx.Err() == nil {
			err = errors.New("the program on disk changed") // the system starts the new one
		}
		return err
	}
	return space.Serve(ctx, ln, s)
}

// printVariables prints how a session comes to ask on the page, unless the configuration
// says that already. The variables do not take a session away from a Chat app or a hub.
func (d *spaceServer) printVariables(s *space.Space) {
	cfg := config.Load(d.env, state.ProjectDir(d.env))
	webhookURL, endpoint := s.WebhookURL(d.baseURL()), s.APIEndpoint(d.baseURL())
	usesPage := cfg.UsesEmbeddedApp() && cfg.APIEndpoint == endpoint || cfg.WebhookURL == webhookURL
	if usesPage {
		return
	}
	fmt.Fprintf(d.out, "\nTo have Claude Code ask there:  %s setup --space", d.shellName())
	if !cfg.ReceivesEvents() {
		fmt.Fprintf(d.out, ", or in the shell that starts claude:\n"+
			"  export GOOGLE_CHAT_WEBHOOK_URL='%s'\n"+
			"  export GCHAT_API_ENDPOINT='%s'\n"+
			"  export GCHAT_ALLOWED_USERS='%s'", webhookURL, endpoint, space.PersonName)
	}
	fmt.Fprintln(d.out)
}

// contextWhileNeeded returns a context that ends with ctx. It also ends when the space's
// folder is gone, when the program on disk has changed, and, unless the system runs the
// space, after spaceIdleTimeout without use.
func (d *spaceServer) contextWhileNeeded(ctx context.Context, s *space.Space) context.Context {
	ctx, end := context.WithCancel(ctx)
	lock := filepath.Join(d.dataDir, "lock")
	firstFolder, _ := os.Stat(lock)
	firstProgram, _ := os.Stat(d.self)
	go func() {
		defer end()
		for ticks := time.Tick(spaceCheckInterval); d.isService || time.Since(s.LastUsed()) < spaceIdleTimeout; {
			select {
			case <-ctx.Done():
				return
			case <-ticks:
			}
			folderInfo, _ := os.Stat(lock)
			programInfo, _ := os.Stat(d.self)
			isSameFolder := state.IsSameVersion(firstFolder, folderInfo)
			isSameProgram := state.IsSameVersion(firstProgram, programInfo)
			if !isSameFolder || !isSameProgram {
				return
			}
		}
	}()
	return ctx
}

// printPages prints the page's addresses. If a phone can reach the page, the first one is
// also printed as a QR code.
func (d *spaceServer) printPages(s *space.Space) {
	pages := d.pageURLs(s)
	for _, page := range pages {
		fmt.Fprintf(d.out, "page:  %s\n", page)
	}
	switch {
	case !d.allowsPhone:
	case d.public.exists():
		if !d.public.servesTLS() {
			fmt.Fprintf(d.out, "\nA proxy on this machine has to serve https://%s/ and pass it on to %s\n",
				d.public.host, d.baseURL())
		}
		fmt.Fprintln(d.out, "\nOpen it on a phone:")
		qrterminal.GenerateHalfBlock(pages[0], qrterminal.L, d.out)
	case pages[0] == s.PageURL(d.baseURL()):
		fmt.Fprintf(d.out, "No phone can reach this machine: "+
			"connect it to the phone's network, then run %s space\n", d.shellName())
	default:
		fmt.Fprintln(d.out, "\nOpen it on a phone in the same network:")
		qrterminal.GenerateHalfBlock(pages[0], qrterminal.L, d.out)
	}
}

// pageURLs are the page's addresses: the one by https, if there is one. Otherwise, if a
// phone may reach the page, they are those in this machine's networks. If there are none,
// it is the one on loopback.
func (d *spaceServer) pageURLs(s *space.Space) (pages []string) {
	if d.public.exists() {
		return []string{s.PageURL(d.public.baseURL(d.port))}
	}
	addrs, _ := net.InterfaceAddrs()
	for _, a := range addrs {
		n, isNet := a.(*net.IPNet)
		isInNetwork := isNet && n.IP.To4() != nil && !n.IP.IsLoopback()
		if d.allowsPhone && isInNetwork {
			pages = append(pages, s.PageURL(fmt.Sprintf("http://%s:%d", n.IP, d.port)))
		}
	}
	if len(pages) == 0 {
		pages = []string{s.PageURL(d.baseURL())}
	}
	return pages
}
