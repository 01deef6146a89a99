package gchat

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestDisarm(t *testing.T) {
	for _, tt := range []struct{ name, in, want string }{
		{"words", "Done: [x] all", "Done: [x] all"},
		{"in a line", "ok [Done] x", "ok [Done] x"},
		{"other brackets", "[Download] x", "[Download] x"},
		{"longer word", "[Done and dusted] x", "[Done and dusted] x"},
		{"not closed", "[Done x", "[Done x"},
		{"plain", "[Done] x", "(Done) x"},
		{"case", "[dONE] x", "(dONE) x"},
		{"spaces", " \t[ D o n e ] x", " \t( D o n e ) x"},
		{"two words", "[Session  Start]", "(Session  Start)"},
		{"no space", "[SubagentDone]", "(SubagentDone)"},
		{"a hyphen", "[Session-End]", "(Session-End)"},
		{"bold", "*[Done]* x", "*(Done)* x"},
		{"bold inside", "[*Done*] x", "(*Done*) x"},
		{"in a list, quoted", "> * _~[Error]~_", "> * _~(Error)~_"},
		{"code", "`[Error]`", "`(Error)`"},
		{"our own tick", "\uFDD2[Error]\uFDD2", "\uFDD2(Error)\uFDD2"},
		{"label", "\uFDD0https://x.y|[Done] x\uFDD1", "\uFDD0https://x.y|(Done) x\uFDD1"},
		{"label between brackets", "[\uFDD0https://x.y|Done\uFDD1] x", "(\uFDD0https://x.y|Done\uFDD1) x"},
		{"URL", "\uFDD0https://x.y/[Done]|x\uFDD1", "\uFDD0https://x.y/[Done]|x\uFDD1"},
		{"full width", "［Ｄｏｎｅ］", "(Ｄｏｎｅ)"},
		{"Cyrillic", "[Dоnе] [ЕRRОR]", "(Dоnе) [ЕRRОR]"},
		{"Cyrillic capitals", "[ВLОСКЕD]", "(ВLОСКЕD)"},
		{"Greek", "[ΑnswΕrεd]", "(ΑnswΕrεd)"},
		{"strokes", "[CanceIIed]", "(CanceIIed)"},
		{"digits", "[D0ne]", "(D0ne)"},
		{"mathematical", "[𝐃𝓸𝔫𝖾]", "(𝐃𝓸𝔫𝖾)"},
		{"circles", "[Ⓓⓞⓝⓔ]", "(Ⓓⓞⓝⓔ)"},
		{"other brackets that look so", "【Done】", "(Done)"},
		{"marks", "[Do\u0301ne\u0302]", "(Do\u0301ne\u0302)"},
		{"joiner", "\u200d[Do\u200dne]", "\u200d(Do\u200dne)"},
		{"thread key", "Thread key: ask-user-1", "Thread key - ask-user-1"},
		{"thread key in disguise", "*Тhread  KEY*： x", "*Тhread  KEY* - x"},
		{"threads", "Thread keys: x", "Thread keys: x"},
		{"bytes", "\xff\x00[Done]", "\xff\x00[Done]"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := disarm(tt.in); got != tt.want {
				t.Errorf("disarm(%q) = %q, want %q", tt.in, got, tt.want)
			}
			if got := disarmAll("x" + tt.in); strings.HasPrefix(tt.want, "(") && got != "x"+strings.Replace(tt.want, "[ЕRRОR]", "(ЕRRОR)", 1) {
				t.Errorf("disarmAll(%q) = %q", "x"+tt.in, got)
			}
		})
	}
	const in = "a [Done] [Error]x\uFDD0https://x.y/[Done]|[Done]\uFDD1 thread key: t Thread key:"
	const want = "a (Done) (Error)x\uFDD0https://x.y/[Done]|(Done)\uFDD1 thread key - t Thread key -"
	if got := disarmAll(in); got != want {
		t.Errorf("disarmAll = %q, want %q", got, want)
	}
}

// Every prefix that a message of ours begins with is guarded.
func TestOwnPrefixes(t *testing.T) {
	for _, p := range ownPrefixes {
		if got := disarm(p); got != "("+strings.Trim(p, "[]")+")" {
			t.Errorf("disarm(%q) = %q", p, got)
		}
	}
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) < 20 {
		t.Fatal(files, err)
	}
	reports, err := filepath.Glob("testdata/reports/*.txt")
	if err != nil || len(reports) < 8 {
		t.Fatal(reports, err)
	}
	for _, name := range append(files, reports...) {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		first, _, _ := strings.Cut(string(text), "\n")
		if strings.HasPrefix(first, "[") && disarm(first) == first {
			t.Errorf("%s begins with %q, which is not guarded", name, first)
		}
	}
}
