package commands

import (
	"strings"
	"testing"

	"gchat-hooks/state"
)

// A draft in the input box is not what Claude is at.
func TestADraftIsNotUnderWay(t *testing.T) {
	rule := strings.Repeat("─", 60)
	room := Room{Log: state.NewLog(func(string) string { return "" }, "test")}
	screen := []string{"❯ go ahead", "", "✻ Working… (3s)", rule, "❯ my draft", rule, "  ? for shortcuts"}
	if got := room.underWay(screen); !strings.Contains(got, "go ahead") {
		t.Errorf("%q", got)
	}
}
