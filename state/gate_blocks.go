package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// gateBlocks is the file stop-gate/{session_id}.json in the user state: when the stop gate sent the session back. It is what
// keeps a gate whose session cannot do what it wants from going round for ever.
type gateBlocks struct {
	Blocks []time.Time `json:"blocks"` // this machine's clock, UTC
}

const maxGateBlocks = 64 << 10 // bytes

// CountGateBlock writes down that the gate sends a session back, and reports whether it may: at most so many times within
// that time. An error means that nothing could be counted; a *Corrupt one that the next count begins anew.
func CountGateBlock(userState, sessionID string, now time.Time, most int, within time.Duration) (ok bool, err error) {
	dir := filepath.Join(userState, "stop-gate")
	lock, err := lockSoon(filepath.Join(dir, ".lock"))
	if err != nil {
		return false, fmt.Errorf("count block: %w", err)
	}
	defer lock.Unlock()
	path := filepath.Join(dir, safeName(sessionID)+".json")
	was, err := readGateBlocks(path)
	if err != nil {
		return false, err
	}
	// Of a clock that was set back, what lies just ahead counts, too.
	was.Blocks = slices.DeleteFunc(was.Blocks, func(at time.Time) bool { return now.Sub(at).Abs() >= within })
	if len(was.Blocks) >= most {
		return false, nil
	}
	was.Blocks = append(was.Blocks, now.UTC())
	b, err := json.Marshal(was)
	if err != nil {
		return false, fmt.Errorf("count block: %w", err)
	}
	if err := replaceFile(path, append(b, '\n')); err != nil {
		return false, fmt.Errorf("count block: %w", err)
	}
	if len(was.Blocks) == 1 {
		sweepOld(dir, now)
	}
	return true, nil
}

func readGateBlocks(path string) (was gateBlocks, err error) {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return was, nil
	}
	if err == nil && (!info.Mode().IsRegular() || info.Size() > maxGateBlocks) {
		return was, setAside(path, fmt.Errorf("%s, %d bytes: not ours", info.Mode(), info.Size()))
	}
	var b []byte
	if err == nil {
		b, err = os.ReadFile(path)
	}
	if err != nil {
		return was, fmt.Errorf("count block: %w", err)
	}
	if err := json.Unmarshal(b, &was); err != nil {
		return was, setAside(path, err)
	}
	return was, nil
}

// sweepOld removes what nobody wrote for a day.
func sweepOld(dir string, now time.Time) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if info, err := e.Info(); err == nil && e.Name() != ".lock" && info.Mode().IsRegular() && now.Sub(info.ModTime()) > MaxAge {
			os.Remove(filepath.Join(dir, e.Name()))
		}
	}
}
