package evaluate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"golang.org/x/sync/errgroup"

	"agentd/household"
	"agentd/protocol"
)

// Ways of asking for candidates.
const (
	wayGreedy = iota // one decision with inference_mode
	wayPlain         // N samples
	wayBest          // the N most probable decisions
	numWays
)

var wayNames = [numWays]string{"one deterministic", "plain samples", "most probable"}

var wayKeys = [numWays]string{
	`{"inference_mode":true}`,
	`{"inference_mode":false}`,
	`{"inference_mode":true,"candidates":{"distinct":true,"rank":"logprob"}}`,
}

// Bins is the number of bins of the calibration error.
const Bins = 10

// Way is what one way of asking gave.
type Way struct {
	Name   string `json:"name"`
	First  Share  `json:"right_first"`  // the first candidate is right
	Within Share  `json:"right_within"` // one of the candidates is right
	All    Share  `json:"all_distinct"` // as many different decisions as were asked for
	// Repeated counts decisions that equal an earlier one of their step, Missing candidates
	// without a decision.
	Repeated int `json:"repeated"`
	Missing  int `json:"missing"`
	Exact    int `json:"exact"` // steps whose search was exact
	// Calibration is the expected calibration error of the first candidate's probability; 0
	// without probabilities.
	Calibration float64       `json:"calibration_error"`
	Time        time.Duration `json:"nanoseconds"` // from the first request to the last answer of each step, in all

	bins [Bins]struct {
		count, right int
		sum          float64
	}
}

// CandidatesReport compares ways of asking for N candidates.
type CandidatesReport struct {
	Model       string       `json:"model"`
	Interrupted bool         `json:"interrupted"` // not all conversations were measured
	ToolNames   string       `json:"tool_names"`
	Houses      string       `json:"houses"`
	Seed        uint64       `json:"seed"`
	N           int          `json:"candidates"`
	Ways        [numWays]Way `json:"ways"`

	server household.Server
	now    func() time.Time
}

// MeasureCandidates asks for n candidates at each step of the planner's path, in each way. The
// ways take turns in being the first one. Options.Clients conversations take a step together:
// all ask in one way, then all in the next. The time of a way ends with its last answer. now is
// the clock.
func MeasureCandidates(ctx context.Context, s household.Server, o Options, n int, now func() time.Time) (*CandidatesReport, error) {
	r := &CandidatesReport{ToolNames: o.ToolNames, Houses: o.Houses, Seed: o.Seed, N: n, server: s, now: now}
	for i := range r.Ways {
		r.Ways[i].Name = wayNames[i]
	}
	var err error
	var running []*household.Episode
	started := 0
	for turn := 0; err == nil; turn++ {
		for len(running) < max(1, o.Clients) && started < o.Episodes {
			running = append(running, o.Episode(started))
			started++
		}
		if len(running) == 0 {
			break
		}
		err = r.step(ctx, running, turn)
		running = slices.DeleteFunc(running, (*household.Episode).Done)
	}
	for i := range r.Ways {
		r.Ways[i].calibrate()
	}
	return r, errors.Join(ctx.Err(), err)
}

// step asks for the next decision of all episodes in each way, and takes the planner's.
func (r *CandidatesReport) step(ctx context.Context, episodes []*household.Episode, turn int) error {
	for k := range numWays {
		way := wayGreedy // first: it computes the prompts
		if k > 0 {
			way = 1 + (k+turn)%(numWays-1)
		}
		n := r.N
		if way == wayGreedy {
			n = 1
		}
		outs := make([][]protocol.AgentOutput, len(episodes))
		begin := r.now()
		err := each(ctx, episodes, func(ctx context.Context, i int, e *household.Episode) (err error) {
			outs[i], err = e.AskFor(ctx, r.server, protocol.Raw(wayKeys[way]), n)
			return err
		})
		if err != nil {
			return err
		}
		w := &r.Ways[way]
		w.Time += r.now().Sub(begin)
		for i, e := range episodes {
			w.count(outs[i], e.Expected())
		}
	}
	return each(ctx, episodes, func(ctx context.Context, _ int, e *household.Episode) error {
		memory, err := e.Correct(ctx, r.server)
		if err == nil {
			e.Apply(e.Expected(), memory)
		}
		return err
	})
}

// each calls do for all episodes at once.
func each(ctx context.Context, episodes []*household.Episode, do func(context.Context, int, *household.Episode) error) error {
	group, ctx := errgroup.WithContext(ctx)
	for i, e := range episodes {
		group.Go(func() error { return do(ctx, i, e) })
	}
	return group.Wait()
}

// count counts the candidates of a step.
func (w *Way) count(outs []protocol.AgentOutput, expected protocol.AgentDecision) {
	var seen []protocol.AgentDecision
	right := func(d protocol.AgentDecision) bool { return household.Same(d, expected) }
	for i := range outs {
		d := outs[i].Output
		switch {
		case d == nil:
			w.Missing++
		case slices.ContainsFunc(seen, func(o protocol.AgentDecision) bool { return household.Same(*d, o) }):
			w.Repeated++
		default:
			seen = append(seen, *d)
		}
	}
	first := outs[0].Output != nil && right(*outs[0].Output)
	w.First.add(first)
	w.Within.add(slices.ContainsFunc(seen, right))
	w.All.add(len(seen) == len(outs))
	if p, exact, ok := candidateOf(&outs[0]); ok {
		if exact {
			w.Exact++
		}
		b := &w.bins[min(int(p*Bins), Bins-1)]
		b.count++
		b.sum += p
		if first {
			b.right++
		}
	}
}

// candidateOf reads the probability of a candidate from its last step.
func candidateOf(out *protocol.AgentOutput) (p float64, exact, ok bool) {
	var step struct {
		Elements struct {
			Generation struct {
				Candidate *struct {
					Probability float64
					Exact       bool
				}
			}
		} `json:"input_elements"`
	}
	if len(out.InternalSteps) == 0 || json.Unmarshal(out.InternalSteps[len(out.InternalSteps)-1], &step) != nil || step.Elements.Generation.Candidate == nil {
		return 0, false, false
	}
	c := step.Elements.Generation.Candidate
	return c.Probability, c.Exact, true
}

// calibrate computes the expected calibration error (Naeini, Cooper and Hauskrecht 2015): the
// mean over bins of |share of right ones - mean probability|, weighted by their sizes.
func (w *Way) calibrate() {
	all, sum := 0, 0.0
	for _, b := range w.bins {
		all += b.count
		sum += max(float64(b.right)-b.sum, b.sum-float64(b.right))
	}
	if all > 0 {
		w.Calibration = sum / float64(all)
	}
}

// WriteTable writes the report for people.
func (r *CandidatesReport) WriteTable(out io.Writer) error {
	var b strings.Builder
	if r.Interrupted {
		b.WriteString("INTERRUPTED: this is what was measured until then\n")
	}
	fmt.Fprintf(&b, "%s, %d candidates at each step of the planner's path, %s tool names, %s houses; seed %d\n\n", r.Model, r.N, r.ToolNames, r.Houses, r.Seed)
	t := tabwriter.NewWriter(&b, 0, 0, columnGap, ' ', 0)
	fmt.Fprintln(t, "\tright first\tright within\tall distinct\trepeated\tmissing\texact\tcalibration error\ttime")
	for i := range r.Ways {
		w := &r.Ways[i]
		calibration, exact := "", ""
		if i == wayBest {
			calibration, exact = fmt.Sprintf("%.3f", w.Calibration), fmt.Sprint(w.Exact)
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%d\t%d\t%s\t%s\t%s\n", w.Name, w.First, w.Within, w.All, w.Repeated, w.Missing, exact, calibration,
			w.Time.Round(time.Millisecond))
	}
	_ = t.Flush() // a builder takes everything
	_, err := io.WriteString(out, b.String())
	return err
}
