package poller

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// A service file carries a sum of itself, in a comment: so an install can tell its own older file from one that a person
// changed.
const (
	sumMark = "sum: "
	sumLen  = 16
	noSum   = sumMark + "0000000000000000"
)

// sealed puts the sum of a service file into its place.
func sealed(b []byte) []byte {
	blank, at, ok := withoutSum(b)
	if !ok {
		return b
	}
	sum := sha256.Sum256(blank)
	copy(blank[at:], hex.EncodeToString(sum[:sumLen/2]))
	return blank
}

// asWritten says whether a service file is as an install wrote it, of this version or another.
func asWritten(b []byte) bool {
	_, _, ok := withoutSum(b)
	return ok && bytes.Equal(sealed(b), b)
}

// withoutSum is a copy of the file with a blank sum, and where the sum stands.
func withoutSum(b []byte) (blank []byte, at int, ok bool) {
	at = bytes.Index(b, []byte(sumMark))
	if at += len(sumMark); at < len(sumMark) || at+sumLen > len(b) {
		return nil, 0, false
	}
	blank = bytes.Clone(b)
	copy(blank[at:], strings.Repeat("0", sumLen))
	return blank, at, true
}

// writeServiceFile has path hold b. kept is where it put a file that a person had changed; "" for none.
func writeServiceFile(path string, b []byte) (changed bool, kept string, err error) {
	was, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return false, "", notPermitted(fmt.Errorf("make the folder of the service file: %w", err), filepath.Dir(path))
		}
	case err != nil:
		return false, "", notPermitted(fmt.Errorf("read the service file: %w", err), path)
	case bytes.Equal(was, b):
		return false, "", nil
	case !asWritten(was):
		if kept, err = keep(path, was); err != nil {
			return false, "", notPermitted(err, filepath.Dir(path))
		}
	}
	// launchd does not load what others may write to, so an older file's permissions do not count.
	if err := replaceFile(path, b, 0o644); err != nil {
		return false, kept, notPermitted(fmt.Errorf("write the service file: %w", err), filepath.Dir(path))
	}
	return true, kept, nil
}

// keep writes b beside path, as .bak, or .bak-2 and so on where that is taken: no older copy is lost.
func keep(path string, b []byte) (kept string, err error) {
	for n := 1; n < 1000; n++ {
		kept = path + ".bak"
		if n > 1 {
			kept = fmt.Sprintf("%s.bak-%d", path, n)
		}
		f, err := os.OpenFile(kept, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600) // what a person wrote there may be secret
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return "", fmt.Errorf("keep the changed service file: %w", err)
		}
		_, err = f.Write(b)
		if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
			return "", fmt.Errorf("keep the changed service file: %w", err)
		}
		return kept, nil
	}
	return "", fmt.Errorf("keep the changed service file: too many copies beside %s", path)
}

// notPermitted adds what to do about a folder that belongs to somebody else, as ~/Library/LaunchAgents does after some
// installers.
func notPermitted(err error, path string) error {
	if errors.Is(err, fs.ErrPermission) {
		return &serviceError{err, "sudo chown $(id -un) " + shellWord(path)}
	}
	return err
}
