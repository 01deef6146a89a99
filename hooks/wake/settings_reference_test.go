package wake

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"testing"
)

// TestReference holds the table of the settings to the code that reads them: the same members, their defaults, and a value
// that each of them refuses.
func TestReference(t *testing.T) {
	b, err := os.ReadFile("settings.go")
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, m := range regexp.MustCompile(`in\["(\w+)"\]|\{"(\w+)", &s\.`).FindAllStringSubmatch(string(b), -1) {
		known[m[1]+m[2]] = true
	}
	for _, s := range reference {
		if !known[s.Member] {
			t.Errorf("%s is in the table, and the code does not read it", s.Member)
		}
		delete(known, s.Member)
		with := func(value string) (settings, []string) {
			return builtIn.with(json.RawMessage(fmt.Sprintf(`{%q: %s}`, s.Member, value)), nil, "here")
		}
		if is, problems := with(s.Default); is != builtIn || len(problems) > 0 {
			t.Errorf("%s: %s is not its default: %+v %q", s.Member, s.Default, is, problems)
		}
		if _, problems := with(`"nonsense"`); !slices.ContainsFunc(problems, regexp.MustCompile(`^here\.`+s.Member+` is not`).MatchString) {
			t.Errorf("%s: nonsense is not refused: %q", s.Member, problems)
		}
	}
	for name := range known {
		t.Errorf("the code reads %s, which the table does not have", name)
	}
}
