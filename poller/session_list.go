package poller

import (
	"context"

	"gchat-hooks/gchat"
	"gchat-hooks/gchat/wording"
	"gchat-hooks/poller/commands"
	"gchat-hooks/state"
)

// asksForSessionList reports whether a message is /sessions, and its sender may have the
// list. It can stand in a thread of ours, be sent to the app, or be written on the page.
func (p *Poller) asksForSessionList(ctx context.Context, in *state.Incoming, to address) bool {
	cfg := p.loadPersonalConfig()
	isReply := to.record != nil && to.record.question.FindReply(in.ReplyName()) != nil
	if !wording.IsSessionsCommand(in.Text) || isReply || in.IsRevoked ||
		!cfg.CanApprove(in.Sender, in.SenderEmail) {
		return false
	}
	if to.session != nil || len(to.threadRecords) > 0 {
		return true
	}
	if in.EventID == "" {
		return gchat.IsLocalChat(in.Chat)
	}
	events := p.gatewayFor(ctx, configSource{projectDir: p.userStateDir}).eventSource()
	if events == nil || events.Chat() != in.Chat {
		return false
	}
	// A thread that is not ours may be another machine's.
	startsThread := in.FirstThreadMessage == "" && in.QuotedMessage == ""
	return startsThread || !events.IsShared()
}

// enqueueSessionList enqueues the list of this machine's sessions for the thread of a
// message, and finishes the message. Each machine of an app has a list of its own.
func (p *Poller) enqueueSessionList(in *state.Incoming) error {
	text := "[Not used] /sessions was read too late. Send it again if you still want it."
	if p.Now().Sub(in.LocalCreatedAt) <= commands.MaxCommandAge {
		text = p.sessionListText()
	}
	err := p.enqueue(&state.Message{
		ID:         state.MachineMessageID("sessions", in.MessageName),
		Type:       state.MessageNote,
		Parts:      []string{text},
		ProjectDir: p.userStateDir,
		Chat:       in.Chat,
		ThreadName: in.ThreadName,
		IsUrgent:   true,
		CreatedAt:  p.Now().UTC(),
	})
	if err != nil {
		return err
	}
	return p.finishIncoming(in, state.OutcomeCommand)
}

// sessionListText lists the sessions that run, with links to their threads.
func (p *Poller) sessionListText() string {
	questions, _ := state.ReadIndexedQuestions(p.Env, state.OpenStatusTexts...)
	list, _ := commands.ListSessions(p.Env, p.loadPersonalConfig(), questions, p.Now())
	var lines []wording.SessionLine
	for _, s := range list {
		if s.HasEnded() {
			continue
		}
		lines = append(lines, wording.SessionLine{
			Name:     s.Name,
			Project:  s.Project,
			Activity: s.State,
			Waits:    s.WaitKinds(),
			Link:     gchat.ThreadLink(s.Chat, s.ThreadName),
		})
	}
	return wording.SessionListText(lines)
}
