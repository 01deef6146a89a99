package config

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"gchat-hooks/state"
)

// Policy is what the administrators of a machine or of a hub take away from what a person set. It never gives anything.
type Policy struct {
	NeverRemote  []string `json:"never_remote,omitempty"`  // patterns, as the person's own never_remote
	TerminalOnly []string `json:"terminal_only,omitempty"` // kinds that stay in the terminal: see kinds
	TitlesOnly   bool     `json:"titles_only,omitempty"`   // permissions and plans without what they are about
	// AllowedUsers are users/ID, e-mail addresses, or *@example.com. A person counts only if named here, too; nil names all.
	AllowedUsers []string `json:"allowed_users,omitzero"`
}

// kinds are what terminal_only may name.
func kinds() (words []string) {
	for _, kind := range append(state.Kinds, Report) {
		words = append(words, wordOf(kind))
	}
	return words
}

func wordOf(kind state.Kind) string { return cmp.Or(string(kind), "question") }

var machinePolicy = map[bool]string{
	false: "/etc/gchat-hooks/policy.json", true: "/Library/Application Support/gchat-hooks/policy.json",
}[runtime.GOOS == "darwin"]

// HubCredentials is the type of the credentials file that joining a hub leaves.
const HubCredentials = "gchat_hooks_hub"

// ReadPolicy asks the hub of a credentials file for its policy, as JSON.
type ReadPolicy func(ctx context.Context, credentialsFile string) (json.RawMessage, error)

const (
	policyFresh = time.Hour      // the poller reads a hub's policy again when it is older
	policyKept  = 24 * time.Hour // so long the last one holds; a hook asks only where there is none so young
	policyPause = time.Minute    // from one failed try to the next: each may take three seconds
)

// ErrPolicy says that a policy cannot be read, or has something that this version does not know.
var ErrPolicy = errors.New("nothing is asked in Chat")

// Restrict takes away what the policies do: that of the machine, that of the file in $GCHAT_POLICY_FILE, and those of the hubs
// that this machine joined. The files are read once; see policyKept for when a hub is asked.
//
// The error is ErrPolicy with a reason, which then stands among Problems, too: nothing is asked or reported in Chat, and no reply
// counts.
func (c *Config) Restrict(ctx context.Context, env state.Getenv) error {
	if c.restricted {
		return c.unreadPolicy
	}
	c.restricted = true
	take := func(p *Policy, err error) {
		c.unreadPolicy = errors.Join(c.unreadPolicy, err)
		c.NeverRemote = append(slices.Clone(c.NeverRemote), p.NeverRemote...)
		c.terminalOnly = append(c.terminalOnly, p.TerminalOnly...)
		c.titlesOnly = c.titlesOnly || p.TitlesOnly
		if p.AllowedUsers != nil {
			c.within = append(c.within, p.AllowedUsers)
		}
	}
	if _, err := os.Lstat(machinePolicy); !state.Missing(err) {
		take(parsePolicy(readMachinePolicy(machinePolicy)))
	}
	if added := env("GCHAT_POLICY_FILE"); added != "" {
		take(parsePolicy(state.ReadLinked(added, maxConfig)))
	}
	for file, hub := range c.Hubs(env) {
		take(c.hubPolicy(ctx, env, file, hub))
	}
	if c.unreadPolicy != nil {
		c.unreadPolicy = fmt.Errorf("%w: %w", ErrPolicy, c.unreadPolicy)
		c.Problems = append(c.Problems, c.unreadPolicy)
		c.Unread, c.AllowedUnknown, c.AllowedUsers, c.Approvers = true, true, nil, nil
		c.NeverRemote, c.terminalOnly, c.titlesOnly = []string{"*"}, kinds(), true
	}
	return c.unreadPolicy
}

// UserForm is the form of users/ID.
var UserForm = state.Pattern(`^users/[\w-]{1,40}$`)

// HubPolicy is the file of a hub's administrator.
type HubPolicy struct {
	Policy // of its machines
	// Spaces are who may decide in a space beside the person who asks there: spaces/S → users/ID.
	Spaces map[string][]string `json:"spaces,omitempty"`
}

// ReadHubPolicy reads a hub's file, "" for none, as strictly as the machines read what they get of it.
func ReadHubPolicy(file string) (*HubPolicy, error) {
	if file == "" {
		return &HubPolicy{}, nil
	}
	return parseHubPolicy(state.ReadLinked(file, state.MostRead))
}

// parsePolicy reads a policy strictly: what this version does not know of it, it could not hold to.
func parsePolicy(b []byte, err error) (*Policy, error) {
	p, err := parseHubPolicy(b, err)
	if err == nil && p.Spaces != nil {
		err = errors.New("read policy: spaces is for the file of a hub")
	}
	return &p.Policy, err
}

func parseHubPolicy(b []byte, err error) (*HubPolicy, error) {
	p := &HubPolicy{}
	if err == nil {
		d := json.NewDecoder(bytes.NewReader(trimBOM(b)))
		d.DisallowUnknownFields()
		err = d.Decode(p)
		if err == nil && d.Decode(&struct{}{}) != io.EOF {
			err = errors.New("something stands behind its end")
		}
	}
	for _, kind := range p.TerminalOnly {
		if !slices.Contains(kinds(), kind) {
			err = fmt.Errorf("terminal_only takes %s, not %q", strings.Join(kinds(), ", "), kind)
		}
	}
	for space, users := range p.Spaces {
		stranger := slices.IndexFunc(users, func(who string) bool { return !UserForm().MatchString(who) })
		if !strings.HasPrefix(space, "spaces/") || stranger >= 0 {
			err = fmt.Errorf(`spaces takes {"spaces/ID": ["users/ID"]}, not %q: %q`, space, users)
		}
	}
	if err != nil {
		err = fmt.Errorf("read policy: %w", err)
	}
	return p, err
}

// readMachinePolicy reads the file of device management. What another user than root can write is not what root wrote.
func readMachinePolicy(path string) ([]byte, error) {
	for _, at := range []string{path, filepath.Dir(path)} {
		info, err := os.Stat(at)
		if err != nil {
			return nil, err
		}
		if by, ok := info.Sys().(*syscall.Stat_t); !ok || by.Uid != 0 || info.Mode().Perm()&0o022 != 0 {
			return nil, fmt.Errorf("%s is not root's, or others can write it: chown root, chmod go-w", at)
		}
	}
	return state.ReadLinked(path, maxConfig)
}

// Hubs are the credentials files of the hubs that this machine joined, each with its hub's address. The file that a join writes
// counts also where something else is configured: a variable or a project's file must not lift the hub's policy.
func (c *Config) Hubs(env state.Getenv) map[string]string {
	hubs := map[string]string{}
	written := filepath.Join(state.ConfigDir(env), "hub.json")
	for _, file := range slices.Compact([]string{cmp.Or(c.CredentialsFile, written), written}) {
		var joined struct{ Type, Hub string }
		b, err := state.ReadLinked(file, maxConfig)
		if err == nil && json.Unmarshal(b, &joined) == nil && joined.Type == HubCredentials {
			hubs[file] = joined.Hub
		}
	}
	return hubs
}

// keptPolicy is the copy of a hub's policy. The user's state has those of all hubs in one file, by their addresses.
type keptPolicy struct {
	Policy json.RawMessage `json:"policy,omitempty"`
	Read   time.Time       `json:"read,omitzero"`  // when the hub gave it
	Tried  time.Time       `json:"tried,omitzero"` // when the hub was asked last
}

// hubPolicy is the policy of a hub: its copy, or where that is old what the hub says now.
func (c *Config) hubPolicy(ctx context.Context, env state.Getenv, file, hub string) (*Policy, error) {
	path, all := filepath.Join(state.UserState(env), "policy.json"), map[string]keptPolicy{}
	b, _ := state.ReadPlain(path, maxConfig)
	_ = json.Unmarshal(b, &all) // what is broken, or not there, the hub says again
	if all == nil {
		all = map[string]keptPolicy{}
	}
	kept := all[hub]
	older := func(at time.Time, than time.Duration) bool { return time.Since(at).Abs() > than } // a clock may be set back
	p, err := parsePolicy(kept.Policy, nil)
	if err != nil {
		kept.Read = time.Time{}
	}
	failed := errors.New("it is asked again soon")
	holds := map[bool]time.Duration{true: policyFresh, false: policyKept}[c.RenewPolicy]
	if c.ReadPolicy != nil && older(kept.Read, holds) && older(kept.Tried, policyPause) {
		kept.Tried = time.Now().UTC()
		fresh, err := c.ReadPolicy(ctx, file)
		answered, err := parsePolicy(fresh, err)
		failed = err
		if failed == nil { // else the last good one stays
			p, kept.Policy, kept.Read = answered, fresh, kept.Tried
		}
		all[hub] = kept
		b, _ = json.Marshal(all)
		_ = state.WriteFile(path, b) // without a copy the next hook asks again
	}
	if older(kept.Read, policyKept) {
		return &Policy{}, fmt.Errorf("the policy of %s was not read for a day: %w", hub, failed)
	}
	return p, nil
}

// Allows says whether a sender of Chat's may answer questions.
func (c *Config) Allows(sender, email string) bool { return c.counts(c.AllowedUsers, sender, email) }

// Approves says whether a sender of Chat's may decide permissions and plans, and say what comes next.
func (c *Config) Approves(sender, email string) bool { return c.counts(c.Approvers, sender, email) }

// Anybody reports whether the configuration names a person who may answer a question of this
// kind.
func (c *Config) Anybody(kind state.Kind) bool {
	users := c.AllowedUsers
	if kind.Row().Personal {
		users = c.Approvers
	}
	return slices.ContainsFunc(users, func(user string) bool { return c.counts(users, user, user) })
}

// counts says whether an allowlist and each policy's allowed_users name a sender. In these *@example.com is all of a domain.
func (c *Config) counts(users []string, sender, email string) bool {
	_, domain, _ := strings.Cut(email, "@")
	return Named(users, sender, email) && !slices.ContainsFunc(c.within, func(users []string) bool {
		return !Named(users, sender, email) && !Named(users, "", "*@"+domain)
	})
}

// SameAddress reports whether two e-mail addresses, or their domains, are the same, and
// not empty. They have one length: EqualFold takes the Kelvin sign for a K and ſ for an
// S, and another person may have that address.
func SameAddress(a, b string) bool {
	return a != "" && len(a) == len(b) && strings.EqualFold(a, b)
}

// Named says whether an allowlist names a sender of Chat's: by users/ID, or by e-mail where Chat gives one.
func Named(users []string, sender, email string) bool {
	for _, u := range users {
		id := strings.TrimPrefix(u, "users/")
		if before, after, address := strings.Cut(id, "@"); address {
			if before != "" && after != "" && SameAddress(id, email) {
				return true
			}
		} else if id != "" && id != u && u == sender {
			return true
		}
	}
	return false
}
