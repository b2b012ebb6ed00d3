// Package ceiling computes what an ideal server could do on a machine: it asks
// llama.cpp's llama-batched-bench how fast the model computes prompts and decodes,
// with nothing of a server around it, and how long the unique tokens of a trace take
// at these speeds.
package ceiling

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
)

// Row is one measurement of llama-batched-bench: Width sequences of Prompt tokens,
// or one prompt that all of them share, and Output tokens of each, in lockstep.
type Row struct {
	Threads int  `json:"threads"`
	Shared  bool `json:"shared"`
	Prompt  int  `json:"prompt_tok"`
	Output  int  `json:"output_tok"`
	Width   int  `json:"width"`
	// PrefillRate and DecodeRate are tokens a second, of all sequences together.
	PrefillRate float64 `json:"prefill_tok_s"`
	DecodeRate  float64 `json:"decode_tok_s"`
}

// Bounds of what is read: above anything that runs, so that products and sums stay
// exact.
const (
	maxLine  = 1 << 20 // bytes
	maxRows  = 1 << 16
	maxCount = 1 << 24 // tokens of a prompt, sequences, threads
	maxRate  = 1e12    // tokens a second
)

// Parse reads the output of llama-batched-bench --output-format jsonl. Lines that do
// not begin with a brace are the library's log and passed over. Errors name the line;
// an output without a measurement is one.
func Parse(r io.Reader) ([]Row, error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLine)
	var rows []Row
	for n := 1; lines.Scan(); n++ {
		line := bytes.TrimSpace(lines.Bytes())
		if len(line) == 0 || line[0] != '{' {
			continue
		}
		row, err := parseRow(line)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		if len(rows) == maxRows {
			return nil, fmt.Errorf("line %d: there are more than %d measurements", n, maxRows)
		}
		rows = append(rows, row)
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if len(rows) == 0 {
		return nil, errors.New("llama-batched-bench printed no measurement; it leaves out those that do not fit its context (-c)")
	}
	return rows, nil
}

// parseRow reads one line. The program writes is_pp_shared as 0 or 1.
func parseRow(line []byte) (Row, error) {
	var told struct {
		Threads     *int     `json:"n_threads"`
		Shared      *int     `json:"is_pp_shared"`
		Prompt      *int     `json:"pp"`
		Output      *int     `json:"tg"`
		Width       *int     `json:"pl"`
		PrefillRate *float64 `json:"speed_pp"`
		DecodeRate  *float64 `json:"speed_tg"`
	}
	if err := json.Unmarshal(line, &told); err != nil {
		return Row{}, fmt.Errorf("is no measurement of llama-batched-bench: %w", err)
	}
	for _, c := range []struct {
		name string
		is   *int
		min  int
	}{{"n_threads", told.Threads, 1}, {"is_pp_shared", told.Shared, 0}, {"pp", told.Prompt, 0}, {"tg", told.Output, 0}, {"pl", told.Width, 1}} {
		if c.is == nil || *c.is < c.min || *c.is > maxCount {
			return Row{}, fmt.Errorf("%s is missing or no number from %d to %d", c.name, c.min, maxCount)
		}
	}
	for _, c := range []struct {
		name   string
		is     *float64
		needed bool
	}{{"speed_pp", told.PrefillRate, *told.Prompt > 0}, {"speed_tg", told.DecodeRate, *told.Output > 0}} {
		if c.is == nil || !(*c.is >= 0 && *c.is <= maxRate) || c.needed && *c.is == 0 {
			return Row{}, fmt.Errorf("%s is missing or no rate of tokens", c.name)
		}
	}
	return Row{
		Threads: *told.Threads, Shared: *told.Shared != 0, Prompt: *told.Prompt, Output: *told.Output, Width: *told.Width,
		PrefillRate: *told.PrefillRate, DecodeRate: *told.DecodeRate,
	}, nil
}

// Speeds of a model on a machine, in tokens a second.
type Speeds struct {
	Prefill float64 `json:"prefill_tok_s"`
	Decode  float64 `json:"decode_tok_s"` // of all sequences together
	Width   int     `json:"width"`        // sequences at which it was reached
}

// Fastest are the speeds of an ideal server that may choose how many sequences
// decode at once, up to widest: the median prefill rate of all measurements, and the
// best of the widths' median decode rates.
func Fastest(rows []Row, widest int) (Speeds, error) {
	var prefill []float64
	decode := map[int][]float64{}
	for _, r := range rows {
		if r.Prompt > 0 {
			prefill = append(prefill, r.PrefillRate)
		}
		if r.Output > 0 && r.Width <= widest {
			decode[r.Width] = append(decode[r.Width], r.DecodeRate)
		}
	}
	if len(prefill) == 0 || len(decode) == 0 {
		return Speeds{}, fmt.Errorf("no measurement has a prompt, or none has output of at most %d sequences", widest)
	}
	s := Speeds{Prefill: median(prefill)}
	for width, rates := range decode {
		if rate := median(rates); rate > s.Decode || rate == s.Decode && width < s.Width {
			s.Decode, s.Width = rate, width
		}
	}
	return s, nil
}

// Rate is the decode rate at one width, the median of its measurements; false when
// there is none.
func Rate(rows []Row, width int) (float64, bool) {
	var rates []float64
	for _, r := range rows {
		if r.Width == width && r.Output > 0 {
			rates = append(rates, r.DecodeRate)
		}
	}
	if len(rates) == 0 {
		return 0, false
	}
	return median(rates), true
}

func median(values []float64) float64 {
	slices.Sort(values)
	n := len(values)
	return values[(n-1)/2]/2 + values[n/2]/2
}

// Load is what a trace takes.
type Load struct {
	Decisions int
	Unique    int // prompt tokens, each unique prefix once; see render.Ideal
	Generated int // tokens of all decisions
}

// Decisions is how many decisions a second an ideal server makes of a load: one that
// computes every unique prompt token once and decodes at full width all the time,
//
//	decisions / (unique / prefill speed + generated / decode speed)
//
// It is unknown, NaN, for a load that takes no time.
func (s Speeds) Decisions(l Load) float64 {
	seconds := float64(l.Unique)/s.Prefill + float64(l.Generated)/s.Decode
	if !(seconds > 0) || math.IsInf(seconds, 0) {
		return math.NaN()
	}
	return float64(l.Decisions) / seconds
}
