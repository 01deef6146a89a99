package cli

import (
	"go/ast"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gchat-hooks/e2e/kit"
)

// allowedCallbacks are the fields and variables of functions through which a package
// calls what another one gave it. Each is there since the package may not import who does
// the work. None is called under a record's lock: underlock's tests see what each of them
// does.
var allowedCallbacks = map[string]string{
	"cli/claudecheck Progress":    "what the check found so far",
	"cli/doctor Notify":           "what doctor has to say before it is done",
	"gchat StartEmbeddedSpace":    "cli knows how the page's space was started the last time; a dial that finds it down asks for it",
	"gchat/login NextLine":        "the person's terminal, read by cli",
	"gchat/login OpenBrowser":     "the person's browser",
	"gchat/space Now":             "a test's clock",
	"gchat/space DescribeSession": "what the page says of a session: the space knows nothing of ours",
	"gchat/space ListSessions":    "which sessions the page lists: the space knows nothing of ours",
	"gchat/space ListProjects":    "where the page may begin a session",
	"gchat/space StartedThread":   "the thread of a session that the page began is in a record of ours",
	"gchat/space DescribeWeek":    "the page's figures",
	"gchat/space PushSettings":    "what a person set: it may change while the space runs",
	"gchat/space ReadShownText":   "what a card shows only a part of is in a record of ours",
	"gchat/space CheckForm":       "a form's fields are in a record of ours; its page says at once what is wrong",
	"gchat/space OnActivity":      "the page has something for a poller",
	"gchat/space OnError":         "why the certificate cannot be used: the log is not the space's",
	"hooks ReadPolicy":            "a hook's only request: main gives it, so that hooks import no network",
	"hooks Job":                   "hooks/wake runs as a hook, by the same rules",
	"hooks JobMayWait":            "whether that hook may wait",
	"inject BeforeKey":            "what is written down before a key is pressed; no later step could know",
	"poller Now":                  "a test's clock",
	"poller EnqueueSummary":       "hooks read a transcript and git for a session's last words; the poller knows no hook events",
	"poller EnqueueDialogNote":    "hooks read a transcript for what waits in a terminal",
	"poller CloseByTranscript":    "hooks read a transcript for how a call ended",
	"poller/commands Enqueue":     "the poller's outbox, which sends what was put there at once",
	"poller/commands Now":         "the poller's clock",
	"poller/service Run":          "launchctl and systemctl, which a test stands in for",
	"state SlowCallWatcher":       "tests hold what is not done under a lock",
	"state/config ReadPolicy":     "a hub's policy: gchat asks for it, where a process may use the network",
}

// Every function that one package gives to another is in the list, with its reason.
func TestCallbacks_EachHasAReason(t *testing.T) {
	changeToRoot(t)
	found := map[string]bool{}
	for _, a := range importRules {
		files, _ := filepath.Glob(filepath.Join(a.folder, "*.go"))
		for _, path := range files {
			if a.folder == "." || a.folder == "cli" || strings.HasSuffix(path, "_test.go") {
				continue
			}
			for _, name := range functionArguments(parseFile(t, path)) {
				found[a.folder+" "+name] = true
			}
		}
	}
	// A plain result is easier to follow than a function that another package gives: such
	// a function needs a reason here.
	allowed := slices.Sorted(maps.Keys(allowedCallbacks))
	kit.Equalf(t, slices.Sorted(maps.Keys(found)), allowed, "functions that another package gives")
}

// functionArguments are the exported variables, and fields of exported types, that hold a
// function.
func functionArguments(f *ast.File) (names []string) {
	isFunction := func(e ast.Expr) bool {
		_, literal := e.(*ast.FuncType)
		text := ""
		switch e := e.(type) {
		case *ast.Ident:
			text = e.Name
		case *ast.SelectorExpr:
			text = e.Sel.Name
		}
		return literal || text == "PolicyReader"
	}
	add := func(of []*ast.Ident, is ast.Expr) {
		for _, name := range of {
			if name.IsExported() && is != nil && isFunction(is) {
				names = append(names, name.Name)
			}
		}
	}
	for _, d := range f.Decls {
		general, ok := d.(*ast.GenDecl)
		if !ok {
			continue
		}
		for _, spec := range general.Specs {
			switch spec := spec.(type) {
			case *ast.ValueSpec:
				add(spec.Names, spec.Type)
			case *ast.TypeSpec:
				fields, isStruct := spec.Type.(*ast.StructType)
				if !isStruct || !spec.Name.IsExported() {
					continue
				}
				for _, field := range fields.Fields.List {
					add(field.Names, field.Type)
				}
			}
		}
	}
	return names
}
