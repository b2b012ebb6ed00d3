package calibrate

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"

	"agentd/agent"
	"agentd/cmd/agentd/export"
	"agentd/cmd/agentd/export/rows"
	"agentd/internal/base/conformal"
	"agentd/protocol"
)

// maxDecisions bounds what is held in memory.
const maxDecisions = 1 << 20

// Why a decision with options is left out.
const (
	noLabel    = "it is not known which option was right"
	notOffered = "the right decision was not among the options"
	noNumbers  = "the step lacks the probabilities of all options, as of an older server"
)

// labelled is a line of a file of labelled decisions.
type labelled struct {
	Model         string    `json:"model"`  // model_version of the step
	Format        string    `json:"format"` // of the candidate in the step
	Probabilities []float64 `json:"probabilities"`
	Right         int       `json:"right"`
}

// records are the decisions that were read.
type records struct {
	list          []recorded
	right         map[uint64]string // corrected decisions, by the key of their situation
	seen          map[uint64]bool   // keys of situations with options; a console repeats what exchanges have
	kinds         map[string]int    // decisions of each model and format
	model, format string            // of the last one
	skipped       map[string]int
	failed        int // decisions of join without another label than a failure
}

// recorded is a decision with options. Its right one may be known later.
type recorded struct {
	conformal.Decision
	key  uint64
	keys []string // of the options
	bad  []int    // options that failed
}

// read reads all paths: files of labelled decisions, and what agentd export reads.
func (r *records) read(ctx context.Context, paths []string, console string) error {
	var others []string
	for _, path := range paths {
		if !isLabelled(path) {
			others = append(others, path)
		} else if err := r.readLabelled(path); err != nil {
			return err
		}
	}
	s, err := export.Sources(others, console)
	if err != nil {
		return err
	}
	return s.Each(ctx, r.skipped, r.situation)
}

// isLabelled reports whether a regular file begins with a labelled decision. Of others the reader of exchanges says what
// is wrong.
func isLabelled(path string) bool {
	if info, err := os.Stat(path); path == "-" || err != nil || !info.Mode().IsRegular() {
		return false
	}
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	head, _ := bufio.NewReader(f).ReadSlice(':')
	return firstMember.Match(head)
}

// firstMember begins an object with a member of labelled.
var firstMember = regexp.MustCompile(`^\s*\{\s*"(model|format|probabilities|right)"\s*:$`)

// readLabelled reads a file of labelled decisions. Errors name its line.
func (r *records) readLabelled(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, maxLine)
	for n := 1; lines.Scan(); n++ {
		if len(bytes.TrimSpace(lines.Bytes())) == 0 {
			continue
		}
		l := labelled{Right: -1}
		err := protocol.Unmarshal(lines.Bytes(), &l, json.RejectUnknownMembers(true))
		switch {
		case err != nil:
		case l.Right < 0 || l.Right >= len(l.Probabilities):
			err = fmt.Errorf("right is %d, want the index of one of the %d probabilities", l.Right, len(l.Probabilities))
		case l.Model == "" || l.Format == "":
			err = errors.New("model or format is missing; copy model_version and candidate.format of the step")
		default:
			err = r.add(&recorded{Decision: conformal.Decision{Probabilities: l.Probabilities, Right: l.Right}}, l.Model, l.Format)
		}
		if err != nil {
			return fmt.Errorf("%s line %d: %w", path, n, err)
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

const maxLine = 1 << 20 // bytes

// add takes a decision of a model and a format.
func (r *records) add(d *recorded, model, format string) error {
	sum := 0.0
	for i, p := range d.Probabilities {
		if !(p >= 0 && p <= 1) {
			return fmt.Errorf("probabilities[%d] is %g, want a number from 0 to 1", i, p)
		}
		sum += p
	}
	switch {
	case len(d.Probabilities) < 2 || len(d.Probabilities) > agent.MaxOptions:
		return fmt.Errorf("probabilities has %d elements, want 2 to %d", len(d.Probabilities), agent.MaxOptions)
	case math.Abs(sum-1) > 1e-6:
		return fmt.Errorf("the probabilities sum up to %g, want 1", sum)
	case len(r.list) == maxDecisions:
		return fmt.Errorf("there are more than %d decisions; calibrate fewer", maxDecisions)
	}
	r.list = append(r.list, *d)
	r.kinds[model+" in the format "+format]++
	r.model, r.format = model, format
	return nil
}

// generated is what a step says of a decision with options.
type generated struct {
	Model     string `json:"model_version"`
	Candidate struct {
		Option        *int      `json:"option"`
		Format        string    `json:"format"`
		Probabilities []float64 `json:"probabilities"`
		Ask           struct {
			Outcome string `json:"outcome"`
			Option  int    `json:"option"`
		} `json:"ask"`
	} `json:"candidate"`
}

// situation takes the decision of a recorded input, and what corrects it.
func (r *records) situation(s *rows.Situation) error {
	for i := range s.Candidates {
		if c := &s.Candidates[i]; c.Corrects() && c.Output != nil && c.Outcome != rows.Failure {
			r.right[s.Key()] = agent.DecisionKey(c.Output)
		}
	}
	raw, ok := protocol.Get(s.Input.ExtraKeys, agent.KeyOptions)
	if !ok {
		return nil
	}
	answers := s.Candidates
	if len(s.Replaced) > 0 { // the console has the answer that was corrected
		answers = s.Replaced
	}
	if len(answers) == 0 || answers[0].Corrects() || len(answers[0].Steps) == 0 || len(s.Replaced) > 0 && r.seen[s.Key()] {
		return nil
	}
	r.seen[s.Key()] = true
	d := &recorded{Decision: conformal.Decision{Right: -1}, key: s.Key()}
	for e := range protocol.Elements(raw) {
		option, err := agent.Option(e)
		if err != nil {
			return fmt.Errorf("%s: extra_keys.options: %w", s.Source, err)
		}
		d.keys = append(d.keys, agent.DecisionKey(option))
	}
	g, ok := read(answers[0].Steps)
	if !ok || len(g.Candidate.Probabilities) != len(d.keys) {
		r.skipped[noNumbers]++
		return nil
	}
	if ask := g.Candidate.Ask; ask.Outcome == agent.AskChosen && answers[0].Outcome != rows.Failure && ask.Option < len(d.keys) {
		d.Right = ask.Option
	}
	for i := range answers {
		if c := &answers[i]; c.Outcome == rows.Success && c.Output != nil {
			d.Right = slices.Index(d.keys, agent.DecisionKey(c.Output))
		} else if c.Outcome == rows.Failure && c.Output != nil {
			d.bad = append(d.bad, slices.Index(d.keys, agent.DecisionKey(c.Output)))
		}
	}
	d.Probabilities = g.Candidate.Probabilities
	if err := r.add(d, g.Model, g.Candidate.Format); err != nil {
		return fmt.Errorf("%s: %w", s.Source, err)
	}
	return nil
}

// read is what the last step with an option says.
func read(steps []protocol.Raw) (g generated, ok bool) {
	for _, step := range slices.Backward(steps) {
		elements, _ := protocol.Get(step, "input_elements")
		raw, _ := protocol.Get(elements, "generation")
		if g = (generated{}); json.Unmarshal(raw, &g) == nil && g.Candidate.Option != nil {
			return g, true
		}
	}
	return g, false
}

// join is the decisions whose right option is known, where a correction counts more than what a coach chose. Where one
// only failed, the least probable other option counts as right: without failures the sets would be too small.
func (r *records) join() (list []conformal.Decision) {
	for i := range r.list {
		d := &r.list[i]
		if right, corrected := r.right[d.key]; corrected && d.keys != nil {
			if d.Right = slices.Index(d.keys, right); d.Right < 0 {
				r.skipped[notOffered]++
				continue
			}
		}
		if n := len(d.bad); d.Right < 0 && n > 0 && n < len(d.Probabilities) {
			for k, p := range d.Probabilities {
				if !slices.Contains(d.bad, k) && (d.Right < 0 || p < d.Probabilities[d.Right]) {
					d.Right = k
				}
			}
			r.failed++
		}
		if d.Right < 0 {
			r.skipped[noLabel]++
			continue
		}
		list = append(list, d.Decision)
	}
	return list
}

// summary counts what was read.
func (r *records) summary(used int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d decisions with options, %d of them with a known right option", len(r.list), used-r.failed)
	if r.failed > 0 {
		fmt.Fprintf(&b, "\n%d failed: the least probable other option counts as right, which makes sets larger; correct them", r.failed)
	}
	for _, reason := range slices.Sorted(maps.Keys(r.skipped)) {
		fmt.Fprintf(&b, "\n%d skipped: %s", r.skipped[reason], reason)
	}
	return b.String()
}
