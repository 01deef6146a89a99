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

// A store is the folder of a space: messages.jsonl, one row a line, events.jsonl with
// what its app did not acknowledge, and space.json with the secrets.
type store struct {
	dir      string
	secrets  secrets
	lock     *flock.Flock
	messages journal
	events   journal
}

func openStore(
	dir, lock string,
) (opened *store, rows []*messageRow, events []*eventLine, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, nil, nil, err
	}
	lock = cmp.Or(lock, filepath.Join(dir, "lock"))
	opened = &store{dir: dir, lock: flock.New(lock, flock.SetPermissions(0o600))}
	ok, err := opened.lock.TryLock()
	if err != nil {
		return nil, nil, nil, fmt.Errorf("lock %s: %w", dir, err)
	}
	if !ok {
		return nil, nil, nil, fmt.Errorf("%s: %w", dir, ErrInUse)
	}
	err = opened.loadSecrets(filepath.Join(dir, secretsFile))
	if err == nil {
		rows, err = loadJournal(
			&opened.messages,
			filepath.Join(dir, messagesFile),
			func(r *messageRow) bool {
				return r.Message != nil && r.Message.Name != "" && r.Message.Thread != nil
			},
		)
	}
	if err == nil {
		events, err = loadJournal(
			&opened.events,
			filepath.Join(dir, eventsFile),
			func(*eventLine) bool { return true },
		)
	}
	if err != nil {
		opened.close()
	}
	return opened, rows, events, err
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
	if err == nil && s.APIToken == "" { // an earlier version kept it beside
		page, _ := os.ReadFile(filepath.Join(filepath.Dir(path), "page-token"))
		s.APIToken = strings.TrimSpace(string(page))
	}
	if err != nil || s.WebhookKey == "" || s.WebhookToken == "" || s.APIToken == "" {
		return s, fmt.Errorf("%s is damaged", path)
	}
	return s, nil
}

// A journal is a file of JSON, one value a line.
type journal struct {
	file *os.File
	size int64 // of its good part
}

// loadJournal reads the values of a journal. A last line that was cut short by a crash
// was never acknowledged to a client: it is cut off. A bad line in the middle is not a
// crash's doing, and nothing is changed before a person had a look.
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
			err = errors.New("not a value of this file, or not all of one")
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

// appendLine writes a value and does not wait for the disk: it outlives kill -9, and may
// be lost with the power.
func (j *journal) appendLine(v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	// over the half of a value that a full disk took
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

// LoadAddresses is the space that is kept in the data folder as far as addresses go, also
// while another process has it open. Its errors are those of reading.
func LoadAddresses(dataDir string) (*Space, error) {
	stored, err := readSecrets(filepath.Join(dataDir, secretsFile))
	if err != nil {
		return nil, fmt.Errorf("read the space's webhook: %w", err)
	}
	return &Space{secrets: stored}, nil
}

// SaveAddress writes down where a space is reached, in words of the caller's. They count
// while the space is open.
func SaveAddress(dataDir, address string) error {
	return renameio.WriteFile(filepath.Join(dataDir, addressFile), []byte(address+"\n"), 0o600)
}

// LoadAddress is what SaveAddress wrote last.
func LoadAddress(dataDir string) string {
	b, _ := os.ReadFile(filepath.Join(dataDir, addressFile))
	return strings.TrimSpace(string(b))
}
