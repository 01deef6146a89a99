package wake_test

import (
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"
)

func benchMedian(ds []time.Duration) float64 {
	slices.Sort(ds)
	return float64(ds[len(ds)/2]) / float64(time.Millisecond)
}

// BenchmarkStopHook is a turn's end with Claude's words in the event, as Claude Code sends it: until Claude Code may go on,
// and until openclaw runs. The start of openclaw itself is in the latter; it is shown alone beside it.
func BenchmarkStopHook(b *testing.B) {
	d := newBenchDesk(b)
	t := d.transcript("t.jsonl", 1<<20)
	var exit, handOver, alone []time.Duration
	for i := 0; b.Loop(); i++ {
		words := "Step " + strconv.Itoa(i) + " is done."
		t.end(i, words)
		e, h := d.run(words, d.stop(i, t.path, words), d.program, "stop-hook")
		_, a := d.run(words, nil, d.path("bin/openclaw"), words)
		exit, handOver, alone = append(exit, e), append(handOver, h), append(alone, a)
	}
	b.ReportMetric(benchMedian(exit), "process-ms(median)")
	b.ReportMetric(benchMedian(handOver), "hand-over-ms(median)")
	b.ReportMetric(benchMedian(alone), "openclaw-alone-ms(median)")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkBesideBash runs our hook and the bash hook in turn. Claude's words are in the event and in the transcript (the bash
// hook knows only the latter), in the transcript only, or nowhere: no transcript is named, and both send what is new in the
// pane.
func BenchmarkBesideBash(b *testing.B) {
	benchNeeds(b, "bash", "jq", "tail", "grep", "diff", "flock")
	for _, c := range []string{"WordsInEvent", "WordsInTranscript", "NewInPane"} {
		b.Run(c, func(b *testing.B) {
			d := newBenchDesk(b)
			t := d.transcript("t.jsonl", 1<<20)
			var ours, bash, oursExit, bashExit []time.Duration
			for i := 0; b.Loop(); i++ {
				words := "Step " + strconv.Itoa(i) + " is done."
				var event []byte
				switch c {
				case "WordsInEvent":
					t.end(i, words)
					event = d.stop(i, t.path, words)
				case "WordsInTranscript":
					t.end(i, words)
					event = d.stop(i, t.path, "")
				case "NewInPane":
					d.say(words)
					event = d.stop(i, "", "") // our hook waits a second for a transcript that is named and not there
				}
				e, h := d.run(words, event, d.program, "stop-hook")
				ours, oursExit = append(ours, h), append(oursExit, e)
				e, h = d.run(words, event, "bash", "../../e2e/bench/stop-hook.sh")
				bash, bashExit = append(bash, h), append(bashExit, e)
			}
			b.ReportMetric(benchMedian(ours), "hand-over-ms(median)")
			b.ReportMetric(benchMedian(bash), "bash-hand-over-ms(median)")
			b.ReportMetric(benchMedian(bash)/benchMedian(ours), "bash/ours-hand-over")
			b.ReportMetric(benchMedian(oursExit), "process-ms(median)")
			b.ReportMetric(benchMedian(bashExit), "bash-process-ms(median)")
			b.ReportMetric(benchMedian(bashExit)/benchMedian(oursExit), "bash/ours-process")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// BenchmarkTranscript1MBBeside1GB is a turn's end whose words are at the end of a transcript, in a short one and in a long one
// in turn.
func BenchmarkTranscript1MBBeside1GB(b *testing.B) {
	d := newBenchDesk(b)
	short, long := d.transcript("1MB.jsonl", 1<<20), d.transcript("1GB.jsonl", 1<<30)
	var exits, handOvers [2][]time.Duration
	for i := 0; b.Loop(); i++ {
		for which, t := range []*benchTranscript{short, long} {
			words := fmt.Sprintf("Step %d of %d is done.", i, which)
			t.end(i, words)
			e, h := d.run(words, d.stop(2*i+which, t.path, ""), d.program, "stop-hook")
			exits[which], handOvers[which] = append(exits[which], e), append(handOvers[which], h)
		}
	}
	b.ReportMetric(benchMedian(exits[0]), "1MB-process-ms(median)")
	b.ReportMetric(benchMedian(exits[1]), "1GB-process-ms(median)")
	b.ReportMetric(benchMedian(handOvers[0]), "1MB-hand-over-ms(median)")
	b.ReportMetric(benchMedian(handOvers[1]), "1GB-hand-over-ms(median)")
	b.ReportMetric(benchMedian(handOvers[1])/benchMedian(handOvers[0]), "1GB/1MB-hand-over")
	b.ReportMetric(0, "ns/op")
}
