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

	"gchat-hooks/gchat/space"
	steering "gchat-hooks/poller/commands"
	"gchat-hooks/poller/service"
	"gchat-hooks/state"
	"gchat-hooks/state/config"
)

func (p Program) spaceCommand() *cli.Command {
	return &cli.Command{
		Name:  "space",
		Usage: "run the embedded space: a chat page on this machine, in place of Google Chat",
		Description: "Print the page's link, or run the space here:  gchat-hooks space\n" +
			"Let a phone reach it, too:                    gchat-hooks space --phone\n" +
			"Both use the configuration that gchat-hooks setup --space writes. Without flags, the last ones are used.",
		Flags: []cli.Flag{
			listenFlag(),
			&cli.BoolFlag{Name: "phone", Usage: "let a phone reach the page, by a link with a key"},
			&cli.BoolFlag{Name: "service", Hidden: true},  // as the system runs it
			&cli.BoolFlag{Name: "detached", Hidden: true}, // as what needs it starts it
		},
		Action: func(c *cli.Context) error {
			lastFlags, _ := lastSpace(p.env)
			if flags := strings.Fields(lastFlags); c.NumFlags() == 0 && len(flags) > 1 {
				// as it was opened the last time
				_ = c.Set("listen", flags[1])
				_ = c.Set("phone", strconv.FormatBool(len(flags) > 2))
			}
			d, err := newSpaceServer(p, c)
			if err != nil {
				return err
			}
			d.isService, d.isDetached = c.Bool("service"), c.Bool("detached")
			err = d.run(c.Context)
			if err != nil && (d.isService || d.isDetached) {
				state.NewLog(os.Getenv, "gchat-hooks-space").
					Error().
					Err(err).
					Msg("the embedded space does not run")
			}
			return err
		},
		Subcommands: []*cli.Command{{
			Name: "uninstall", Usage: "stop the space and remove its service",
			Action: func(c *cli.Context) error {
				unit := service.NewSpace(os.Getenv, p.self, p.out)
				if _, isInstalled := unit.FindFile(); !isInstalled && endSpace(p.env) {
					fmt.Fprintln(p.out, "the space has ended; it starts again when it is needed")
					return nil
				}
				return unit.Uninstall(c.Context)
			},
		}},
	}
}

// defaultSpaceAddress is where the space listens if a person says nothing.
const defaultSpaceAddress = "127.0.0.1:8765"

func listenFlag() *cli.StringFlag {
	return &cli.StringFlag{
		Name: "listen", Aliases: []string{"address"}, Value: defaultSpaceAddress,
		Usage: "`ADDRESS` of the embedded space on this machine; --phone opens its port to the network, too",
	}
}

// spaceServer is where the embedded space is reached: by hooks on loopback alone, since
// they send nothing in the clear elsewhere, and by a phone at the machine's other
// addresses.
type spaceServer struct {
	Program
	host        string // of loopback
	port        int
	allowsPhone bool
	dataDir     string
	isService   bool // the system runs it
	isDetached  bool // what needs it started it
}

// newSpaceServer is the door that a command's flags name.
func newSpaceServer(p Program, c *cli.Context) (*spaceServer, error) {
	listen, allowsPhone := c.String("listen"), c.Bool("phone")
	host, number, err := net.SplitHostPort(listen)
	port, portErr := strconv.ParseUint(number, 10, 16)
	if host == "" || net.ParseIP(host).IsUnspecified() {
		host, allowsPhone = "127.0.0.1", true
	}
	if err != nil || portErr != nil || !net.ParseIP(host).IsLoopback() {
		err := fmt.Errorf(
			"%q is not of the form 127.0.0.1:PORT: hooks reach the space on this machine only",
			listen,
		)
		return nil, usageError(err, "--phone lets a phone reach it, too")
	}
	return &spaceServer{
		Program:     p,
		host:        host,
		port:        int(port),
		allowsPhone: allowsPhone,
		dataDir:     spaceDir(p.env),
	}, nil
}

// spaceDir is the folder of the embedded space.
func spaceDir(env state.Getenv) string { return filepath.Join(state.UserStateDir(env), "space") }

// isSpaceRunning says whether a process has the embedded space open.
func isSpaceRunning(env state.Getenv) bool {
	return state.IsLocked(filepath.Join(spaceDir(env), "lock"))
}

const (
	// spaceStartTimeout bounds how long the space may take until it listens. A caller
	// waits.
	spaceStartTimeout = 3 * time.Second
	// spaceRetryPause is how long after a start that failed this process tries no other.
	spaceRetryPause = 10 * time.Second
	// spaceIdleTimeout is how long a detached space stays after its last use, and
	// spaceCheckInterval how often it looks.
	spaceIdleTimeout   = 24 * time.Hour
	spaceCheckInterval = 10 * time.Second
)

// lastSpaceFailure is when this process could not start the space.
var lastSpaceFailure struct {
	sync.Mutex
	at time.Time
}

// startSpace starts the embedded space where it had that port the last time, and nothing
// keeps it: see gchat.StartSpaceCommand.
func (p Program) startSpace(port int) {
	lastSpaceFailure.Lock()
	defer lastSpaceFailure.Unlock()
	lastFlags, _ := lastSpace(p.env)
	flags := strings.Fields(lastFlags)
	_, isInstalled := service.NewSpace(p.env, p.self, io.Discard).FindFile()
	if isInstalled || len(flags) < 2 || !strings.HasSuffix(flags[1], ":"+strconv.Itoa(port)) ||
		time.Since(lastSpaceFailure.at) < spaceRetryPause {
		return
	}
	// of several processes one starts it
	startLock, err := state.LockWithTimeout(filepath.Join(spaceDir(p.env), "starts"))
	if err != nil {
		return
	}
	defer startLock.Unlock()
	if !isSpaceRunning(p.env) && !p.startDetachedSpace(flags) {
		lastSpaceFailure.at = time.Now()
	}
}

// startDetachedSpace starts the space with those flags, and says whether it listens. It
// outlives this process.
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
	n, _ := read.Read(make([]byte, 1)) // it says that it listens, or ends
	return n > 0
}

// endSpace ends a detached space, and says whether there was one. One that a person or
// the system runs stays.
func endSpace(env state.Getenv) bool {
	_, pid := lastSpace(env)
	if pid == 0 || !isSpaceRunning(env) {
		return false
	}
	_ = syscall.Kill(pid, syscall.SIGTERM)
	for tries := 0; tries < 350 && isSpaceRunning(env); tries++ {
		// requests that run may take 5 s to finish
		time.Sleep(20 * time.Millisecond)
	}
	return true
}

// hostPort is where hooks find the space, as HOST:PORT.
func (d *spaceServer) hostPort() string { return net.JoinHostPort(d.host, strconv.Itoa(d.port)) }
func (d *spaceServer) baseURL() string  { return "http://" + d.hostPort() }

// flags are those that open this door, for `gchat-hooks space` and for `gchat-hooks setup
// --space`.
func (d *spaceServer) flags() []string {
	if d.allowsPhone {
		return []string{"--listen", d.hostPort(), "--phone"}
	}
	return []string{"--listen", d.hostPort()}
}

// flagLine is how the space is opened, for other processes of the person.
func (d *spaceServer) flagLine() string { return strings.Join(d.flags(), " ") }

// lastSpace is the address of the space that runs or ran last, and its process if it is
// detached, which counts while it runs.
func lastSpace(env state.Getenv) (flagLine string, pid int) {
	flagLine, process, _ := strings.Cut(space.LoadAddress(spaceDir(env)), "\n")
	machine := ""
	if _, err := fmt.Sscan(process, &pid, &machine); err != nil || machine != state.PIDScope() ||
		pid < 2 {
		return flagLine, 0
	}
	return flagLine, pid
}

// listen has the space listen. Of a space that runs there already, in another process, it
// returns the addresses and no listener. That is known from the space's folder alone:
// another program at the port is sent nothing.
func (d *spaceServer) listen() (*space.Space, net.Listener, error) {
	if !d.isDetached {
		// whose starter has the lock: as long as we end one and begin, nothing that needs
		// a space starts one
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
			err = exitError(
				fmt.Errorf("%w, with %s", errSpaceRuns, lastFlags),
				endSpaceHint,
				exitFailed,
			)
		}
		return s, nil, err
	}
	listen := d.hostPort()
	if d.allowsPhone {
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
	weekStats := func() string { return state.ReadStats(d.env, time.Now().AddDate(0, 0, -7)).Text("day") }
	if err := state.MakeFolder(d.dataDir); err != nil {
		return nil, nil, errors.Join(err, ln.Close())
	}
	s, err := space.Open(space.Options{
		DataDir:         d.dataDir,
		LockFile:        state.MakeLockTarget(filepath.Join(d.dataDir, "lock")),
		AllowsPhone:     d.allowsPhone,
		IsDirect:        true,
		DescribeSession: d.pageSession,
		ListProjects:    d.pageProjects,
		DescribeWeek:    weekStats,
		OnActivity:      d.callPoller, // nothing else may read it
	})
	if err != nil {
		return nil, nil, errors.Join(err, ln.Close())
	}
	addressNote := d.flagLine()
	if d.isDetached { // its process ends where the space is needed otherwise
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

// callPoller has a poller read what a person did on the page, also in the thread of a
// session that has ended.
func (d *spaceServer) callPoller(isWaiting bool) {
	sessions, _ := state.SessionsIn(state.UserStateDir(d.env)).All()
	environment := state.Environment(d.env)
	hasThread := func(s *state.Session) bool { return s.Environment == environment && s.AcceptsCommands }
	if isWaiting || d.needsPoller() || slices.ContainsFunc(sessions, hasThread) {
		_ = d.startPoller()
	}
}

// freeAddress is the first address behind this one that no program listens at.
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

// pageSession is what the page tells of the session of a thread.
func (d *spaceServer) pageSession(ctx context.Context, thread string) space.Session {
	activity, commands, isOutside := steering.DescribeThread(ctx, d.env, thread)
	session := space.Session{State: activity, AcceptsCommands: commands}
	if isOutside {
		session.OutsideTmux = state.OutsideTmuxWarning
	}
	return session
}

// pageProjects are the names that the page offers for a new session, and whether it may
// begin one. A name that is not shown as it is, is not offered.
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

// listenForUser has a space listen where only this user's programs find it, and tells
// them that its port stands for that.
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

// errSpaceRuns says that another process runs the space, and endSpaceHint how it ends.
var errSpaceRuns = errors.New("the embedded space is already running")

const endSpaceHint = "end it where it runs (Ctrl-C; gchat-hooks space uninstall, if the system runs it), then try again"

// run serves the embedded space until ctx ends.
func (d *spaceServer) run(ctx context.Context) error {
	s, ln, err := d.listen()
	if err != nil {
		return err
	}
	if ln == nil && d.isService { // the system tries again, until the other process has ended
		return errSpaceRuns
	}
	if !d.isDetached {
		d.printPages(s)
	}
	if ln == nil {
		fmt.Fprintln(d.out, "\nThe space is already running: there is nothing to do.")
		return nil
	}
	defer ln.Close()
	defer s.Close()
	go d.ensurePoller() // after a restart of the machine this may be all that begins by itself
	if d.isDetached || d.isService {
		fmt.Fprintln(d.out, "the space listens") // what started it waits for that
		err = space.Serve(d.contextWhileNeeded(ctx, s), ln, s)
		if err == nil && d.isService && ctx.Err() == nil {
			err = errors.New("the program on disk changed") // the system starts it
		}
		return err
	}
	cfg := config.Load(d.env, state.ProjectDir(d.env))
	isApp := cfg.UsesEmbeddedApp() && cfg.APIEndpoint == s.APIEndpoint(d.baseURL())
	if !isApp && cfg.WebhookURL != s.WebhookURL(d.baseURL()) {
		fmt.Fprintf(
			d.out,
			"\nTo have the hooks use it:  %s setup --space, or in the shell that starts claude:\n"+
				"  export GOOGLE_CHAT_WEBHOOK_URL='%s'\n  export GCHAT_API_ENDPOINT='%s'\n  export GCHAT_ALLOWED_USERS='%s'\n",
			d.shellName(),
			s.WebhookURL(d.baseURL()),
			s.APIEndpoint(d.baseURL()),
			space.PersonName,
		)
	}
	return space.Serve(ctx, ln, s)
}

// contextWhileNeeded ends with ctx, when the space's folder is gone or the program
// changed, and, but for the system's, when it was not used for a day.
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
			if !state.IsSameVersion(firstFolder, folderInfo) ||
				!state.IsSameVersion(firstProgram, programInfo) {
				return
			}
		}
	}()
	return ctx
}

// printPages prints the addresses of the page, and the first that a phone finds as a QR
// code.
func (d *spaceServer) printPages(s *space.Space) {
	pages := d.pageURLs(s)
	for _, page := range pages {
		fmt.Fprintf(d.out, "page:  %s\n", page)
	}
	switch {
	case !d.allowsPhone:
	case pages[0] == s.PageURL(d.baseURL()):
		fmt.Fprintf(
			d.out,
			"No phone can reach this machine: connect it to the phone's network, then %s space\n",
			d.shellName(),
		)
	default:
		fmt.Fprintln(d.out, "\nOpen it on a phone in the same network:")
		qrterminal.GenerateHalfBlock(pages[0], qrterminal.L, d.out)
	}
}

// pageURLs are the addresses of the page: for a phone those in this machine's networks,
// as far as there are any.
func (d *spaceServer) pageURLs(s *space.Space) (pages []string) {
	addrs, _ := net.InterfaceAddrs()
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); d.allowsPhone && ok && n.IP.To4() != nil && !n.IP.IsLoopback() {
			pages = append(pages, s.PageURL(fmt.Sprintf("http://%s:%d", n.IP, d.port)))
		}
	}
	if len(pages) == 0 {
		pages = []string{s.PageURL(d.baseURL())}
	}
	return pages
}
