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

// Policy says what the administrator of a machine or of a hub takes away from what a
// person set. A policy never gives anything.
type Policy struct {
	// patterns, in the form of the person's own never_remote
	NeverRemote []string `json:"never_remote,omitempty"`
	// kinds that stay in the terminal: see policyKinds
	TerminalOnly []string `json:"terminal_only,omitempty"`
	// permissions and plans are posted without their content: see AccessTo
	TitlesOnly bool `json:"titles_only,omitempty"`
	// AllowedUsers are users/ID, e-mail addresses, or *@example.com. Whoever answers must
	// be on this list, too. If it is nil, everybody is.
	AllowedUsers []string `json:"allowed_users,omitzero"`
}

// policyKinds returns the kinds that terminal_only may name.
func policyKinds() (words []string) {
	for _, kind := range append(state.Kinds, KindReport) {
		words = append(words, kindWord(kind))
	}
	return words
}

func kindWord(kind state.Kind) string { return cmp.Or(string(kind), "question") }

var machinePolicyFile = map[bool]string{
	false: "/etc/gchat-hooks/policy.json",
	true:  "/Library/Application Support/gchat-hooks/policy.json",
}[runtime.GOOS == "darwin"]

// HubCredentialsType is the "type" of the credentials file that a machine gets when it
// joins a hub.
const HubCredentialsType = "gchat_hooks_hub"

// PolicyReader asks the hub of a credentials file for its policy, as JSON.
type PolicyReader func(ctx context.Context, credentialsFile string) (json.RawMessage, error)

const (
	// policyRenewAge is the age at which the poller reads a hub's policy again.
	policyRenewAge = time.Hour
	// policyMaxAge is how long the saved copy of a hub's policy is valid. A hook asks the
	// hub only if it has no valid copy.
	policyMaxAge = 24 * time.Hour
	// policyRetryPause is the pause after a failed try, which may take three seconds.
	policyRetryPause = time.Minute
)

// ErrUnreadablePolicy means that a policy cannot be read, or contains something that this
// version does not know.
var ErrUnreadablePolicy = errors.New("nothing is asked in Chat")

// ApplyPolicies applies the machine's policy, the one in $GCHAT_POLICY_FILE, and those of
// the hubs that this machine joined. It reads the files only at its first call; see
// policyMaxAge for when it asks a hub.
//
// The error is ErrUnreadablePolicy with a reason, and is added to Problems. Then nothing
// is asked or reported in Chat, and no reply counts.
func (c *Config) ApplyPolicies(ctx context.Context, env state.Getenv) error {
	if c.hasAppliedPolicies {
		return c.policyError
	}
	c.hasAppliedPolicies = true
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
	for file, hub := range c.JoinedHubs(env) {
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

// UserNamePattern matches the name of a Chat user, users/ID.
var UserNamePattern = state.LazyPattern(`^users/[\w-]{1,40}$`)

// HubPolicy is the policy file of a hub's administrator.
type HubPolicy struct {
	Policy // for the machines that joined the hub
	// SpaceApprovers lists for a space (spaces/S) the people (users/ID) who may decide
	// there besides the person whose machine asks.
	SpaceApprovers map[string][]string `json:"spaces,omitempty"`
}

// ReadHubPolicy reads a hub's policy file, "" for none. It is as strict as the machines
// that get the policy.
func ReadHubPolicy(file string) (*HubPolicy, error) {
	if file == "" {
		return &HubPolicy{}, nil
	}
	return parseHubPolicy(state.ReadPlainOrLink(file, state.MaxFileSize))
}

// parsePolicy parses a machine's policy. An unknown member is an error: this version
// could not obey it. A non-nil err, from reading the file, is returned as the error.
func parsePolicy(b []byte, err error) (*Policy, error) {
	p, err := parseHubPolicy(b, err)
	if err == nil && p.SpaceApprovers != nil {
		err = errors.New("read policy: spaces is only for the file of a hub")
	}
	return &p.Policy, err
}

// parseHubPolicy parses a policy, which may have the members for a hub. A non-nil err,
// from reading the file, is returned as the error. On an error the policy is what could
// be parsed, and not nil.
func parseHubPolicy(b []byte, err error) (*HubPolicy, error) {
	p := &HubPolicy{}
	if err == nil {
		d := json.NewDecoder(bytes.NewReader(trimBOM(b)))
		d.DisallowUnknownFields()
		err = d.Decode(p)
		if err == nil && d.Decode(&struct{}{}) != io.EOF {
			err = errors.New("there is more after the JSON value")
		}
	}
	for _, kind := range p.TerminalOnly {
		if !slices.Contains(policyKinds(), kind) {
			err = fmt.Errorf("terminal_only takes %s, not %q",
				strings.Join(policyKinds(), ", "), kind)
		}
	}
	for space, users := range p.SpaceApprovers {
		isInvalid := func(user string) bool { return !UserNamePattern().MatchString(user) }
		if !strings.HasPrefix(space, "spaces/") || slices.ContainsFunc(users, isInvalid) {
			err = fmt.Errorf(`spaces takes {"spaces/ID": ["users/ID"]}, not %q: %q`, space, users)
		}
	}
	if err != nil {
		err = fmt.Errorf("read policy: %w", err)
	}
	return p, err
}

// readMachinePolicy reads the policy file that device management writes. If a user other
// than root can change the file or its folder, root may not have written it: that is an
// error.
func readMachinePolicy(path string) ([]byte, error) {
	for _, at := range []string{path, filepath.Dir(path)} {
		info, err := os.Stat(at)
		if err != nil {
			return nil, err
		}
		owner, ok := info.Sys().(*syscall.Stat_t)
		if !ok || owner.Uid != 0 || info.Mode().Perm()&0o022 != 0 {
			return nil, fmt.Errorf("only root may own and write %s: chown root, chmod go-w", at)
		}
	}
	return state.ReadPlainOrLink(path, maxConfigSize)
}

// JoinedHubs returns the credentials files of the hubs that this machine joined, each
// with its hub's address, or its own path if it has no address. hub.json, which a join
// writes, counts even if another credentials file is configured: a variable or a project's
// file must not lift the hub's policy.
func (c *Config) JoinedHubs(env state.Getenv) map[string]string {
	hubs := map[string]string{}
	joinFile := filepath.Join(state.ConfigDir(env), "hub.json")
	for _, file := range slices.Compact([]string{cmp.Or(c.CredentialsFile, joinFile), joinFile}) {
		var joined struct{ Type, Hub string }
		b, err := state.ReadPlainOrLink(file, maxConfigSize)
		if err == nil && json.Unmarshal(b, &joined) == nil && joined.Type == HubCredentialsType {
			hubs[file] = cmp.Or(joined.Hub, file)
		}
	}
	return hubs
}

// cachedPolicy is the saved copy of a hub's policy. policy.json in the user's state has
// one for each hub, by the hub's address.
type cachedPolicy struct {
	Policy  json.RawMessage `json:"policy,omitempty"`
	ReadAt  time.Time       `json:"read,omitzero"`  // when the hub returned it
	TriedAt time.Time       `json:"tried,omitzero"` // when the hub was last asked
}

// hubPolicy returns the policy of a hub: the saved copy, or the hub's answer if the copy
// is too old.
func (c *Config) hubPolicy(
	ctx context.Context,
	env state.Getenv,
	file, hub string,
) (*Policy, error) {
	path := filepath.Join(state.UserStateDir(env), "policy.json")
	cachedPolicies := map[string]cachedPolicy{}
	b, _ := state.ReadPlain(path, maxConfigSize)
	// If the file is missing or broken, the hub is asked again.
	_ = json.Unmarshal(b, &cachedPolicies)
	if cachedPolicies == nil {
		cachedPolicies = map[string]cachedPolicy{}
	}
	cached := cachedPolicies[hub]
	isOlder := func(at time.Time, age time.Duration) bool {
		return time.Since(at).Abs() > age // Abs, since the clock may be set back
	}
	p, err := parsePolicy(cached.Policy, nil)
	if err != nil {
		cached.ReadAt = time.Time{}
	}
	lastError := errors.New("it is asked again soon")
	maxAge := map[bool]time.Duration{true: policyRenewAge, false: policyMaxAge}[c.RenewsPolicy]
	isDue := isOlder(cached.ReadAt, maxAge) && isOlder(cached.TriedAt, policyRetryPause)
	if c.ReadPolicy != nil && isDue {
		cached.TriedAt = time.Now().UTC()
		answer, err := c.ReadPolicy(ctx, file)
		answered, err := parsePolicy(answer, err)
		lastError = err
		if lastError == nil { // otherwise the last good copy stays
			p, cached.Policy, cached.ReadAt = answered, answer, cached.TriedAt
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

// CanAnswer reports whether a Chat user may answer questions.
func (c *Config) CanAnswer(sender, email string) bool {
	return c.isListedByAll(c.AllowedUsers, sender, email)
}

// CanApprove reports whether a Chat user may decide permissions and plans, and write the
// next instruction.
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
	return slices.ContainsFunc(users, func(user string) bool {
		return c.isListedByAll(users, user, user)
	})
}

// isListedByAll reports whether an allowlist and each policy's allowed_users name a
// sender. In a policy, *@example.com names everybody of a domain.
func (c *Config) isListedByAll(users []string, sender, email string) bool {
	_, domain, _ := strings.Cut(email, "@")
	return IsListed(users, sender, email) &&
		!slices.ContainsFunc(c.policyUsers, func(policyUsers []string) bool {
			return !IsListed(policyUsers, sender, email) && !IsListed(policyUsers, "", "*@"+domain)
		})
}

// IsSameAddress reports whether two e-mail addresses, or two domains, are the same and
// not empty. It also compares their lengths in bytes: for EqualFold the Kelvin sign is a
// K and ſ is an S, but such an address may be another person's.
func IsSameAddress(a, b string) bool {
	return a != "" && len(a) == len(b) && strings.EqualFold(a, b)
}

// IsListed reports whether an allowlist names a Chat user: by users/ID, or by e-mail
// address if Chat gives one.
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
