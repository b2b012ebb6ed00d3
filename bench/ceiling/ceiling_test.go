package ceiling

import (
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// written is a line of llama-batched-bench, as it prints it.
const written = `{"n_kv_max": 32768, "n_batch": 2048, "n_ubatch": 512, "flash_attn": -1, "is_pp_shared": 1, "n_gpu_layers": -1, "n_threads": 2, "n_threads_batch": 2, "pp": 400, "tg": 8, "pl": 8, "n_kv": 3264, "t_pp": 0.121513, "speed_pp": 3291.828857, "t_tg": 0.151694, "speed_tg": 421.901978, "t": 0.273207, "speed": 1698.345947}`

func TestParse(t *testing.T) {
	want := Row{Threads: 2, Shared: true, Prompt: 400, Output: 8, Width: 8, PrefillRate: 3291.828857, DecodeRate: 421.901978}
	got, err := Parse(strings.NewReader("\nllama_perf_context_print: load time = 1 ms\n" + written + "\r\n  " + written + "\n\n"))
	if diff := cmp.Diff([]Row{want, want}, got); err != nil || diff != "" {
		t.Error(err, diff)
	}
}

func TestOutputThatIsNoMeasurementIsAnErrorThatNamesIt(t *testing.T) {
	replace := func(from, to string) string { return strings.Replace(written, from, to, 1) }
	for _, test := range []struct{ name, output, want string }{
		{"nothing", "", "printed no measurement"},
		{"only a log", "main: n_kv_max = 1\n", "printed no measurement"},
		{"half a line", written + "\n" + written[:40], "line 2: is no measurement"},
		{"no width", replace(`"pl": 8`, `"x": 8`), "line 1: pl is missing"},
		{"no sequences", replace(`"pl": 8`, `"pl": 0`), "pl is missing or no number from 1"},
		{"too many", replace(`"pl": 8`, `"pl": 999999999`), "pl is missing or no number"},
		{"a number that is none", replace(`"pp": 400`, `"pp": 1.5`), "is no measurement"},
		{"no speed", replace(`"speed_tg"`, `"speed"`), "speed_tg is missing"},
		{"a speed of nothing", replace(`421.901978`, `0.0`), "speed_tg is missing or no rate"},
		{"a negative speed", replace(`3291.828857`, `-1`), "speed_pp is missing or no rate"},
		{"a division by zero", replace(`421.901978`, `inf`), "is no measurement"},
		{"a long line", strings.Repeat("x", maxLine+1), "token too long"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if _, err := Parse(strings.NewReader(test.output)); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(written))
	f.Add([]byte("log\n" + written + "\n{}"))
	f.Fuzz(func(t *testing.T, text []byte) {
		rows, err := Parse(strings.NewReader(string(text)))
		if err != nil {
			return
		}
		if len(rows) == 0 {
			t.Fatal("neither rows nor an error")
		}
		for _, r := range rows {
			if r.Width < 1 || r.Threads < 1 || r.Prompt < 0 || r.Output < 0 || !(r.PrefillRate >= 0) || !(r.DecodeRate >= 0) ||
				r.Prompt > 0 && r.PrefillRate == 0 || r.Output > 0 && r.DecodeRate == 0 {
				t.Fatalf("%+v can't be", r)
			}
		}
		s, err := Fastest(rows, maxCount)
		if err != nil {
			return
		}
		if d := s.Decisions(Load{1, 1, 1}); !(d > 0) || math.IsInf(d, 0) {
			t.Fatalf("%+v makes %g decisions a second", s, d)
		}
	})
}

func TestTheIdealIsTheFastestWidthThatTheLoadHas(t *testing.T) {
	rows := []Row{
		{Width: 1, Prompt: 10, PrefillRate: 100, Output: 4, DecodeRate: 50},
		{Width: 8, Prompt: 10, PrefillRate: 300, Output: 4, DecodeRate: 10}, // a repeat that was disturbed
		{Width: 8, Prompt: 10, PrefillRate: 200, Output: 4, DecodeRate: 200},
		{Width: 8, Prompt: 10, PrefillRate: 200, Output: 4, DecodeRate: 220},
		{Width: 16, Prompt: 10, PrefillRate: 200, Output: 4, DecodeRate: 160},
		{Width: 32, Output: 4, DecodeRate: 1000},
	}
	for _, test := range []struct {
		widest int
		want   Speeds
	}{{1, Speeds{200, 50, 1}}, {8, Speeds{200, 200, 8}}, {16, Speeds{200, 200, 8}}, {64, Speeds{200, 1000, 32}}} {
		if got, err := Fastest(rows, test.widest); err != nil || got != test.want {
			t.Errorf("up to %d: got %+v, %v, want %+v", test.widest, got, err, test.want)
		}
	}
	if _, err := Fastest(rows[5:], 64); err == nil {
		t.Error("no prompt was measured, and there is no error")
	}
	if rate, ok := Rate(rows, 16); !ok || rate != 160 {
		t.Errorf("at 16: %g, %v", rate, ok)
	}
	if _, ok := Rate(rows, 7); ok {
		t.Error("nobody measured 7 sequences")
	}
}

func TestDecisionsTakeTheTimeOfTheirTokens(t *testing.T) {
	s := Speeds{Prefill: 1000, Decode: 200}
	if got := s.Decisions(Load{Decisions: 40, Unique: 6000, Generated: 800}); got != 4 { // 6 s and 4 s
		t.Errorf("got %g", got)
	}
	if got := s.Decisions(Load{}); !math.IsNaN(got) {
		t.Errorf("of nothing: %g", got)
	}
}
