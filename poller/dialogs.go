package poller

import (
	"time"

	"gchat-hooks/gchat/wording"
	"gchat-hooks/inject"
	"gchat-hooks/poller/commands"
	"gchat-hooks/state"
)

const (
	// graceForDialog is how long a dialog may stand before it is told of that no hook
	// told of: mostly its hook just begins, and from 6 s on Claude Code's notification
	// tells.
	graceForDialog = 7 * time.Second
	// graceForMenu is that of a menu that its person may have opened, and is about to
	// leave.
	graceForMenu = time.Minute
)

// attendDialog has a session's thread told of what waits in its terminal, where no hook
// told of it, and of its end. due says that Claude Code's file is to be looked at.
func (p *Poller) attendDialog(session *state.Session, isRoundDue bool) {
	saved := session.Dialog
	if saved != nil && !saved.IsNoteEnqueued && !saved.IsOver {
		p.enqueueDialogNote(session)
	}
	if !isRoundDue || saved == nil && !commands.AcceptsInput(session, p.Now()) {
		return
	}
	current, isKnown := inject.DialogOf(session)
	if current != nil && state.IsDialogExplained(p.Env, session.ID) {
		current = nil
	}
	switch {
	case saved != nil:
		p.followDialog(session, current, isKnown)
	case current != nil:
		p.notifyNewDialog(session, current)
	}
}

// followDialog dates the dialog of a session whose hook was faster than Claude Code's
// file, and notes its end. is is the dialog that the file has, and known says whether it
// tells of dialogs.
func (p *Poller) followDialog(session *state.Session, current *state.Dialog, isKnown bool) {
	saved := *session.Dialog
	isDated := !saved.WaitsSince.IsZero()
	if current != nil && !isDated && !saved.IsOver {
		saved.WaitsSince = current.WaitsSince
		p.saveDialog(session, &saved)
		return
	}
	isGone := isKnown && isDated && !saved.IsSame(current)
	if isGone || saved.IsOver || !session.IsRunning() ||
		inject.HasEnded(session.ClaudePID, session.ClaudeStart) {
		p.Log.ErrorOnce(p.endDialog(session), "the end of a dialog not told of")
	}
}

// notifyNewDialog tells of a dialog that Claude Code's file has, and that no hook told of
// in time.
func (p *Poller) notifyNewDialog(session *state.Session, dialog *state.Dialog) {
	grace := graceForDialog
	if dialog.IsMenu {
		grace = graceForMenu
	}
	if dueAt := dialog.WaitsSince.Add(grace); p.Now().Before(dueAt) {
		p.dialogNoteDue = earlier(p.dialogNoteDue, dueAt)
		return
	}
	p.saveDialog(session, dialog)
	updated := *session
	updated.Dialog = dialog
	p.enqueueDialogNote(&updated)
}

// enqueueDialogNote has a session's thread told of its dialog, once.
func (p *Poller) enqueueDialogNote(session *state.Session) {
	_, isTried := p.attemptedNotes.LoadOrStore(
		session.ID+session.Dialog.Text+session.Dialog.WaitsSince.String(),
		true,
	)
	if !isTried && p.EnqueueDialogNote != nil {
		p.runInBackground(
			"dialog",
			func() { p.Log.ErrorOnce(p.EnqueueDialogNote(p.Env, session), "a dialog not told of") },
		)
	}
}

func (p *Poller) saveDialog(session *state.Session, dialog *state.Dialog) {
	_, err := state.SessionsIn(p.userStateDir).Change(session.ID, func(s *state.Session) {
		if s.Dialog == session.Dialog || s.Dialog.IsSame(session.Dialog) { // else a hook was faster
			s.Dialog = dialog
		}
	})
	p.Log.ErrorOnce(err, "a dialog not written down")
}

// endDialog takes the note of a dialog back that has not been sent, and else says that it
// is over.
func (p *Poller) endDialog(session *state.Session) error {
	dialog, outbox := session.Dialog, state.OutboxIn(p.userStateDir)
	message, err := outbox.FindByKey(dialog.MessageKey(session.ID))
	switch {
	case !dialog.IsNoteEnqueued || err != nil:
	case message != nil && !message.IsFinal() && message.FirstTriedAt.IsZero():
		err = outbox.RemoveMessage(p.Env, message)
	default:
		err = p.commandRunner().
			EnqueueNote(session, state.MessageID("over", session.ID, dialog.Text, dialog.WaitsSince.String()), wording.DialogOverText)
	}
	if err == nil {
		p.saveDialog(session, nil)
	}
	return err
}
