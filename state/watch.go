package state

import (
	"context"
	"os"
	"path/filepath"
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
	go watchEvents(ctx, w, tell, func(e fsnotify.Event) bool { return e.Name == path || filepath.Base(e.Name) == filepath.Base(path) })
	return changed
}

// Wake leaves word in a channel that holds one: whoever reads it comes to know, and is not waited for.
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
