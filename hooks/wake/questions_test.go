package wake

import (
	"strings"
	"testing"
)

func TestQuestions(t *testing.T) {
	for input, want := range map[string]string{
		`{"questions":[{"question":"Why?\nReally?","options":[]}]}`: "Question: Why?\nReally?\nMulti-select: no",
		`{"questions":[{"question":"A","header":"H","multiSelect":true,"options":[{"label":"x\ny","description":""}]},{"question":"B","options":[{"label":"z","description":"d\n e"}]}]}`: "Question: A\nHeader: H\nMulti-select: yes\nOptions:\n  1. x y\n\nQuestion: B\nMulti-select: no\nOptions:\n  1. z: d  e",
	} {
		if got := questions([]byte(input)); got != want {
			t.Errorf("%s:\n%s\nwant\n%s", input, got, want)
		}
	}
}

// A label is told as it stands on the screen: only what ends a line, or is for a terminal, is replaced.
func TestOneLine(t *testing.T) {
	for s, want := range map[string]string{
		"a  b": "a  b", " a ": " a ", "a\nb": "a b", "a\r\nb": "a b", "a\tb": "a b", "a\x1b[31mb\x00": "ab", "a\u2028b": "a b", "a\u009bb": "ab", "ä\xff": "ä\uFFFD", "a\u00a0b": "a\u00a0b",
	} {
		if got := oneLine(s); got != want {
			t.Errorf("%q: %q, want %q", s, got, want)
		}
	}
	ask := `{"questions":[{"question":"Why?","header":" ","options":[{"label":"a  b","description":" "},{"label":" ","description":"d"}]}]}`
	if got, want := questions([]byte(ask)), "Question: Why?\nMulti-select: no\nOptions:\n  1. a  b\n  2. : d"; got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}

// Where no question can be read, the agent gets what there is.
func TestHopelessQuestions(t *testing.T) {
	for input, want := range map[string]string{
		``: "", `{"questions":[]}`: "\n{\"questions\":[]}", `{"ask":"Why?"}`: "\n{\"ask\":\"Why?\"}", `["Why?"]`: "\n[\"Why?\"]", `{"questions":7}`: "\n{\"questions\":7}", `null`: "\nnull",
		`{"questions":[{"prompt":"Why?"}]}`: "\n{\"questions\":[{\"prompt\":\"Why?\"}]}", `{"questions":[{"question":7}]}`: "\n{\"questions\":[{\"question\":7}]}", `{"questions":[{"question":"Why?","options":"one"}]}`: "\n{\"questions\":[{\"question\":\"Why?\",\"options\":\"one\"}]}",
		`{"ask":"` + strings.Repeat("ä", 3000) + `"}`: "\n{\"ask\":\"" + strings.Repeat("ä", rawChars-8),
	} {
		if got := questions([]byte(input)); got != "(could not parse questions)"+want {
			t.Errorf("%s:\n%s\nwant\n%s", input, got, want)
		}
	}
}
