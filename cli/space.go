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
		Usage: "run the embedded space: a chat of this machine with a page, in place of Google Chat",
		Description: "The page's link again, or run the space here:  gchat-hooks space\n" +
			"Let a phone reach it, too:                     gchat-hooks space --phone\n" +
			"The configuration is the same for both; gchat-hooks setup --space writes it. Without a flag, the last ones count.",
		Flags: []cli.Flag{
			spaceFlag(),
			&cli.BoolFlag{Name: "phone", Usage: "let a phone reach the page, by a link with a key"},
			&cli.BoolFlag{Name: "service", Hidden: true},  // as the system runs it
			&cli.BoolFlag{Name: "detached", Hidden: true}, // as what needs it starts it
		},
		Action: func(c *cli.Context) error {
			last, _ := lastSpace(p.env)
			if flags := strings.Fields(last); c.NumFlags() == 0 && len(flags) > 1 { // as it was opened the last time
				_ = c.Set("listen", flags[1])
				_ = c.Set("phone", strconv.FormatBool(len(flags) > 2))
			}
			d, err := newSpaceDoor(p, c)
			if err != nil {
				return err
			}
			d.service, d.detached = c.Bool("service"), c.Bool("detached")
			err = d.run(c.Context)
			if err != nil && (d.service || d.detached) {
				state.NewLog(os.Getenv, "gchat-hooks-space").Error().Err(err).Msg("the embedded space does not run")
			}
			return err
		},
		Subcommands: []*cli.Command{{
			Name: "uninstall", Usage: "stop the space and remove its service",
			Action: func(c *cli.Context) error {
				unit := service.Space(os.Getenv, p.self, p.out)
				if _, kept := unit.Installed(); !kept && endSpace(p.env) {
					fmt.Fprintln(p.out, "the space has ended; what needs it starts it again")
					return nil
				}
				return unit.Uninstall(c.Context)
			},
		}},
	}
}

// spaceAddress is where the space listens if a person says nothing.
const spaceAddress = "127.0.0.1:8765"

func spaceFlag() *cli.StringFlag {
	return &cli.StringFlag{
		Name: "listen", Aliases: []string{"address"}, Value: spaceAddress,
		Usage: "`ADDRESS` of the embedded space on this machine; --phone opens its port to the network, too",
	}
}

// spaceDoor is where the embedded space is reached: by hooks on loopback alone, since they send nothing in the clear elsewhere,
// and by a phone at the machine's other addresses.
type spaceDoor struct {
	Program
	host     string // of loopback
	port     int
	phone    bool
	data     string
	service  bool // the system runs it
	detached bool // what needs it started it
}

// newSpaceDoor is the door that a command's flags name.
func newSpaceDoor(p Program, c *cli.Context) (*spaceDoor, error) {
	listen, phone := c.String("listen"), c.Bool("phone")
	host, number, err := net.SplitHostPort(listen)
	port, bad := strconv.ParseUint(number, 10, 16)
	if host == "" || net.ParseIP(host).IsUnspecified() {
		host, phone = "127.0.0.1", true
	}
	if err != nil || bad != nil || !net.ParseIP(host).IsLoopback() {
		err := fmt.Errorf("%q is not of the form 127.0.0.1:PORT: hooks reach the space on this machine only", listen)
		return nil, usage(err, "--phone lets a phone reach it, too")
	}
	return &spaceDoor{Program: p, host: host, port: int(port), phone: phone, data: spaceData(p.env)}, nil
}

// spaceData is the folder of the embedded space.
func spaceData(env state.Getenv) string { return filepath.Join(state.UserState(env), "space") }

// spaceRuns says whether a process has the embedded space open.
func spaceRuns(env state.Getenv) bool { return state.Held(filepath.Join(spaceData(env), "lock")) }

const (
	// spaceBegins bounds how long the space may take until it listens. A caller waits.
	spaceBegins = 3 * time.Second
	// spacePause is how long after a start that failed this process tries no other.
	spacePause = 10 * time.Second
	// spaceUnused is how long a detached space stays after its last use, and spaceLook how often it looks.
	spaceUnused = 24 * time.Hour
	spaceLook   = 10 * time.Second
)

// spaceFailed is when this process could not start the space.
var spaceFailed struct {
	sync.Mutex
	at time.Time
}

// startSpace starts the embedded space where it had that port the last time, and nothing keeps it: see gchat.StartSpace.
func (p Program) startSpace(port int) {
	spaceFailed.Lock()
	defer spaceFailed.Unlock()
	address, _ := lastSpace(p.env)
	flags := strings.Fields(address)
	_, kept := service.Space(p.env, p.self, io.Discard).Installed()
	if kept || len(flags) < 2 || !strings.HasSuffix(flags[1], ":"+strconv.Itoa(port)) || time.Since(spaceFailed.at) < spacePause {
		return
	}
	starts, err := state.LockSoon(filepath.Join(spaceData(p.env), "starts")) // of several processes one starts it
	if err != nil {
		return
	}
	defer starts.Unlock()
	if !spaceRuns(p.env) && !p.detachSpace(flags) {
		spaceFailed.at = time.Now()
	}
}

// detachSpace starts the space with those flags, and says whether it listens. It outlives this process.
func (p Program) detachSpace(flags []string) bool {
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
	_ = read.SetReadDeadline(time.Now().Add(spaceBegins))
	n, _ := read.Read(make([]byte, 1)) // it says that it listens, or ends
	return n > 0
}

// endSpace ends a detached space, and says whether there was one. One that a person or the system runs stays.
func endSpace(env state.Getenv) bool {
	_, pid := lastSpace(env)
	if pid == 0 || !spaceRuns(env) {
		return false
	}
	_ = syscall.Kill(pid, syscall.SIGTERM)
	for looks := 0; looks < 350 && spaceRuns(env); looks++ { // requests that run may take 5 s to finish
		time.Sleep(20 * time.Millisecond)
	}
	return true
}

// at is where hooks find the space, as HOST:PORT.
func (d *spaceDoor) at() string   { return net.JoinHostPort(d.host, strconv.Itoa(d.port)) }
func (d *spaceDoor) base() string { return "http://" + d.at() }

// flags are those that open this door, for `gchat-hooks space` and for `gchat-hooks setup --space`.
func (d *spaceDoor) flags() []string {
	if d.phone {
		return []string{"--listen", d.at(), "--phone"}
	}
	return []string{"--listen", d.at()}
}

// address is how the space is opened, for other processes of the person.
func (d *spaceDoor) address() string { return strings.Join(d.flags(), " ") }

// lastSpace is the address of the space that runs or ran last, and its process if it is detached, which counts while it runs.
func lastSpace(env state.Getenv) (address string, detached int) {
	address, by, _ := strings.Cut(space.Address(spaceData(env)), "\n")
	here := ""
	if _, err := fmt.Sscan(by, &detached, &here); err != nil || here != state.Here() || detached < 2 {
		return address, 0
	}
	return address, detached
}

// open has the space listen. Of a space that runs there already, in another process, it returns the addresses and no listener.
// That is known from the space's folder alone: another program at the port is sent nothing.
func (d *spaceDoor) open() (*space.Space, net.Listener, error) {
	if !d.detached { // whose starter has the lock: as long as we end one and begin, nothing that needs a space starts one
		if starts, err := state.LockSoon(filepath.Join(d.data, "starts")); err == nil {
			defer starts.Unlock()
		}
	}
	at, _ := lastSpace(d.env)
	if d.service || at != d.address() {
		endSpace(d.env)
	}
	if spaceRuns(d.env) {
		s, err := space.Kept(d.data)
		if err == nil && at != d.address() {
			err = failed(fmt.Errorf("%w, with %s", errRuns, at), howToEnd, exitFailed)
		}
		return s, nil, err
	}
	listen := d.at()
	if d.phone {
		listen = fmt.Sprintf(":%d", d.port)
	}
	ln, err := net.Listen("tcp", listen)
	if errors.Is(err, syscall.EADDRINUSE) {
		err = fmt.Errorf("another program has port %d (lsof -i :%d names it)", d.port, d.port)
		return nil, nil, failed(err, "this one is free: --listen "+d.freeAddress(), exitFailed)
	}
	if err != nil {
		return nil, nil, err
	}
	d.port = ln.Addr().(*net.TCPAddr).Port
	week := func() string { return state.ReadStats(d.env, time.Now().AddDate(0, 0, -7)).Text("day") }
	if err := state.MakeDir(d.data); err != nil {
		return nil, nil, errors.Join(err, ln.Close())
	}
	s, err := space.Open(space.Options{
		Data:     d.data,
		Lock:     state.LockedPath(filepath.Join(d.data, "lock")),
		Phone:    d.phone,
		Direct:   true,
		Session:  d.session,
		Projects: d.projects,
		Week:     week,
		Said:     d.callPoller, // nothing else may read it
	})
	if err != nil {
		return nil, nil, errors.Join(err, ln.Close())
	}
	noted := d.address()
	if d.detached { // its process ends where the space is needed otherwise
		noted += fmt.Sprintf("\n%d %s", os.Getpid(), state.Here())
	}
	err = errors.Join(listenForUser(os.Getenv, s, d.port), space.NoteAddress(d.data, noted))
	if err != nil {
		err = errors.Join(err, ln.Close(), s.Close())
	}
	return s, ln, err
}

// callPoller has a poller read what a person did on the page, also in the thread of a session that has ended.
func (d *spaceDoor) callPoller(waits bool) {
	sessions, _ := state.SessionsIn(state.UserState(d.env)).All()
	environment := state.Environment(d.env)
	hasThread := func(s *state.Session) bool { return s.Env == environment && s.Listens }
	if waits || d.isLeft() || slices.ContainsFunc(sessions, hasThread) {
		_ = d.startPoller()
	}
}

// freeAddress is the first address behind this one that no program listens at.
func (d *spaceDoor) freeAddress() string {
	next := *d
	for next.port < 1<<16-1 {
		next.port++
		ln, err := net.Listen("tcp", next.at())
		if err == nil {
			ln.Close()
			break
		}
	}
	return next.at()
}

// session is what the page tells of the session of a thread.
func (d *spaceDoor) session(ctx context.Context, thread string) space.Session {
	does, reads, outside := steering.Seen(ctx, d.env, thread)
	now := space.Session{Does: does, Commands: reads}
	if outside {
		now.Outside = state.OutsideTmux
	}
	return now
}

// projects are the names that the page offers for a new session, and whether it may begin one. A name that is not shown as it is,
// is not offered.
func (d *spaceDoor) projects() (names []string, start bool) {
	if !config.Personal(d.env).StartSessions {
		return nil, false
	}
	for _, dir := range steering.Projects(d.env) {
		if name := filepath.Base(dir); name == state.OneLine(name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names), true
}

// listenForUser has a space listen where only this user's programs find it, and tells them that its port stands for that.
func listenForUser(env state.Getenv, s *space.Space, port int) error {
	socket, err := s.ListenForUser()
	if err == nil {
		err = state.KeepSocket(env, port, socket)
	}
	if err != nil {
		return fmt.Errorf("listen for this user's programs: %w", err)
	}
	return nil
}

// errRuns says that another process runs the space, and howToEnd how it ends.
var errRuns = errors.New("the embedded space runs already")

const howToEnd = "end it where it runs (Ctrl-C; gchat-hooks space uninstall, if the system runs it), then try again"

// run serves the embedded space until ctx ends.
func (d *spaceDoor) run(ctx context.Context) error {
	s, ln, err := d.open()
	if err != nil {
		return err
	}
	if ln == nil && d.service { // the system tries again, until the other process has ended
		return errRuns
	}
	if !d.detached {
		d.show(s)
	}
	if ln == nil {
		fmt.Fprintln(d.out, "\nThe space runs already: there is nothing to do.")
		return nil
	}
	defer ln.Close()
	defer s.Close()
	go d.serve() // after a restart of the machine this may be all that begins by itself
	if d.detached || d.service {
		fmt.Fprintln(d.out, "the space listens") // what started it waits for that
		err = space.Serve(d.whileNeeded(ctx, s), ln, s)
		if err == nil && d.service && ctx.Err() == nil {
			err = errors.New("the program on disk changed") // the system starts it
		}
		return err
	}
	cfg := config.Load(d.env, state.ProjectDir(d.env))
	isApp := cfg.InEmbeddedApp() && cfg.APIEndpoint == s.APIEndpoint(d.base())
	if !isApp && cfg.WebhookURL != s.WebhookURL(d.base()) {
		fmt.Fprintf(d.out, "\nTo have the hooks use it:  %s setup --space, or in the shell that starts claude:\n"+
			"  export GOOGLE_CHAT_WEBHOOK_URL='%s'\n  export GCHAT_API_ENDPOINT='%s'\n  export GCHAT_ALLOWED_USERS='%s'\n",
			d.typed(), s.WebhookURL(d.base()), s.APIEndpoint(d.base()), space.Human)
	}
	return space.Serve(ctx, ln, s)
}

// whileNeeded ends with ctx, when the space's folder is gone or the program changed, and, but for the system's, when it was not
// used for a day.
func (d *spaceDoor) whileNeeded(ctx context.Context, s *space.Space) context.Context {
	ctx, end := context.WithCancel(ctx)
	lock := filepath.Join(d.data, "lock")
	folder, _ := os.Stat(lock)
	program, _ := os.Stat(d.self)
	go func() {
		defer end()
		for look := time.Tick(spaceLook); d.service || time.Since(s.Used()) < spaceUnused; {
			select {
			case <-ctx.Done():
				return
			case <-look:
			}
			now, _ := os.Stat(lock)
			is, _ := os.Stat(d.self)
			if !state.SameVersion(folder, now) || !state.SameVersion(program, is) {
				return
			}
		}
	}()
	return ctx
}

// show prints the addresses of the page, and the first that a phone finds as a QR code.
func (d *spaceDoor) show(s *space.Space) {
	pages := d.pages(s)
	for _, page := range pages {
		fmt.Fprintf(d.out, "page:  %s\n", page)
	}
	switch {
	case !d.phone:
	case pages[0] == s.PageURL(d.base()):
		fmt.Fprintf(d.out, "No phone can reach this machine: connect it to the phone's network, then %s space\n", d.typed())
	default:
		fmt.Fprintln(d.out, "\nOpen it on a phone in the same network:")
		qrterminal.GenerateHalfBlock(pages[0], qrterminal.L, d.out)
	}
}

// pages are the addresses of the page: for a phone those in this machine's networks, as far as there are any.
func (d *spaceDoor) pages(s *space.Space) (pages []string) {
	addrs, _ := net.InterfaceAddrs()
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); d.phone && ok && n.IP.To4() != nil && !n.IP.IsLoopback() {
			pages = append(pages, s.PageURL(fmt.Sprintf("http://%s:%d", n.IP, d.port)))
		}
	}
	if len(pages) == 0 {
		pages = []string{s.PageURL(d.base())}
	}
	return pages
}
