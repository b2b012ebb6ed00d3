package scheduler

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"

	"agentd/llama"
	"agentd/scheduler/core"
)

// ErrNotFinite is wrapped where weights give NaN or Inf.
var ErrNotFinite = errors.New("scheduler: a short prompt gives NaN or Inf")

// tryText has words, digits, punctuation and, if the vocabulary has them, special tokens of a chat.
const tryText = "<|im_start|>user\nGo to shelf 42.<|im_end|>\n{\"say\": \"On my way!\", \"action\": {}}"

// try makes each worker compute a prompt and one more token, as its first round. The error wraps ErrNotFinite if
// logits are NaN or Inf. ctx aborts a computation, and try waits for its end.
func (e *Engine) try(ctx context.Context) error {
	e.setTrying(true)
	defer e.setTrying(false)
	for _, w := range e.workers {
		done := make(chan error, 1)
		stop := context.AfterFunc(ctx, w.back.Abort)
		e.mu.Lock()
		w.send(command{kind: tryPrompt, answer: done})
		e.mu.Unlock()
		err := <-done
		if !stop() {
			err = errors.Join(err, ctx.Err())
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (e *Engine) setTrying(on bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.trying = on
}

// try computes in the empty context, and empties it again. rows is the number of the prompt's rows.
func (w *worker) try() (rows int, err error) {
	defer func() { err = cmp.Or(err, w.back.Clear(true)) }()
	prompt, err := w.engine.vocab.Tokenize(tryText, true, true)
	if err != nil {
		return 0, err
	}
	prompt = prompt[:min(len(prompt), w.cfg.BatchTokens, w.coreConfig.Cells-1)]
	pos := 0
	for _, tokens := range [][]llama.Token{prompt, prompt[:1]} {
		batch := make([]core.Row, len(tokens))
		for i, t := range tokens {
			batch[i] = core.Row{Token: t, Pos: pos, Output: i == len(tokens)-1}
			pos++
		}
		if err := w.back.Decode(batch); err != nil {
			return 0, err
		}
		row, err := w.back.Logits(len(batch) - 1)
		if err != nil {
			return 0, err
		}
		if err := finite(row); err != nil {
			return 0, err
		}
	}
	return len(prompt), nil
}

// finite returns an error if a row of logits has NaN or +Inf. -Inf is allowed: the token is impossible.
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
