package poller

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"gchat-hooks/gchat"
	"gchat-hooks/poller/judge"
	"gchat-hooks/state"
)

const (
	maxFiles      = 10                  // of one message
	fetchTries    = 3                   // of one file
	fetchTimeout  = 20 * time.Second    // of one try
	fetchDeadline = time.Minute         // of all files of a message, so that its words go on
	maxFileAge    = 30 * 24 * time.Hour // then a stored file is removed
	// maxStoredBytes bounds all stored files. With more, the oldest are removed.
	maxStoredBytes = 1 << 30
)

// What is said of a file that cannot be fetched.
const (
	problemDrive    = "it is in Google Drive: attach the file itself"
	problemNoSource = "files cannot be fetched from this space"
	problemOldHub   = "your team's hub has to be updated before it can relay files"
	problemTooLarge = "it is larger than 10 MB"
	problemTooMany  = "a message may have 10 files"
	problemEmpty    = "it is empty"
	problemRefused  = "it was refused: gchat-hooks logs says why"
	problemLate     = "it could not be fetched in time"
	problemUnstored = "it could not be written to this machine's disk"
)

// newAttachedFiles returns the files of a message for its inbox record. No more than the
// person can read of in a note are recorded.
func newAttachedFiles(files []gchat.File) (attached []state.AttachedFile) {
	for i, file := range files[:min(len(files), 2*maxFiles)] {
		a := state.AttachedFile{Name: state.CleanFileName(file.Name), Resource: file.Resource}
		switch {
		case i >= maxFiles:
			a.Problem = problemTooMany
		case file.IsOnDrive:
			a.Problem = problemDrive
		case file.Resource == "":
			a.Problem = problemNoSource
		}
		attached = append(attached, a)
	}
	return attached
}

// filesFolder is where the content of fetched files is.
func (p *Poller) filesFolder() string { return filepath.Join(p.userStateDir, "files") }

// fetchFilesFirst reports whether a message has to wait until its files are fetched. A
// goroutine beside the loop fetches them, and writes into the message's record what
// became of each. If it is killed, the next poller fetches them once more, into the same
// places.
func (p *Poller) fetchFilesFirst(
	ctx context.Context,
	in *state.Incoming,
	target destination,
) (isFetching bool) {
	areDecided := !slices.ContainsFunc(in.Files, func(f state.AttachedFile) bool {
		return !f.IsDecided()
	})
	if areDecided || in.IsRevoked || !p.mayFetchFiles(in, target) {
		return false
	}
	job := "files " + in.ID
	_, isUnderWay := p.inProgress.LoadOrStore(job, true)
	if !isUnderWay {
		sources := p.fileConfigSources(target)
		p.runInBackground("files", func() {
			defer p.inProgress.Delete(job)
			p.fetchFiles(ctx, in, sources)
		})
	}
	return true
}

// mayFetchFiles reports whether the words of a message count, as the judge decides. A
// stranger's files are never fetched.
func (p *Poller) mayFetchFiles(in *state.Incoming, target destination) bool {
	switch target.kind {
	case toQuestion:
		q := target.record.question
		if !q.IsAnswerable() && q.Mode.Traits().Asks || q.Status == state.Answered {
			return false
		}
		cfg, reply := p.judgingConfigOf(target.record, q).cfg, in.AsReply()
		isUnknown := cfg.HasUnreadFile || cfg.IsAllowlistUnknown
		return !isUnknown && judge.CanAnswer(cfg, q, &reply)
	case toSession, toNewSession:
		cfg := p.loadPersonalConfig()
		isCommand := in.IsCommand() && target.kind == toSession
		return !isCommand && !cfg.HasUnreadFile && cfg.CanApprove(in.Sender, in.SenderEmail)
	}
	return false
}

// fileConfigSources returns by whose configuration the files of a message may be fetched:
// that of what the message is for, or the person's own.
func (p *Poller) fileConfigSources(target destination) (sources []configSource) {
	switch {
	case target.record != nil:
		sources = append(sources, configSourceOf(target.record.question, target.record.IndexEntry))
	case target.session != nil:
		source := configSource{target.session.ProjectDir, target.session.IsTrusted}
		sources = append(sources, source)
	}
	return append(sources, configSource{}, configSource{projectDir: p.userStateDir})
}

// fetchFiles fetches the files of a message. It decides each of them within
// fetchDeadline, unless the poller ends.
func (p *Poller) fetchFiles(ctx context.Context, in *state.Incoming, sources []configSource) {
	fetchCtx, cancel := context.WithTimeout(ctx, fetchDeadline)
	defer cancel()
	source := p.fileSourceOf(fetchCtx, in.Chat, sources)
	files := slices.Clone(in.Files)
	for i := range files {
		if files[i].IsDecided() {
			continue
		}
		if source == nil {
			files[i].Problem = problemNoSource
			continue
		}
		content, err := p.fetchFile(fetchCtx, source, in.MessageName, files[i].Resource)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			p.Log.ErrorOnce(err, "attached file not fetched")
			files[i].Problem = fileProblem(err)
			continue
		}
		name := fmt.Sprintf("%s-%d", in.ID, i+1)
		files[i].Path, files[i].Type, err = storeFile(p.filesFolder(), name, content)
		if err != nil {
			p.Log.ErrorOnce(err, "attached file not stored")
			files[i].Problem = problemUnstored
		}
	}
	p.sweepFiles(p.Now())
	_, err := state.InboxIn(p.userStateDir).Change(in.ID, func(stored *state.Incoming) {
		if stored.Status == state.IncomingNew {
			stored.Files = files
		}
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		p.Log.ErrorOnce(err, "attached files not recorded; they are fetched again")
		state.Sleep(ctx, retryPause)
	}
}

// fileSourceOf returns the transport of a chat that can fetch files, or nil.
func (p *Poller) fileSourceOf(
	ctx context.Context,
	chat string,
	sources []configSource,
) fileSource {
	for _, source := range sources {
		gateway := p.gatewayFor(ctx, source)
		if gateway.err != nil || gateway.transport.Chat() != chat {
			continue
		}
		if files, canFetch := gateway.transport.(fileSource); canFetch {
			return files
		}
	}
	return nil
}

var (
	errFileTooLarge = errors.New(problemTooLarge)
	errFileEmpty    = errors.New(problemEmpty)
)

// fetchFile fetches the content of a file. A failure that may pass is tried again.
func (p *Poller) fetchFile(
	ctx context.Context,
	source fileSource,
	message, resource string,
) (content []byte, err error) {
	for try := 1; ; try++ {
		content, err = readFile(ctx, source, message, resource)
		isFinal := err == nil || gchat.IsPermanent(err) || gchat.IsAuthFailure(err) ||
			errors.Is(err, gchat.ErrHubWithoutFiles) || errors.Is(err, gchat.ErrBadResponse) ||
			errors.Is(err, errFileTooLarge) || errors.Is(err, errFileEmpty)
		if isFinal || try == fetchTries || !state.Sleep(ctx, retryPause) {
			return content, err
		}
	}
}

func readFile(
	ctx context.Context,
	source fileSource,
	message, resource string,
) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	body, err := source.OpenFile(ctx, message, resource)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	// The limit is for the bytes after decompression. The length that the server claimed
	// does not count.
	content, err := io.ReadAll(io.LimitReader(body, gchat.MaxFileBytes+1))
	switch {
	case len(content) > gchat.MaxFileBytes:
		return nil, errFileTooLarge
	case err != nil:
		return nil, fmt.Errorf("read file: %w", err)
	case len(content) == 0:
		return nil, errFileEmpty
	}
	return content, nil
}

// fileProblem returns what is said of a file that could not be fetched.
func fileProblem(err error) string {
	switch {
	case errors.Is(err, errFileTooLarge):
		return problemTooLarge
	case errors.Is(err, errFileEmpty):
		return problemEmpty
	case errors.Is(err, gchat.ErrHubWithoutFiles):
		return problemOldHub
	case gchat.IsPermanent(err), gchat.IsAuthFailure(err), errors.Is(err, gchat.ErrBadResponse):
		return problemRefused
	}
	return problemLate
}

// storeFile writes the content of a file, which is on the disk when storeFile returns.
// The extension is that of what the content is, whatever the sender called it: Claude
// Code reads a file by its extension.
func storeFile(dir, name string, content []byte) (path, contentType string, err error) {
	contentType, extension := sniffFile(content)
	path = filepath.Join(dir, name+extension)
	err = state.WriteFile(path, content)
	if err != nil {
		return "", "", fmt.Errorf("store file: %w", err)
	}
	return path, contentType, nil
}

// extensions are those of stored files, by content type. Text of any kind gets .txt.
var extensions = map[string]string{
	"image/png":        ".png",
	"image/jpeg":       ".jpg",
	"image/gif":        ".gif",
	"image/webp":       ".webp",
	"image/bmp":        ".bmp",
	"image/heic":       ".heic",
	"application/pdf":  ".pdf",
	"application/zip":  ".zip",
	"application/gzip": ".gz",
}

// sniffFile returns the content type of a file by its first bytes, and the extension that
// it is stored with.
func sniffFile(content []byte) (contentType, extension string) {
	contentType, _, _ = strings.Cut(http.DetectContentType(content), ";")
	if contentType == "application/x-gzip" {
		contentType = "application/gzip"
	}
	if isHEIC(content) {
		contentType = "image/heic"
	}
	if strings.HasPrefix(contentType, "text/") {
		return contentType, ".txt"
	}
	if known := extensions[contentType]; known != "" {
		return contentType, known
	}
	return contentType, ".bin"
}

// isHEIC reports whether a file is a picture as iPhones take it: an ISO media file of one
// of these brands (ISO/IEC 23008-12).
func isHEIC(content []byte) bool {
	if len(content) < 12 || string(content[4:8]) != "ftyp" {
		return false
	}
	brands := []string{"heic", "heix", "heim", "heis", "hevc", "hevx", "mif1", "msf1"}
	return slices.Contains(brands, string(content[8:12]))
}

// sweepFiles removes stored files that are too old, and the oldest where they are too
// large together.
func (p *Poller) sweepFiles(now time.Time) {
	entries, err := os.ReadDir(p.filesFolder())
	if err != nil {
		return // nothing was ever stored
	}
	state.RemoveTemporaryFiles(p.filesFolder())
	var files []fs.FileInfo
	total := int64(0)
	for _, entry := range entries {
		info, err := entry.Info()
		if err == nil && info.Mode().IsRegular() && !strings.HasPrefix(info.Name(), ".") {
			files, total = append(files, info), total+info.Size()
		}
	}
	slices.SortFunc(files, func(a, b fs.FileInfo) int { return a.ModTime().Compare(b.ModTime()) })
	for _, info := range files {
		isOld := now.Sub(info.ModTime()) > maxFileAge
		if !isOld && total <= maxStoredBytes {
			break
		}
		total -= info.Size()
		_ = os.Remove(filepath.Join(p.filesFolder(), info.Name()))
		if !isOld {
			p.Log.Info().Str("file", info.Name()).Msg("attached file removed: they were over 1 GB")
		}
	}
}
