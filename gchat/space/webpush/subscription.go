// Package webpush sends messages to browsers through the push services of their makers:
// RFC 8030 (the protocol), RFC 8291 (the encryption) and RFC 8292 (VAPID).
package webpush

import (
	"crypto/ecdh"
	"encoding/base64"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
)

// Subscription is where, and with which keys, a browser wants its messages: a
// PushSubscription of the Push API.
type Subscription struct {
	Endpoint string `json:"endpoint"`
	Keys     struct {
		P256DH string `json:"p256dh"`
		Auth   string `json:"auth"`
	} `json:"keys"`
}

const (
	maxEndpointBytes = 2048
	authSecretBytes  = 16 // RFC 8291, section 3.2
)

// knownHosts are the push services of the browsers' makers. A name that begins with a dot
// stands for all hosts below it.
var knownHosts = []string{
	// Chrome and most browsers made from Chromium.
	// https://web.dev/articles/push-notifications-web-push-protocol
	"fcm.googleapis.com",
	// "If you tightly manage push end points on your server, be sure to allow URLs from
	// any subdomain of push.apple.com." https://webkit.org/blog/12945/meet-web-push/
	".push.apple.com",
	// Firefox. https://mozilla-services.github.io/autopush-rs/
	".push.services.mozilla.com",
	// Edge on Windows. https://learn.microsoft.com/windows/apps/design/shell/
	// tiles-and-notifications/firewall-allowlist-config
	".notify.windows.com",
}

// isKnownHost reports whether a host name is one of a known push service.
func isKnownHost(name string) bool {
	return slices.ContainsFunc(knownHosts, func(known string) bool {
		if strings.HasPrefix(known, ".") {
			return strings.HasSuffix(name, known)
		}
		return name == known
	})
}

// Check returns an error if nothing may be sent to a subscription. Its endpoint comes
// from a browser, so it could name any server, also one inside of the person's network.
// It must be of a known push service, or at one of the allowed hosts (HOST or HOST:PORT).
func (s Subscription) Check(allowedHosts []string) error {
	if _, err := s.endpointHost(allowedHosts); err != nil {
		return err
	}
	key, err := decodeKey(s.Keys.P256DH)
	if err == nil {
		_, err = ecdh.P256().NewPublicKey(key)
	}
	if err != nil {
		return errors.New("the subscription's key p256dh is not a public key of P-256")
	}
	secret, err := decodeKey(s.Keys.Auth)
	if err != nil || len(secret) != authSecretBytes {
		return fmt.Errorf("the subscription's secret auth does not have %d bytes", authSecretBytes)
	}
	return nil
}

// endpointHost returns the host of the endpoint, with its port if it has one.
func (s Subscription) endpointHost(allowedHosts []string) (host string, err error) {
	u, err := url.Parse(s.Endpoint)
	switch {
	case err != nil || len(s.Endpoint) > maxEndpointBytes:
		return "", errors.New("the subscription's endpoint is not an address")
	case u.Scheme != "https" || u.User != nil || u.Opaque != "" || u.Hostname() == "":
		return "", errors.New("the subscription's endpoint is not a plain https address")
	case u.Fragment != "":
		return "", errors.New("the subscription's endpoint has a fragment")
	}
	host = strings.ToLower(u.Host)
	hasUsualPort := u.Port() == "" || u.Port() == "443"
	isAllowed := slices.ContainsFunc(allowedHosts, func(allowed string) bool {
		allowed = strings.ToLower(allowed)
		return allowed == host || hasUsualPort && allowed == strings.ToLower(u.Hostname())
	})
	if isAllowed || hasUsualPort && isKnownHost(strings.ToLower(u.Hostname())) {
		return host, nil
	}
	return "", fmt.Errorf("%.100q is not a push service that gchat-hooks knows: "+
		"push_hosts can allow it", host)
}

// decodeKey decodes base64url, with or without padding.
func decodeKey(text string) ([]byte, error) {
	return base64.RawURLEncoding.Strict().DecodeString(strings.TrimRight(text, "="))
}

// insideNetworks returns the addresses that belong to no server on the Internet, beyond
// those that netip has words for. No process parses them that sends nothing.
var insideNetworks = sync.OnceValue(func() (networks []netip.Prefix) {
	for _, network := range []string{
		"0.0.0.0/8",
		"100.64.0.0/10",  // carriers' NAT, and Tailscale
		"192.0.0.0/24",   // RFC 6890
		"198.18.0.0/15",  // benchmarks
		"240.0.0.0/4",    // reserved, and broadcast
		"64:ff9b::/96",   // NAT64: an IPv4 address is in it
		"64:ff9b:1::/48", // NAT64 of a network's own
		"2002::/16",      // 6to4: an IPv4 address is in it
		"2001::/32",      // Teredo
		"fec0::/10",      // site-local
	} {
		networks = append(networks, netip.MustParsePrefix(network))
	}
	return networks
})

// isInsideNetwork reports whether an address may be of this machine, or of one in its
// network.
func isInsideNetwork(ip netip.Addr) bool {
	ip = ip.Unmap().WithZone("")
	isInside := func(network netip.Prefix) bool { return network.Contains(ip) }
	return !ip.IsGlobalUnicast() || ip.IsPrivate() ||
		slices.ContainsFunc(insideNetworks(), isInside)
}
