package state

import (
	"context"
	"path/filepath"
	"strings"

	"github.com/fsnotify/fsnotify"
)

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
