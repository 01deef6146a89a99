package e2e

import (
	"bytes"
	"fmt"
	"html"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"gchat-hooks/e2e/kit"
)

// TestPicture records docs/answer.svg: a real session asks, and its question is answered
// from the thread.
//
//	GCHAT_PICTURE=$PWD/docs/answer.svg go test ./e2e -run TestPicture
func TestPicture(t *testing.T) {
	file := os.Getenv("GCHAT_PICTURE")
	if file == "" {
		t.Skip("GCHAT_PICTURE names no file to record into")
	}
	b := startAsking(t, findClaude(t, newestVersion), config{
		Folder: "web-shop",
		Script: []turn{
			{textBlock("The release is ready to go out."), questionCall(deployQuestion)},
			{textBlock("Rolling deployment it is. I replace one instance at a time.")},
		},
	})
	b.resize(fmt.Sprint(terminalColumns), fmt.Sprint(terminalRows))
	b.WaitIdle()
	stop := b.recordFrames()
	b.Prompt("release the shop")
	q := b.awaitPost("[AskUserQuestion]")
	b.WaitScreen(firstOption)
	b.reply(q, "2")
	b.WaitScreen("one instance at a time")
	b.awaitPost("[Answered]")
	b.WaitIdle()
	frames := stop()

	picture := animatedSVG(frames)
	if len(picture) > 150_000 || bytes.Contains(picture, []byte(os.TempDir())) {
		t.Errorf("the picture has %d bytes, or a path of this machine", len(picture))
	}
	for _, shown := range []string{
		deployQuestion.Question, "Reply with the option number", "Selected: Rolling deployment",
	} {
		if !bytes.Contains(picture, []byte(shown)) {
			t.Errorf("the picture does not show %q", shown)
		}
	}
	kit.NoError(t, os.WriteFile(file, picture, 0o644))
}

const (
	terminalColumns, terminalRows = 84, 27
	threadColumns                 = 46

	cellWidth, cellHeight = 7.5, 17.0 // of the terminal, in the SVG's units
	margin                = 14.0
)

// A frame is the terminal and the thread at one moment.
type frame struct {
	at       time.Time
	terminal []string // rows, with tmux's escape sequences
	thread   []string // messages; what the person wrote begins with "> "
}

// recordFrames looks at the terminal and the thread until stop is called, which gives the
// frames that differ.
func (b *hookedSession) recordFrames() (stop func() []frame) {
	done, frames := make(chan struct{}), []frame(nil)
	var wg sync.WaitGroup
	look := func() {
		screen, err := b.tmux.run("capture-pane", "-p", "-e", "-t", "=claude:")
		if err != nil {
			return // tmux is busy; the next look shows it
		}
		f := frame{at: time.Now(), terminal: strings.Split(screen, "\n")}
		for _, m := range b.space.Messages() {
			text := strings.TrimSpace(m.Text)
			if m.Sender.Type == "HUMAN" {
				text = "> " + text
			}
			f.thread = append(f.thread, text)
		}
		last := len(frames) - 1
		if last < 0 || !slices.Equal(frames[last].terminal, f.terminal) ||
			!slices.Equal(frames[last].thread, f.thread) {
			frames = append(frames, f)
		}
	}
	wg.Go(func() {
		for tick := time.NewTicker(pollInterval); ; {
			select {
			case <-tick.C:
				look()
			case <-done:
				tick.Stop()
				return
			}
		}
	})
	return func() []frame {
		close(done)
		wg.Wait()
		look()
		return frames
	}
}

// frameSeconds are how long the frames are shown, in seconds: as long as they stood
// there, but long enough to read before the thread has something new, and never so long
// that it bores.
func frameSeconds(frames []frame) (seconds []float64) {
	for i, f := range frames {
		switch {
		case i == len(frames)-1:
			seconds = append(seconds, 6)
		case i == 0:
			seconds = append(seconds, 1)
		case len(f.thread) > 0 && len(frames[i+1].thread) > len(f.thread):
			seconds = append(seconds, 3)
		default:
			seconds = append(seconds, min(max(frames[i+1].at.Sub(f.at).Seconds(), 0.08), 0.5))
		}
	}
	return seconds
}

// animatedSVG draws the frames one after the other, the terminal left, the thread right.
// A row or a thread that several frames show is in the file once. A reader who wants no
// animation sees the last frame.
func animatedSVG(frames []frame) []byte {
	threadLeft := 2*margin + terminalColumns*cellWidth + margin
	width := threadLeft + threadColumns*cellWidth + margin
	height := 3*margin + terminalRows*cellHeight + 10
	seconds := frameSeconds(frames)
	total := 0.0
	for _, s := range seconds {
		total += s
	}

	var style, shapes, body strings.Builder
	known := map[string]int{}
	use := func(drawn string, x, y float64) {
		if drawn == "" {
			return
		}
		n, ok := known[drawn]
		if !ok {
			n = len(known)
			known[drawn] = n
			fmt.Fprintf(&shapes, "<g id=\"s%d\">%s</g>\n", n, drawn)
		}
		fmt.Fprintf(&body, "<use href=\"#s%d\" x=\"%g\" y=\"%g\"/>", n, x, y)
	}
	from := 0.0
	for i, f := range frames {
		to := from + seconds[i]
		fmt.Fprintf(&style, "@keyframes k%d{0%%,100%%{visibility:hidden}%.3f%%{visibility:visible}%.3f%%{visibility:hidden}}\n",
			i, 100*from/total, min(100*to/total, 99.999))
		fmt.Fprintf(&style, "#f%d{animation:k%d %.2fs step-end infinite}\n", i, i, total)
		class := "f"
		if i == len(frames)-1 {
			class = "f last"
		}
		fmt.Fprintf(&body, "<g id=\"f%d\" class=\"%s\">", i, class)
		var now penState
		for row, line := range f.terminal {
			use(now.draw(line), margin, 2*margin+10+float64(row)*cellHeight)
		}
		use(drawBubbles(f.thread), threadLeft, 2*margin+10)
		body.WriteString("</g>\n")
		from = to
	}

	var out bytes.Buffer
	fmt.Fprintf(&out, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" font-size="12.5"
role="img" aria-label="%s">
<style>
text{white-space:pre;dominant-baseline:hanging;font-family:ui-monospace,Menlo,Consolas,"DejaVu Sans Mono",monospace}
.f{visibility:hidden}.last{visibility:visible}
%s@media (prefers-reduced-motion:reduce){.f{animation:none!important}}
</style>
<defs>
%s</defs>
<rect width="100%%" height="100%%" rx="10" fill="#eef0f4"/>
<rect x="%g" y="%g" width="%g" height="%g" rx="8" fill="#16181d"/>
`, width, height, "A session asks in its terminal; a reply in its thread answers it.", style.String(), shapes.String(),
		margin/2, margin+10, terminalColumns*cellWidth+margin, terminalRows*cellHeight+1.5*margin)
	for i, title := range []string{"Claude Code in a terminal", "The session's thread"} {
		fmt.Fprintf(&out, "<text x=\"%g\" y=\"8\" fill=\"#5a6072\">%s</text>\n",
			[]float64{margin, threadLeft}[i], title)
	}
	out.WriteString(body.String() + "</svg>\n")
	return out.Bytes()
}

// drawBubbles draws the messages of a thread, the person's own to the right.
func drawBubbles(messages []string) string {
	var out strings.Builder
	y := 0.0
	for _, m := range messages {
		prompt, mine := strings.CutPrefix(m, "> ")
		var lines []string
		for line := range strings.Lines(prompt) {
			lines = append(lines, wrapLine(strings.TrimRight(line, "\n"), threadColumns-3)...)
		}
		longest := 0
		for _, line := range lines {
			longest = max(longest, utf8.RuneCountInString(line))
		}
		w, h := float64(longest)*cellWidth+18, float64(len(lines))*15+12
		x, fill := 0.0, "#ffffff"
		if mine {
			x, fill = threadColumns*cellWidth-w, "#d6e4ff"
		}
		fmt.Fprintf(&out, `<rect x="%g" y="%g" width="%g" height="%g" rx="8" fill="%s"/>`, x, y, w,
			h, fill)
		for i, line := range lines {
			if line != "" {
				fmt.Fprintf(&out, `<text x="%g" y="%g" fill="#1d2230">%s</text>`, x+9,
					y+7+float64(i)*15, html.EscapeString(line))
			}
		}
		y += h + 8
	}
	return out.String()
}

// wrapLine breaks a line between words.
func wrapLine(line string, columns int) (lines []string) {
	rest := line
	for utf8.RuneCountInString(rest) > columns {
		head := string([]rune(rest)[:columns])
		at := strings.LastIndexByte(head, ' ')
		if at <= 0 {
			at = len(head)
		}
		lines, rest = append(lines, rest[:at]), strings.TrimSpace(rest[at:])
	}
	return append(lines, rest)
}

// A penState is what tmux's escape sequences have set; it stays from row to row.
type penState struct {
	fg, bg                     string
	bold, dim, italic, inverse bool
}

var (
	escapeSequence = regexp.MustCompile("\x1b\\[([0-9;:]*)m|\x1b[\\]P][^\x1b\x07]*(?:\x07|\x1b\\\\)|\x1b[()][0-9A-B]|[\x0e\x0f]")
	wordPattern    = regexp.MustCompile(`\S+(?: \S+)*`)
)

// draw gives a row of the terminal as SVG: a text for each run of words, so that columns
// stay where they are in any font.
func (p *penState) draw(row string) string {
	var backs, texts strings.Builder
	column, from := 0, 0
	put := func(text string) {
		n := utf8.RuneCountInString(text)
		fg, bg := p.fg, p.bg
		if p.inverse {
			fg, bg = bg, fg
			if fg == "" {
				fg = "#16181d"
			}
			if bg == "" {
				bg = "#d9dce3"
			}
		}
		if fg == "" {
			fg = "#d9dce3"
		}
		if bg != "" && n > 0 {
			fmt.Fprintf(&backs, `<rect x="%g" width="%g" height="%g" y="-2" fill="%s"/>`,
				float64(column)*cellWidth, float64(n)*cellWidth, cellHeight, bg)
		}
		attrs := fmt.Sprintf(` fill="%s"`, fg)
		if p.bold {
			attrs += ` font-weight="bold"`
		}
		if p.dim {
			attrs += ` opacity=".6"`
		}
		if p.italic {
			attrs += ` font-style="italic"`
		}
		for _, at := range wordPattern.FindAllStringIndex(text, -1) {
			word := text[at[0]:at[1]]
			x := column + utf8.RuneCountInString(text[:at[0]])
			fmt.Fprintf(&texts, `<text x="%g" textLength="%g"%s>%s</text>`,
				float64(x)*cellWidth, float64(utf8.RuneCountInString(word))*cellWidth, attrs, html.EscapeString(word))
		}
		column += n
	}
	for _, m := range escapeSequence.FindAllStringSubmatchIndex(row, -1) {
		put(row[from:m[0]])
		from = m[1]
		if m[2] >= 0 {
			p.set(row[m[2]:m[3]])
		}
	}
	put(row[from:])
	return backs.String() + texts.String()
}

// penFlags are the parameters of an SGR sequence without colors.
var penFlags = map[int]func(*penState){
	0:  func(p *penState) { *p = penState{} },
	1:  func(p *penState) { p.bold = true },
	2:  func(p *penState) { p.dim = true },
	3:  func(p *penState) { p.italic = true },
	7:  func(p *penState) { p.inverse = true },
	22: func(p *penState) { p.bold, p.dim = false, false },
	23: func(p *penState) { p.italic = false },
	27: func(p *penState) { p.inverse = false },
}

// set takes the parameters of one SGR sequence.
func (p *penState) set(parameters string) {
	var codes []int
	for _, c := range strings.FieldsFunc(parameters,
		func(r rune) bool { return r == ';' || r == ':' }) {
		n, _ := strconv.Atoi(c)
		codes = append(codes, n)
	}
	if len(codes) == 0 {
		codes = []int{0}
	}
	for len(codes) > 0 {
		code, used := codes[0], 1
		color := &p.fg
		if code/10 == 4 || code/10 == 10 {
			color = &p.bg
		}
		isExtended := code == 38 || code == 48
		switch {
		case penFlags[code] != nil:
			penFlags[code](p)
		case code == 39 || code == 49:
			*color = ""
		case isExtended && len(codes) >= 3 && codes[1] == 5:
			*color, used = palette(codes[2]), 3
		case isExtended && len(codes) >= 5 && codes[1] == 2:
			*color, used = fmt.Sprintf("#%02x%02x%02x", codes[2], codes[3], codes[4]), 5
		case code >= 90:
			*color = palette(code%10 + 8)
		case code >= 30 && !isExtended:
			*color = palette(code % 10)
		}
		codes = codes[used:]
	}
}

// palette gives the color of xterm's 256.
func palette(n int) string {
	basic := strings.Fields("#2b2f3a #e06c75 #98c379 #e5c07b #61afef #c678dd #56b6c2 #c8ccd4 " +
		"#7f8794 #ff7b86 #b5e08f #ffd68a #7cc0ff #d99bf0 #7fd6e0 #ffffff")
	switch {
	case n < 16:
		return basic[n]
	case n < 232:
		steps := []int{0, 95, 135, 175, 215, 255}
		n -= 16
		return fmt.Sprintf("#%02x%02x%02x", steps[n/36], steps[n/6%6], steps[n%6])
	}
	grey := 8 + 10*(n-232)
	return fmt.Sprintf("#%02x%02x%02x", grey, grey, grey)
}
