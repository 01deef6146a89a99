package gchat

import (
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"gchat-hooks/gchat/wording"
	"gchat-hooks/state"
)

const (
	anthropicBase    = "https://api.anthropic.com"
	haikuModel       = "claude-haiku-4-5-20251001"
	haikuMaxTokens   = 2000
	haikuTimeout     = 2 * time.Second // how long the post of a question waits for its wording
	maxQuestionBytes = 4 << 10         // bytes of JSON that the model can reword in that time
	maxWordingBytes  = 4 << 10         // bytes of one question's wording
	// maxResponseBytes is many times what haikuMaxTokens allows.
	maxResponseBytes = 256 << 10
)

// wordingPrompt says what the model should write. Nothing depends on whether the model
// obeys: its texts are treated as foreign, and a question's options never come from it.
//
//go:embed wording.txt
var wordingPrompt string

// Haiku rewords questions through Anthropic's Messages API.
type Haiku struct {
	Key string // a secret
	// BaseURL has no /v1. "" is Anthropic's. Plain http is allowed to this machine only,
	// since requests carry the key.
	BaseURL string
}

// Wording is the model's result.
type Wording struct {
	// Texts has one text for each question. They are foreign. Question.Wording keeps
	// them.
	Texts        []string `json:"-"`
	Model        string   `json:"-"`
	InputTokens  int64    `json:"input_tokens"`
	OutputTokens int64    `json:"output_tokens"`
}

// USD returns the price: claude-haiku-4-5 costs $1 for a million input tokens and $5 for
// a million output tokens.
func (w Wording) USD() float64 { return (float64(w.InputTokens) + 5*float64(w.OutputTokens)) / 1e6 }

// Reword asks the model once, within ctx and haikuTimeout. It sends the questions' texts,
// but not their headers, options, session or thread. No error holds the key. If the model
// answered and its answer cannot be used, the Wording beside the error has no Texts, but
// it has the tokens that were paid for.
func (h Haiku) Reword(ctx context.Context, questions []state.SubQuestion) (Wording, error) {
	w, text, err := h.callModel(ctx, questions)
	if err == nil {
		w.Texts, err = readWording(text, len(questions))
	}
	if err != nil {
		return w, fmt.Errorf("reword question: %w", err)
	}
	return w, nil
}

func (h Haiku) callModel(
	ctx context.Context,
	questions []state.SubQuestion,
) (w Wording, text string, err error) {
	var texts []string
	for _, q := range questions {
		texts = append(texts, state.Clean(state.ForChat, q.Question))
	}
	questionsJSON, _ := json.Marshal(texts) // texts always encode
	base, err := url.Parse(cmp.Or(h.BaseURL, anthropicBase))
	switch {
	case len(texts) == 0:
		return w, "", errors.New("there is no question")
	case len(questionsJSON) > maxQuestionBytes:
		return w, "", fmt.Errorf("it is longer than the %d bytes that can be reworded in time",
			maxQuestionBytes)
	case h.Key == "":
		return w, "", errors.New("no key for Anthropic's API")
	case err != nil || !IsAllowedBaseURL(base):
		return w, "", errors.New("the API's base URL must be https, or http to this machine")
	}
	body, _ := json.Marshal(map[string]any{
		"model": haikuModel, "max_tokens": haikuMaxTokens, "system": wordingPrompt,
		"messages": []map[string]string{{"role": "user", "content": string(questionsJSON)}},
	})
	ctx, cancel := context.WithTimeout(ctx, haikuTimeout)
	defer cancel()
	req, _ := http.NewRequestWithContext(ctx, http.MethodPost,
		base.JoinPath("v1", "messages").String(), bytes.NewReader(body))
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Api-Key", h.Key)
	req.Header.Set("Anthropic-Version", "2023-06-01")
	resp, err := noRedirectClient.Do(req)
	if err != nil {
		return w, "", withoutURL(err)
	}
	defer resp.Body.Close()
	return readModelResponse(resp)
}

// readModelResponse reads the API's response. From an error response it keeps only the
// error's type.
func readModelResponse(resp *http.Response) (w Wording, text string, err error) {
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxResponseBytes))
	if err != nil {
		return w, "", withoutURL(err)
	}
	var answer struct {
		Type, Model string
		Content     []struct{ Text string }
		StopReason  string `json:"stop_reason"`
		Usage       Wording
		Error       struct{ Type string }
	}
	err = json.Unmarshal(body, &answer)
	if resp.StatusCode != http.StatusOK {
		return w, "", fmt.Errorf("anthropic answered %d %s",
			resp.StatusCode, shorten(answer.Error.Type, 60))
	}
	if err != nil || answer.Type != "message" {
		return w, "", errors.New("the response is not from Anthropic")
	}
	w = answer.Usage
	w.Model = cmp.Or(shorten(answer.Model, 100), haikuModel)
	if answer.StopReason != "end_turn" {
		return w, "", fmt.Errorf("the model stopped: %q", shorten(answer.StopReason, 60))
	}
	for _, block := range answer.Content {
		text += block.Text
	}
	return w, text, nil
}

// readWording parses the model's texts. They are a JSON array, which the model sometimes
// puts inside a code block.
func readWording(text string, count int) (texts []string, err error) {
	text = text[:strings.LastIndexByte(text, ']')+1]
	text = text[max(0, strings.IndexByte(text, '[')):]
	if json.Unmarshal([]byte(text), &texts) != nil || len(texts) != count {
		return nil, fmt.Errorf("the model did not answer with %d texts", count)
	}
	for _, t := range texts {
		if wording.SafeLine(t) == "" || len(t) > maxWordingBytes {
			return nil, fmt.Errorf("the model gave a text of %d bytes", len(t))
		}
	}
	return texts, nil
}
