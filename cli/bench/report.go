package bench

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// Report is what was measured.
type Report struct {
	Machine Machine `json:"machine"`
	Rounds  int     `json:"rounds"`
	Rows    []Row   `json:"rows"`
}

// Machine is where it was measured.
type Machine struct {
	System    string `json:"system"`
	Processor string `json:"processor,omitempty"`
	CPUs      int    `json:"cpus"`
	Program   string `json:"gchat_hooks"`
	Python    string `json:"python,omitempty"`
	Bash      string `json:"bash,omitempty"`
}

// Row is some work that each of its sides did.
type Row struct {
	Name  string  `json:"name"`
	About string  `json:"about"`
	Sides []*Side `json:"sides"`
}

// Side is one program's part in a row.
type Side struct {
	Program string `json:"program"` // gchat-hooks, python or bash
	LeftOut string `json:"left_out,omitempty"`
	// Milliseconds, and how many times this program's own time in the same round.
	Milliseconds Spread `json:"ms,omitzero"`
	Ratio        Spread `json:"ratio,omitzero"`
}

// Spread is the median of some values, and the bounds of the half of them around it.
type Spread struct {
	Median float64 `json:"median"`
	Low    float64 `json:"low"`
	High   float64 `json:"high"`
}

const ourName = "gchat-hooks"

// newSpread returns the spread of some values; zero if there are none.
func newSpread(values []float64) Spread {
	if len(values) == 0 {
		return Spread{}
	}
	sorted := slices.Sorted(slices.Values(values))
	last := len(sorted) - 1
	return Spread{Median: sorted[last/2], Low: sorted[last/4], High: sorted[last-last/4]}
}

// cells returns two cells of the table.
func (s Spread) cells() string {
	return fmt.Sprintf("%5.1f\t%.1f to %.1f", s.Median, s.Low, s.High)
}

// report returns the report of the rounds that were measured.
func (b *Bench) report() *Report {
	r := &Report{Machine: b.machine, Rounds: b.Rounds}
	var ours []time.Duration
	for _, c := range b.contenders {
		if c.isOurs() {
			ours = c.times
			r.Rows = append(r.Rows, Row{Name: c.scenario.name, About: c.scenario.about})
		}
		row := &r.Rows[len(r.Rows)-1]
		row.Sides = append(row.Sides, c.side)
		if c.side.LeftOut != "" {
			continue
		}
		var milliseconds, ratios []float64
		for i, took := range c.times {
			milliseconds = append(milliseconds, float64(took)/float64(time.Millisecond))
			ratios = append(ratios, float64(took)/float64(ours[i]))
		}
		c.side.Milliseconds, c.side.Ratio = newSpread(milliseconds), newSpread(ratios)
	}
	return r
}

// Text returns the report for a person.
func (r *Report) Text() string {
	var out strings.Builder
	table := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	var leftOut []string
	fmt.Fprintln(table, "\t   ms\tmiddle half\t times as long\tmiddle half")
	for _, row := range r.Rows {
		fmt.Fprintf(table, "%s\t\t\t\t\n", row.About)
		for _, side := range row.Sides {
			cells := "  " + side.Program + "\t" + side.Milliseconds.cells()
			switch {
			case side.LeftOut != "":
				leftOut = append(leftOut, fmt.Sprintf("Left out: %s, %s: %s.\n",
					row.About, side.Program, side.LeftOut))
			case side.Program == ourName:
				fmt.Fprintln(table, cells+"\t\t")
			default:
				fmt.Fprintln(table, cells+"\t"+side.Ratio.cells())
			}
		}
	}
	_ = table.Flush() // a strings.Builder takes everything
	m := r.Machine
	fmt.Fprintf(&out, "\n%sEach number is the median of %d rounds. In each round every program "+
		"runs once,\nand is measured from its start until Claude Code would go on.\n"+
		"\"Times as long\" compares a program with gchat-hooks in the same round.\n"+
		"Half of the rounds are within the \"middle half\".\n",
		strings.Join(leftOut, ""), r.Rounds)
	versions := slices.DeleteFunc([]string{
		fmt.Sprintf("%d CPUs", m.CPUs), m.Processor, m.System, "gchat-hooks " + m.Program,
		m.Python, m.Bash,
	}, func(s string) bool { return s == "" })
	fmt.Fprintf(&out, "Machine: %s.\n", strings.Join(versions, ", "))
	return out.String()
}

// describeMachine finds out where it is measured, and returns the path of Python itself: a
// version manager's python3 is a script that finds it, and takes longer than Python.
func (b *Bench) describeMachine(ctx context.Context) (python string) {
	b.machine = Machine{
		System:    output(ctx, "uname", "-srm"),
		Processor: output(ctx, "sysctl", "-n", "machdep.cpu.brand_string"), // on a Mac
		CPUs:      runtime.NumCPU(),
		Program:   b.Version,
		Bash:      output(ctx, "bash", "-c", "echo bash $BASH_VERSION"),
	}
	cpuinfo, _ := os.ReadFile("/proc/cpuinfo")
	if _, after, found := strings.Cut(string(cpuinfo), "model name\t: "); found {
		b.machine.Processor, _, _ = strings.Cut(after, "\n")
	}
	// Without Apple's developer tools /usr/bin/python3 opens a window that offers them.
	if runtime.GOOS == "darwin" && output(ctx, "xcode-select", "-p") == "" {
		if path, _ := exec.LookPath("python3"); path == "/usr/bin/python3" {
			return ""
		}
	}
	python = output(ctx, "python3", "-B", "-c", "import sys; print(sys.executable)")
	if python != "" {
		b.machine.Python = output(ctx, python, "-B", "--version")
	}
	return python
}

// output returns the last line that a program prints; "" if it fails.
func output(ctx context.Context, name string, args ...string) string {
	ctx, cancel := context.WithTimeout(ctx, postTimeout)
	defer cancel()
	printed, err := exec.CommandContext(ctx, name, args...).Output()
	if err != nil {
		return ""
	}
	return lastLine(printed)
}

func lastLine(printed []byte) string {
	text := strings.TrimSpace(string(printed))
	return text[strings.LastIndexByte(text, '\n')+1:]
}
