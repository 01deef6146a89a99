package cli

import (
	"encoding/json"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"google.golang.org/api/chat/v1"

	"gchat-hooks/e2e/bound"
	"gchat-hooks/e2e/golden"
	"gchat-hooks/e2e/kit"
	"gchat-hooks/gchat/space"
)

var (
	secretInLink = regexp.MustCompile(`((?:/t/|#key=|[?&]key=|&token=))[\w-]+`)
	hooksAdded   = regexp.MustCompile(`\d+ hooks added(, in place of \d+)?`)
	messageName  = regexp.MustCompile(`spaces/local/messages/[\w.-]+`)
	timeOfDay    = regexp.MustCompile(`(\d{4}-\d\d-\d\d )?\d\d:\d\d(:\d\d)?`)
)

// withoutVariables is a text with names in place of what differs from run to run.
func (p *spaceHome) withoutVariables(text string) string {
	_, port, _ := net.SplitHostPort(p.address)
	text = strings.NewReplacer(p.home, "HOME", p.program, "PROGRAM", p.address, "127.0.0.1:PORT", ":"+port, ":PORT").Replace(text)
	text = secretInLink.ReplaceAllString(text, "${1}SECRET")
	text = hooksAdded.ReplaceAllString(text, "N hooks added")
	text = messageName.ReplaceAllString(text, "MESSAGE")
	return timeOfDay.ReplaceAllString(text, "TIME")
}

// What setup --space, send and the page's command print, and what setup writes down.
func TestWhatSetupOfTheSpaceSaysAndWrites(t *testing.T) {
	t.Parallel()
	p := newSpaceHome(t)
	said := ""
	for _, args := range [][]string{
		{"setup", "--space", "--address", p.address},
		{"setup", "--space", "--address", p.address, "--round-trip=false", "--approve"},
		{"send", "words"},
		{"space"},
	} {
		out, code := p.run(args...)
		said += "$ gchat-hooks " + strings.Join(args, " ") + "\n" + out
		kit.Equalf(t, code, 0, "%q ends with", args)
	}
	golden.Compare(t, "testdata/setup_space.golden", p.withoutVariables(said))
	written, err := os.ReadFile(filepath.Join(p.home, ".config/gchat-hooks/config.json"))
	kit.NoError(t, err)
	golden.Compare(t, "testdata/setup_space_config.golden", p.withoutVariables(string(written)))
}

// How a question's end stands in the list of the space, as a text.
func TestTheListTellsHowAQuestionEnded(t *testing.T) {
	t.Parallel()
	p := newSpaceHome(t)
	page, end := p.runSpace()
	defer end()
	ends := ""
	for session, reply := range map[string]string{"one": "2", "two": "Use MySQL", "three": "skip"} {
		thread, answer := p.ask(session)
		p.reply(page, thread, reply)
		said := answer()
		answers := regexp.MustCompile(`"answers":(\{[^}]*\})`).FindString(said)
		if answers != "" { // what is left to the terminal stays open
			told := strings.Replace(p.hookEvent(session, "PostToolUse"), `"tool_input"`, `"tool_response":{`+answers+`},"tool_input"`, 1)
			cmd := bound.Command(t, p.program, "hook", "gchat-ask-user-answered")
			cmd.Env, cmd.Stdin = p.env(), strings.NewReader(told)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
		}
		ends += p.awaitText("the end is listed", func() string { return p.awaitListed(thread, "[Answered]", "[In the terminal]") })
	}
	lines := strings.SplitAfter(p.withoutVariables(ends), "\n---\n")
	slices.Sort(lines)
	golden.Compare(t, "testdata/space_ends.golden", strings.Join(lines, ""))
}

// awaitListed is the program's text of that beginning in a thread, as the API's list
// tells it.
func (p *spaceHome) awaitListed(thread string, beginnings ...string) string {
	p.Helper()
	kept, err := space.LoadAddresses(filepath.Join(p.home, "state/gchat-hooks/space"))
	kit.NoError(p, err)
	resp, err := http.Get(kept.APIEndpoint("http://"+p.address) + "v1/" + space.Name + "/messages?pageSize=1000")
	kit.NoError(p, err)
	defer resp.Body.Close()
	var list chat.ListMessagesResponse
	kit.NoError(p, json.NewDecoder(resp.Body).Decode(&list))
	for _, m := range list.Messages {
		for _, beginning := range beginnings {
			if m.Thread.Name == thread && m.Sender.Type == "BOT" && strings.HasPrefix(m.Text, beginning) {
				return m.Text + "\n---\n"
			}
		}
	}
	return ""
}
