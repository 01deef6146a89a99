package settings

// pluginPath is how a plugin finds the program: on the PATH, else where install.sh puts it. A plugin brings none: it is one
// for all systems.
const pluginPath = `PATH="$PATH:$HOME/bin:$HOME/go/bin" ` + program

// Plugin is hooks.json of the plugin of these presets. Its hooks are a shell's lines, which every supported Claude Code takes; what would hold an older one up (asyncRewake) is left out.
func Plugin(presets ...string) ([]byte, error) {
	hooks, err := Hooks(presets...)
	if err != nil {
		return nil, err
	}
	d, err := parse(nil)
	if err != nil {
		return nil, err
	}
	for _, h := range hooks {
		if h.Rewake {
			continue
		}
		e := Entry{Event: h.Event, Matcher: h.Matcher, Command: pluginPath + " hook " + h.Name, Timeout: h.Timeout}
		if err := d.add(usual, e); err != nil {
			return nil, err
		}
	}
	return d.bytes(), nil
}
