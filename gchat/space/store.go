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

func openStore(dir, lock string) (st *store, rows []*row, events []*kept, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, nil, nil, err
	}
	lock = cmp.Or(lock, filepath.Join(dir, "lock"))
	st = &store{dir: dir, lock: flock.New(lock, flock.SetPermissions(0o600))}
	ok, err := st.lock.TryLock()
	if err != nil {
		return nil, nil, nil, fmt.Errorf("lock %s: %w", dir, err)
	}
	if !ok {
		return nil, nil, nil, fmt.Errorf("%s: %w", dir, ErrInUse)
	}
	err = st.loadSecrets(filepath.Join(dir, secretsFile))
	if err == nil {
		rows, err = load(&st.messages, filepath.Join(dir, messagesFile), func(r *row) bool {
			return r.Message != nil && r.Message.Name != "" && r.Message.Thread != nil
		})
	}
	if err == nil {
		events, err = load(
			&st.events,
			filepath.Join(dir, eventsFile),
			func(*kept) bool { return true },
		)
	}
	if err != nil {
		st.close()
	}
	return st, rows, events, err
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
	if err == nil && s.Page == "" { // an earlier version kept it beside
		page, _ := os.ReadFile(filepath.Join(filepath.Dir(path), "page-token"))
		s.Page = strings.TrimSpace(string(page))
	}
	if err != nil || s.Key == "" || s.Token == "" || s.Page == "" {
		return s, fmt.Errorf("%s is damaged", path)
	}
	return s, nil
}

// A journal is a file of JSON, one value a line.
type journal struct {
	file *os.File
	size int64 // of its good part
}

// load reads the values of a journal. A last line that was cut short by a crash was never
// acknowledged to a client: it is cut off. A bad line in the middle is not a crash's
// doing, and nothing is changed before a person had a look.
func load[T any](j *journal, path string, whole func(*T) bool) (values []*T, err error) {
	j.file, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	for n := 1; len(b) > 0; n++ {
		line, rest, ended := bytes.Cut(b, []byte("\n"))
		v := new(T)
		err := json.Unmarshal(line, v)
		if err == nil && (!ended || !whole(v)) {
			err = errors.New("not a value of this file, or not all of one")
		}
		if err != nil {
			if len(rest) > 0 {
				return nil, fmt.Errorf("read %s line %d: %w", path, n, err)
			}
			return values, j.file.Truncate(j.size)
		}
		values = append(values, v)
		j.size += int64(len(line)) + 1
		b = rest
	}
	return values, nil
}

// append writes a value and does not wait for the disk: it outlives kill -9, and may be
// lost with the power.
func (j *journal) append(v any) error {
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

func (j *journal) empty() error {
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

// Kept is the space that is kept in the data folder as far as addresses go, also while
// another process has it open. Its errors are those of reading.
func Kept(data string) (*Space, error) {
	kept, err := readSecrets(filepath.Join(data, secretsFile))
	if err != nil {
		return nil, fmt.Errorf("read the space's webhook: %w", err)
	}
	return &Space{secrets: kept}, nil
}

// NoteAddress writes down where a space is reached, in words of the caller's. They count
// while the space is open.
func NoteAddress(data, address string) error {
	return renameio.WriteFile(filepath.Join(data, addressFile), []byte(address+"\n"), 0o600)
}

// Address is what NoteAddress wrote last.
func Address(data string) string {
	b, _ := os.ReadFile(filepath.Join(data, addressFile))
	return strings.TrimSpace(string(b))
}
