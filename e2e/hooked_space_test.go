package e2e

import (
	"cmp"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"google.golang.org/api/chat/v1"

	"gchat-hooks/e2e/bound"
	"gchat-hooks/e2e/kit"
	"gchat-hooks/gchat/space"
	"gchat-hooks/state"
)

// A postGate holds back every post to Chat while it is shut: Chat hangs.
type postGate struct {
	mu     sync.Mutex
	opened chan struct{}
}

func newPostGate() *postGate {
	g := &postGate{opened: make(chan struct{})}
	close(g.opened)
	return g
}

func (g *postGate) holdBack() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.opened = make(chan struct{})
}

func (g *postGate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-g.opened:
	default:
		close(g.opened)
	}
}

func (g *postGate) wrap(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		g.mu.Lock()
		opened := g.opened
		g.mu.Unlock()
		if r.Method == http.MethodPost {
			<-opened
		}
		h.ServeHTTP(w, r)
	})
}

// awaitPost waits for a message of the space that begins so and holds every one of the
// parts.
func (b *hookedSession) awaitPost(prefix string, parts ...string) *chat.Message {
	b.t.Helper()
	return b.awaitPostFunc(fmt.Sprintf("%s with %q", prefix, parts), func(m *chat.Message) bool {
		text := cmp.Or(m.Text, m.FallbackText)
		return strings.HasPrefix(text, prefix) && containsAll(text, parts)
	})
}

// awaitPostFunc waits for the first message of the space that is as wanted.
func (b *hookedSession) awaitPostFunc(what string,
	wanted func(*chat.Message) bool) (found *chat.Message) {
	b.t.Helper()
	bound.Until(b.t, "a message "+what, func() bool {
		messages := b.space.Messages()
		index := slices.IndexFunc(messages, wanted)
		if index >= 0 {
			found = messages[index]
		}
		return found != nil
	})
	return found
}

func containsAll(s string, parts []string) bool {
	return !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(s, part) })
}

// reply answers in a message's thread, as the person does on the page.
func (b *hookedSession) reply(to *chat.Message, text string) {
	b.t.Helper()
	b.post(to.Thread.Name, text)
}

// post has the person write into a thread, or begin one where it is "".
func (b *hookedSession) post(thread, text string) *chat.Message {
	b.t.Helper()
	m, err := b.space.PostAs(space.Person(), thread, text)
	kit.NoError(b.t, err)
	return m
}

// awaitResults checks what the model was told in two tool results, in whichever order
// they came.
func (b *hookedSession) awaitResults(parts ...string) {
	b.t.Helper()
	b.awaitResult(2)
	texts := ""
	for _, r := range b.API.ToolResults() {
		texts += r.Text + "\n"
	}
	if !containsAll(texts, parts) {
		b.t.Errorf("the model was told %q, which does not hold all of %q", texts, parts)
	}
}

// countPosts says how many messages of the space begin so.
func (b *hookedSession) countPosts(beginning string) int {
	return len(slices.DeleteFunc(b.space.Messages(),
		func(m *chat.Message) bool { return !strings.HasPrefix(m.Text, beginning) }))
}

// awaitPosts waits until so many messages of the space begin so.
func (b *hookedSession) awaitPosts(n int, beginning string) {
	b.t.Helper()
	bound.Until(b.t, fmt.Sprintf("%d messages %s", n, beginning),
		func() bool { return b.countPosts(beginning) == n })
}

// checkPosts checks how many messages of the space begin so.
func (b *hookedSession) checkPosts(want int, beginning string) {
	b.t.Helper()
	if n := b.countPosts(beginning); n != want {
		b.t.Errorf("%d messages begin with %s, not %d:\n%s", n, beginning, want, b.postTexts())
	}
}

// checkNoPost checks that no message of the space has one of these parts.
func (b *hookedSession) checkNoPost(parts ...string) {
	b.t.Helper()
	for _, part := range parts {
		checkLacks(b.t, b.postTexts(), part)
	}
}

// awaitPostInThread is awaitPost of a message in the thread of another.
func (b *hookedSession) awaitPostInThread(m *chat.Message, beginning string,
	parts ...string) *chat.Message {
	b.t.Helper()
	return b.awaitPostFunc(fmt.Sprintf("%s with %q in the thread", beginning,
		parts), func(is *chat.Message) bool {
		return is.Thread.Name == m.Thread.Name && strings.HasPrefix(is.Text, beginning) &&
			containsAll(is.Text, parts)
	})
}

// awaitNthPost waits for this session's nth message that begins so and has these parts.
func (b *hookedSession) awaitNthPost(n int, beginning string, parts ...string) (m *chat.Message) {
	b.t.Helper()
	bound.Until(b.t, fmt.Sprintf("message %d %s with %q", n, beginning, parts), func() bool {
		mine := slices.DeleteFunc(b.space.Messages(), func(m *chat.Message) bool {
			return !strings.HasPrefix(m.Text, beginning) || !strings.Contains(m.Text, b.Dir+"\n")
		})
		if len(mine) < n {
			return false
		}
		m = mine[n-1]
		return containsAll(m.Text, parts)
	})
	return m
}

// awaitPostNumber waits for the nth message that begins so, in a space of one session.
func (b *hookedSession) awaitPostNumber(n int, beginning string, parts ...string) *chat.Message {
	b.t.Helper()
	return b.awaitPostFunc(fmt.Sprintf("number %d that begins %s and has %q", n, beginning, parts),
		func(m *chat.Message) bool {
			earlier := slices.DeleteFunc(b.space.Messages(), func(is *chat.Message) bool {
				return !strings.HasPrefix(is.Text, beginning) || is.CreateTime >= m.CreateTime
			})
			return strings.HasPrefix(m.Text, beginning) && len(earlier) == n-1 &&
				containsAll(m.Text, parts)
		})
}

// awaitTwoPosts waits for two messages that begin so, in two threads.
func (b *hookedSession) awaitTwoPosts(beginning string) (both []*chat.Message) {
	b.t.Helper()
	bound.Until(b.t, "two messages "+beginning, func() bool {
		both = slices.DeleteFunc(b.space.Messages(),
			func(m *chat.Message) bool { return !strings.HasPrefix(m.Text, beginning) })
		return len(both) == 2 && both[0].Thread.Name != both[1].Thread.Name
	})
	return both
}

// awaitPostInOtherThread is awaitPost of a message in another thread.
func (b *hookedSession) awaitPostInOtherThread(message *chat.Message, beginning string,
	parts ...string) *chat.Message {
	b.t.Helper()
	return b.awaitPostFunc(beginning+" in another thread", func(m *chat.Message) bool {
		return strings.HasPrefix(m.Text, beginning) && m.Thread.Name != message.Thread.Name &&
			containsAll(m.Text, parts)
	})
}

// awaitPostAfter waits for a message of a thread that came after another one.
func (b *hookedSession) awaitPostAfter(m *chat.Message, beginning string,
	parts ...string) *chat.Message {
	b.t.Helper()
	return b.awaitPostFunc(fmt.Sprintf("%s with %q, after %q", beginning, parts,
		m.Text), func(message *chat.Message) bool {
		later := message.Thread.Name == m.Thread.Name && message.Name != m.Name &&
			message.CreateTime > m.CreateTime
		return later && strings.HasPrefix(message.Text, beginning) &&
			containsAll(message.Text, parts)
	})
}

// tapCard taps a button of a message's card as it stands there.
func (b *hookedSession) tapCard(m *chat.Message, choice string, inputs map[string][]string) {
	b.t.Helper()
	kit.NoError(b.t, b.space.Tap(nil, m.Name, "", choice, inputs, ""))
}

// awaitClosedCard waits until the card of a message says so, without a button.
func (b *hookedSession) awaitClosedCard(m *chat.Message, parts ...string) {
	b.t.Helper()
	b.awaitPostFunc(fmt.Sprintf("whose card says %q", parts), func(is *chat.Message) bool {
		if is.Name != m.Name || len(is.CardsV2) == 0 {
			return false
		}
		raw, _ := is.CardsV2[0].Card.MarshalJSON()
		return containsAll(is.Text+string(raw), parts) && !strings.Contains(string(raw), "onClick")
	})
}

// loadQuestions are the session's, as they stand on disk, oldest first.
func (b *hookedSession) loadQuestions() (questions []*state.Question) {
	b.t.Helper()
	files, err := filepath.Glob(filepath.Join(b.Dir, ".claude", "state", "pending-questions",
		"*.json"))
	kit.NoError(b.t, err)
	for _, file := range files {
		q, err := state.LoadQuestion(file)
		kit.NoError(b.t, err)
		questions = append(questions, q)
	}
	// Not by file name: of two questions of one second, "-2.json" stands before ".json".
	slices.SortFunc(questions,
		func(a, b *state.Question) int { return a.AskedAt.Compare(b.AskedAt) })
	return questions
}

// awaitQuestion waits until the session's only question is in that state.
func (b *hookedSession) awaitQuestion(want string, ok func(*state.Question) bool) *state.Question {
	b.t.Helper()
	var last []*state.Question
	became := bound.WaitFor(bound.Patience, func() bool {
		last = b.loadQuestions()
		return len(last) == 1 && ok(last[0])
	})
	if !became {
		b.t.Fatalf("the question did not become %s: %s", want, kit.JSON(b.t, last))
	}
	return last[0]
}

func (b *hookedSession) postTexts() string {
	var all []string
	for _, m := range b.space.Messages() {
		all = append(all, m.Text)
	}
	return strings.Join(all, "\n")
}

// checkOneThread checks that all messages of the space are in the thread of one.
func (b *hookedSession) checkOneThread(of *chat.Message) {
	b.t.Helper()
	for _, m := range b.space.Messages() {
		kit.Equalf(b.t, m.Thread.Name, of.Thread.Name, "the thread of %q", m.Text)
	}
}
