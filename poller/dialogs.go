package poller

import (
	"time"

	"gchat-hooks/gchat/wording"
	"gchat-hooks/inject"
	"gchat-hooks/poller/commands"
	"gchat-hooks/state"
)

const (
	// graceForDialog is how long a dialog may stand before it is told of that no hook told of: mostly its hook just begins, and
	// from 6 s on Claude Code's notification tells.
	graceForDialog = 7 * time.Second
	// graceForMenu is that of a menu that its person may have opened, and is about to leave.
	graceForMenu = time.Minute
)

// attendDialog has a session's thread told of what waits in its terminal, where no hook told of it, and of its end. due says that
// Claude Code's file is to be looked at.
func (p *Poller) attendDialog(one *state.Session, due bool) {
	was := one.Dialog
	if was != nil && !was.IsNoteEnqueued && !was.IsOver {
		p.tellDialog(one)
	}
	if !due || was == nil && !commands.Listens(one, p.Now()) {
		return
	}
	is, known := inject.DialogOf(one)
	if is != nil && state.IsDialogExplained(p.Env, one.ID) {
		is = nil
	}
	switch {
	case was != nil:
		p.followDialog(one, is, known)
	case is != nil:
		p.noteDialog(one, is)
	}
}

// followDialog dates the dialog of a session whose hook was faster than Claude Code's file, and
// notes its end. is is the dialog that the file has, and known says whether it tells of dialogs.
func (p *Poller) followDialog(one *state.Session, is *state.Dialog, known bool) {
	was := *one.Dialog
	isDated := !was.WaitsSince.IsZero()
	if is != nil && !isDated && !was.IsOver {
		was.WaitsSince = is.WaitsSince
		p.setDialog(one, &was)
		return
	}
	isGone := known && isDated && !was.IsSame(is)
	if isGone || was.IsOver || !one.IsRunning() || inject.Ended(one.ClaudePID, one.ClaudeStart) {
		p.Log.ErrorOnce(p.endDialog(one), "the end of a dialog not told of")
	}
}

// noteDialog tells of a dialog that Claude Code's file has, and that no hook told of in time.
func (p *Poller) noteDialog(one *state.Session, is *state.Dialog) {
	grace := graceForDialog
	if is.IsMenu {
		grace = graceForMenu
	}
	if toldAt := is.WaitsSince.Add(grace); p.Now().Before(toldAt) {
		p.dialogDue = sooner(p.dialogDue, toldAt)
		return
	}
	p.setDialog(one, is)
	now := *one
	now.Dialog = is
	p.tellDialog(&now)
}

// tellDialog has a session's thread told of its dialog, once.
func (p *Poller) tellDialog(one *state.Session) {
	_, tried := p.summed.LoadOrStore(one.ID+one.Dialog.Text+one.Dialog.WaitsSince.String(), true)
	if !tried && p.Dialog != nil {
		p.beside("dialog", func() { p.Log.ErrorOnce(p.Dialog(p.Env, one), "a dialog not told of") })
	}
}

func (p *Poller) setDialog(one *state.Session, d *state.Dialog) {
	_, err := state.SessionsIn(p.user).Change(one.ID, func(s *state.Session) {
		if s.Dialog == one.Dialog || s.Dialog.IsSame(one.Dialog) { // else a hook was faster
			s.Dialog = d
		}
	})
	p.Log.ErrorOnce(err, "a dialog not written down")
}

// endDialog takes the note of a dialog back that has not been sent, and else says that it is over.
func (p *Poller) endDialog(one *state.Session) error {
	d, box := one.Dialog, state.OutboxIn(p.user)
	m, err := box.FindByKey(d.MessageKey(one.ID))
	switch {
	case !d.IsNoteEnqueued || err != nil:
	case m != nil && !m.IsFinal() && m.FirstTriedAt.IsZero():
		err = box.RemoveMessage(p.Env, m)
	default:
		err = p.room().Tell(one, state.MessageID("over", one.ID, d.Text, d.WaitsSince.String()), wording.DialogOverText)
	}
	if err == nil {
		p.setDialog(one, nil)
	}
	return err
}
