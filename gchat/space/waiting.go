package space

import (
	"slices"
	"strings"
	"time"

	"google.golang.org/api/chat/v1"
)

// The kinds of messages for which a person is called. Those of cards are the kinds of
// questions; the others are what the app says in aboutHeader.
const (
	kindQuestion   = "question"
	kindPermission = "permission" // a card; without a card, it waits in the terminal alone
	kindPlan       = "plan"
	kindForm       = "form"
	kindNext       = "next"
	kindBlocked    = "blocked_alert"
)

// callTraits are the facts about the calls for one kind.
type callTraits struct {
	title string // what the notification says if there is no card
	// ttl is how long a push service keeps the call for a device that is off. A
	// permission is soon answered at the terminal, or given up.
	ttl time.Duration
	// isUrgent wakes a sleeping device: Claude does nothing until the person answers.
	isUrgent bool
	// waitsInQuietHours holds the call until the person's quiet hours end.
	waitsInQuietHours bool
}

// callTraitsOf returns the row of a kind. It is false for a kind that calls nobody. A map
// would have to be made at the start of every process, also of hooks.
func callTraitsOf(kind string) (traits callTraits, isCalled bool) {
	switch kind {
	case kindQuestion:
		return callTraits{"Question", 24 * time.Hour, true, false}, true
	case kindPermission:
		return callTraits{"Permission", 10 * time.Minute, true, false}, true
	case kindPlan:
		return callTraits{"Plan", 24 * time.Hour, true, true}, true
	case kindForm:
		return callTraits{"Form", 24 * time.Hour, true, true}, true
	case kindNext:
		return callTraits{"Waiting for you", 24 * time.Hour, false, true}, true
	case kindBlocked:
		return callTraits{"Blocked", time.Hour, true, false}, true
	}
	return callTraits{}, false
}

// waitingMessage is a message that waits for the person.
type waitingMessage struct {
	row       *messageRow // its latest row
	kind      string
	traits    callTraits
	createdAt time.Time
}

func (w *waitingMessage) expiresAt() time.Time { return w.createdAt.Add(w.traits.ttl) }

// waitingList is what waits for the person, by the message's name. threads.js decides in
// the same way what the page shows as waiting; TestPage_ShowsAsWaitingWhatCalls compares
// the two.
type waitingList struct {
	all     map[string]*waitingMessage
	notices map[string]*waitingMessage // those without a card
}

func newWaitingList() waitingList {
	return waitingList{map[string]*waitingMessage{}, map[string]*waitingMessage{}}
}

// add goes on with a row. It reads no text: a card says how it stands, and the app says
// what its texts are about.
func (l waitingList) add(r *messageRow) {
	l.removeDoneNotices(r)
	m := r.Message
	kind, state := cardState(m)
	viewer := m.PrivateMessageViewer
	isForPerson := viewer == nil || viewer.Name == PersonName
	switch {
	case state == "" && !r.IsPatch && m.Sender != nil && m.Sender.Type != "HUMAN":
		if r.Kind == kindBlocked || r.Kind == kindPermission {
			kind, state = r.Kind, "open"
		}
	case state != "open":
		delete(l.all, m.Name)
	}
	traits, isCalled := callTraitsOf(kind)
	if !isCalled || state != "open" || !isForPerson {
		return
	}
	createdAt, _ := time.Parse(time.RFC3339Nano, m.CreateTime)
	waiting := &waitingMessage{r, kind, traits, createdAt}
	l.all[m.Name] = waiting
	if len(m.CardsV2) == 0 {
		l.notices[m.Name] = waiting
	}
}

// besideKinds are what comes while something waits, too: from helpers, and at the end of
// a turn.
var besideKinds = []string{"subagent_done", "task_done", "turn_done"}

// removeDoneNotices removes the notices that wait no more because of a row: the session
// has gone on, or the person wrote into the thread.
func (l waitingList) removeDoneNotices(r *messageRow) {
	m := r.Message
	isHuman := m.Sender != nil && m.Sender.Type == "HUMAN"
	isNote := strings.HasPrefix(r.Kind, "note")
	goesOn := !isHuman && !isNote && !r.IsPatch && !slices.Contains(besideKinds, r.Kind)
	for name, waiting := range l.notices {
		notice := waiting.row
		isThread := notice.Message.Thread.Name == m.Thread.Name
		isSession := isThread || notice.Session != "" && notice.Session == r.Session
		isDone := false
		switch waiting.kind {
		case kindPermission:
			isDone = isThread && (r.Kind == "gone_on" || r.Kind == "session_end")
		case kindBlocked:
			isDone = isSession && goesOn || isThread && isHuman
		}
		if isDone {
			delete(l.notices, name)
			delete(l.all, name)
		}
	}
}

// cardState returns the kind and the state of a message's card, from the card's id
// "gchat-hooks.KIND.STATE", after which chosen options may follow. They are "" if it has
// no such card.
func cardState(m *chat.Message) (kind, state string) {
	if len(m.CardsV2) == 0 || m.CardsV2[0] == nil || m.CardsV2[0].Card == nil {
		return "", ""
	}
	parts := strings.Split(m.CardsV2[0].CardId, ".")
	if len(parts) < 3 || parts[0] != "gchat-hooks" {
		return "", ""
	}
	return parts[1], parts[2]
}
