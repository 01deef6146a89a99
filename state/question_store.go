package state

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// MaxAge is how long a question is kept: then it expires, then its file goes.
const MaxAge = 24 * time.Hour

// maxQuestionFile bounds what is read of a question's file, in bytes.
const maxQuestionFile = 64 << 20

// Questions is a folder of a project's questions, one JSON file each.
type Questions struct{ Dir string }

// QuestionsIn is the folder pending-questions of a project's state folder.
func QuestionsIn(projectState string) Questions {
	return Questions{Dir: filepath.Join(projectState, "pending-questions")}
}

const markerFolder = "gchat-forwarded-ask"

// MarkersIn is the folder gchat-forwarded-ask of a project's state folder: the questions in deny mode, which prove to a stop
// gate that the person was asked. Other programs keep markers there, too, so nothing in it is moved aside.
func MarkersIn(projectState string) Questions {
	return Questions{Dir: filepath.Join(projectState, markerFolder)}
}

// markers says whether this is such a folder.
func (s Questions) markers() bool { return filepath.Base(s.Dir) == markerFolder }

// AmongMarkers says whether a file lies where markers do.
func AmongMarkers(path string) bool { return (Questions{Dir: filepath.Dir(path)}).markers() }

// serves says whether a question of this folder is ours to post, read and close: another program's marker is not.
func (s Questions) serves(q *Question) bool { return !s.markers() || q.Mode == Deny }

func (s Questions) lockPath(name string) string { return filepath.Join(s.Dir, ".locks", name) }

// Record looks at the questions of a session, by Claude Code's own id, and writes a new one, as one step that no other process
// can come between: decide gets those that stand there, newest first, and returns the question to use: one of them, a new
// one (without Path, it is written), or nil.
func (s Questions) Record(claudeSession string, decide func(open []*Question) *Question) (*Question, error) {
	if err := mkdir(s.Dir); err != nil {
		return nil, err
	}
	keepOutOfGit(filepath.Dir(s.Dir))
	l, err := lockSoon(s.lockPath("record"))
	if err != nil {
		return nil, err
	}
	defer l.Unlock()
	have, _, err := s.OfSession(claudeSession)
	if err != nil {
		return nil, err
	}
	q := decide(have)
	if q == nil || q.Path != "" {
		return q, nil
	}
	return q, s.create(q)
}

// create writes a new question as {session_id}-{unix_ts}.json, with -2, -3 … when that is taken; in deny mode as
// {question_id}.json.
func (s Questions) create(q *Question) error {
	b, err := json.Marshal(q)
	if err != nil {
		return fmt.Errorf("record question: %w", err)
	}
	base := fmt.Sprintf("%s-%d", safeName(q.SessionID), q.AskedAt.Unix())
	if s.markers() {
		base = q.QuestionID
	}
	for n := 1; n < 10000; n++ {
		name := base
		if n > 1 {
			name = fmt.Sprintf("%s-%d", base, n)
		}
		q.Path = filepath.Join(s.Dir, name+".json")
		err = createFile(q.Path, append(b, '\n'))
		if !errors.Is(err, fs.ErrExist) {
			break
		}
	}
	if err != nil {
		q.Path = ""
		return fmt.Errorf("record question: %w", err)
	}
	return nil
}

// OfSession reads the questions of a session, by Claude Code's own id, newest first. Files that do not parse are moved aside
// and returned as *Corrupt errors beside the others.
//
// A file's name may be another session's as well, and a session that was resumed under another $CLAUDE_SESSION_ID has files of
// several names: so each file that mentions the id is read.
func (s Questions) OfSession(claudeSession string) (qs []*Question, bad []error, err error) {
	folder, err := s.OpenMarkers()
	if err != nil {
		return nil, nil, err
	}
	defer folder.Close()
	id, err := json.Marshal(claudeSession)
	if err != nil {
		return nil, nil, err
	}
	prefix := safeName(claudeSession) + "-"
	if s.markers() {
		prefix = "ask-" + prefix
	}
	buf := make([]byte, 16<<10)
	for _, file := range folder.files(folder.names, func(f markerFile) bool { return f.regular }) {
		b, rerr := folder.read(file, buf)
		if !strings.HasPrefix(file.name, prefix) && (rerr != nil || !bytes.Contains(b, id)) {
			continue
		}
		q, err := LoadQuestion(filepath.Join(s.Dir, file.name))
		switch {
		case err == nil && q.ClaudeSession() == claudeSession && s.serves(q):
			qs = append(qs, q)
		case err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, ErrBeingWritten):
			bad = append(bad, err)
		}
	}
	sortNewestFirst(qs)
	return qs, bad, nil
}

func (s Questions) names() ([]string, error) {
	var entries []os.DirEntry
	err := noLink(s.Dir)
	if err == nil {
		entries, err = os.ReadDir(s.Dir)
	}
	if missing(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list questions: %w", err)
	}
	var names []string
	for _, e := range entries {
		if n := e.Name(); strings.HasSuffix(n, ".json") && !strings.HasPrefix(n, ".") {
			names = append(names, n)
		}
	}
	return names, nil
}

// LoadQuestion reads one question. fs.ErrNotExist when it is gone, *Corrupt when it did not parse and was moved aside; a
// marker is left where it is.
func LoadQuestion(path string) (*Question, error) {
	aside := setAside
	if (Questions{Dir: filepath.Dir(path)}).markers() {
		aside = leaveAlone
	}
	return loadQuestion(path, aside)
}

// PeekQuestion is LoadQuestion of a file that a person names: also a damaged one stays where it is.
func PeekQuestion(path string) (*Question, error) { return loadQuestion(path, leaveAlone) }

func leaveAlone(path string, cause error) *Corrupt { return &Corrupt{Path: path, Err: cause} }

func loadQuestion(path string, setAside func(string, error) *Corrupt) (*Question, error) {
	f, err := OpenPlain(path, os.O_RDONLY)
	if errors.Is(err, ErrNotPlain) {
		return nil, &Corrupt{Path: path, Err: err}
	}
	if err != nil {
		return nil, fmt.Errorf("read question: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("read question: %w", err)
	}
	if info.Size() > maxQuestionFile {
		return nil, setAside(path, fmt.Errorf("%d bytes are too many for a question", info.Size()))
	}
	b, err := io.ReadAll(f)
	if err != nil {
		return nil, fmt.Errorf("read question: %w", err)
	}
	q := &Question{}
	if err := json.Unmarshal(b, q); err != nil {
		if time.Since(info.ModTime()).Abs() < beingWritten && unfinished(b) {
			return nil, fmt.Errorf("read question: %w", ErrBeingWritten)
		}
		return nil, setAside(path, err)
	}
	if q.QuestionID == "" || q.Status == "" {
		return nil, setAside(path, errors.New("question_id or status is missing"))
	}
	if q.Path = path; q.AskedAt.IsZero() { // another program's
		if q.AskedAt, err = timeNear(q.rawText("forwarded_at"), info.ModTime()); err != nil {
			q.AskedAt = info.ModTime().UTC()
		}
	}
	return q, nil
}

// ErrBeingWritten says that another program, which does not rename its files into place, is at a question.
var ErrBeingWritten = errors.New("it is being written")

// beingWritten is how old an unfinished file can be before it counts as broken.
const beingWritten = 5 * time.Second

// unfinished says whether these bytes are the beginning of a JSON object.
func unfinished(b []byte) bool {
	var v json.RawMessage
	err := json.NewDecoder(bytes.NewReader(b)).Decode(&v)
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}

// ErrUnchanged is what the function given to UpdateQuestion returns when there is nothing to write.
var ErrUnchanged = errors.New("unchanged")

// UpdateQuestion is the only way a question on disk changes: under its lock it is read afresh, handed to f, and
// written. An error of f leaves the file as it was; ErrUnchanged does so without being one. The question is returned
// as it then stands on disk.
func UpdateQuestion(path string, f func(*Question) error) (*Question, error) {
	l, err := lockSoon(Questions{Dir: filepath.Dir(path)}.lockPath(filepath.Base(path)))
	if err != nil {
		return nil, err
	}
	defer l.Unlock()
	q, err := LoadQuestion(path)
	if err != nil {
		return nil, err
	}
	if err := f(q); errors.Is(err, ErrUnchanged) {
		return q, nil
	} else if err != nil {
		return q, err
	}
	b, err := json.Marshal(q)
	if err != nil {
		return nil, fmt.Errorf("update question: %w", err)
	}
	return q, writeFile(path, append(b, '\n'))
}

// LockWaiter makes the caller the one process that waits for this question's answer; ErrLocked when there is one.
func LockWaiter(q *Question) (l *Lock, err error) {
	for range 3 {
		if l, err = TryLock(waiterPath(q)); !errors.Is(err, ErrLocked) {
			break
		}
		time.Sleep(2 * time.Millisecond) // HasWaiter of another process holds it for an instant
	}
	if err == nil {
		signWaiter(q, "") // what an earlier waiter signed goes
	}
	return l, err
}

// HasWaiter says whether a living process waits for this question's answer.
func HasWaiter(q *Question) bool { return Held(waiterPath(q)) }

func waiterPath(q *Question) string {
	return Questions{Dir: filepath.Dir(q.Path)}.lockPath(filepath.Base(q.Path) + ".waiter")
}

// Remove takes a closed question's file away, with its locks.
func (s Questions) Remove(q *Question) error {
	if !q.Closed() {
		return fmt.Errorf("remove question: it is %s", q.Status)
	}
	err := os.Remove(q.Path)
	for _, lock := range []string{"", ".waiter", ".poster"} {
		os.Remove(s.lockPath(filepath.Base(q.Path) + lock))
	}
	return err
}

// LockPoster makes the caller the one process that posts this question; ErrLocked when there is one.
func LockPoster(q *Question) (*Lock, error) {
	return TryLock(Questions{Dir: filepath.Dir(q.Path)}.lockPath(filepath.Base(q.Path) + ".poster"))
}

// Scan reads the questions of many projects again and again, and parses only files that changed since.
type Scan struct {
	// LeaveAlone is for one who only looks: a file that is no question stays where it is, and is reported with every call.
	LeaveAlone bool

	seen map[string]scanned
}

type scanned struct {
	info os.FileInfo
	q    *Question // nil for a file that is none: it was reported
}

// Questions returns every question in the folders of the given state directories, and in the other folders named, newest
// first. The questions are shared between calls and must not be changed. A file that is no question is reported once.
func (s *Scan) Questions(projectStates []string, folders ...string) (qs []*Question, bad []error) {
	now := map[string]scanned{}
	var all []string
	for _, dir := range folders {
		if info, err := os.Lstat(dir); err == nil && info.Mode()&fs.ModeSymlink != 0 { // a person named it
			dir, _ = filepath.EvalSymlinks(dir)
		}
		all = append(all, dir)
	}
	load := LoadQuestion
	if s.LeaveAlone {
		load = PeekQuestion
	}
	for _, dir := range projectStates {
		for _, in := range []string{QuestionsIn(dir).Dir, MarkersIn(dir).Dir} {
			if !slices.Contains(all, in) {
				all = append(all, in)
			}
		}
	}
	for _, dir := range apart(all) {
		folder := Questions{Dir: dir}
		names, err := folder.names()
		if err != nil {
			bad = append(bad, err)
			continue
		}
		for _, name := range names {
			path := filepath.Join(folder.Dir, name)
			info, err := os.Lstat(path)
			if err != nil {
				continue
			}
			is := scanned{info: info}
			// A rewrite is a new file renamed over the old one, so the inode tells even within one clock tick.
			if was, ok := s.seen[path]; ok && os.SameFile(was.info, info) && was.info.ModTime().Equal(info.ModTime()) {
				is.q = was.q
			} else if is.q, err = load(path); errors.Is(err, ErrBeingWritten) {
				continue // the end of the writing is a change, too
			} else if err != nil {
				bad = append(bad, err)
				if is.q = nil; s.LeaveAlone {
					continue
				}
			}
			now[path] = is
			if is.q != nil && folder.serves(is.q) {
				qs = append(qs, is.q)
			}
		}
	}
	s.seen = now
	sortNewestFirst(qs)
	return qs, bad
}

// apart leaves out folders that are one of those before them by another path: the shell's folder may be reached by a link, and
// one question would look like two.
func apart(dirs []string) (left []string) {
	var infos []os.FileInfo
	for _, dir := range dirs {
		if info, err := os.Stat(dir); err == nil {
			if slices.ContainsFunc(infos, func(was os.FileInfo) bool { return os.SameFile(was, info) }) {
				continue
			}
			infos = append(infos, info)
		}
		left = append(left, dir)
	}
	return left
}

func sortNewestFirst(qs []*Question) {
	slices.SortStableFunc(qs, func(a, b *Question) int { return b.AskedAt.Compare(a.AskedAt) })
}
