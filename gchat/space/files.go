package space

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"mime"
	"mime/multipart"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode"

	"google.golang.org/api/chat/v1"
)

const (
	// MaxFileBytes and MaxFiles bound a file, and the files of a message. The page says
	// both before it sends anything.
	MaxFileBytes = 10 << 20
	MaxFiles     = 10

	maxFileAge      = 30 * 24 * time.Hour // then the space removes a file
	maxUnusedAge    = time.Hour           // then it removes a file that no message names
	maxStoredBytes  = 1 << 30             // of all files; with more, the oldest go
	maxStoredFiles  = 10_000
	maxFileName     = 200 // in bytes
	uploadTimeout   = 5 * time.Minute
	downloadTimeout = 2 * time.Minute
)

// isFileID reports whether a text has the form of a file's id. An id has 128 random bits,
// and is the file's name in the folder.
func isFileID(id string) bool {
	decoded, err := base64.RawURLEncoding.DecodeString(id)
	return err == nil && len(decoded) == 16 && !strings.ContainsAny(id, "\r\n")
}

// inlineTypes are the content types that a browser may show. None of them can run
// anything.
var inlineTypes = []string{"image/png", "image/jpeg", "image/gif", "image/webp"}

// sentFile is a file that the page attached to a message.
type sentFile struct {
	ID   string `json:"id"`
	Name string `json:"name"` // as the person's device calls it
}

var (
	errFileTooLarge = &apiError{
		http.StatusRequestEntityTooLarge,
		fmt.Sprintf("A file may have at most %d MB.", MaxFileBytes>>20),
		"INVALID_ARGUMENT",
	}
	errNoFile = notFound("That file is not here, or not any more.")
)

// filesFolder returns the folder of the files, and makes it. Without a data folder it is
// a temporary one, which Close removes. The caller holds the lock.
func (s *Space) filesFolder() (dir string, err error) {
	switch {
	case s.filesDir != "":
		return s.filesDir, nil
	case s.isClosed:
		return "", ErrClosed
	case s.store == nil:
		dir, err = os.MkdirTemp("", "gchat-hooks-files-")
	default:
		dir = filepath.Join(s.store.dir, "files")
		err = os.MkdirAll(dir, 0o700)
	}
	if err == nil {
		s.filesDir = dir
	}
	return dir, err
}

// storeFile writes a file, which is on the disk when storeFile returns. It reads at most
// MaxFileBytes, whatever the sender claims.
func (s *Space) storeFile(content io.Reader) (id string, err error) {
	s.mu.Lock()
	dir, err := s.filesFolder()
	s.mu.Unlock()
	if err != nil {
		return "", err
	}
	// A file that stays after kill -9 has no id's form, so nothing serves it, and
	// sweepFiles removes it.
	f, err := os.CreateTemp(dir, "part-*") // with mode 0600
	if err != nil {
		return "", fmt.Errorf("store file: %w", err)
	}
	defer os.Remove(f.Name()) // it fails once the file has its name
	size, err := io.Copy(f, io.LimitReader(content, MaxFileBytes+1))
	syncErr := f.Sync()
	closeErr := f.Close()
	var tooLarge *http.MaxBytesError
	switch {
	case size > MaxFileBytes, errors.As(err, &tooLarge):
		return "", errFileTooLarge
	case err != nil:
		return "", invalidArgument("The file did not arrive whole.")
	case size == 0:
		return "", invalidArgument("The file is empty.")
	case syncErr != nil || closeErr != nil:
		return "", fmt.Errorf("store file: %w", errors.Join(syncErr, closeErr))
	}
	id = randomText(16)
	if err := os.Rename(f.Name(), filepath.Join(dir, id)); err != nil {
		return "", fmt.Errorf("store file: %w", err)
	}
	s.sweepFiles()
	return id, nil
}

// openFile opens a stored file. The error is errNoFile for anything else than the id of
// one.
func (s *Space) openFile(id string) (*os.File, error) {
	s.mu.Lock()
	dir := s.filesDir
	s.mu.Unlock()
	if dir == "" || !isFileID(id) {
		return nil, errNoFile
	}
	path := filepath.Join(dir, id)
	if info, err := os.Lstat(path); err != nil || !info.Mode().IsRegular() {
		return nil, errNoFile
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, errNoFile
	}
	return f, nil
}

// sniffType returns the content type of a stored file by its first bytes. Whatever a
// browser must not show is application/octet-stream.
func sniffType(f io.ReaderAt) string {
	head := make([]byte, 512)
	n, _ := f.ReadAt(head, 0)
	sniffed := http.DetectContentType(head[:n])
	if slices.Contains(inlineTypes, sniffed) {
		return sniffed
	}
	return "application/octet-stream"
}

// sweepFiles removes old files, files that no message names, and the oldest where there
// are too many.
func (s *Space) sweepFiles() {
	s.mu.Lock()
	defer s.mu.Unlock()
	entries, _ := os.ReadDir(s.filesDir)
	var files []fs.FileInfo
	total := int64(0)
	for _, entry := range entries {
		info, err := entry.Info()
		if err != nil {
			continue
		}
		age := s.now().Sub(info.ModTime())
		isUnused := !s.attached[info.Name()] && age > maxUnusedAge
		if isUnused || age > maxFileAge {
			_ = os.Remove(filepath.Join(s.filesDir, info.Name()))
			continue
		}
		files, total = append(files, info), total+info.Size()
	}
	slices.SortFunc(files, func(a, b fs.FileInfo) int { return a.ModTime().Compare(b.ModTime()) })
	for len(files) > maxStoredFiles || total > maxStoredBytes {
		_ = os.Remove(filepath.Join(s.filesDir, files[0].Name()))
		total -= files[0].Size()
		files = files[1:]
	}
}

// attach adds the files to a message. The caller holds the lock, so that sweepFiles does
// not remove a file between its check and the message.
func (s *Space) attach(m *chat.Message, files []sentFile) error {
	for i, sent := range files {
		path := filepath.Join(s.filesDir, sent.ID)
		info, err := os.Lstat(path)
		isStored := s.filesDir != "" && isFileID(sent.ID) && err == nil &&
			info.Mode().IsRegular()
		if !isStored {
			return notFound("A file of the message is not here any more. Attach it again.")
		}
		f, err := os.Open(path)
		if err != nil {
			return fmt.Errorf("attach file: %w", err)
		}
		contentType := sniffType(f)
		f.Close()
		m.Attachment = append(m.Attachment, &chat.Attachment{
			Name:              fmt.Sprintf("%s/attachments/%d", m.Name, i),
			ContentName:       cleanFileName(sent.Name),
			ContentType:       contentType,
			Source:            "UPLOADED_CONTENT",
			AttachmentDataRef: &chat.AttachmentDataRef{ResourceName: sent.ID},
		})
	}
	return nil
}

// cleanFileName returns a file's name in one line, without the folders before it.
func cleanFileName(name string) string {
	name = name[strings.LastIndexAny(name, `/\`)+1:]
	name = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, strings.ToValidUTF8(name, ""))
	if len(name) > maxFileName {
		extension := filepath.Ext(name)
		if len(extension) > 12 {
			extension = ""
		}
		name = strings.ToValidUTF8(name[:maxFileName-len(extension)], "") + extension
	}
	return cmp.Or(strings.TrimSpace(name), "file")
}

// extendDeadlines gives a request the time that a file takes on a slow line.
func extendDeadlines(w http.ResponseWriter, timeout time.Duration) {
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(timeout))
	_ = control.SetWriteDeadline(time.Now().Add(timeout))
}

// uploadFromPage stores a file that a person attaches on the page.
func (s *Space) uploadFromPage(w http.ResponseWriter, r *http.Request) {
	if err := http.NewCrossOriginProtection().Check(r); err != nil {
		writeError(w, permissionDenied("Only the page itself may post here."))
		return
	}
	extendDeadlines(w, uploadTimeout)
	id, err := s.storeFile(r.Body)
	if err != nil {
		writeError(w, err)
		return
	}
	writeJSON(w, http.StatusOK, map[string]string{"id": id})
}

// serveFile serves a stored file to the page, or to the app as media.download does. The
// type is by its content alone, and the response may run nothing.
func (s *Space) serveFile(w http.ResponseWriter, r *http.Request) {
	f, err := s.openFile(r.PathValue("id"))
	if err != nil {
		writeError(w, err)
		return
	}
	defer f.Close()
	contentType, disposition := sniffType(f), "attachment"
	if contentType != "application/octet-stream" {
		disposition = "inline"
	}
	h := w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Content-Disposition", disposition)
	h.Set("Content-Security-Policy", "sandbox; default-src 'none'")
	h.Set("Cache-Control", "no-store")
	extendDeadlines(w, downloadTimeout)
	http.ServeContent(w, r, "", time.Time{}, f)
}

// downloadMedia serves media.download to the space's app.
func (s *Space) downloadMedia(w http.ResponseWriter, r *http.Request) {
	if r.URL.Query().Get("alt") != "media" {
		writeError(w, invalidArgument("Only alt=media is served."))
		return
	}
	s.serveFile(w, r)
}

// uploadMedia serves media.upload to the space's app: a file's name and the file itself,
// as multipart/related.
func (s *Space) uploadMedia(w http.ResponseWriter, r *http.Request) {
	response, err := s.readUpload(w, r)
	if err != nil {
		writeError(w, err)
		return
	}
	writeJSON(w, http.StatusOK, response)
}

func (s *Space) readUpload(
	w http.ResponseWriter,
	r *http.Request,
) (*chat.UploadAttachmentResponse, error) {
	kind, parameters, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	switch {
	case !isFromApp(r):
		return nil, permissionDenied("Only the space's app may upload files.")
	case "spaces/"+r.PathValue("space") != Name:
		return nil, notFound("Space " + r.PathValue("space") + " not found")
	case kind != "multipart/related":
		return nil, invalidArgument("The upload must be multipart/related.")
	}
	extendDeadlines(w, uploadTimeout)
	parts := multipart.NewReader(r.Body, parameters["boundary"])
	metadata, err := parts.NextPart()
	if err != nil {
		return nil, invalidArgument("The upload has no parts.")
	}
	var request chat.UploadAttachmentRequest
	err = json.NewDecoder(io.LimitReader(metadata, 1<<16)).Decode(&request)
	if err != nil || request.Filename == "" {
		return nil, invalidArgument("The file has no name.")
	}
	content, err := parts.NextPart()
	if err != nil {
		return nil, invalidArgument("The upload has no file.")
	}
	id, err := s.storeFile(content)
	if err != nil {
		return nil, err
	}
	// The token also carries the name, which no file of ours holds.
	token := id + "/" + cleanFileName(request.Filename)
	return &chat.UploadAttachmentResponse{
		AttachmentDataRef: &chat.AttachmentDataRef{ResourceName: id, AttachmentUploadToken: token},
	}, nil
}

// uploadedFiles returns the files that an app's message names by the tokens of uploads.
func uploadedFiles(attachments []*chat.Attachment) (files []sentFile, err error) {
	if len(attachments) > MaxFiles {
		return nil, tooManyFiles()
	}
	for _, attachment := range attachments {
		if attachment == nil || attachment.AttachmentDataRef == nil {
			return nil, invalidArgument("An attachment has no data.")
		}
		id, name, _ := strings.Cut(attachment.AttachmentDataRef.AttachmentUploadToken, "/")
		files = append(files, sentFile{ID: id, Name: name})
	}
	return files, nil
}

func tooManyFiles() error {
	return invalidArgument(fmt.Sprintf("A message may have at most %d files.", MaxFiles))
}

func isFolder(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.IsDir()
}

// NewFile is a file for PostFiles.
type NewFile struct {
	Name    string
	Content []byte
}

// PostFiles posts a text with files, as PostAs posts a text.
func (s *Space) PostFiles(
	sender *chat.User,
	threadName, text string,
	files ...NewFile,
) (*chat.Message, error) {
	var sent []sentFile
	for _, file := range files {
		id, err := s.storeFile(bytes.NewReader(file.Content))
		if err != nil {
			return nil, fmt.Errorf("post in space: %w", err)
		}
		sent = append(sent, sentFile{ID: id, Name: file.Name})
	}
	return s.postAs(sender, threadName, text, "", sent...)
}
