package workload

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"

	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"agentd/agent"
	"agentd/agent/format"
	"agentd/inference/defaultmodel"
	"agentd/inference/load"
)

// Model is a model file and its SHA-256 in hex. The path "" is the built-in model.
func Model(path string) (file, sum string, err error) {
	if path == "" {
		if path, err = defaultmodel.Path(""); err != nil {
			return "", "", fmt.Errorf("the built-in model needs a file in the cache: %w; set XDG_CACHE_HOME to a writable directory, or name a GGUF file", err)
		}
	}
	f, err := os.Open(path)
	if err != nil {
		return "", "", fmt.Errorf("model file: %w", err)
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", "", fmt.Errorf("model file: %w", err)
	}
	return path, hex.EncodeToString(h.Sum(nil)), nil
}

// Render fills in prompt, tokens and grammar of all turns for the model at a path, and
// the trace's model. They are what agentd with default options gives to the model,
// made by the same code without weights. An error leaves the trace unchanged and names
// the turn.
func Render(ctx context.Context, trace *Trace, path string) (err error) {
	file, sum, err := Model(path)
	if err != nil {
		return err
	}
	prompts, err := load.OpenPrompts(ctx, load.Config{
		Path: file, Log: zerolog.Nop(),
		Agent: agent.Config{Prompt: format.Options{CallsPerRobot: "any"}}, // a grammar that counts calls is agentd's own
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, prompts.Close()) }()

	rendered := make([]*agent.Prompt, len(trace.Turns))
	all, ctx := errgroup.WithContext(ctx)
	all.SetLimit(runtime.GOMAXPROCS(0))
	for i := range trace.Turns {
		all.Go(func() (err error) {
			t := &trace.Turns[i]
			if err = ctx.Err(); err == nil {
				rendered[i], err = prompts.Prompt(ctx, t.Input)
			}
			if err != nil {
				return fmt.Errorf("turn %d of agent %d: %w", t.Turn, t.Agent, err)
			}
			return nil
		})
	}
	if err := all.Wait(); err != nil {
		return err
	}
	for i := range trace.Turns {
		t := &trace.Turns[i]
		t.Prompt, t.Tokens, t.Grammar = rendered[i].Text, rendered[i].Tokens, rendered[i].Grammar
	}
	trace.Model = sum
	return nil
}
