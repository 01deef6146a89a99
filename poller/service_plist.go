package poller

import (
	"encoding/xml"
	"path/filepath"
	"strings"
)

// plist is the launchd agent's file; the keys are those of launchd.plist(5).
func plist(l *launch) []byte {
	p := &strings.Builder{}
	p.WriteString(xml.Header +
		`<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">` + "\n" +
		"<!-- written by `gchat-hooks poller install`, which keeps what you change as .bak; " + noSum + " -->\n" +
		"<plist version=\"1.0\">\n<dict>\n")
	key := func(name, value string) { p.WriteString("\t<key>" + escaped(name) + "</key>\n\t" + value + "\n") }
	key("Label", plistString(serviceLabel))
	var args strings.Builder
	for _, a := range l.args {
		args.WriteString("\t\t" + plistString(a) + "\n")
	}
	key("ProgramArguments", "<array>\n"+args.String()+"\t</array>")
	key("RunAtLoad", "<true/>")
	// Started again after a crash and an error, not after an end in order: that is how it is stopped, and how it says that
	// a new start would not help.
	key("KeepAlive", plistDict([]variable{{"Crashed", "<true/>"}, {"SuccessfulExit", "<false/>"}}))
	key("ThrottleInterval", "<integer>20</integer>")
	// What is left of a reply being typed takes longer than the five seconds that launchd grants by itself.
	key("ExitTimeOut", "<integer>90</integer>")
	// Aqua is a login at the screen. Without Background, launchd refuses the agent on a Mac that is only reached by ssh
	// ("Service cannot load in requested session").
	key("LimitLoadToSessionType", "<array>\n\t\t<string>Aqua</string>\n\t\t<string>Background</string>\n\t</array>")
	key("StandardOutPath", plistString(filepath.Join(l.logs, serviceName+".log")))
	key("StandardErrorPath", plistString(filepath.Join(l.logs, serviceName+".err")))
	var env []variable
	for _, v := range l.env {
		env = append(env, variable{v.name, plistString(v.value)})
	}
	key("EnvironmentVariables", plistDict(env))
	key("WorkingDirectory", plistString(l.home))
	p.WriteString("</dict>\n</plist>\n")
	return sealed([]byte(p.String()))
}

func plistString(s string) string { return "<string>" + escaped(s) + "</string>" }

// plistDict is a dictionary inside the outer one; the values are elements.
func plistDict(members []variable) string {
	d := "<dict>\n"
	for _, m := range members {
		d += "\t\t<key>" + escaped(m.name) + "</key>\n\t\t" + m.value + "\n"
	}
	return d + "\t</dict>"
}

func escaped(s string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(s)) // a Builder does not fail
	return b.String()
}
