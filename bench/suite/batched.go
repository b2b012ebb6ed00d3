package suite

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// speed is one measurement of llama-batched-bench: width sequences in lockstep.
type speed struct {
	Prompt  int     `json:"pp"` // tokens
	Output  int     `json:"tg"` // tokens of each sequence
	Width   int     `json:"pl"`
	Prefill float64 `json:"speed_pp"` // tokens a second
	Decode  float64 `json:"speed_tg"` // tokens a second of all sequences together
}

// maxLine bounds a line of llama-batched-bench in bytes.
const maxLine = 1 << 20

// parseSpeeds reads the output of llama-batched-bench --output-format jsonl. Lines
// without a brace at the start are the library's log.
func parseSpeeds(r io.Reader) ([]speed, error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLine)
	var list []speed
	for lines.Scan() {
		line := bytes.TrimSpace(lines.Bytes())
		if len(line) == 0 || line[0] != '{' {
			continue
		}
		var s speed
		if err := json.Unmarshal(line, &s); err != nil {
			return nil, fmt.Errorf("llama-batched-bench printed %.100q: %w", line, err)
		}
		if s.Width < 1 || s.Prompt > 0 && !(s.Prefill > 0) || s.Output > 0 && !(s.Decode > 0) {
			return nil, fmt.Errorf("llama-batched-bench printed %.100q, which lacks a width or a speed", line)
		}
		list = append(list, s)
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, errors.New("llama-batched-bench printed no measurement; it leaves out those that exceed its context (-c)")
	}
	return list, nil
}

// decodeRate is the median decode rate at a width; false without a measurement.
func decodeRate(list []speed, width int) (float64, bool) {
	var rates []float64
	for _, s := range list {
		if s.Width == width && s.Output > 0 {
			rates = append(rates, s.Decode)
		}
	}
	if len(rates) == 0 {
		return 0, false
	}
	return median(rates), true
}

// Speeds of a model on a machine, in tokens a second.
type Speeds struct {
	Prefill float64 `json:"prefill_tok_s"`
	Decode  float64 `json:"decode_tok_s"` // of all sequences together
	Width   int     `json:"width"`        // sequences at that rate
}

// fastest are the median prefill rate and the best median decode rate of the widths up
// to widest.
func fastest(list []speed, widest int) (Speeds, error) {
	var s Speeds
	var prefill []float64
	for _, x := range list {
		if x.Prompt > 0 {
			prefill = append(prefill, x.Prefill)
		}
		if x.Width > widest {
			continue
		}
		if rate, ok := decodeRate(list, x.Width); ok && (rate > s.Decode || rate == s.Decode && x.Width < s.Width) {
			s.Decode, s.Width = rate, x.Width
		}
	}
	if len(prefill) == 0 || s.Width == 0 {
		return s, fmt.Errorf("llama-batched-bench measured no prompt, or no output of at most %d sequences", widest)
	}
	s.Prefill = median(prefill)
	return s, nil
}

// work is the work of a load.
type work struct {
	decisions int
	unique    int // prompt tokens
	generated int // tokens of all decisions
}

// decisions is the reference estimate in decisions/s. It computes each unique prompt
// token once and always decodes at the fastest width:
//
//	decisions / (unique / prefill speed + generated / decode speed)
//
// It is NaN for a load without work.
func (s Speeds) decisions(w work) float64 {
	seconds := float64(w.unique)/s.Prefill + float64(w.generated)/s.Decode
	if !(seconds > 0) || math.IsInf(seconds, 0) {
		return math.NaN()
	}
	return float64(w.decisions) / seconds
}

// Cache is how llama.cpp keeps and reads keys and values.
type Cache struct {
	Unified        bool   `json:"unified"`         // one KV cache for all sequences
	FlashAttention string `json:"flash_attention"` // auto, on or off
}

// String is the cache on a command line.
func (c Cache) String() string { return strings.Join(c.args(), " ") }

func (c Cache) args() []string {
	kv := "-no-kvu"
	if c.Unified {
		kv = "-kvu"
	}
	return []string{kv, "-fa", c.FlashAttention}
}

// batched is one call of llama-batched-bench.
type batched struct {
	program, model string
	threads        int
	prompt         int  // tokens
	shared         bool // one prompt for all sequences, computed once
	output         int  // tokens of each sequence
	widths         []int
	cache          Cache
}

func (b *batched) args() []string {
	widest, widths := 1, make([]string, len(b.widths))
	for i, w := range b.widths {
		widest, widths[i] = max(widest, w), strconv.Itoa(w)
	}
	// One token more, which applies the copies of a shared prompt.
	cells := widest * roundUp(b.prompt+b.output+1, cellsAlign)
	args := []string{
		"-m", b.model, "-c", strconv.Itoa(cells), "-b", "2048", "-ub", "512",
		"-t", strconv.Itoa(b.threads), "-tb", strconv.Itoa(b.threads),
		"-npp", strconv.Itoa(b.prompt), "-ntg", strconv.Itoa(b.output), "-npl", strings.Join(widths, ","),
		"--output-format", "jsonl",
	}
	if b.shared {
		args = append(args, "-pps")
	}
	return append(args, b.cache.args()...)
}

// run calls the program and reads its measurements. A missing width is an error.
func (b *batched) run(ctx context.Context) ([]speed, error) {
	cmd := exec.CommandContext(ctx, b.program, b.args()...) //nolint:gosec // the program is an option of the suite
	var out bytes.Buffer
	log := new(tail)
	cmd.Stdout, cmd.Stderr = &out, log
	cmd.WaitDelay = 5 * time.Second
	// In its own process group, Ctrl-C ends the program through ctx only.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, fmt.Errorf("%s: %w: %s", b.program, err, log.last())
	}
	list, err := parseSpeeds(&out)
	if err != nil {
		return nil, err
	}
	for _, w := range b.widths {
		if _, ok := decodeRate(list, w); !ok {
			return nil, fmt.Errorf("%s: no measurement with %d sequences", b.program, w)
		}
	}
	return list, nil
}
