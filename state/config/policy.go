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

// Policy is what the administrators of a machine or of a hub take away from what a person
// set. It never gives anything.
type Policy struct {
	// patterns, as the person's own never_remote
	NeverRemote []string `json:"never_remote,omitempty"`
	// kinds that stay in the terminal: see kinds
	TerminalOnly []string `json:"terminal_only,omitempty"`
	// permissions and plans without what they are about
	TitlesOnly bool `json:"titles_only,omitempty"`
	// AllowedUsers are users/ID, e-mail addresses, or *@example.com. A person counts only
	// if named here, too; nil names all.
	AllowedUsers []string `json:"allowed_users,omitzero"`
}

// policyKinds are what terminal_only may name.
func policyKinds() (words []string) {
	for _, kind := range append(state.Kinds, KindReport) {
		words = append(words, kindWord(kind))
	}
	return words
}

func kindWord(kind state.Kind) string { return cmp.Or(string(kind), "question") }

var machinePolicyFile = map[bool]string{
	false: "/etc/gchat-hooks/policy.json", true: "/Library/Application Support/gchat-hooks/policy.json",
}[runtime.GOOS == "darwin"]

// HubCredentialsType is the type of the credentials file that joining a hub leaves.
const HubCredentialsType = "gchat_hooks_hub"

// PolicyReader asks the hub of a credentials file for its policy, as JSON.
type PolicyReader func(ctx context.Context, credentialsFile string) (json.RawMessage, error)

const (
	policyRenewAge = time.Hour // the poller reads a hub's policy again when it is older
	// so long the last one holds; a hook asks only where there is none so young
	policyMaxAge = 24 * time.Hour
	// from one failed try to the next: each may take three seconds
	policyRetryPause = time.Minute
)

// ErrUnreadablePolicy says that a policy cannot be read, or has something that this
// version does not know.
var ErrUnreadablePolicy = errors.New("nothing is asked in Chat")

// ApplyPolicies takes away what the policies do: that of the machine, that of the file in
// $GCHAT_POLICY_FILE, and those of the hubs that this machine joined. The files are read
// once; see policyMaxAge for when a hub is asked.
//
// The error is ErrUnreadablePolicy with a reason, which then stands among Problems, too:
// nothing is asked or reported in Chat, and no reply counts.
func (c *Config) ApplyPolicies(ctx context.Context, env state.Getenv) error {
	if c.isRestricted {
		return c.policyError
	}
	c.isRestricted = true
	add := func(p *Policy, err error) {
		c.policyError = errors.Join(c.policyError, err)
		c.NeverRemote = append(slices.Clone(c.NeverRemote), p.NeverRemote...)
		c.terminalOnly = append(c.terminalOnly, p.TerminalOnly...)
		c.titlesOnly = c.titlesOnly || p.TitlesOnly
		if p.AllowedUsers != nil {
			c.policyUsers = append(c.policyUsers, p.AllowedUsers)
		}
	}
	if _, err := os.Lstat(machinePolicyFile); !state.IsMissing(err) {
		add(parsePolicy(readMachinePolicy(machinePolicyFile)))
	}
	if extraFile := env("GCHAT_POLICY_FILE"); extraFile != "" {
		add(parsePolicy(state.ReadPlainOrLink(extraFile, maxConfigSize)))
	}
	for file, hub := range c.joinedHubs(env) {
		add(c.hubPolicy(ctx, env, file, hub))
	}
	if c.policyError != nil {
		c.policyError = fmt.Errorf("%w: %w", ErrUnreadablePolicy, c.policyError)
		c.Problems = append(c.Problems, c.policyError)
		c.HasUnreadFile, c.IsAllowlistUnknown, c.AllowedUsers, c.Approvers = true, true, nil, nil
		c.NeverRemote, c.terminalOnly, c.titlesOnly = []string{"*"}, policyKinds(), true
	}
	return c.policyError
}

// UserNamePattern is the form of users/ID.
var UserNamePattern = state.LazyPattern(`^users/[\w-]{1,40}$`)

// HubPolicy is the file of a hub's administrator.
type HubPolicy struct {
	Policy // of its machines
	// Spaces are who may decide in a space beside the person who asks there: spaces/S →
	// users/ID.
	SpaceApprovers map[string][]string `json:"spaces,omitempty"`
}

// ReadHubPolicy reads a hub's file, "" for none, as strictly as the machines read what
// they get of it.
func ReadHubPolicy(file string) (*HubPolicy, error) {
	if file == "" {
		return &HubPolicy{}, nil
	}
	return parseHubPolicy(state.ReadPlainOrLink(file, state.MaxFileSize))
}

// parsePolicy reads a policy strictly: what this version does not know of it, it could
// not hold to.
func parsePolicy(b []byte, err error) (*Policy, error) {
	p, err := parseHubPolicy(b, err)
	if err == nil && p.SpaceApprovers != nil {
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
		if !slices.Contains(policyKinds(), kind) {
			err = fmt.Errorf(
				"terminal_only takes %s, not %q",
				strings.Join(policyKinds(), ", "),
				kind,
			)
		}
	}
	for space, users := range p.SpaceApprovers {
		invalid := slices.IndexFunc(
			users,
			func(user string) bool { return !UserNamePattern().MatchString(user) },
		)
		if !strings.HasPrefix(space, "spaces/") || invalid >= 0 {
			err = fmt.Errorf(`spaces takes {"spaces/ID": ["users/ID"]}, not %q: %q`, space, users)
		}
	}
	if err != nil {
		err = fmt.Errorf("read policy: %w", err)
	}
	return p, err
}

// readMachinePolicy reads the file of device management. What another user than root can
// write is not what root wrote.
func readMachinePolicy(path string) ([]byte, error) {
	for _, at := range []string{path, filepath.Dir(path)} {
		info, err := os.Stat(at)
		if err != nil {
			return nil, err
		}
		if owner, ok := info.Sys().(*syscall.Stat_t); !ok || owner.Uid != 0 ||
			info.Mode().Perm()&0o022 != 0 {
			return nil, fmt.Errorf(
				"%s is not root's, or others can write it: chown root, chmod go-w",
				at,
			)
		}
	}
	return state.ReadPlainOrLink(path, maxConfigSize)
}

// joinedHubs are the credentials files of the hubs that this machine joined, each with
// its hub's address. The file that a join writes counts also where something else is
// configured: a variable or a project's file must not lift the hub's policy.
func (c *Config) joinedHubs(env state.Getenv) map[string]string {
	hubs := map[string]string{}
	joinFile := filepath.Join(state.ConfigDir(env), "hub.json")
	for _, file := range slices.Compact([]string{cmp.Or(c.CredentialsFile, joinFile), joinFile}) {
		var joined struct{ Type, Hub string }
		b, err := state.ReadPlainOrLink(file, maxConfigSize)
		if err == nil && json.Unmarshal(b, &joined) == nil && joined.Type == HubCredentialsType {
			hubs[file] = joined.Hub
		}
	}
	return hubs
}

// cachedPolicy is the copy of a hub's policy. The user's state has those of all hubs in
// one file, by their addresses.
type cachedPolicy struct {
	Policy  json.RawMessage `json:"policy,omitempty"`
	ReadAt  time.Time       `json:"read,omitzero"`  // when the hub gave it
	TriedAt time.Time       `json:"tried,omitzero"` // when the hub was asked last
}

// hubPolicy is the policy of a hub: its copy, or where that is old what the hub says now.
func (c *Config) hubPolicy(
	ctx context.Context,
	env state.Getenv,
	file, hub string,
) (*Policy, error) {
	path, cachedPolicies := filepath.Join(
		state.UserStateDir(env),
		"policy.json",
	), map[string]cachedPolicy{}
	b, _ := state.ReadPlain(path, maxConfigSize)
	_ = json.Unmarshal(b, &cachedPolicies) // what is broken, or not there, the hub says again
	if cachedPolicies == nil {
		cachedPolicies = map[string]cachedPolicy{}
	}
	cached := cachedPolicies[hub]
	// a clock may be set back
	isOlder := func(at time.Time, than time.Duration) bool { return time.Since(at).Abs() > than }
	p, err := parsePolicy(cached.Policy, nil)
	if err != nil {
		cached.ReadAt = time.Time{}
	}
	lastError := errors.New("it is asked again soon")
	maxAge := map[bool]time.Duration{true: policyRenewAge, false: policyMaxAge}[c.RenewsPolicy]
	if c.ReadPolicy != nil && isOlder(cached.ReadAt, maxAge) &&
		isOlder(cached.TriedAt, policyRetryPause) {
		cached.TriedAt = time.Now().UTC()
		fresh, err := c.ReadPolicy(ctx, file)
		answered, err := parsePolicy(fresh, err)
		lastError = err
		if lastError == nil { // else the last good one stays
			p, cached.Policy, cached.ReadAt = answered, fresh, cached.TriedAt
		}
		cachedPolicies[hub] = cached
		b, _ = json.Marshal(cachedPolicies)
		_ = state.WriteFile(path, b) // without a copy the next hook asks again
	}
	if isOlder(cached.ReadAt, policyMaxAge) {
		return &Policy{}, fmt.Errorf("the policy of %s was not read for a day: %w", hub, lastError)
	}
	return p, nil
}

// CanAnswer says whether a sender of Chat's may answer questions.
func (c *Config) CanAnswer(sender, email string) bool {
	return c.isListedByAll(c.AllowedUsers, sender, email)
}

// CanApprove says whether a sender of Chat's may decide permissions and plans, and say
// what comes next.
func (c *Config) CanApprove(sender, email string) bool {
	return c.isListedByAll(c.Approvers, sender, email)
}

// HasPersonFor reports whether the configuration names a person who may answer a question
// of this kind.
func (c *Config) HasPersonFor(kind state.Kind) bool {
	users := c.AllowedUsers
	if kind.Traits().IsPersonal {
		users = c.Approvers
	}
	return slices.ContainsFunc(
		users,
		func(user string) bool { return c.isListedByAll(users, user, user) },
	)
}

// isListedByAll says whether an allowlist and each policy's allowed_users name a sender.
// In these *@example.com is all of a domain.
func (c *Config) isListedByAll(users []string, sender, email string) bool {
	_, domain, _ := strings.Cut(email, "@")
	return IsListed(users, sender, email) &&
		!slices.ContainsFunc(c.policyUsers, func(users []string) bool {
			return !IsListed(users, sender, email) && !IsListed(users, "", "*@"+domain)
		})
}

// IsSameAddress reports whether two e-mail addresses, or their domains, are the same, and
// not empty. They have one length: EqualFold takes the Kelvin sign for a K and ſ for an
// S, and another person may have that address.
func IsSameAddress(a, b string) bool {
	return a != "" && len(a) == len(b) && strings.EqualFold(a, b)
}

// IsListed says whether an allowlist names a sender of Chat's: by users/ID, or by e-mail
// where Chat gives one.
func IsListed(users []string, sender, email string) bool {
	for _, u := range users {
		id := strings.TrimPrefix(u, "users/")
		if before, after, isAddress := strings.Cut(id, "@"); isAddress {
			if before != "" && after != "" && IsSameAddress(id, email) {
				return true
			}
		} else if id != "" && id != u && u == sender {
			return true
		}
	}
	return false
}
