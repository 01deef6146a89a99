package state

import (
	"fmt"
	"sort"
	"testing"
	"time"
)

func TestTmpSpeed(t *testing.T) {
	s, now := MarkersIn(t.TempDir()), time.Now()
	for i := range 1000 {
		id := fmt.Sprintf("ask-7dec843b-0c2f-4fc5-b34e-e6fd34ccea85-%08x", i)
		q := aMarker(id, "7dec843b-0c2f-4fc5-b34e-e6fd34ccea85", Resolved, now.Add(-time.Hour))
		put(t, s, id+".json", q, now)
	}
	med := func(name string, f func()) {
		var ds []float64
		for range 60 {
			b := time.Now()
			f()
			ds = append(ds, float64(time.Since(b).Microseconds())/1000)
		}
		sort.Float64s(ds)
		t.Logf("%-20s min %.2f med %.2f", name, ds[0], ds[30])
	}
	var f *MarkerFolder
	med("open", func() { f, _ = s.OpenMarkers(); f.Close() })
	f, _ = s.OpenMarkers()
	defer f.Close()
	med("names", func() { f.ofSessions([]string{"7dec843b-0c2f-4fc5-b34e-e6fd34ccea85", "system3-main"}) })
	var files []markerFile
	med("files", func() { files = f.files(f.names, func(markerFile) bool { return true }) })
	buf := make([]byte, 16<<10)
	med("read", func() {
		for _, file := range files {
			f.read(file, buf)
		}
	})
	b, _ := f.read(files[0], buf)
	t.Log(len(b))
	med("parse quickly", func() {
		for range files {
			parseMarker(b, now, false)
		}
	})
	med("scan", func() {
		for range files {
			var in markerText
			topMembers(b, in.set)
		}
	})
	med("Find", func() {
		f.Find([]string{"7dec843b-0c2f-4fc5-b34e-e6fd34ccea85", "system3-main"}, now.Add(-time.Hour), func(*Proof) (bool, error) { return false, nil })
	})
}
