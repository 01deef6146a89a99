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
	haikuTimeout     = 2 * time.Second // the question waits for its wording
	maxQuestionBytes = 4 << 10         // bytes of JSON that the model words in that time
	maxWordingBytes  = 4 << 10         // bytes of one question's wording
	// bytes that are read of an answer: many times what haikuMaxTokens allows
	maxResponseBytes = 256 << 10
)

// wordingPrompt tells the model what to write. Nothing depends on its obedience: its
// words are foreign text, and the options never come from it.
//
//go:embed wording.txt
var wordingPrompt string

// Haiku rewords questions through Anthropic's Messages API.
type Haiku struct {
	Key string // a secret
	// without /v1; "": Anthropic's. Plain http for this machine only, since the key goes
	// there
	BaseURL string
}

// Wording is what the model made of questions.
type Wording struct {
	// one for each question, foreign; to be kept in Question.Wording
	Texts        []string `json:"-"`
	Model        string   `json:"-"`
	InputTokens  int64    `json:"input_tokens"`
	OutputTokens int64    `json:"output_tokens"`
}

// USD is what it cost: claude-haiku-4-5 is $1 a million tokens in and $5 out.
func (w Wording) USD() float64 { return (float64(w.InputTokens) + 5*float64(w.OutputTokens)) / 1e6 }

// Reword asks the model once, within ctx and haikuTimeout. The questions' texts go out;
// headers, options, session and thread stay here. No error holds the key. Where the model
// did answer, the Wording of an error has no Texts but tells what was paid for.
func (h Haiku) Reword(ctx context.Context, questions []state.SubQuestion) (Wording, error) {
	w, text, err := h.callModel(ctx, questions)
	if err == nil {
		w.Texts, err = readWording(text, len(questions))
	}
	if err != nil {
		return w, fmt.Errorf("word question: %w", err)
	}
	return w, nil
}

func (h Haiku) callModel(
	ctx context.Context,
	questions []state.SubQuestion,
) (w Wording, text string, err error) {
	var texts []string
	for _, p := range questions {
		texts = append(texts, state.Clean(state.ForChat, p.Question))
	}
	questionsJSON, _ := json.Marshal(texts) // texts always encode
	base, err := url.Parse(cmp.Or(h.BaseURL, anthropicBase))
	switch {
	case len(texts) == 0:
		return w, "", errors.New("there is no question")
	case len(questionsJSON) > maxQuestionBytes:
		return w, "", fmt.Errorf(
			"it is longer than the %d bytes that are worded in time",
			maxQuestionBytes,
		)
	case h.Key == "":
		return w, "", errors.New("no key for Anthropic's API")
	case err != nil || !IsAllowedBaseURL(base):
		return w, "", errors.New(
			"the base URL of Anthropic's API is none: it must be https, or http to this machine",
		)
	}
	body, _ := json.Marshal(map[string]any{
		"model": haikuModel, "max_tokens": haikuMaxTokens, "system": wordingPrompt,
		"messages": []map[string]string{{"role": "user", "content": string(questionsJSON)}},
	})
	ctx, cancel := context.WithTimeout(ctx, haikuTimeout)
	defer cancel()
	req, _ := http.NewRequestWithContext(
		ctx,
		http.MethodPost,
		base.JoinPath("v1", "messages").String(),
		bytes.NewReader(body),
	)
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

// readModelResponse reads the API's answer, or its error, of which only the kind is taken
// over.
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
		return w, "", fmt.Errorf(
			"anthropic answered %d %s",
			resp.StatusCode,
			shorten(answer.Error.Type, 60),
		)
	}
	if err != nil || answer.Type != "message" {
		return w, "", errors.New("the answer is not one of Anthropic's")
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

// readWording reads the model's texts: a JSON array, at times inside a code block.
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
