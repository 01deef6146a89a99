package space

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/gofrs/flock"
	"github.com/google/renameio/v2"
)

const (
	messagesFile = "messages.jsonl"
	eventsFile   = "events.jsonl"
	secretsFile  = "space.json"
	addressFile  = "address"
)

// store is the data folder of a space. It contains messages.jsonl with a row on each
// line, events.jsonl with the events and their acknowledgements, and space.json with the
// secrets.
type store struct {
	dir      string
	secrets  secrets
	lock     *flock.Flock
	messages journal
	events   journal
}

// openStore opens and locks a data folder, and reads its rows and events.
func openStore(
	dir, lockFile string,
) (opened *store, rows []*messageRow, events []*eventLine, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, nil, nil, err
	}
	lockFile = cmp.Or(lockFile, filepath.Join(dir, "lock"))
	opened = &store{dir: dir, lock: flock.New(lockFile, flock.SetPermissions(0o600))}
	isLocked, err := opened.lock.TryLock()
	if err != nil {
		return nil, nil, nil, fmt.Errorf("lock %s: %w", dir, err)
	}
	if !isLocked {
		return nil, nil, nil, fmt.Errorf("%s: %w", dir, ErrInUse)
	}
	err = opened.loadSecrets(filepath.Join(dir, secretsFile))
	if err == nil {
		rows, err = loadJournal(&opened.messages, filepath.Join(dir, messagesFile), isCompleteRow)
	}
	if err == nil {
		events, err = loadJournal(&opened.events, filepath.Join(dir, eventsFile),
			func(*eventLine) bool { return true })
	}
	if err != nil {
		opened.close()
	}
	return opened, rows, events, err
}

func isCompleteRow(r *messageRow) bool {
	return r.Message != nil && r.Message.Name != "" && r.Message.Thread != nil
}

func (st *store) loadSecrets(path string) (err error) {
	st.secrets, err = readSecrets(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	st.secrets = newSecrets()
	b, _ := json.MarshalIndent(st.secrets, "", "  ") // texts always encode
	return renameio.WriteFile(path, append(b, '\n'), 0o600)
}

func readSecrets(path string) (s secrets, err error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return s, err
	}
	err = json.Unmarshal(b, &s)
	if err == nil && s.APIToken == "" { // an earlier version kept it in another file
		page, _ := os.ReadFile(filepath.Join(filepath.Dir(path), "page-token"))
		s.APIToken = strings.TrimSpace(string(page))
	}
	if err != nil || s.WebhookKey == "" || s.WebhookToken == "" || s.APIToken == "" {
		return s, fmt.Errorf("%s is damaged", path)
	}
	return s, nil
}

// journal is a file with a JSON value on each line.
type journal struct {
	file *os.File
	size int64 // the length of its complete lines, in bytes
}

// loadJournal reads the values of a journal. If a crash cut off the last line,
// loadJournal removes that line: no client was told that it was stored. A crash does not
// leave a bad line in the middle. For that loadJournal returns an error, and leaves the
// file as it is for a person to look at.
func loadJournal[T any](
	j *journal,
	path string,
	isComplete func(*T) bool,
) (values []*T, err error) {
	j.file, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	for n := 1; len(b) > 0; n++ {
		line, rest, isTerminated := bytes.Cut(b, []byte("\n"))
		value := new(T)
		err := json.Unmarshal(line, value)
		if err == nil && (!isTerminated || !isComplete(value)) {
			err = errors.New("the line is incomplete, or not one of this file")
		}
		if err != nil {
			if len(rest) > 0 {
				return nil, fmt.Errorf("read %s line %d: %w", path, n, err)
			}
			return values, j.file.Truncate(j.size)
		}
		values = append(values, value)
		j.size += int64(len(line)) + 1
		b = rest
	}
	return values, nil
}

// appendLine appends a value without waiting for the disk. The value survives kill -9 of
// this process, but may be lost if the machine loses power.
func (j *journal) appendLine(v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	// If an earlier write stopped at a full disk, this overwrites its incomplete line.
	n, err := j.file.WriteAt(append(b, '\n'), j.size)
	if err == nil {
		j.size += int64(n)
	}
	return err
}

func (j *journal) clearFile() error {
	j.size = 0
	return j.file.Truncate(0)
}

func (st *store) close() error {
	var errs []error
	for _, j := range []journal{st.messages, st.events} {
		if j.file != nil {
			errs = append(errs, j.file.Close())
		}
	}
	return errors.Join(append(errs, st.lock.Close())...)
}

// LoadAddresses returns a Space that only knows its addresses (WebhookURL, PageURL,
// APIEndpoint). It does so even while another process has the data folder open.
func LoadAddresses(dataDir string) (*Space, error) {
	stored, err := readSecrets(filepath.Join(dataDir, secretsFile))
	if err != nil {
		return nil, fmt.Errorf("read the space's webhook: %w", err)
	}
	return &Space{secrets: stored}, nil
}

// SaveAddress stores where a space can be reached, in a form that the caller chooses. The
// address is valid while the space is open.
func SaveAddress(dataDir, address string) error {
	return renameio.WriteFile(filepath.Join(dataDir, addressFile), []byte(address+"\n"), 0o600)
}

// LoadAddress returns what SaveAddress last stored; "" if nothing can be read.
func LoadAddress(dataDir string) string {
	b, _ := os.ReadFile(filepath.Join(dataDir, addressFile))
	return strings.TrimSpace(string(b))
}

// journalText is a journal that is written as a whole.
type journalText struct{ bytes.Buffer }

func (t *journalText) add(v any) {
	b, _ := json.Marshal(v) // texts always encode
	t.Write(append(b, '\n'))
}
