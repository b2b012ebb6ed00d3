package core

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// The transcripts in testdata are the policies, readable as a diff. Rewrite them
// with: go test ./scheduler/core -run Golden -rewrite
//
// Commands (a token is one character):
//
//	init cells=N seqs=N outputs=N running=N batch=N chunk=N wait=N evict=N host=N block=N least=N draft=N [ends=TOKENS] [nopartialcopy] [noprefixcache]
//	submit id=N n=N max=N repeat=N adapter=N priority=N client=NAME salt=TEXT [isolatelast] [branch] [fork] (the prompt is the input)
//	  begun=TEXT;TEXT;... are the first tokens of the candidates; "." has ended
//	cancel id=N | interrupt id=N | dropadapter id=N | clear | lost seq=N | stats
//	step [choose=TOKENS] [result=noslot|failed] [cancel=N, between plan and commit]
//	run: steps until no rows are left, shown without their rows
//
// choose has one character for each sample, "." ends the candidate, "!" is a
// sampler's failure. Tokens in (...) after a character are forced; "(abc.)" also completes
// the candidate. "a+b" is sampled from two rows. Without choose every candidate i chooses
// the letter 'A'+i.
func TestGolden(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(paths) == 0 {
		t.Fatalf("transcripts: %v, %v", paths, err)
	}
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) {
			g := &golden{}
			datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
				g.out.Reset()
				g.command(t, d)
				return g.out.String()
			})
		})
	}
}

type golden struct {
	core    *Core
	kv      *kv
	adapter AdapterID // of the last step
	out     strings.Builder
}

func (g *golden) printf(format string, args ...any) { fmt.Fprintf(&g.out, format+"\n", args...) }

func (g *golden) command(t *testing.T, d *datadriven.TestData) {
	number := func(name string, otherwise int) int {
		d.MaybeScanArgs(t, name, &otherwise)
		return otherwise
	}
	switch d.Cmd {
	case "init":
		batch := number("batch", 16)
		cfg := Config{
			Policy: Policy{
				MaxSequences: number("seqs", 8), MaxRunning: number("running", 0), BatchTokens: batch, PrefillChunk: number("chunk", batch),
				DraftRows: number("draft", 0), NoPrefixCache: d.HasArg("noprefixcache"), HostCells: number("host", 0),
			},
			Cells: number("cells", 64), MaxOutputs: number("outputs", 8),
			PartialCopy: !d.HasArg("nopartialcopy"), Check: true,
		}
		var ends string
		d.MaybeScanArgs(t, "ends", &ends)
		for _, r := range ends {
			cfg.EndTokens = append(cfg.EndTokens, r)
		}
		g.core = New(cfg)
		g.core.tune.minShared, g.core.tune.minEvict = number("wait", 1), number("evict", tuned.minEvict)
		if h := g.core.host; h != nil {
			h.blockCells, h.minCells = number("block", 8), number("least", 2)
		}
		g.kv = newKV(cfg.Cells, cfg.PartialCopy)
	case "submit":
		job := Request{ID: RequestID(number("id", 0)), Branch: d.HasArg("branch"), Fork: d.HasArg("fork")}
		job.Adapter, job.N, job.MaxTokens = AdapterID(number("adapter", 0)), number("n", 1), number("max", 4)
		if !d.HasArg("isolatelast") {
			job.Temperature = 1
		}
		if least := number("repeat", 0); least > 0 {
			job.StopRepeats, g.core.tune.minRepeat = true, least
		}
		for _, r := range d.Input {
			job.Prompt = append(job.Prompt, r)
		}
		job.Priority = number("priority", 0)
		d.MaybeScanArgs(t, "client", &job.Client)
		d.MaybeScanArgs(t, "salt", &job.Salt)
		if d.HasArg("begun") {
			var begun string
			d.ScanArgs(t, "begun", &begun)
			for text := range strings.SplitSeq(begun, ";") {
				tokens := append([]Token{}, []rune(text)...)
				if text == "." {
					tokens = nil
				}
				job.Begun = append(job.Begun, tokens)
			}
		}
		g.core.Submit(job)
	case "interrupt":
		for i, tokens := range g.core.Interrupt(RequestID(number("id", 0))) {
			text := "ended"
			if tokens != nil {
				text = fmt.Sprintf("%q", string(tokens))
			}
			g.printf("candidate %d: %s", i, text)
		}
	case "cancel":
		g.printf("%t", g.core.Cancel(RequestID(number("id", 0))))
	case "dropadapter":
		g.core.DropAdapter(AdapterID(number("id", 0)))
	case "clear":
		g.core.ClearCache()
	case "lost":
		g.core.Invalidate(SeqID(number("seq", 0)))
	case "stats":
		s := g.core.Stats()
		g.printf("requests %d, running %d, waiting %d, cached %d; cells %d of %d, active %d", s.Requests, s.Running, s.Waiting, s.Cached, s.UsedCells, s.Cells, s.ActiveCells)
		g.printf("prompt tokens: %d, cached %d, prefilled %d", s.PromptTokens, s.CachedTokens, s.PrefillTokens)
		if s.DraftTokens > 0 {
			g.printf("draft tokens %d, accepted %d", s.DraftTokens, s.AcceptedTokens)
		}
		if s.Repeated > 0 {
			g.printf("repetitions: %d of %d candidates", s.Repeated, s.Finished)
		}
		if s.EvictedCells > 0 {
			g.printf("evicted %d sequences, trimmed %d, %d cells", s.Evicted, s.Trimmed, s.EvictedCells)
		}
		if s.HostCells > 0 {
			g.printf("host    %d of %d cells; saved %d, loaded %d", s.HostUsed, s.HostCells, s.SavedCells, s.LoadedCells)
		}
	case "step":
		g.step(t, d, true)
	case "run":
		for i := range 200 {
			if !g.step(t, d, false) {
				g.printf("idle after %d steps", i)
				return
			}
		}
		g.printf("still busy")
	default:
		d.Fatalf(t, "unknown command %q", d.Cmd)
	}
	if g.core != nil {
		if err := g.core.Verify(); err != nil {
			t.Fatal(err)
		}
	}
}

// step runs one step and reports whether it had rows.
func (g *golden) step(t *testing.T, d *datadriven.TestData, show bool) bool {
	plan := g.core.Plan()
	for _, o := range plan.Ops {
		if err := g.kv.apply(o); err != nil {
			t.Fatal(err)
		}
		switch {
		case o.Kind == OpCopy:
			g.printf("copy    seq %d [%d,%d) to seq %d", o.Src, o.Pos, o.End, o.Seq)
		case o.Kind == OpSave:
			g.printf("save    seq %d [%d,%d) as block %d", o.Seq, o.Pos, o.End, o.Block)
		case o.Kind == OpLoad:
			g.printf("load    block %d [%d,%d) to seq %d", o.Block, o.Pos, o.End, o.Seq)
		case o.Kind == OpDrop:
			g.printf("drop    block %d", o.Block)
		case o.Pos == 0:
			g.printf("remove  seq %d", o.Seq)
		default:
			g.printf("remove  seq %d [%d,end)", o.Seq, o.Pos)
		}
	}
	if got, want := g.core.Stats().UsedCells, g.kv.used(); got != want {
		t.Fatalf("the core counts %d cells, the cache holds %d", got, want)
	}
	if len(plan.Rows) == 0 {
		if show {
			g.printf("no rows")
		}
		return false
	}
	if plan.Adapter != g.adapter {
		g.adapter = plan.Adapter
		g.printf("adapter %d", g.adapter)
	}
	if show {
		g.rows(plan)
	}
	result, choices := g.decode(t, d, plan, show)
	var id int
	if d.MaybeScanArgs(t, "cancel", &id) {
		g.printf("cancel  request %d", id)
		g.core.Cancel(RequestID(id))
	}
	for _, e := range g.core.Commit(result, choices) {
		g.event(e)
	}
	return true
}

func (g *golden) rows(plan *Plan) {
	drafts := func(row int) bool {
		return slices.ContainsFunc(plan.Samples, func(s Sample) bool { return s.Drafts > 0 && s.Draft == row })
	}
	for i := 0; i < len(plan.Rows); {
		first, text := plan.Rows[i], ""
		drafted := drafts(i)
		for ; i < len(plan.Rows) && plan.Rows[i].Seq == first.Seq && (text == "" || drafted || !drafts(i)); i++ {
			text += string(plan.Rows[i].Token)
		}
		mark := ""
		if plan.Rows[i-1].Output {
			mark = " -> logits"
		}
		if drafted {
			mark = ", draft"
		}
		g.printf("rows    seq %d [%d,%d) %s%s", first.Seq, first.Pos, first.Pos+len(text), text, mark)
	}
}

func (g *golden) decode(t *testing.T, d *datadriven.TestData, plan *Plan, show bool) (StepStatus, []Choice) {
	var result, choose string
	d.MaybeScanArgs(t, "result", &result)
	d.MaybeScanArgs(t, "choose", &choose)
	switch result {
	case "noslot":
		g.printf("no slot")
		return StepNoSlot, nil
	case "failed":
		g.printf("step failed")
		return StepFailed, nil
	}
	if _, ok, err := g.kv.decode(plan.Adapter, plan.Rows); err != nil || !ok {
		t.Fatalf("decode: enough cells %t, %v", ok, err)
	}
	var choices []Choice
	for _, s := range plan.Samples {
		c := Choice{Tokens: []Token{Token('A' + s.Candidate%26)}}
		shown := string(c.Tokens[0])
		if choose != "" {
			c, shown, choose = parseChoice(choose)
		}
		choices = append(choices, c)
		if show {
			g.printf("sample  request %d.%d: %s", s.Request, s.Candidate, shown)
		}
	}
	return StepDecoded, choices
}

// parseChoice reads the first choice of choose.
func parseChoice(choose string) (c Choice, shown, rest string) {
	for more := true; more; {
		token := choose[0]
		choose = choose[1:]
		switch token {
		case '.':
			c.Verdict = Stop
		case '!':
			c.Verdict = Fail
		default:
			c.Tokens = append(c.Tokens, Token(token))
		}
		shown += string(token)
		if tail, ok := strings.CutPrefix(choose, "("); ok {
			tail, choose, _ = strings.Cut(tail, ")")
			shown += "(" + tail + ")"
			if trimmed, ends := strings.CutSuffix(tail, "."); ends {
				c.Verdict, tail = Complete, trimmed
			}
			for _, r := range tail {
				c.Forced = append(c.Forced, len(c.Tokens))
				c.Tokens = append(c.Tokens, r)
			}
		}
		if choose, more = strings.CutPrefix(choose, "+"); more {
			shown += "+"
		}
	}
	return c, shown, choose
}

func (g *golden) event(e Event) {
	switch e.Kind {
	case CandidateFinished:
		text := ""
		for _, t := range e.Tokens {
			text += string(t)
		}
		repeated := ""
		if e.Repeated > 0 {
			repeated = fmt.Sprintf(" of %d", e.Repeated)
		}
		g.printf("end     request %d.%d: %q, %s%s", e.Request, e.Candidate, text, e.Finish, repeated)
	case RequestFinished:
		g.printf("done    request %d, %d prompt tokens cached", e.Request, e.Cached)
	case RequestFailed:
		g.printf("failed  request %d, %s", e.Request, [...]string{"", "no slot", "step failed"}[e.Status])
	}
}
