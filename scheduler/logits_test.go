package scheduler

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"

	"agentd/llama"
	"agentd/llama/synth"
	"agentd/scheduler/core"
)

// recorder records the logits that the engine reads, and the tokens before them. Its own
// cache holds each sequence as a list of tokens.
type recorder struct {
	backend
	seqs     map[core.SeqID][]llama.Token
	contexts map[int][]llama.Token // by row of the last batch
	read     map[string]reading
}

type reading struct {
	context []llama.Token
	logits  []float32
}

func newRecorder(b backend) *recorder {
	return &recorder{
		backend: b, seqs: map[core.SeqID][]llama.Token{}, contexts: map[int][]llama.Token{}, read: map[string]reading{},
	}
}

func (r *recorder) Apply(o core.Op) error {
	switch o.Kind {
	case core.OpCopy:
		r.seqs[o.Seq] = append(r.seqs[o.Seq], r.seqs[o.Src][o.Pos:o.End]...)
	case core.OpRemove:
		r.seqs[o.Seq] = r.seqs[o.Seq][:o.Pos]
	}
	return r.backend.Apply(o)
}

func (r *recorder) Decode(rows []core.Row) error {
	clear(r.contexts)
	for i, row := range rows {
		r.seqs[row.Seq] = append(r.seqs[row.Seq], row.Token)
		r.contexts[i] = slices.Clone(r.seqs[row.Seq])
	}
	return r.backend.Decode(rows)
}

func (r *recorder) Logits(i int) ([]float32, error) {
	logits, err := r.backend.Logits(i)
	r.read[fmt.Sprint(r.contexts[i])] = reading{r.contexts[i], slices.Clone(logits)}
	return logits, err
}

// The logits of a row equal the logits of its tokens computed alone and in one piece, whatever was
// forked, reused, evicted, shared or chunked.
func TestLogitsDependOnlyOnTokens(t *testing.T) {
	for _, arch := range architectures {
		if testDevice != "" && arch == synth.Qwen2 {
			continue // the same operations as qwen3
		}
		clients, cells := count(6, 3), count(512, 256)
		t.Run(arch, func(t *testing.T) {
			m := testModel(t, arch)
			var r *recorder
			e := newTestEngine(t, setup{
				arch: arch, cells: cells, sequences: 10, outputs: 6, batch: 48,
				wrap: func(b backend) backend { r = newRecorder(b); return r },
			})
			var wg sync.WaitGroup
			for client := range clients {
				wg.Go(func() {
					text := strings.Repeat(story, 1+client%2)[client*7:]
					for turn := range 2 {
						g := sampled(tokenize(t, m, text), 1+client, 6, uint32(10*client+turn))
						text += mustGenerate(t, e, g).Completions[0].Text + " And then?"
					}
				})
			}
			wg.Wait()
			for range 2 {
				mustGenerate(t, e, greedy(tokenize(t, m, story), 3, 3))
			}
			if s := e.Stats(); s.Forked == 0 || s.CachedTokens == 0 || s.Evicted == 0 {
				t.Errorf("the test was to fork, reuse and evict: %+v", s)
			}
			if err := e.Close(); err != nil {
				t.Fatal(err)
			}
			compareLogits(t, arch, r.read)
		})
	}
}

// tolerance is far above the error with F32 weights, an F32 cache and no flash attention
// (0.00003). It is far below the effect of one wrong token in the context: the rows have a
// standard deviation of 4.
const tolerance = 0.001

// compared is the number of rows that are computed again, drawn from those that were read.
const compared = 80

// compareLogits computes each context alone, on the CPU.
func compareLogits(t *testing.T, arch string, read map[string]reading) {
	c, err := reference(t, arch).NewContext(llama.SetContext(1024), llama.SetBatch(1024), llama.SetThreads(1, 1), llama.SetKVType("f32"), llama.SetFlashAttention(false))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	worst, flips, rows := 0.0, 0, 0
	for _, r := range read {
		if rows++; rows > compared {
			break
		}
		row := logitsAlone(t, c, r.context)
		for i, want := range row {
			worst = max(worst, math.Abs(float64(want-r.logits[i])))
		}
		if argmax(row) != argmax(r.logits) {
			flips++
		}
	}
	t.Logf("%d of %d rows: largest difference %.6f, %d argmax flips", min(rows, compared), len(read), worst, flips)
	if worst > tolerance && testDevice == "" || worst > tied || math.IsNaN(worst) {
		t.Errorf("logits differ by up to %.6f from those computed alone", worst)
	}
}

// logitsAlone computes tokens in one piece in the emptied context. It returns a view of the last logits.
func logitsAlone(t *testing.T, c *llama.Context, tokens []llama.Token) []float32 {
	t.Helper()
	if err := c.Memory().Clear(true); err != nil {
		t.Fatal(err)
	}
	b := make([]llama.Row, len(tokens))
	for i, token := range tokens {
		b[i] = llama.Row{Token: token, Pos: llama.Pos(i), Output: i == len(tokens)-1}
	}
	if err := c.Decode(b); err != nil {
		t.Fatal(err)
	}
	row, err := c.Logits(len(b) - 1)
	if err != nil {
		t.Fatal(err)
	}
	return row
}

func argmax(row []float32) int {
	best := 0
	for i, x := range row {
		if x > row[best] {
			best = i
		}
	}
	return best
}
