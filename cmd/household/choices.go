package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"

	"agentd/agent"
	"agentd/cmd/internal/cli"
	"agentd/household/dataset"
	"agentd/household/evaluate"
	"agentd/protocol"
)

// mostChoices bounds the options of an input.
const mostChoices = 24

// writeChoices writes lines {"input": AgentInput, "right": 3}: the inputs on the planner's path, in houses by which a model is
// judged, with the calls that the world offers in extra_keys.options.
func writeChoices(ctx context.Context, args []string) (err error) {
	ctx, stop := cli.UntilSignal(ctx)
	defer stop()
	flags := flag.NewFlagSet("choices", flag.ContinueOnError)
	items := flags.Int("items", 1000, "how many inputs to write")
	seed := flags.Uint64("seed", 1, "the inputs are a function of it")
	names := flags.String("tool-names", evaluate.Known, "known, unseen or reports, as of household eval")
	out := flags.String("out", "", "the file to write")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *out == "" || *items < 1 || flags.NArg() > 0 {
		return errors.New("say which file to write with --out, and --items of at least 1")
	}
	if !slices.Contains([]string{evaluate.Known, evaluate.Unseen, evaluate.Reports}, *names) {
		return fmt.Errorf("--tool-names: got %q, want known, unseen or reports", *names)
	}
	a, err := dataset.NewAgent(agent.ConstrainOff)
	if err != nil {
		return err
	}
	f, err := os.Create(*out)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	w := bufio.NewWriter(f)
	o, r := evaluate.Options{ToolNames: *names, Seed: *seed}, rand.New(rand.NewPCG(*seed, 0))
	for i, n := 0, 0; n < *items; i++ {
		for e := o.Episode(i); !e.Done() && n < *items; {
			if options, right, ok := e.Choices(r, mostChoices); ok {
				in := e.Input()
				list := protocol.Raw("[]")
				for _, d := range options {
					list = protocol.AppendElements(list, d.AppendJSON(nil))
				}
				in.ExtraKeys = protocol.AppendMember(in.ExtraKeys, "options", list)
				fmt.Fprintf(w, "{\"input\": %s, \"right\": %d}\n", in.AppendJSON(nil), right)
				n++
			}
			if err := dataset.Step(ctx, a, e); err != nil {
				return err
			}
		}
	}
	return w.Flush()
}
