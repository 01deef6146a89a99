package space

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode"

	"google.golang.org/api/chat/v1"

	"gchat-hooks/e2e/kit"
)

// upload sends a file as the page does, and returns its id; "" if the space refuses it.
func upload(t *testing.T, s *Space, content io.Reader, headers ...string) (id string, code int) {
	t.Helper()
	r := httptest.NewRequest(http.MethodPost, "http://localhost/page/files", content)
	r.Header.Set(pageKeyHeader, s.pageKey())
	for _, line := range headers {
		name, value, _ := strings.Cut(line, ": ")
		r.Header.Set(name, value)
		if name == "Content-Length" {
			r.ContentLength, _ = strconv.ParseInt(value, 10, 64)
		}
	}
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, r)
	var answer struct{ ID string }
	_ = json.Unmarshal(w.Body.Bytes(), &answer)
	return answer.ID, w.Code
}

// postFiles posts files as the page does.
func postFiles(s *Space, text string, files ...sentFile) *httptest.ResponseRecorder {
	body, _ := json.Marshal(map[string]any{
		"text": text, "files": files, "clientId": randomText(8),
	})
	return callHandler(s, http.MethodPost, "http://localhost/page/messages", string(body),
		"Content-Type: application/json", pageKeyField(s))
}

// storedFiles returns what is in the folder of the files.
func storedFiles(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(dir, "files"))
	kit.NoError(t, err)
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

// Whatever is attached, the space serves nothing that a browser runs, writes nothing
// beside its folder, and gives the app the same bytes.
func TestFiles_BadOnesRunNothing(t *testing.T) {
	dir := t.TempDir()
	s := openSpace(t, dir)
	for _, file := range kit.BadFiles() {
		id, code := upload(t, s, bytes.NewReader(file.Content), "Content-Type: text/html")
		kit.Must(t, code == http.StatusOK && isFileID(id), "%s: %d %q", file.What, code, id)
		kit.Equalf(t, postFiles(s, "", sentFile{id, file.Name}).Code, http.StatusOK, "%s", file.What)
		attachment := s.Messages()[len(s.Messages())-1].Attachment[0]
		hasBadName := strings.ContainsFunc(attachment.ContentName, func(r rune) bool {
			return !unicode.IsPrint(r) || strings.ContainsRune(`/\`, r)
		})
		kit.True(t, !hasBadName && attachment.ContentName != "" &&
			len(attachment.ContentName) <= maxFileName, "%s: %q", file.What, attachment.ContentName)

		app := "http://localhost/t/" + s.secrets.APIToken + "/v1/media/" + attachment.AttachmentDataRef.ResourceName
		for _, w := range []*httptest.ResponseRecorder{
			callHandler(s, http.MethodGet, "http://localhost/page/files/"+id, "", pageKeyField(s)),
			callHandler(s, http.MethodGet, app+"?alt=media", ""),
		} {
			h := w.Result().Header
			isPicture := slices.Contains(inlineTypes, h.Get("Content-Type"))
			isDownload := h.Get("Content-Type") == "application/octet-stream" &&
				h.Get("Content-Disposition") == "attachment"
			kit.True(t, isPicture || isDownload, "%s: served as %v", file.What, h)
			kit.Equalf(t, h.Get("X-Content-Type-Options"), "nosniff", "%s", file.What)
			kit.Equalf(t, h.Get("Content-Security-Policy"), "sandbox; default-src 'none'", "%s",
				file.What)
			kit.True(t, bytes.Equal(w.Body.Bytes(), file.Content), "%s: other bytes", file.What)
		}
	}
	kit.Equalf(t, len(storedFiles(t, dir)), len(kit.BadFiles()), "the files")
	kit.True(t, len(kit.BadFiles()) >= 50, "%d files", len(kit.BadFiles()))
}

// endless is a body that never ends.
type endless struct{}

func (endless) Read(b []byte) (int, error) { return len(b), nil }

// A bad request stores no file: one that claims another length than it has, that never
// ends, that is empty or cut off, or that comes from nobody the space knows.
func TestFiles_BadRequestsStoreNothing(t *testing.T) {
	dir := t.TempDir()
	s := openSpace(t, dir)
	_, code := upload(t, s, endless{})
	kit.Equalf(t, code, http.StatusRequestEntityTooLarge, "without end")
	_, code = upload(t, s, strings.NewReader(""))
	kit.Equalf(t, code, http.StatusBadRequest, "empty")
	_, code = upload(t, s, bytes.NewReader(make([]byte, MaxFileBytes+1)))
	kit.Equalf(t, code, http.StatusRequestEntityTooLarge, "one byte too long")
	cutOff := io.MultiReader(strings.NewReader("GIF89a"), errReader{})
	_, code = upload(t, s, cutOff)
	kit.Equalf(t, code, http.StatusBadRequest, "cut off")
	_, code = upload(t, s, strings.NewReader("x"), "Sec-Fetch-Site: cross-site")
	kit.Equalf(t, code, http.StatusForbidden, "from another page")
	_, code = upload(t, s, strings.NewReader("x"), pageKeyHeader+": "+s.secrets.APIToken)
	kit.Equalf(t, code, http.StatusUnauthorized, "with the app's token")
	kit.Equalf(t, storedFiles(t, dir), nil, "what is stored")

	_, code = upload(t, s, bytes.NewReader(make([]byte, MaxFileBytes)), "Content-Length: 10000000000")
	kit.Equalf(t, code, http.StatusOK, "10 GB are claimed, and there are 10 MB")
	id := storedFiles(t, dir)[0]
	for what, path := range map[string]string{
		"no id": "/page/files/", "a path": "/page/files/..%2Fspace.json",
		"another file": "/page/files/space.json", "another space's id": "/page/files/" + randomText(16),
		"an id with a line break": "/page/files/" + id[:21] + "%0A",
	} {
		code := callHandler(s, http.MethodGet, "http://localhost"+path, "", pageKeyField(s)).Code
		kit.True(t, code == http.StatusNotFound || code == http.StatusMovedPermanently, "%s: %d",
			what, code)
	}
	kit.Equalf(t, callHandler(s, http.MethodGet, "http://localhost/page/files/"+id, "").Code,
		http.StatusUnauthorized, "without the key")
	kit.Equalf(t, callHandler(s, http.MethodGet, "http://localhost/v1/media/"+id+"?alt=media", "").Code,
		http.StatusUnauthorized, "without the token")

	var eleven []sentFile
	for range MaxFiles + 1 {
		eleven = append(eleven, sentFile{id, "a.png"})
	}
	kit.Equalf(t, postFiles(s, "x", eleven...).Code, http.StatusBadRequest, "eleven files")
	for what, bad := range map[string]string{
		"unknown": randomText(16), "a path": "../space.json", "nothing": "",
	} {
		kit.Equalf(t, postFiles(s, "x", sentFile{bad, "a"}).Code, http.StatusNotFound, "%s", what)
	}
	kit.Equalf(t, postFiles(s, " ").Code, http.StatusBadRequest, "neither words nor files")
	kit.Equalf(t, len(s.Messages()), 0, "the messages")
}

type errReader struct{}

func (errReader) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// What is left of an upload after kill -9, and what no message names, goes after an hour;
// everything after 30 days.
func TestFiles_OldOnesGo(t *testing.T) {
	dir := t.TempDir()
	s := openSpace(t, dir)
	used, _ := upload(t, s, strings.NewReader("used"))
	unused, _ := upload(t, s, strings.NewReader("unused"))
	kit.Equalf(t, postFiles(s, "", sentFile{used, "a.txt"}).Code, http.StatusOK, "the post")
	kit.NoError(t, os.WriteFile(filepath.Join(dir, "files", "part-1"), nil, 0o600))
	kit.NoError(t, s.Close())
	open := func(later time.Duration) {
		t.Helper()
		s, err := Open(Options{DataDir: dir, Now: func() time.Time { return time.Now().Add(later) }})
		kit.NoError(t, err)
		kit.NoError(t, s.Close())
	}
	open(0)
	want := []string{used, unused, "part-1"}
	slices.Sort(want)
	kit.Equalf(t, storedFiles(t, dir), want, "at once")
	open(2 * time.Hour)
	kit.Equalf(t, storedFiles(t, dir), []string{used}, "after two hours")
	open(31 * 24 * time.Hour)
	kit.Equalf(t, storedFiles(t, dir), nil, "after a month")
}

// The app uploads a file and posts it. A webhook can do neither.
func TestFiles_AppUploads(t *testing.T) {
	s, srv, app := openApp(t, Options{DataDir: t.TempDir()})
	token, err := app.UploadFile(t.Context(), "../chart.png", kit.Picture())
	kit.NoError(t, err)
	content := kit.JSON(t, &chat.Message{Text: "the chart", Attachment: []*chat.Attachment{
		{AttachmentDataRef: &chat.AttachmentDataRef{AttachmentUploadToken: token}},
	}})
	address := s.APIEndpoint(srv.URL) + "v1/" + Name + "/messages"
	mustPost(t, address, string(content))
	attachment := s.Messages()[0].Attachment[0]
	kit.Equalf(t, attachment.ContentName+" "+attachment.ContentType, "chart.png image/png", "it")
	body, err := app.OpenFile(t.Context(), "", attachment.AttachmentDataRef.ResourceName)
	kit.NoError(t, err)
	defer body.Close()
	got, err := io.ReadAll(body)
	kit.True(t, err == nil && bytes.Equal(got, kit.Picture()), "%d bytes, %v", len(got), err)
	_, err = app.OpenFile(t.Context(), "", randomText(16))
	kit.True(t, err != nil, "an unknown file")

	code, answer := postTo(t, s.WebhookURL(srv.URL), string(content))
	kit.Equalf(t, code, http.StatusForbidden, "a webhook: %v", answer)
	upload := fmt.Sprintf("%s/upload/v1/%s/attachments:upload", srv.URL, Name)
	code, _ = postTo(t, upload, "x")
	kit.Equalf(t, code, http.StatusForbidden, "without the token")
}
