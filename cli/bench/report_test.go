package bench

import (
	"testing"

	"gchat-hooks/e2e/kit"
)

func TestSpread_Quartiles(t *testing.T) {
	for _, tt := range []struct {
		name   string
		values []float64
		want   Spread
	}{
		{"none", nil, Spread{}},
		{"one", []float64{3}, Spread{3, 3, 3}},
		{"two", []float64{4, 3}, Spread{3, 3, 4}},
		{"five", []float64{9, 1, 5, 3, 7}, Spread{5, 3, 7}},
		{"an outlier", []float64{1, 2, 2, 2, 3, 3, 3, 4, 900}, Spread{3, 2, 3}},
	} {
		t.Run(tt.name, func(t *testing.T) { kit.Equal(t, newSpread(tt.values), tt.want) })
	}
}

func TestReport_Text(t *testing.T) {
	r := &Report{
		Machine: Machine{System: "Linux 6.1 x86_64", CPUs: 2, Program: "0.1.0", Bash: "bash 5.2"},
		Rounds:  20,
		Rows: []Row{{Name: "send", About: "a message sent", Sides: []*Side{
			{Program: ourName, Milliseconds: Spread{8, 7.5, 9}, Ratio: Spread{1, 1, 1}},
			{Program: "python", LeftOut: "python3 is not there"},
			{Program: "bash", Milliseconds: Spread{24, 22, 26}, Ratio: Spread{3, 2.9, 3.26}},
		}}},
	}
	text := r.Text()
	for _, part := range []string{
		"\na message sent ",
		"  gchat-hooks     8.0  7.5 to 9.0 ",
		"  bash           24.0  22.0 to 26.0    3.0           2.9 to 3.3\n",
		"Left out: a message sent, python: python3 is not there.\n",
		"the median of 20 rounds",
		"Machine: 2 CPUs, Linux 6.1 x86_64, gchat-hooks 0.1.0, bash 5.2.\n",
	} {
		kit.Contains(t, text, part)
	}
}
