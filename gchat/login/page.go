package login

import (
	"fmt"
	"html"
	"net/http"
	"strings"
)

// page is all that the browser gets to see: no script, nothing from elsewhere, and no word of the request. It is filled in by
// hand: a template parsed at the start would be paid for by every hook.
const page = `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>%[1]s – gchat-hooks</title>
<style>
  body { font: 17px/1.5 system-ui, sans-serif; max-width: 34em; margin: 18vh auto; padding: 0 1.5em; color: #202124; background: #fff }
  h1 { font-size: 1.5em; font-weight: 500 }
  @media (prefers-color-scheme: dark) { body { color: #e8eaed; background: #202124 } }
</style>
<h1>%[1]s</h1>
%[2]s</html>
`

// show writes a page that no cache keeps: the address it is at holds a code, if a used one.
func show(w http.ResponseWriter, status int, title string, words ...string) {
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'")
	w.WriteHeader(status)
	var body strings.Builder
	for _, p := range words {
		body.WriteString("<p>" + html.EscapeString(p) + "</p>\n")
	}
	fmt.Fprintf(w, page, html.EscapeString(title), body.String())
}
