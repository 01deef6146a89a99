package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"gchat-hooks/gchat"
	"gchat-hooks/gchat/wording"
	"gchat-hooks/state"
	"gchat-hooks/state/config"
)

// What the page of the embedded space takes in one message.
const maxSendFiles, maxSendFileBytes = 10, 10 << 20

// sendFile is a file that gchat-send attaches.
type sendFile struct {
	name    string
	content []byte
}

// readSendFiles reads the files to attach. Its errors are the caller's mistakes.
func readSendFiles(paths []string) (files []sendFile, err error) {
	if len(paths) > maxSendFiles {
		return nil, fmt.Errorf("--file: a message may have at most %d files", maxSendFiles)
	}
	for _, path := range paths {
		content, err := readSendFile(path)
		if err != nil {
			return nil, fmt.Errorf("--file %s: %w", state.Clean(state.ForTerminal, path), err)
		}
		files = append(files, sendFile{filepath.Base(path), content})
	}
	return files, nil
}

func readSendFile(path string) ([]byte, error) {
	// without O_NONBLOCK, a pipe that nobody writes to would hang
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if pathErr, isPathErr := errors.AsType[*os.PathError](err); isPathErr {
		return nil, pathErr.Err
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return nil, errors.New("it is not a regular file")
	}
	content, err := io.ReadAll(io.LimitReader(f, maxSendFileBytes+1))
	switch {
	case err != nil:
		return nil, err
	case len(content) > maxSendFileBytes:
		return nil, fmt.Errorf("a file may have at most %d MB", maxSendFileBytes>>20)
	case len(content) == 0:
		return nil, errors.New("it is empty")
	}
	return content, nil
}

func fileNames(files []sendFile) string {
	var names []string
	for _, file := range files {
		names = append(names, state.CleanFileName(file.name))
	}
	return strings.Join(names, ", ")
}

// uploadFiles uploads the files to the embedded space. Google Chat takes files only from
// a person's login, so the message names them there.
func (s *messageSender) uploadFiles(
	ctx context.Context,
	cfg *config.Config,
	m *state.Message,
) error {
	if len(s.files) == 0 {
		return nil
	}
	err := errors.ErrUnsupported
	var app *gchat.App
	if cfg.ReceivesEvents() {
		app, err = gchat.NewApp(ctx, cfg)
	}
	for _, file := range s.files {
		if err != nil {
			break
		}
		var token string
		token, err = app.UploadFile(ctx, file.name, file.content)
		m.UploadTokens = append(m.UploadTokens, token)
	}
	if !errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	m.UploadTokens = nil
	const reason = "Not uploaded, since Google Chat takes no files from a webhook or an app: "
	fmt.Fprintln(s.errOut, "gchat-send: warning:", reason+fileNames(s.files))
	m.Report.Text += "\n\n" + reason + fileNames(s.files)
	m.Parts = wording.ReportTexts(*m.Report)
	return nil
}
