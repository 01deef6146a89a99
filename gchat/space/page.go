package space

import (
	"embed"
	"encoding/json"
	"mime"
	"net/http"
	"regexp"
	"strings"
	"sync"

	"google.golang.org/api/chat/v1"
)

//go:embed page
var pageFiles embed.FS

// pagePolicy keeps the page to itself: no inline script, nothing from elsewhere.
const pagePolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; " +
	"connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// pageRoutes are the page, its files, its events and what is typed on it.
func (s *Space) pageRoutes() http.Handler {
	mux := http.NewServeMux()
	index := s.needsCookie(servePageFile("index.html", "text/html; charset=utf-8"))
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) {
		if s.token != "" && r.URL.Query().Has("token") {
			s.letIn(w, r)
			return
		}
		index(w, r)
	})
	for name, kind := range map[string]string{
		"style.css":   "text/css; charset=utf-8",
		"page.js":     "text/javascript; charset=utf-8",
		"question.js": "text/javascript; charset=utf-8",
		"markup.js":   "text/javascript; charset=utf-8",
		"card.js":     "text/javascript; charset=utf-8",
		"icon.svg":    "image/svg+xml",
	} {
		mux.HandleFunc("GET /page/"+name, s.needsCookie(servePageFile(name, kind)))
	}
	mux.HandleFunc("GET /events", s.needsCookie(s.serveEvents))
	mux.HandleFunc("POST /page/messages", s.needsCookie(s.postFromPage))
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		writeError(w, notFound("There is nothing at this address."))
	})
	return mux
}

func servePageFile(name, kind string) http.HandlerFunc {
	b, err := pageFiles.ReadFile("page/" + name)
	if err != nil {
		panic(err) // it is embedded
	}
	return func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Type", kind)
		h.Set("Cache-Control", "no-cache")
		h.Set("Content-Security-Policy", pagePolicy)
		w.Write(b)
	}
}

var clientIDForm = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9-]{1,64}$`) })

// postFromPage takes what a person typed or tapped. A cross-origin page cannot send it: a browser asks before it sends JSON
// elsewhere, and says where the request came from.
func (s *Space) postFromPage(w http.ResponseWriter, r *http.Request) {
	if kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); kind != "application/json" {
		writeError(w, &apiError{Code: http.StatusUnsupportedMediaType, Status: "INVALID_ARGUMENT",
			Message: "The content type must be application/json."})
		return
	}
	if err := http.NewCrossOriginProtection().Check(r); err != nil {
		writeError(w, denied("Only the space's own page may post here."))
		return
	}
	var in struct {
		Thread   string `json:"thread"`
		Text     string `json:"text"`
		ClientID string `json:"clientId"`
	}
	d := json.NewDecoder(r.Body)
	d.DisallowUnknownFields()
	if err := d.Decode(&in); err != nil {
		writeError(w, invalid("Invalid JSON payload received. "+err.Error()))
		return
	}
	if !clientIDForm().MatchString(in.ClientID) {
		writeError(w, invalid("clientId must be 1 to 64 letters, digits or -"))
		return
	}
	m, err := s.say(nil, in.Thread, in.Text, "page:"+in.ClientID)
	if err != nil {
		writeError(w, err)
		return
	}
	writeJSON(w, http.StatusOK, map[string]string{"name": m.Name, "thread": m.Thread.Name})
}

// A pageMessage is a message as the page wants it.
type pageMessage struct {
	Name     string   `json:"name"`
	Thread   string   `json:"thread"`
	Sender   string   `json:"sender"`
	Human    bool     `json:"human"`
	Text     string   `json:"text"`
	Time     string   `json:"time"`
	ClientID string   `json:"clientId,omitempty"`
	Cards    []string `json:"cards,omitempty"`
}

func forPage(r *row) pageMessage {
	m := r.Message
	p := pageMessage{Name: m.Name, Thread: m.Thread.Name, Text: m.Text, Time: m.CreateTime}
	if m.Sender != nil {
		p.Human = m.Sender.Type == "HUMAN"
		if p.Sender = m.Sender.DisplayName; p.Sender == "" {
			p.Sender = strings.TrimPrefix(m.Sender.Name, "users/")
		}
	}
	if id, ok := strings.CutPrefix(r.RequestID, "page:"); ok {
		p.ClientID = id
	}
	for _, c := range m.CardsV2 {
		p.Cards = append(p.Cards, cardText(c.Card))
	}
	return p
}

// cardText is what a card says, for a page that does not draw cards.
func cardText(c *chat.GoogleAppsCardV1Card) string {
	if c == nil {
		return ""
	}
	var lines []string
	if c.Header != nil {
		lines = append(lines, c.Header.Title, c.Header.Subtitle)
	}
	for _, section := range c.Sections {
		lines = append(lines, section.Header)
		for _, widget := range section.Widgets {
			if p := widget.TextParagraph; p != nil {
				lines = append(lines, p.Text)
			}
			if d := widget.DecoratedText; d != nil {
				lines = append(lines, strings.TrimSpace(d.TopLabel+" "+d.Text))
			}
		}
	}
	var said []string
	for _, line := range lines {
		if strings.TrimSpace(line) != "" {
			said = append(said, line)
		}
	}
	return strings.Join(said, "\n")
}
