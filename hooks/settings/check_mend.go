package settings

import "slices"

// reinstall is what writes the hooks of a file anew: into the same settings, and with the presets that stand there, for an
// install takes out what it does not put in. and are presets that have to be there too.
func (s *source) reinstall(and ...string) string {
	switch s.scope {
	case plugin:
		return "mend or update the plugin " + s.name + " (" + s.path + ")"
	case managed:
		return "ask your administrator to mend " + s.path
	}
	return installs + s.flag() + presetFlags(append(s.presets(), and...))
}

// flag names a person's settings to install and uninstall.
func (s *source) flag() string {
	if s.scope == User {
		return ""
	}
	return " --" + string(s.scope)
}

// presets are those that the file has hooks of.
func (s *source) presets() (names []string) {
	for _, h := range s.hooks {
		names = append(names, partOf(h.Event, h.name)) // a preset's own part has its name
	}
	return names
}

// presetFlags name presets to install, without those that another one of them takes in.
func presetFlags(names []string) (flags string) {
	for _, name := range Presets() {
		within := slices.ContainsFunc(names, func(other string) bool {
			return other != name && slices.Contains(presets[other], name)
		})
		if slices.Contains(names, name) && !within {
			flags += " --preset " + name
		}
	}
	if flags == " --preset answer" {
		return "" // the default
	}
	return flags
}
