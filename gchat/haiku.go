package gchat

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"

	"gchat-hooks/state"
)

// ErrWording is a wording that does not keep the question as it is, or says more than it. What is wrong stands behind it.
var ErrWording = errors.New("the wording does not keep the question")

const (
	anthropicBase = "https://api.anthropic.com/"
	// longestAsked bounds what a model is asked to word, in bytes of JSON: more of it takes longer than anybody waits.
	longestAsked = 4 << 10
	// longestAnswer bounds what is read of an answer, in bytes: many times what maxTokens allows.
	longestAnswer = 256 << 10
	// mostTokens bounds the counts that an answer may claim.
	mostTokens = 1 << 30
)

// Haiku words questions through Anthropic's Messages API.
type Haiku struct {
	Key     string // a secret
	Model   string // "": state.DefaultHaikuModel
	BaseURL string // without /v1; "": Anthropic's. Plain http for this machine only, since the key goes there
}

// Wording is what a model made of a question.
type Wording struct {
	Body                      string // to be kept in Question.Formatted
	Model                     string // which one answered
	InputTokens, OutputTokens int64
}

// USD is what it cost, known for the models whose price is: claude-haiku-4-5, at $1 a million tokens in and $5 out.
func (w Wording) USD() (usd float64, known bool) {
	version, ok := strings.CutPrefix(w.Model, "claude-haiku-4-5")
	if !ok || version != "" && !strings.ContainsAny(version[:1], "-@") {
		return 0, false
	}
	return (float64(w.InputTokens) + 5*float64(w.OutputTokens)) / 1e6, true
}

// Word asks the model once, within ctx and postTimeout, and returns a wording whose Body QuestionText will show. The
// question goes out as its headers, texts, labels and descriptions; previews, session and thread stay here. Errors are
// ErrWording, or say why there is no answer; none holds the key. Where a model did answer, the Wording has no Body then
// but tells what was paid for.
func (h Haiku) Word(ctx context.Context, q *state.Question) (Wording, error) {
	w, err := h.word(ctx, q)
	if err != nil {
		w.Body = ""
		return w, fmt.Errorf("word question: %w", err)
	}
	return w, nil
}

func (h Haiku) word(ctx context.Context, q *state.Question) (Wording, error) {
	asked, err := askedOf(q)
	if err != nil {
		return Wording{}, err
	}
	base, err := url.Parse(cmp.Or(h.BaseURL, anthropicBase))
	switch {
	case h.Key == "":
		return Wording{}, errors.New("no key for Anthropic's API")
	case err != nil || !AllowedBase(base):
		return Wording{}, errors.New("the base URL of Anthropic's API is none: it must be https, or http to this machine")
	}
	// A service of its own, not a client: that would read keys, tokens, profiles and headers from the environment.
	service := anthropic.NewMessageService(
		option.WithBaseURL(base.String()), option.WithAPIKey(h.Key), option.WithHTTPClient(noRedirects),
		option.WithMaxRetries(0), option.WithMiddleware(bounded), option.WithoutOpenTelemetry())
	ctx, cancel := context.WithTimeout(ctx, postTimeout)
	defer cancel()
	model := cmp.Or(h.Model, state.DefaultHaikuModel)
	answer, err := service.New(ctx, anthropic.MessageNewParams{
		Model:     model,
		MaxTokens: maxTokens(asked),
		System:    []anthropic.TextBlockParam{{Text: wordingPrompt}},
		Messages:  []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock(asked))},
	})
	if err != nil {
		return Wording{}, h.plainly(err)
	}
	if answer == nil || answer.Type != "message" {
		return Wording{}, errors.New("the answer is not one of Anthropic's")
	}
	w := Wording{
		Body:         bodyOf(answer),
		Model:        cmp.Or(shorten(answer.Model, 100), model),
		InputTokens:  min(max(answer.Usage.InputTokens, 0), mostTokens),
		OutputTokens: min(max(answer.Usage.OutputTokens, 0), mostTokens),
	}
	switch {
	case answer.StopReason != anthropic.StopReasonEndTurn:
		return w, fmt.Errorf("the model stopped: %q", shorten(string(answer.StopReason), 60))
	case w.Body == "":
		return w, errors.New("the model said nothing")
	}
	said := *q
	said.Formatted = w.Body
	_, err = wordedText(&said)
	return w, err
}

func bodyOf(answer *anthropic.Message) string {
	var b strings.Builder
	for _, block := range answer.Content {
		if block.Type == "text" {
			b.WriteString(block.Text)
		}
	}
	return strings.TrimSpace(b.String())
}

// askedOf is what the model gets to see of a question, as data: JSON between tags that it cannot close, because "<" is
// escaped in it. What a person would not see is not in it either.
func askedOf(q *state.Question) (string, error) {
	type choice struct {
		Number      int    `json:"number"`
		Label       string `json:"label"`
		Description string `json:"description,omitempty"`
	}
	type prompt struct {
		Header      string   `json:"header,omitempty"`
		Question    string   `json:"question"`
		MultiSelect bool     `json:"multiSelect"`
		Options     []choice `json:"options"`
	}
	var asked struct {
		Questions []prompt `json:"questions"`
	}
	if err := askable(q.Questions); err != nil {
		return "", err
	}
	for _, p := range q.Questions {
		out := prompt{Header: shownLine(p.Header), Question: visible(p.Question), MultiSelect: p.MultiSelect}
		for i, o := range p.Options {
			out.Options = append(out.Options, choice{i + 1, shownLine(o.Label), shownLine(o.Description)})
		}
		asked.Questions = append(asked.Questions, out)
	}
	b, err := json.Marshal(asked)
	if err != nil {
		return "", err
	}
	if len(b) > longestAsked {
		return "", errTooLong
	}
	return "<questions>\n" + string(b) + "\n</questions>", nil
}

var errTooLong = fmt.Errorf("it is longer than the %d bytes that are worded in time", longestAsked)

// askable says whether questions are few and short enough to be worded. It bounds the work on a wording too.
func askable(prompts []state.Prompt) error {
	if len(prompts) == 0 {
		return errors.New("there is no question")
	}
	size := 0
	for _, p := range prompts {
		size += 1 + len(p.Header) + len(p.Question)
		for _, o := range p.Options {
			if size += 1 + len(o.Label) + len(o.Description); size > longestAsked {
				return errTooLong // of ten thousand options
			}
		}
		if size > longestAsked {
			return errTooLong
		}
	}
	return nil
}

// maxTokens is enough to say a question once: half a token a byte is what dense scripts take.
func maxTokens(asked string) int64 { return int64(min(max(200+len(asked)/2, 500), 2000)) }

// bounded lets nothing but an answer or an error of bounded size through: the library takes a redirect for an answer.
func bounded(req *http.Request, next option.MiddlewareNext) (*http.Response, error) {
	resp, err := next(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK && resp.StatusCode < 400 {
		resp.Body.Close()
		return nil, fmt.Errorf("%d in place of an answer", resp.StatusCode)
	}
	resp.Body = struct {
		io.Reader
		io.Closer
	}{io.LimitReader(resp.Body, longestAnswer), resp.Body}
	return resp, nil
}

// plainly says in short what the API said: the library's own words hold the URL, and whatever stood in the body.
func (h Haiku) plainly(err error) error {
	var e *anthropic.Error
	if !errors.As(err, &e) {
		return unquote(err)
	}
	var envelope struct {
		Error struct {
			Type    string `json:"type"`
			Message string `json:"message"`
		} `json:"error"`
	}
	_ = json.Unmarshal([]byte(e.RawJSON()), &envelope) // a proxy's page says nothing
	said := strings.TrimSpace(shorten(envelope.Error.Type, 60) + " " + shorten(envelope.Error.Message, 200))
	return fmt.Errorf("anthropic answered %d %s", e.StatusCode, strings.ReplaceAll(said, h.Key, "[secret]"))
}
