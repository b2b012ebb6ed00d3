package scheduler

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"time"

	"agentd/llama"
)

// ErrNotFinite is returned for weights that give NaN or Inf.
var ErrNotFinite = errors.New("scheduler: a short prompt gives NaN or Inf")

// tryText has words, digits, punctuation and, where the vocabulary has them, tokens of a chat.
const tryText = "<|im_start|>user\nGo to shelf 42.<|im_end|>\n{\"say\": \"On my way!\", \"action\": {}}"

// try computes a prompt and one more token in an empty context, which is empty again afterwards. Logits
// that are NaN or Inf are ErrNotFinite. rows is that of the prompt, took the time of both steps.
func try(ctx context.Context, m *llama.Model, c *llama.Context) (rows int, took time.Duration, err error) {
	ended := make(chan struct{})
	go func() {
		runtime.LockOSThread() // the thread and its compute threads end with the goroutine
		defer close(ended)
		rows, took, err = tryHere(ctx, m, c)
	}()
	<-ended
	return rows, took, err
}

func tryHere(ctx context.Context, m *llama.Model, c *llama.Context) (rows int, took time.Duration, err error) {
	prompt, err := m.Vocab().Tokenize(tryText, true, true)
	if err != nil {
		return 0, 0, err
	}
	prompt = prompt[:min(len(prompt), c.BatchSize(), c.Size()-1)]
	defer context.AfterFunc(ctx, c.Abort)()
	batch := llama.NewBatch(len(prompt))
	defer batch.Free()
	began := time.Now()
	pos := llama.Pos(0)
	for _, tokens := range [][]llama.Token{prompt, prompt[:1]} {
		batch.Reset()
		for i, t := range tokens {
			if err := batch.Add(t, pos, 0, i == len(tokens)-1); err != nil {
				return 0, 0, err
			}
			pos++
		}
		if err := c.Decode(batch); err != nil {
			return 0, 0, errors.Join(err, ctx.Err())
		}
		row, err := c.Logits(len(tokens) - 1)
		if err != nil {
			return 0, 0, err
		}
		if err := finite(row); err != nil {
			return 0, 0, err
		}
	}
	return len(prompt), time.Since(began), c.Memory().Clear()
}

// finite checks a row of logits. A token may be impossible: -Inf.
func finite(row []float32) error {
	best := math.Inf(-1)
	for t, v := range row {
		if f := float64(v); math.IsNaN(f) || math.IsInf(f, 1) {
			return fmt.Errorf("%w (token %d: %g)", ErrNotFinite, t, f)
		} else if f > best {
			best = f
		}
	}
	if math.IsInf(best, -1) {
		return fmt.Errorf("%w (all tokens: -Inf)", ErrNotFinite)
	}
	return nil
}
