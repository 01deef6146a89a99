package e2e

import (
	"testing"

	"google.golang.org/api/chat/v1"

	"gchat-hooks/e2e/kit"
	"gchat-hooks/gchat/space"
)

// replyWithPicture has the person reply in a message's thread, with a picture.
func (b *hookedSession) replyWithPicture(to *chat.Message, text string) {
	b.t.Helper()
	_, err := b.space.PostFiles(nil, to.Thread.Name, text, space.NewFile{
		Name: "screen shot.png", Content: kit.Picture(),
	})
	kit.NoError(b.t, err)
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
