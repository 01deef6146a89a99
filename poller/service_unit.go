package poller

import "strings"

// unit is the systemd user unit. It has no PrivateTmp and nothing else that hides files: the person's tmux sockets are
// in /tmp, and their projects anywhere.
func unit(l *launch) []byte {
	u := &strings.Builder{}
	u.WriteString("# Written by `gchat-hooks poller install`, which keeps what you change as .bak;\n" +
		"# `systemctl --user edit " + serviceName + "` keeps your settings apart. " + noSum + "\n" +
		"[Unit]\n" +
		"Description=Google Chat replies for Claude Code (gchat-hooks poller)\n" +
		"StartLimitIntervalSec=600\n" +
		"StartLimitBurst=10\n" +
		"\n[Service]\n" +
		"Type=exec\n" + // so that a start fails when there is no such program
		"ExecStart=" + execStart(l.args) + "\n" +
		"ExecReload=/bin/kill -HUP $MAINPID\n" + // it reads its configuration afresh
		"WorkingDirectory=~\n" +
		"Restart=on-failure\n" +
		"RestartSec=20\n" +
		"KillSignal=SIGTERM\n" +
		"KillMode=mixed\n" + // the signal is for the daemon, not for the tmux command that is just typing a reply
		"TimeoutStopSec=90\n" +
		"NoNewPrivileges=yes\n" +
		"UMask=0077\n" +
		"StandardOutput=journal\n" +
		"StandardError=journal\n")
	for _, v := range l.env {
		u.WriteString("Environment=" + unitWord(v.name+"="+v.value) + "\n")
	}
	u.WriteString("\n[Install]\nWantedBy=default.target\n")
	return sealed([]byte(u.String()))
}

// execStart is a command line as systemd.service(5) reads it.
func execStart(args []string) string {
	var words []string
	if strings.ContainsAny(args[0], `"'\`) {
		// systemd does not start a program whose path holds one of these ("Executable name contains special characters"),
		// however it is quoted; in arguments it minds nothing.
		words = []string{"/bin/sh", "-c", execArgument(`exec "$0" "$@"`), execArgument(args[0])}
	} else {
		words = []string{unitWord(args[0])} // in the program's path $ is nothing special
	}
	for _, a := range args[1:] {
		words = append(words, execArgument(a))
	}
	return strings.Join(words, " ")
}

func execArgument(s string) string { return unitWord(strings.ReplaceAll(s, "$", "$$")) }

// unitWord quotes one word of a unit file. Specifiers are expanded in quotes, too.
func unitWord(s string) string {
	quoted := strings.NewReplacer(`\`, `\\`, `"`, `\"`, "%", "%%").Replace(s)
	if quoted == s && !strings.ContainsAny(s, " ';#") && s != "" {
		return s
	}
	return `"` + quoted + `"`
}
