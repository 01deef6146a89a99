package state

import (
	"io/fs"
	"os"
	"path/filepath"
)

// Before is a file or a folder that stood where we keep the person's configuration before gchat-hooks was installed. It is
// theirs: an uninstall that leaves no trace leaves it, and puts back what setup wrote into.
type Before struct {
	Path  string      `json:"path"`
	Mode  fs.FileMode `json:"mode"`  // its permissions
	Bytes []byte      `json:"bytes"` // of config.json alone, for nothing else is written into; null: not known
}

// thereBefore is the configuration folder with what is in it, and the person's configuration file wherever it is; nothing
// where there is none. What lies deeper is not looked at: we put nothing there.
func thereBefore(env Getenv) (all []Before) {
	config, err := filepath.Abs(ConfigFile(env))
	if err != nil {
		config = ConfigFile(env)
	}
	paths := []string{ConfigDir(env)}
	entries, _ := os.ReadDir(ConfigDir(env))
	for _, e := range entries {
		if path := filepath.Join(ConfigDir(env), e.Name()); path != config {
			paths = append(paths, path)
		}
	}
	for _, path := range append(paths, config) {
		if absent(path) {
			continue
		}
		b := Before{Path: path}
		if info, err := os.Stat(path); err == nil { // a link's is that of the file, which is what is written
			b.Mode = info.Mode().Perm()
			if path == config && info.Mode().IsRegular() {
				if bytes, err := readSmall(path); err == nil {
					b.Bytes = append([]byte{}, bytes...) // not nil, also when it is empty
				}
			}
		}
		all = append(all, b)
	}
	return all
}
