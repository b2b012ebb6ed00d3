package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"agentd/bench/load"
	"agentd/bench/report"
	"agentd/bench/result"
	"agentd/bench/target"
	"agentd/bench/workload"
	"agentd/cmd/internal/cli"
	"agentd/cmd/internal/options"
	"agentd/internal/base/version"
)

// Defaults of a measurement.
const (
	defaultMaxTokens   = 256
	defaultSampleEvery = 500 * time.Millisecond
)

// measureConfig has the options of agentbench run.
type measureConfig struct {
	Target, URL, TokenFile string

	Trace     source
	Load      load.Options
	MaxTokens int

	Name, Out, Note, Record string
}

func newMeasureConfig() *measureConfig {
	c := &measureConfig{Target: target.KindAgentd, MaxTokens: defaultMaxTokens}
	c.Trace.Generate = workload.Defaults()
	c.Load.SampleEvery, c.Load.Target.Seed = defaultSampleEvery, 1
	return c
}

// Groups of its options.
var (
	inTarget   = options.In("Server")
	inLoad     = options.In("Load")
	inDecoding = options.In("Decoding, equal on every server")
	inResult   = options.In("Result")
)

// loadOptions must be equal in a comparison.
func (c *measureConfig) loadOptions() []options.Option {
	o := &c.Load
	return []options.Option{
		inLoad("rate", "X", "Requests a second at random (Poisson) times, whatever became of earlier ones. 0: a closed loop, in which an agent sends its next turn after the answer to the one before.", options.Float(&o.Rate, 0, maxRate)),

		inDecoding("fixed-tokens", "N", "Exact length of every candidate, without a grammar, so that random weights are a fair load. agentd needs --debug fixed-tokens=N.", options.Int(&o.Target.FixedTokens, 1, maxLength)),
		inDecoding("max-tokens", "N", "Longest candidate that ends by itself. agentd needs --max-new-tokens N.", options.Int(&c.MaxTokens, 1, maxLength)),
		inDecoding("greedy", "", "Decode deterministically. Otherwise temperature is 1 without top-k, top-p and min-p; agentd needs --temperature 1 --top-p 1 --top-k 0 --min-p 0 for that.", options.Bool(&o.Target.Greedy)),
		inDecoding("seed", "N", "Seed of candidates and of random times.", options.Uint64(&o.Target.Seed)),
		inResult("slo", "TIME", "Bound on the latency of a request, for goodput. 0s: none.", options.Duration(&o.Bound, 0, maxDuration)),
	}
}

func (c *measureConfig) options() []options.Option {
	opts := []options.Option{
		inTarget("target", "KIND", "agentd; or llama-server or vllm, which get the tokens of agentd's prompts. vllm needs --fixed-tokens.", options.Choice(&c.Target, []string{target.KindAgentd, target.KindLlamaServer, target.KindVLLM}, nil)),
		inTarget("url", "URL", "The server, such as http://127.0.0.1:8888.", options.Text(&c.URL)),
		inTarget("token-file", "FILE", "File with the bearer token or API key.", options.SecretFile(&c.TokenFile)),
		inTarget("return", "", "Ask agentd for the token ids and logprobs of each candidate too, to measure what they cost.", options.Bool(&c.Load.Target.Return)),
	}
	return append(append(append(opts, c.Trace.options()...), c.loadOptions()...),
		inResult("sample-every", "TIME", "How often the server's counters are read. 0s: at both ends only.", options.Duration(&c.Load.SampleEvery, 0, maxDuration)),
		inResult("name", "NAME", "Name of the result: results with the same name are repeats. Default: the server and its URL.", options.Text(&c.Name)),
		inResult("out", "FILE.json", "Write the result for agentbench compare. The file must not exist.", options.Text(&c.Out)),
		inResult("record", "FILE.jsonl", "Write each request to agentd with its answer, for agentd export. The file must not exist. Writing takes some of the machine's time.", options.Text(&c.Record)),
		inResult("note", "TEXT", "Facts of the server's machine for the result, such as its GPU.", options.Text(&c.Note)),
	)
}

func (c *measureConfig) command() *options.Command {
	return &options.Command{
		Name: "agentbench run",
		Intro: `agentbench run sends a trace to a server and measures decisions/s, output tok/s, TTFT, TPOT,
E2EL, goodput, failures, and prompt tokens sent, computed and unique.

Usage
  agentbench run --url URL [options]

Examples
  agentbench run --url http://127.0.0.1:8888 --agents 16 --candidates 4 --turns 6
  agentbench run --url http://127.0.0.1:8888 --rate 4 --slo 5s --out a.json
  agentbench run --target llama-server --url http://127.0.0.1:8080 --model m.gguf \
      --fixed-tokens 32 --out b.json
`,
		Outro: `How it counts
  Decisions are candidates that ended well, a second of the span from the first intended send
  to the last answer. agentd reports them as completed. At llama-server they ended by
  themselves within the grammar. With --fixed-tokens texts are not parsed. Latency counts from
  the intended send. TPOT is (E2EL - TTFT) / (output tokens of a candidate - 1). Unknown
  figures are a dash, and null in the file.

Signals
  SIGINT or SIGTERM ends the run. What was measured before is printed and written.
`,
		Options: c.options(),
	}
}

// check checks the options against each other.
func (c *measureConfig) check(given options.Origins) error {
	switch {
	case c.URL == "":
		return errors.New("--url: is missing; name the server, such as http://127.0.0.1:8888")
	case c.Target != target.KindAgentd && c.Record != "":
		return errors.New("--record: is for --target agentd; remove it")
	case c.Target != target.KindAgentd && c.Load.Target.Return:
		return errors.New("--return: is for --target agentd; remove it")
	case c.Target == target.KindVLLM && given["fixed-tokens"] == "":
		return errors.New("--fixed-tokens: is missing; --target vllm is measured with answers of a fixed length")
	case given["fixed-tokens"] != "" && given["max-tokens"] != "":
		return errors.New("--max-tokens: --fixed-tokens sets the length already; remove one of the two")
	case strings.Contains(c.URL, "@"):
		return errors.New("--url: has a user or password; use --token-file")
	}
	if c.Load.Target.FixedTokens == 0 {
		c.Load.Target.MaxTokens = c.MaxTokens
	}
	c.Name = strings.TrimSpace(c.Name)
	return cmp.Or(cli.Absent("--out", c.Out), cli.Absent("--record", c.Record))
}

// open makes the target.
func (c *measureConfig) open() (target.Target, error) {
	token := ""
	if c.TokenFile != "" {
		body, err := os.ReadFile(c.TokenFile)
		if err != nil {
			return nil, fmt.Errorf("--token-file: %w", err)
		}
		if token = strings.TrimSpace(string(body)); token == "" || len(token) > tokenFileLimit {
			return nil, fmt.Errorf("--token-file: %s has no token", c.TokenFile)
		}
	}
	t, err := target.Open(c.Target, c.URL, token)
	if err != nil {
		return nil, fmt.Errorf("--url: %w", err)
	}
	return t, nil
}

// measure is the subcommand that measures a server.
func (p *program) measure(ctx context.Context, args []string) (err error) {
	c := newMeasureConfig()
	given, _, err := c.command().Parse(args, os.LookupEnv, p.stdout)
	if err != nil {
		return err
	}
	if err := c.check(given); err != nil {
		return err
	}
	cli.WarnOfSecrets(p.stderr, c.command())
	ctx, stop := cli.UntilSignal(ctx)
	defer stop()
	trace, err := c.Trace.load(ctx)
	if err != nil {
		return err
	}
	if c.Target != target.KindAgentd && !trace.Rendered() {
		return fmt.Errorf("--model: is missing; %s gets agentd's tokens; name the GGUF file that it serves", c.Target)
	}
	t, err := c.open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.Close()) }()
	if server, ok := t.(*target.Agentd); ok && c.Record != "" {
		f, failed := os.OpenFile(c.Record, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if failed != nil {
			return fmt.Errorf("--record: %w", failed)
		}
		buffered := bufio.NewWriterSize(f, 1<<20)
		server.Record(buffered)
		defer func() { err = errors.Join(err, buffered.Flush(), f.Close()) }()
	}
	r, failed := load.Run(ctx, t, trace, c.Load)
	switch {
	case r == nil:
		return failed
	case len(r.Records) == 0:
		return errors.Join(failed, errors.New("nothing was measured"))
	}
	r.Name = cmp.Or(c.Name, cmp.Or(r.Server["server"], c.Target)+" at "+c.URL)
	r.Commit, r.Host = version.Commit(), host(c.Note)
	r.Options = map[string]string{} // that must be equal in a comparison
	for _, o := range c.loadOptions() {
		if o.Name != "rate" { // the load has it
			r.Options[o.Name] = o.Value.String()
		}
	}
	if err := report.WriteTable(p.stdout, []*result.Run{r}); err != nil {
		return err
	}
	fmt.Fprintf(p.stdout, "measured %s, version %s, at %s\n", cmp.Or(r.Server["agent_id"], r.Server["server"], "a server without a name"), cmp.Or(r.Server["version"], "unknown"), c.URL)
	for _, note := range r.Notes {
		fmt.Fprintln(p.stdout, note)
	}
	if s := r.Summary; failed == nil && s.Decisions == 0 && s.Cancelled < s.Requests {
		failed = fmt.Errorf("none of %d requests gave a decision", s.Requests)
	}
	if c.Out == "" {
		return failed
	}
	if err := r.Save(c.Out); err != nil {
		return errors.Join(failed, fmt.Errorf("--out: %w", err))
	}
	fmt.Fprintf(p.stdout, "written to %s\n", c.Out)
	return failed
}
