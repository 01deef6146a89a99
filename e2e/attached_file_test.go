package e2e

import (
	"bytes"
	"os"
	"regexp"
	"testing"

	"google.golang.org/api/chat/v1"

	"gchat-hooks/e2e/kit"
	"gchat-hooks/gchat/space"
)

// replyWithPicture has the person reply in a message's thread, with a picture.
func (b *hookedSession) replyWithPicture(to *chat.Message, text string) {
	b.t.Helper()
	b.postPicture(to.Thread.Name, text)
}

// postPicture has the person write into a thread, or begin one, with a picture.
func (b *hookedSession) postPicture(thread, text string) *chat.Message {
	b.t.Helper()
	m, err := b.space.PostFiles(nil, thread, text, space.NewFile{
		Name: "screen shot.png", Content: kit.Picture(),
	})
	kit.NoError(b.t, err)
	return m
}

// WaitToldFile waits until Claude was told words, and after them where a picture is that is
// there.
func (m *fakeModel) WaitToldFile(t *testing.T, words string) {
	t.Helper()
	const picture = `.*?Attached file: (/\S+-1\.png) \(image/png, screen shot\.png\)`
	pattern := regexp.MustCompile("(?s)" + regexp.QuoteMeta(words) + picture)
	var told []string
	m.Wait(t, "a file after "+words, func() bool {
		for _, request := range m.Requests() {
			for _, message := range request.Messages {
				if message.Role != "assistant" && told == nil {
					told = pattern.FindStringSubmatch(message.Content.AllText())
				}
			}
		}
		return told != nil
	})
	content, err := os.ReadFile(told[1])
	kit.Must(t, err == nil && bytes.Equal(content, kit.Picture()), "%s: %v", told[1], err)
}

// In each mode Claude is told where a picture is that came with the answer to its question.
func TestAttachedFile_InEachMode(t *testing.T) {
	eachCase(t, testedVersions, map[string]starter{
		"hold": func(t *testing.T, c claude, cfg config) *hookedSession {
			cfg.Env = append(cfg.Env, "GCHAT_ASK_MODE=hold")
			return startAsking(t, c, cfg)
		},
		"inject": startInject,
		"deny":   startDenying,
	}, func(t *testing.T, c claude, start starter) {
		b := start(t, c, config{
			Script: []turn{
				{questionCall(deployQuestion)}, {questionCall(databaseQuestion)},
				goOnTurn, actTurn, actTurn,
			},
		})
		b.Prompt("go ahead")
		b.replyWithPicture(b.awaitPost("[AskUserQuestion]", deployQuestion.Question), "2")
		b.API.WaitToldFile(t, "Rolling deployment")
		second := b.awaitPost("[AskUserQuestion]", databaseQuestion.Question)
		b.replyWithPicture(second, "neither, as in the picture")
		b.API.WaitToldFile(t, "neither, as in the picture")
	})
}

// Claude is told where a picture is that came with the answer to its question, and one
// that came with a message to its session.
func TestAttachedFile_ClaudeIsToldPath(t *testing.T) {
	eachSession(t, testedVersions, startApproving, config{
		Script: []turn{
			{textBlock("A question."), questionCall(deployQuestion)}, askBackTurn, {textBlock("Seen.")},
		},
	}, func(t *testing.T, b *hookedSession) {
		q := b.awaitPost("[AskUserQuestion]")
		b.replyWithPicture(q, "2")
		b.awaitResult(1, "Rolling deployment", "Attached file: /", "(image/png, screen shot.png)")
		waiting := b.awaitPost("[Waiting for you]")
		b.replyWithPicture(waiting, "make it look so")
		b.WaitScreen("Seen.")
		b.API.WaitText(t, "make it look so")
		kit.Containsf(t, b.API.lastMainText(), "-1.png (image/png, screen shot.png)", "the prompt")
	})
}
