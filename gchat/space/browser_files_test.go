package space

import (
	"encoding/base64"
	"fmt"
	"testing"

	"gchat-hooks/e2e/kit"
)

// A person attaches files, removes one, and sends the rest. The page shows a picture as
// one, also after a reload, and everything else only as a file to save. It says what is
// too large before it sends anything.
func TestFilesOnPage_AreSentAndShown(t *testing.T) {
	ctx := newBrowser(t)
	s, srv := testServer(t, Options{DataDir: t.TempDir()})
	thread := postQuestion(t, s, srv.URL, "q", "Which of these?")
	navigate(t, ctx, s.PageURL(srv.URL))
	openThread(t, ctx, thread)
	waitUntil(t, ctx, `document.getElementById('attach').checkVisibility()`)
	picture := base64.StdEncoding.EncodeToString(kit.Picture())
	evaluate(t, ctx, fmt.Sprintf(`(() => {
		const list = new DataTransfer();
		const bytes = Uint8Array.from(atob(%q), (c) => c.charCodeAt(0));
		list.items.add(new File([bytes], 'cat.png', { type: 'image/png' }));
		list.items.add(new File(['<svg onload="alert(1)"></svg>'], 'x.svg', { type: 'image/svg+xml' }));
		list.items.add(new File(['wrong'], 'wrong.txt'));
		list.items.add(new File([new Uint8Array(10 * 1024 * 1024 + 1)], 'film.mov'));
		document.getElementById('file-input').files = list.files;
		document.getElementById('file-input').dispatchEvent(new Event('change'));
	})()`, picture))
	waitUntil(t, ctx,
		`document.getElementById('files-problem').textContent === 'film.mov is too large: at most 10 MB'`,
		`document.querySelectorAll('#chosen-files li').length === 3`,
		`document.querySelector('#chosen-files img').naturalWidth === 2`)
	screenshot(t, ctx, "files-chosen")
	click(t, ctx, `[aria-label="Remove wrong.txt"]`)
	click(t, ctx, `[data-send]`)
	waitForReplies(t, s, thread, 1)
	sent := s.Messages()[len(s.Messages())-1]
	var names []string
	for _, a := range sent.Attachment {
		names = append(names, a.ContentName+" "+a.ContentType)
	}
	kit.Equalf(t, names, []string{"cat.png image/png", "x.svg application/octet-stream"}, "the files")

	const shown = `document.querySelector('.mine .files img').naturalWidth === 2 &&
		document.querySelector('.mine .files img').src.startsWith('blob:') &&
		document.querySelectorAll('.mine .files img').length === 1 &&
		document.querySelector('.mine .files button').textContent === 'x.svg'`
	waitUntil(t, ctx, `document.getElementById('chosen-files').hidden`, shown)
	navigate(t, ctx, "about:blank", s.PageURL(srv.URL))
	openThread(t, ctx, thread)
	waitUntil(t, ctx, shown)
}
