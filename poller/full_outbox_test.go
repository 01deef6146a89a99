package poller

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gchat-hooks/e2e/kit"
)

// The outbox is full of files. Each step reads a part of them, the newest first, so that
// a question goes at once. The others keep their order, and go once all are read.
func TestAQuestionDoesNotWaitForAFullOutbox(t *testing.T) {
	t.Parallel()
	o := newSendTest(t)
	first, second := o.enqueueReport("shop", "first"), o.enqueueReport("shop", "second")
	dir := filepath.Dir(first.Path)
	began := second.CreatedAt.UnixNano()
	for n := range maxReadPerStep + 1 {
		name := fmt.Sprintf("%019d-broken-%d.json", began+int64(n)+10, n)
		kit.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte("no message"), 0o600))
	}
	o.advance(time.Minute)
	q := o.addTestQuestion()
	broken := func() (aside int) {
		entries, err := os.ReadDir(dir)
		kit.NoError(t, err)
		for _, e := range entries {
			if strings.Contains(e.Name(), ".corrupt-") {
				aside++
			}
		}
		return aside
	}
	s := o.newSender()
	_, isBusy := s.dispatch(t.Context())
	s.goroutines.Wait()
	if n := broken(); n > maxReadPerStep || !isBusy {
		t.Errorf("one step read %d broken files, busy %v", n, isBusy)
	}
	if got := o.texts(); len(got) != 1 || !o.reloadQuestion(q).IsMessageSent {
		t.Errorf("said %q, the question is sent: %v", got, o.reloadQuestion(q).IsMessageSent)
	}
	s.sendUntilIdle(t.Context())
	if got := o.texts(); len(got) != 3 || !strings.Contains(got[1], "first") || !strings.Contains(got[2], "second") {
		t.Errorf("said %q", got)
	}
	kit.Equalf(t, broken(), maxReadPerStep+1, "broken files were set aside")
}
