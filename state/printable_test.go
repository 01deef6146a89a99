package state

import (
	"encoding/json"
	"testing"
)

func TestPrintable(t *testing.T) {
	for in, want := range map[string]string{
		"plain ü 日本\n\tand so on":    "plain ü 日本\n\tand so on",
		"\x1b]0;title\x07":           "\uFFFD]0;title\uFFFD",
		"\u202etxt.exe\u2066":        "\uFFFDtxt.exe\uFFFD", // bidi controls
		"over\rwritten\u009b31m\x7f": "over\uFFFDwritten\uFFFD31m\uFFFD",
		"not UTF-8 \xff":             "not UTF-8 \uFFFD",
	} {
		if got := Printable(in); got != want {
			t.Errorf("%q: %q", in, got)
		}
	}
}

func TestPrintableJSONMeansTheSame(t *testing.T) {
	const text = "a\u202eb\u009bc\U000E0041d\u2028"
	b, err := json.Marshal(text)
	if err != nil {
		t.Fatal(err)
	}
	printable := PrintableJSON(string(b))
	var back string
	if err := json.Unmarshal([]byte(printable), &back); err != nil || back != text || printable != Printable(printable) {
		t.Errorf("%v: %s, read as %q", err, printable, back)
	}
}
