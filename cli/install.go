package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"gchat-hooks/hooks/settings"
	"gchat-hooks/hooks/wake"
	"gchat-hooks/state"
	"gchat-hooks/state/config"
)

func (p Program) installCommand() *cli.Command {
	return &cli.Command{
		Name:  "install",
		Usage: "write the hooks into Claude Code's settings",
		Description: "Questions:    gchat-hooks install\n" +
			"And reports:  gchat-hooks install --preset report   (removes hooks that this preset does not have)\n" +
			"Questions, permissions, plans and the next instruction:  gchat-hooks install --preset approve",
		Flags: append(scopeFlags(),
			&cli.StringSliceFlag{Name: "preset", Usage: "`NAME`: " + strings.Join(settings.Presets(), ", ") + "; else answer"},
			&cli.IntFlag{Name: "phase", Usage: "`1`, 2 or 3 of a roll-out: the same as the preset send, report or system3"},
			&cli.BoolFlag{Name: "links", Usage: "also link the names that agents call (gchat-send, ...) beside this program"},
			&cli.StringFlag{Name: "claude-version", Usage: "`VERSION` of Claude Code (default: what claude --version says)"},
			&cli.BoolFlag{Name: "keep", Usage: "without --preset: keep the hooks that are registered already"},
		),
		Action: func(c *cli.Context) error {
			scope, err := scopeOf(c)
			if err != nil {
				return err
			}
			presets := c.StringSlice("preset")
			if phase := c.Int("phase"); phase >= 1 && phase <= len(phases) && len(presets) == 0 {
				presets = []string{phases[phase-1]}
			} else if c.IsSet("phase") {
				return usage(errors.New("--phase takes 1, 2 or 3, and no --preset beside it"), "gchat-hooks install --help")
			}
			return install{
				Program: p, scope: scope, presets: presets,
				dryRun: c.Bool("dry-run"), links: c.Bool("links"), keep: c.Bool("keep"), claude: c.String("claude-version"),
			}.run(c.Context)
		},
	}
}

// phases are the presets of a roll-out beside another bridge: only send, also answer, all.
var phases = []string{"send", "report", "system3"}

// scopeFlags say whose settings are meant.
func scopeFlags() []cli.Flag {
	return []cli.Flag{
		&cli.BoolFlag{Name: "user", Usage: "in your own settings, for all projects (default)"},
		&cli.BoolFlag{Name: "project", Usage: "in the project's settings, which go to others with the repository"},
		&cli.BoolFlag{Name: "local", Usage: "in the project's settings that stay on this machine"},
		&cli.BoolFlag{Name: "dry-run", Usage: "show what would change, and write nothing"},
	}
}

func scopeOf(c *cli.Context) (scope settings.Scope, err error) {
	for _, s := range []settings.Scope{settings.User, settings.Project, settings.Local} {
		if c.Bool(string(s)) && scope != "" {
			err = usage(fmt.Errorf("--%s and --%s exclude each other", scope, s), "gchat-hooks "+c.Command.Name+" --help")
		} else if c.Bool(string(s)) {
			scope = s
		}
	}
	return cmp.Or(scope, settings.User), err
}

// install writes our hooks into Claude Code's settings.
type install struct {
	Program
	scope   settings.Scope
	presets []string // none: the default one
	also    []string // presets beside the hooks that are kept
	dryRun  bool
	links   bool   // make the names that agents call
	keep    bool   // the hooks that are there, where no others are named
	claude  string // "": ask the installed one
}

func (i install) run(ctx context.Context) error {
	program, err := i.program()
	if err != nil {
		return err
	}
	file, err := settings.At(i.env, i.scope)
	if err != nil {
		return err
	}
	var hooks []settings.Hook
	if i.keep && len(i.presets) == 0 { // an upgrade must not take back what a person chose
		hooks, _ = file.Hooks(i.also...)
	}
	if len(hooks) == 0 {
		if hooks, err = settings.Hooks(i.presets...); err != nil {
			return usage(err, "gchat-hooks install --help")
		}
	}
	version, err := i.version(ctx)
	if err != nil {
		return err
	}
	entries, left := settings.Entries(program, version, hooks)
	change, err := file.Install(entries, i.dryRun)
	if err != nil {
		return err
	}
	tell(i.out, change, i.dryRun, "added")
	for _, h := range left {
		fmt.Fprintf(i.out, "left out: %s on %s needs Claude Code %s\n", h.Name, h.Event, settings.AsyncRewake)
	}
	if slices.Contains(i.presets, "wake") {
		if err := i.letMenuDecide(); err != nil {
			return err
		}
	} else if !wakes(hooks) {
		i.tellMenuDecides()
	}
	if i.links && !i.dryRun {
		return link(i.out, filepath.Dir(program), namesFor(hooks))
	}
	return nil
}

// letMenuDecide has an agent that is woken choose in permissions and plans, too.
func (i install) letMenuDecide() error {
	path, written := state.ConfigFile(i.env), "now has"
	if i.dryRun {
		written = "would get"
	} else if err := config.SetMember(path, "menu_decides", true); err != nil {
		return err
	}
	const means = "menu-driver, and so your agent, may choose in permissions and plans"
	fmt.Fprintf(i.out, "%s %s \"menu_decides\": true: %s\n", path, written, means)
	return nil
}

// tellMenuDecides says that menu-driver may still decide, though no hook wakes an agent.
func (p Program) tellMenuDecides() {
	if config.Load(p.env, state.ConfigDir(p.env)).MenuDecides {
		const still = "menu-driver may still choose in permissions and plans; take it out if no agent needs it"
		fmt.Fprintf(p.out, "%s has \"menu_decides\": true: %s\n", state.ConfigFile(p.env), still)
	}
}

// wakes says whether hooks of the preset wake are among these.
func wakes(hooks []settings.Hook) bool {
	return slices.ContainsFunc(hooks, func(h settings.Hook) bool { return slices.Contains(wake.Names(), h.Name) })
}

// approves says whether the preset approve is registered.
func (i install) approves() bool {
	file, err := settings.At(i.env, i.scope)
	if err != nil {
		return false
	}
	hooks, _ := file.Hooks()
	return slices.ContainsFunc(hooks, func(h settings.Hook) bool { return h.Event == "PostToolBatch" })
}

// program is the path that hooks are registered with: ours, as long as that stays.
func (i install) program() (string, error) {
	if strings.Contains(i.self, string(filepath.Separator)+"go-build") {
		return "", failed(errors.New("`go run` removes its program when it ends"), "go build -o ~/bin/gchat-hooks .", exitFailed)
	}
	path := filepath.Join(filepath.Dir(i.self), "gchat-hooks")
	if _, err := os.Stat(path); err != nil {
		err := fmt.Errorf("this program is called %s, and not gchat-hooks", filepath.Base(i.self))
		return "", failed(err, "mv "+state.ShellQuoted(i.self)+" "+state.ShellQuoted(path), exitFailed)
	}
	return path, nil
}

// version is that of the Claude Code that will read the settings.
func (i install) version(ctx context.Context) (v settings.Version, err error) {
	known := true
	if i.claude != "" {
		if v, known = settings.ParseVersion(i.claude); !known {
			return v, usage(fmt.Errorf("--claude-version takes one like 2.1.329, not %q", i.claude), "gchat-hooks install --help")
		}
	} else if v, err = settings.AskVersion(ctx, i.env, 20*time.Second); err != nil {
		const words = "claude is not found: the hooks are those of %s, which newer ones take (--claude-version names yours)\n"
		fmt.Fprintf(i.out, words, settings.Oldest)
	}
	if err := v.Supported(); err != nil {
		return v, failed(err, "nothing was written", exitFailed)
	}
	if i.scope == settings.Project {
		return settings.Oldest, nil // others read it, too
	}
	return v, nil
}

// tell says in a line what a change did, or shows what it would do.
func tell(out io.Writer, c *settings.Change, dryRun bool, done string) {
	switch {
	case c.Nothing():
		fmt.Fprintf(out, "%s: nothing to change\n", c.Path)
	case dryRun:
		fmt.Fprintf(out, "%s%s would be changed; nothing was written\n", c.Diff(), c.Path)
	default:
		fmt.Fprintf(out, "%s: %d hooks %s\n", c.Path, c.Hooks, done)
	}
}

// namesFor are the names that agents and people call beside these hooks.
func namesFor(hooks []settings.Hook) []string {
	names := []string{"gchat-send", "gchat-wait"}
	if wakes(hooks) {
		names = append(names, "menu-driver", "menu-driver.sh", "health-check.sh")
	}
	return names
}

// link makes names of the program beside it. What stands there already stays.
func link(out io.Writer, dir string, names []string) error {
	var linked []string
	for _, name := range names {
		err := os.Symlink("gchat-hooks", filepath.Join(dir, name))
		if err == nil {
			linked = append(linked, name)
		} else if !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	if len(linked) > 0 {
		fmt.Fprintf(out, "%s: linked %s\n", dir, strings.Join(linked, ", "))
	}
	return nil
}

// ourLinks are those of our names in a folder that are links to the program beside them, also those of earlier installs.
func ourLinks(dir string) (links []string) {
	for _, name := range slices.AppendSeq(hookNames(), maps.Keys(calledAs)) {
		path := filepath.Join(dir, name)
		if to, _ := os.Readlink(path); to == "gchat-hooks" || to == filepath.Join(dir, "gchat-hooks") {
			links = append(links, path)
		}
	}
	return links
}
