package settings

import "math/rand/v2"

// A settingsGenerator generates settings files.
type settingsGenerator struct {
	*rand.Rand
	lines bool
}

func (g settingsGenerator) pickOne(of ...string) string { return of[g.IntN(len(of))] }

func (g settingsGenerator) randomBlank() string {
	if !g.lines {
		return g.pickOne("", "", " ")
	}
	return g.pickOne("", "", " ", "\n", "\n  ", "\r\n\t", "\n\n    ", "  \n")
}

func (g settingsGenerator) list(open, shut string, parts ...string) string {
	s := open
	for i, p := range parts {
		if i > 0 {
			s += "," + g.randomBlank()
		}
		s += g.randomBlank() + p + g.randomBlank()
	}
	return s + g.randomBlank() + shut
}

func (g settingsGenerator) repeat(n int, part func() string) (parts []string) {
	for range g.IntN(n + 1) {
		parts = append(parts, part())
	}
	return parts
}

func (g settingsGenerator) pair(name, value string) string {
	return `"` + name + `"` + g.randomBlank() + ":" + g.randomBlank() + value
}

func (g settingsGenerator) settings() string {
	parts := g.repeat(3, func() string {
		return g.pair(g.pickOne("model", "env", "", "a\\\"b"), g.value(2))
	})
	if g.IntN(4) > 0 {
		parts = append(parts, g.pair(g.pickOne("hooks", "hooks", "\\u0068ooks"), g.hooks()))
		g.Shuffle(len(parts), func(i, j int) { parts[i], parts[j] = parts[j], parts[i] })
	}
	return g.list("{", "}", parts...)
}

func (g settingsGenerator) value(deep int) string {
	switch n := g.IntN(6); {
	case n == 0 && deep > 0:
		return g.list("[", "]", g.repeat(3, func() string { return g.value(deep - 1) })...)
	case n == 1 && deep > 0:
		return g.list("{", "}", g.repeat(3, func() string {
			return g.pair(g.pickOne("x", "y", "hooks"), g.value(deep-1))
		})...)
	}
	return g.pickOne("null", "true", "-1.50e+3", `"t"`, `"// no comment"`, `"\ud83d"`,
		"12345678901234567890", `"gchat-hooks hook x"`)
}

func (g settingsGenerator) hooks() string {
	if g.IntN(12) == 0 {
		return "null"
	}
	var parts []string
	for _, event := range []string{"PreToolUse", "Stop", "SessionEnd", "Notification", "Unheard"} {
		switch {
		case g.IntN(2) == 0:
		case event == "Unheard" && g.IntN(2) == 0:
			parts = append(parts, g.pair(event, g.value(1)))
		case g.IntN(8) == 0:
			parts = append(parts, g.pair(event, "null"))
		default:
			parts = append(parts, g.pair(event, g.list("[", "]", g.repeat(3, g.group)...)))
		}
	}
	return g.list("{", "}", parts...)
}

func (g settingsGenerator) group() string {
	if g.IntN(12) == 0 {
		return g.value(1)
	}
	var parts []string
	if g.IntN(2) == 0 {
		parts = append(parts, g.pair("matcher",
			g.pickOne(`"AskUserQuestion"`, `"Bash"`, `""`, `"*"`, "1")))
	}
	if g.IntN(8) == 0 {
		parts = append(parts, g.pair("note", g.value(1)))
	}
	if g.IntN(12) > 0 {
		parts = append(parts, g.pair("hooks", g.list("[", "]", g.repeat(3, g.handler)...)))
	}
	return g.list("{", "}", parts...)
}

func (g settingsGenerator) handler() string {
	if g.IntN(12) == 0 {
		return g.value(1)
	}
	parts := []string{g.pair("type", `"command"`)}
	switch g.IntN(5) {
	case 0, 1:
		parts = append(parts, g.pair("command",
			g.pickOne(`"~/bin/guard.sh"`, `"stop-hook"`, `"gchat-send hi"`)))
	case 2:
		parts = append(parts, g.pair("command",
			g.pickOne(`"gchat-hooks hook gchat-stop-gate"`,
				`"'/a b/gchat-hooks' hook gchat-ask-user-forward"`)))
	case 3:
		parts = append(parts, g.pair("command", g.pickOne(`"/home/me/bin/gchat-hooks"`, `"sh"`)),
			g.pair("args", g.list("[", "]", `"hook"`,
				g.pickOne(`"gchat-stop-gate"`, `"gchat-session-event"`, `"stop-hook"`))))
	}
	if g.IntN(2) == 0 {
		parts = append(parts, g.pair("timeout", g.pickOne("10", "86400", "600")))
	}
	return g.list("{", "}", parts...)
}
