// Package strict is a Google in front of a stand-in: it checks each request as Google
// does, by the discovery documents of Chat and Pub/Sub and by what their prose says
// beside them. Only tests import it.
package strict

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"google.golang.org/api/chat/v1"
)

// A Rule changes what stands behind.
type Rule int

const (
	// Embedded is for the embedded space: the token of its own in the path,
	// /t/TOKEN/v1/…, and its page, which is no API.
	Embedded Rule = iota
	// DirectMessage is for a stand-in whose space is a direct message: it does not see
	// threadKey, and of messageReplyOption only that a message belongs into the thread
	// that it names. messageReplyOption of spaces.messages.create is "Only supported in
	// named spaces."
	DirectMessage
	// OtherThreads says that a message to a thread of another space is refused, and is no
	// mistake of the caller's.
	OtherThreads
)

type checker struct {
	t       testing.TB
	next    http.Handler
	methods []*method
	rules   []Rule
}

func (g *checker) hasRule(r Rule) bool { return slices.Contains(g.rules, r) }

// CheckRequests has a stand-in see only the requests that Google would take. Any other
// one fails the test, and is answered as Google answers it. It is stricter than Google
// about what does no harm there: members that are deprecated or output only. An empty
// message passes: the probe of a webhook posts one on purpose.
func CheckRequests(t testing.TB, next http.Handler, rules ...Rule) http.Handler {
	t.Helper()
	all, err := methods()
	if err != nil {
		t.Fatalf("requests to Google cannot be checked: %v", err)
	}
	return &checker{t: t, next: next, methods: all, rules: rules}
}

// maxBody is how much of a body is read, in bytes. A longer one is cut, and then is no
// JSON.
const maxBody = 8 << 20

// ServeHTTP checks a request, and passes it on as it came.
func (g *checker) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	seen := r.Clone(r.Context())
	if rest, isOwnToken := strings.CutPrefix(r.URL.Path, "/t/"); isOwnToken && g.hasRule(Embedded) {
		_, path, _ := strings.Cut(rest, "/")
		seen.URL.Path = "/" + path
	}
	if g.hasRule(Embedded) && !strings.HasPrefix(seen.URL.Path, "/v1/") {
		g.next.ServeHTTP(w, r)
		return
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody))
	if err != nil {
		return // the client closed the connection
	}
	i := slices.IndexFunc(g.methods, func(m *method) bool {
		return m.HTTPMethod == r.Method && m.pathPattern.MatchString(seen.URL.Path)
	})
	if i < 0 {
		g.reportRefusal(w, seen, &refusal{http.StatusNotFound, "NOT_FOUND", "Method not found."})
		return
	}
	m := g.methods[i]
	c := &call{method: m, request: seen, names: m.pathPattern.FindStringSubmatch(seen.URL.Path)[1:]}
	if refused := c.check(body); refused != nil {
		g.reportRefusal(w, seen, refused)
		return
	}
	if g.hasRule(DirectMessage) && m.ID == "chat.spaces.messages.create" {
		body = c.withoutKeys(r)
	}
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	g.next.ServeHTTP(w, r)
}

// A refusal is an error of Google's.
type refusal struct {
	Code    int    `json:"code"`
	Status  string `json:"status"`
	Message string `json:"message"`
}

func invalidArgument(message string) *refusal  { return &refusal{400, "INVALID_ARGUMENT", message} }
func permissionDenied(message string) *refusal { return &refusal{403, "PERMISSION_DENIED", message} }

func (g *checker) reportRefusal(w http.ResponseWriter, r *http.Request, refused *refusal) {
	if !g.hasRule(OtherThreads) || refused.Message != otherSpaceThread {
		g.t.Errorf("Google would refuse %s %s: %d %s: %s", r.Method, r.URL.Path, refused.Code, refused.Status, refused.Message)
	}
	w.Header().Set("Content-Type", "application/json; charset=UTF-8")
	w.WriteHeader(refused.Code)
	_ = json.NewEncoder(w).Encode(map[string]any{"error": refused})
}

// A call is a request to a method.
type call struct {
	*method
	request *http.Request
	names   []string // the resources in its path
	query   url.Values
	message map[string]any // its body, of whatever type
	sent    chat.Message   // the same, where it is a message
}

// check says why Google refuses a call; nil where it does not.
func (c *call) check(body []byte) *refusal {
	query, err := url.ParseQuery(c.request.URL.RawQuery)
	if err != nil {
		return invalidArgument("Invalid query string.")
	}
	c.query = query
	if no := c.caller(); no != nil {
		return no
	}
	bad := c.method.checkQuery(c.query)
	if len(body) == 0 && c.Request != nil {
		body = []byte("{}")
	}
	if len(body) > 0 {
		var v any
		if err := json.Unmarshal(body, &v); err != nil {
			return invalidArgument("Invalid JSON payload received. " + err.Error())
		}
		if c.Request == nil {
			return invalidArgument("Invalid JSON payload received. The method takes no body.")
		}
		bad = append(bad, c.value("", c.Request, v)...)
		c.message, _ = v.(map[string]any)
		_ = json.Unmarshal(body, &c.sent) // the schema is checked
	}
	for _, about := range documentedRules[c.ID] {
		if len(bad) > 0 {
			break
		}
		if says := about(c); says != "" {
			bad = append(bad, says)
		}
	}
	if len(bad) > 0 {
		return invalidArgument(strings.Join(bad, "\n"))
	}
	return nil
}

// caller says why the caller may not make the call. A stand-in for a token names its
// scopes: "scope:chat.bot,chat.messages". Other tokens are not judged.
func (c *call) caller() *refusal {
	if c.query.Has("key") && c.query.Has("token") && c.ID != "chat.spaces.messages.create" {
		// https://developers.google.com/workspace/chat/quickstart/webhooks: it creates
		// messages in its space, and no more
		return permissionDenied("A webhook may only create messages.")
	}
	names, isStandIn := strings.CutPrefix(c.request.Header.Get("Authorization"), "Bearer scope:")
	allows := func(name string) bool { return slices.Contains(c.Scopes, "https://www.googleapis.com/auth/"+name) }
	if isStandIn && !slices.ContainsFunc(strings.Split(names, ","), allows) {
		return permissionDenied("Request had insufficient authentication scopes.")
	}
	return nil
}

// documentedRules is what the documents only say in words, by method. Each returns what
// is wrong, or "".
var documentedRules = map[string][]func(*call) string{
	"chat.spaces.messages.create": {checkMessageID, checkThread, checkSize, checkWidgets},
	"chat.spaces.messages.patch":  {checkSize, checkWidgets},
	"chat.spaces.messages.list":   {checkList},
	"chat.spaces.messages.search": {checkText},
	"pubsub.projects.subscriptions.pull": {func(c *call) string {
		// PullRequest.maxMessages: "Must be a positive integer."
		if n, _ := c.message["maxMessages"].(float64); n <= 0 {
			return "maxMessages must be positive"
		}
		return ""
	}},
}

var clientIDPattern = regexp.MustCompile(`^client-[a-z0-9-]{1,56}$`)

// checkMessageID, of create: "Begins with `client-`. Contains up to 63 characters and
// only lowercase letters, numbers, and hyphens."
func checkMessageID(c *call) string {
	if c.query.Has("messageId") && !clientIDPattern.MatchString(c.query.Get("messageId")) {
		return "The request contains an invalid message id"
	}
	return ""
}

var threadName = regexp.MustCompile(`^(spaces/[^/]+)/threads/[^/]+$`)

const otherSpaceThread = "The request contains an invalid thread resource name"

// checkThread is about where a message goes. A thread of another space is a 400 with
// these words whatever the reply option says
// (https://github.com/openclaw/openclaw/issues/39554). A reply option beside no thread
// was refused (https://github.com/caronc/apprise/issues/1376). Thread.threadKey:
// "Supports up to 4000 characters."
func checkThread(c *call) string {
	t := cmp.Or(c.sent.Thread, &chat.Thread{})
	in := threadName.FindStringSubmatch(t.Name)
	switch {
	case t.Name != "" && (in == nil || in[1] != c.names[0]):
		return otherSpaceThread
	case t.Name == "" && t.ThreadKey == "" && c.query.Has("messageReplyOption"):
		return "messageReplyOption is given, and no thread"
	case utf8.RuneCountInString(t.ThreadKey) > 4000:
		return "The thread key is too long"
	}
	return ""
}

// checkSize: spaces.messages.create, "The maximum message size, including the message
// contents, is 32,000 bytes". cardsV2: 32 KB.
func checkSize(c *call) string {
	n := len(c.sent.Text) + len(c.sent.FallbackText)
	if cards := c.message["cardsV2"]; cards != nil {
		var b bytes.Buffer
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		_ = e.Encode(cards) // it was decoded
		n += b.Len()
	}
	if n > 32000 {
		return "Message content is too long"
	}
	return ""
}

// checkWidgets: GoogleAppsCardV1Card, "You can add up to 100 widgets per card. Any
// widgets beyond this limit are ignored." GoogleAppsCardV1SelectionInput.items: "Supports
// up to 100 items."
func checkWidgets(c *call) string {
	for _, card := range c.sent.CardsV2 {
		n := 0
		for _, section := range card.Card.Sections {
			n += len(section.Widgets)
			for _, w := range section.Widgets {
				if w.SelectionInput != nil && len(w.SelectionInput.Items) > 100 {
					return fmt.Sprintf("%d items in a selection", len(w.SelectionInput.Items))
				}
			}
		}
		if n > 100 {
			return fmt.Sprintf("%d widgets in a card", n)
		}
	}
	return ""
}

var (
	filterPattern  = regexp.MustCompile(`^createTime > "([^"]+)"$`)
	orderByPattern = regexp.MustCompile(`^(createTime (ASC|DESC))?$`)
)

// checkList: of all filters, those by which we ask: create_time with >, in RFC 3339 and
// in quotes. orderBy: "The default ordering is `create_time ASC`." pageSize: "Negative
// values return an INVALID_ARGUMENT error."
func checkList(c *call) string {
	if filter := c.query.Get("filter"); filter != "" {
		m := filterPattern.FindStringSubmatch(filter)
		if m == nil {
			return "Invalid filter query"
		}
		if _, err := time.Parse(time.RFC3339Nano, m[1]); err != nil {
			return "Invalid filter query"
		}
	}
	if !orderByPattern.MatchString(c.query.Get("orderBy")) || strings.HasPrefix(c.query.Get("pageSize"), "-") {
		return "Invalid order by, or page size"
	}
	return ""
}

// checkText, of search: "Using any other value for `parent` results in an
// `INVALID_ARGUMENT` error."
func checkText(c *call) string {
	if c.names[0] != "spaces/-" {
		return "Messages are searched in spaces/-"
	}
	return ""
}

// withoutKeys is the body of a message as a direct message takes it; it changes the
// request's query.
func (c *call) withoutKeys(r *http.Request) []byte {
	t, _ := c.message["thread"].(map[string]any)
	delete(t, "threadKey")
	query := r.URL.Query()
	query.Del("messageReplyOption")
	if t["name"] != nil {
		query.Set("messageReplyOption", "REPLY_MESSAGE_FALLBACK_TO_NEW_THREAD")
	}
	r.URL.RawQuery = query.Encode()
	b, _ := json.Marshal(c.message) // it was decoded
	return b
}
