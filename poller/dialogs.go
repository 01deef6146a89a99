package poller

import (
	"time"

	"gchat-hooks/gchat/wording"
	"gchat-hooks/inject"
	"gchat-hooks/poller/commands"
	"gchat-hooks/state"
)

const (
	// graceForDialog is how long the poller waits for a hook to report a dialog, before
	// it reports the dialog itself. Mostly the dialog's hook is just starting, and
	// after 6 s Claude Code's notification reports it.
	graceForDialog = 7 * time.Second
	// graceForMenu is the same for a menu. Its person may have opened it and may leave
	// it soon.
	graceForMenu = time.Minute
)

// attendDialog has a session's thread informed of a dialog that waits in its terminal,
// if no hook reported it, and of the dialog's end. It reads Claude Code's file of the
// session only if isRoundDue.
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

// followDialog follows a dialog that the session's record has. If a hook reported the
// dialog before Claude Code's file had it, followDialog sets its time. When the dialog
// is gone, it notes the end. current is the dialog in Claude Code's file; isKnown
// reports whether that file tells of dialogs at all.
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
		p.Log.ErrorOnce(p.endDialog(session), "end of a dialog not noted")
	}
}

// notifyNewDialog enqueues a note about a dialog that Claude Code's file shows and that
// no hook reported in time.
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

// enqueueDialogNote has a session's thread informed of its dialog, once.
func (p *Poller) enqueueDialogNote(session *state.Session) {
	dialogID := session.ID + session.Dialog.Text + session.Dialog.WaitsSince.String()
	_, isTried := p.attemptedNotes.LoadOrStore(dialogID, true)
	if isTried || p.EnqueueDialogNote == nil {
		return
	}
	p.runInBackground("dialog", func() {
		p.Log.ErrorOnce(p.EnqueueDialogNote(p.Env, session), "note of a dialog not enqueued")
	})
}

func (p *Poller) saveDialog(session *state.Session, dialog *state.Dialog) {
	_, err := state.SessionsIn(p.userStateDir).Change(session.ID, func(s *state.Session) {
		// else a hook changed it first
		if s.Dialog == session.Dialog || s.Dialog.IsSame(session.Dialog) {
			s.Dialog = dialog
		}
	})
	p.Log.ErrorOnce(err, "dialog not saved")
}

// endDialog removes the note of a dialog from the outbox if it was not tried yet.
// Otherwise it enqueues a note that the dialog is over.
func (p *Poller) endDialog(session *state.Session) error {
	dialog, outbox := session.Dialog, state.OutboxIn(p.userStateDir)
	message, err := outbox.FindByKey(dialog.MessageKey(session.ID))
	switch {
	case !dialog.IsNoteEnqueued || err != nil:
	case message != nil && !message.IsFinal() && message.FirstTriedAt.IsZero():
		err = outbox.RemoveMessage(p.Env, message)
	default:
		id := state.MessageID("over", session.ID, dialog.Text, dialog.WaitsSince.String())
		err = p.commandRunner().EnqueueNote(session, id, wording.DialogOverText)
	}
	if err == nil {
		p.saveDialog(session, nil)
	}
	return err
}
