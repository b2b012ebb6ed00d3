// Package render gives the turns of a trace their prompts, tokens and grammars:
// those that agentd would give to a model, made by the same code from the model's
// file, without a server. Servers of other kinds are asked with them, and the tokens
// that an ideal server would compute are counted on them.
package render

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"sync/atomic"

	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"agentd/agent"
	"agentd/agent/format"
	"agentd/bench/workload"
	"agentd/defaultmodel"
	"agentd/inference"
	"agentd/llama"
)

// Options are agentd's own where they change a prompt or a grammar, with its
// defaults where they are zero. They must be those of the server that is compared.
type Options struct {
	Format             string // auto, qwen, gpt-oss, template
	ChatTemplate       string // Jinja source; "": the model's own
	OutputStyle        string
	Constrain          string // on or off
	EnableThinking     bool
	ReasoningEffort    string
	HistoryMaxMessages int

	// Progress is told how many turns have a prompt, by several goroutines at the
	// same time; nil: nobody is.
	Progress func(turns int)
}

// Model is the model's file and its SHA-256 in hex. The path "" is the default
// model's, which the program embeds.
func Model(path string) (file, sum string, err error) {
	if path == "" {
		if path, err = defaultmodel.Path(""); err != nil {
			return "", "", fmt.Errorf("the default model needs a file in the cache: %w; set XDG_CACHE_HOME to a directory that can be written to, or name a GGUF file", err)
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

// Render fills Prompt, Tokens and Grammar of all turns for the model at a path, ""
// being the default model, and the header's Model. What a trace had of another model
// is replaced; after an error it is as it was. Errors name the turn.
func Render(ctx context.Context, trace *workload.Trace, path string, o Options) (err error) {
	file, sum, err := Model(path)
	if err != nil {
		return err
	}
	prompts, err := inference.OpenPrompts(ctx, inference.Config{Path: file, Log: zerolog.Nop(), Agent: agent.Config{Format: o.Format, Prompt: format.Options{ChatTemplate: o.ChatTemplate, OutputStyle: o.OutputStyle, EnableThinking: o.EnableThinking, ReasoningEffort: o.ReasoningEffort, CallsPerRobot: "any"}, Constrain: o.Constrain, HistoryMaxMessages: o.HistoryMaxMessages}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, prompts.Close()) }()

	rendered := make([]*agent.Prompt, len(trace.Turns))
	var count atomic.Int64
	all, ctx := errgroup.WithContext(ctx)
	all.SetLimit(runtime.GOMAXPROCS(0))
	for i := range trace.Turns {
		all.Go(func() (err error) {
			t := &trace.Turns[i]
			if rendered[i], err = of(ctx, prompts, t); err != nil {
				return fmt.Errorf("turn %d of agent %d: %w", t.Turn, t.Agent, err)
			}
			if n := count.Add(1); o.Progress != nil {
				o.Progress(int(n))
			}
			return nil
		})
	}
	if err := all.Wait(); err != nil {
		return err
	}
	for i := range trace.Turns {
		t := &trace.Turns[i]
		t.Prompt, t.Tokens, t.Grammar = rendered[i].Text, ids(rendered[i].Tokens), rendered[i].Grammar
	}
	trace.Header.Model = sum
	return nil
}

// of is the prompt of one turn.
func of(ctx context.Context, prompts *inference.Prompts, t *workload.Turn) (*agent.Prompt, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	in, err := t.AgentInput()
	if err != nil {
		return nil, err
	}
	return prompts.Of(ctx, in)
}

func ids(tokens []llama.Token) []int32 {
	list := make([]int32, len(tokens))
	for i, id := range tokens {
		list[i] = int32(id)
	}
	return list
}
