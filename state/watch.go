package state

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"
)

// watchFallback is how often a file is looked at when the kernel has no watch left to give (128 instances a user).
const watchFallback = 80 * time.Millisecond

// Watch tells of changes to one file until ctx ends. Changes that come close together may be told once; one that
// happened just before the call is told too.
func Watch(ctx context.Context, path string) <-chan struct{} {
	changed := make(chan struct{}, 1)
	tell := func() { Wake(changed) }
	tell()
	w, err := fsnotify.NewWatcher()
	if err == nil {
		// The folder, not the file: every write is a new file renamed over the old one.
		if err = w.Add(filepath.Dir(path)); err != nil {
			w.Close()
		}
	}
	if err != nil {
		go watchByLooking(ctx, path, tell)
		return changed
	}
	go watchEvents(ctx, w, tell, func(e fsnotify.Event) bool { return filepath.Base(e.Name) == filepath.Base(path) })
	return changed
}

// Wake leaves word in a channel that holds one, and does not wait for its reader.
func Wake(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// watchEvents tells of events that are news, and of dropped ones, until ctx ends.
func watchEvents(ctx context.Context, w *fsnotify.Watcher, tell func(), news func(fsnotify.Event) bool) {
	defer w.Close()
	for {
		select {
		case <-ctx.Done():
			return
		case e, ok := <-w.Events:
			if !ok {
				return
			}
			if news(e) {
				tell()
			}
		case _, ok := <-w.Errors:
			if !ok {
				return
			}
			tell() // events were dropped: look
		}
	}
}

func watchByLooking(ctx context.Context, path string, tell func()) {
	tick := time.NewTicker(watchFallback)
	defer tick.Stop()
	was, _ := os.Stat(path)
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		is, err := os.Stat(path)
		if (err == nil) != (was != nil) || err == nil && (!os.SameFile(was, is) || !was.ModTime().Equal(is.ModTime())) {
			tell()
		}
		if was = is; err != nil {
			was = nil
		}
	}
}

// Touch writes to a file, for those who Watch it.
func Touch(path string) error {
	if err := mkdir(filepath.Dir(path)); err != nil {
		return err
	}
	return os.WriteFile(path, []byte("."), 0o600)
}

// FolderWatch tells of changes to the questions, and to the replies put there by hand, of many projects.
type FolderWatch struct {
	Changed <-chan struct{} // several changes may be told once

	watcher *fsnotify.Watcher // nil when the kernel has no watch left
	watched map[string]bool
}

// WatchFolders begins a watch that ends with ctx. It covers nothing before Cover.
func WatchFolders(ctx context.Context) *FolderWatch {
	changed := make(chan struct{}, 1)
	f := &FolderWatch{Changed: changed, watched: map[string]bool{}}
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return f
	}
	f.watcher = w
	go watchEvents(ctx, w, func() { Wake(changed) }, func(e fsnotify.Event) bool {
		return told(filepath.Base(e.Name)) && e.Op != fsnotify.Chmod
	})
	return f
}

// Cover watches these projects' folders from now on, the folders of questions named besides, and the registry; no others.
// It reports whether all of them are: what is not has to be looked at. Folders that do not exist yet are covered by the one
// above them.
func (f *FolderWatch) Cover(userState string, projectStates, folders []string) (all bool) {
	if f.watcher == nil {
		return false
	}
	want := map[string]bool{userState: true}
	add := func(dir string) {
		if !exists(dir) {
			dir = filepath.Dir(dir)
		}
		want[dir] = true
	}
	for _, dir := range projectStates {
		add(QuestionsIn(dir).Dir)
		add(MarkersIn(dir).Dir)
		add(filepath.Join(dir, "user-input-queue"))
	}
	for _, dir := range folders {
		add(dir)
		add(filepath.Join(filepath.Dir(dir), "user-input-queue"))
	}
	all = true
	for d := range want {
		// A folder that was removed and made again has lost its watch; adding one that is there changes nothing.
		if err := f.watcher.Add(d); err != nil {
			all = false
		}
	}
	for d := range f.watched {
		if !want[d] {
			_ = f.watcher.Remove(d)
		}
	}
	f.watched = want
	return all
}

// told says whether a change of that name is news: a question, a reply by hand, the registry, or a folder of them. The
// same folders hold locks, temporary files and what other programs write.
func told(name string) bool {
	switch ext := filepath.Ext(name); {
	case strings.HasPrefix(name, "."), name == LastPollFile:
		return false
	default:
		return ext == ".json" || ext == ".txt" || ext == ""
	}
}
