package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"agentd/bench/load"
	"agentd/bench/result"
	"agentd/bench/target"
)

// Kinds of targets.
const (
	agentd      = "agentd"
	llamaServer = "llama-server"
	openAI      = "openai"
)

// benchConfig is everything agentbench run can be told; see benchOptions.
type benchConfig struct {
	Target    string
	URL       string
	TokenFile string
	APIModel  string
	Mode      string

	Trace source

	Arrival string
	Load    load.Options

	MaxTokens int // of load.Options.Target, where its default depends on others

	SLO     string
	Name    string
	Out     string
	HTML    string
	GPU     string
	Threads string
}

// Defaults of a measurement.
const (
	// defaultMaxTokens is more than twice what the longest decisions take.
	defaultMaxTokens = 256
	// defaultSampleEvery shows how the batch changes and costs the server nothing.
	defaultSampleEvery = 500 * time.Millisecond
)

func newBenchConfig() benchConfig {
	c := benchConfig{Target: agentd, Mode: string(target.ModeN), Trace: newSource(), Arrival: string(load.Closed)}
	c.Load.SampleEvery = defaultSampleEvery
	c.MaxTokens = defaultMaxTokens
	c.Load.Seed = 1
	return c
}

// Headings of its page of help.
const (
	groupTarget   = "Server"
	groupLoad     = "Load"
	groupLimits   = "Limits of the run"
	groupDecoding = "Decoding, the same on every side"
	groupResult   = "Result"
)

// targetOptions say whom to ask: the sides of a comparison differ in them.
func (c *benchConfig) targetOptions() []option {
	return []option{
		{"target", groupTarget, "KIND", "What the server is: agentd; llama-server, asked at /completion with agentd's tokens; openai, any chat API such as vLLM, SGLang and Ollama.", choice{&c.Target, []string{agentd, llamaServer, openAI}}},
		{"url", groupTarget, "URL", "The server, such as http://127.0.0.1:8888.", text{&c.URL}},
		{"token-file", groupTarget, "FILE", "File whose first line is sent as bearer token or API key.", text{&c.TokenFile}},
		{"api-model", groupTarget, "NAME", "Name of the model at a chat API.", text{&c.APIModel}},
		{"mode", groupTarget, "MODE", "Candidates of a turn at llama-server and chat APIs: n asks for all with one request, separate for each with its own.", choice{&c.Mode, []string{string(target.ModeN), string(target.ModeSeparate)}}},
	}
}

// loadOptions must be the same on all sides of a comparison.
func (c *benchConfig) loadOptions() []option {
	o := &c.Load
	arrivals := []string{string(load.Closed), string(load.Constant), string(load.Poisson), string(load.Gamma), string(load.Recorded)}
	return []option{
		{"arrival", groupLoad, "KIND", "closed: an agent sends its next turn when it has its answer. Open loops, whatever became of earlier turns: constant, poisson, gamma, or recorded for the times of a recorded trace.", choice{&c.Arrival, arrivals}},
		{"concurrency", groupLoad, "N", "Agents at work at a time in a closed loop. Default: all.", integer{&o.Concurrency, 1, maxLength}},
		{"ramp", groupLoad, "TIME", "Start the agents of a closed loop evenly over this time.", duration{&o.Ramp}},
		{"rate", groupLoad, "X", "Requests a second of --arrival constant, poisson and gamma.", fraction{&o.Rate, 0, maxRate}},
		{"shape", groupLoad, "X", "Of --arrival gamma: 1 is poisson, below it requests come in bursts, above it more regularly.", fraction{&o.Shape, minShape, maxShape}},
		{"warmup-turns", groupLoad, "N", "First turns of each agent that are in no figure.", integer{&o.WarmupTurns, 0, maxLength}},
		{"warmup", groupLoad, "TIME", "Requests within this time of the beginning are in no figure.", duration{&o.Warmup}},
		{"cancel", groupLoad, "X", "Share of requests that are left before their answer, from 0 to below 1. They are no failures, and not in the share within the SLO.", fraction{&o.Cancel, 0, maxCancel}},

		{"requests", groupLimits, "N", "Send at most so many.", integer{&o.Requests, 1, maxCount}},
		{"output-tokens", groupLimits, "N", "Send nothing more after so many output tokens.", integer{&o.OutputTokens, 1, maxCount}},
		{"duration", groupLimits, "TIME", "Send nothing more after this time.", duration{&o.Duration}},
		{"timeout", groupLimits, "TIME", "Leave a request that has no answer after this time.", duration{&o.Timeout}},

		{"fixed-tokens", groupDecoding, "N", "Every candidate has exactly so many tokens and no grammar, so that random weights are a fair load. agentd needs its own --fixed-tokens N.", integer{&o.Target.FixedTokens, 1, maxLength}},
		{"max-tokens", groupDecoding, "N", "Longest candidate that ends by itself. agentd needs its own --max-new-tokens N.", integer{&c.MaxTokens, 1, maxLength}},
		{"greedy", groupDecoding, "", "Decode deterministically. Default: as a recorded input says (inference_mode), else sample at temperature 1; agentd needs --temperature 1 --top-p 1 --top-k 0 --min-p 0 for that.", toggle{&o.Target.Greedy}},
		{"stream", groupDecoding, "", "Ask llama-server and chat APIs for tokens as they come, to see TTFT and ITL. It costs them some throughput. agentd tells its TTFT by itself.", toggle{&o.Target.Stream}},
		{"seed", groupDecoding, "N", "Seed of the candidates, of arrivals and of which requests are left.", seed{&o.Seed}},
		{"sample-every", groupResult, "TIME", "How often the server's counters are read. 0s: at the beginning and the end.", duration{&o.SampleEvery}},
	}
}

// resultOptions say what is done with what was measured.
func (c *benchConfig) resultOptions() []option {
	return []option{
		{"slo", groupResult, "LIST", "Bounds of a good request, for goodput: ttft=200ms,tpot=50ms,e2el=2s, or some of them.", text{&c.SLO}},
		{"name", groupResult, "NAME", "Name of the arm: results with the same name are its repeats. Default: the target.", text{&c.Name}},
		{"out", groupResult, "FILE.json", "Write the result, and beside it FILE.requests.jsonl and FILE.samples.jsonl. They must not exist.", text{&c.Out}},
		{"html", groupResult, "FILE", "Write a page with plots.", text{&c.HTML}},
		{"gpu", groupResult, "TEXT", "The server's GPU, for the result.", text{&c.GPU}},
		{"threads", groupResult, "TEXT", "The server's threads, for the result.", text{&c.Threads}},
	}
}

func (c *benchConfig) command() *command {
	opts := c.targetOptions()
	for _, more := range [][]option{c.Trace.options(), c.loadOptions(), c.resultOptions()} {
		opts = append(opts, more...)
	}
	return &command{
		name: "run",
		page: `agentbench run sends a trace to a server and measures: decisions/s, output tok/s, TTFT, TPOT,
ITL, E2EL, goodput, queue wait, failures, prompt tokens sent, computed and ideal. It prints a
table; --out keeps all of it for agentbench compare and agentbench report.

Usage
  agentbench run --url URL [options]

Examples
  agentbench run --url http://127.0.0.1:8888 --agents 16 --candidates 4 --turns 6
  agentbench run --url http://127.0.0.1:8888 --trace t.jsonl --arrival poisson --rate 4 \
      --slo ttft=500ms,e2el=5s --out a.json --html a.html
  agentbench run --target llama-server --url http://127.0.0.1:8080 --trace t.jsonl \
      --model m.gguf --mode separate --fixed-tokens 32 --out b.json
  agentbench run --target openai --url http://127.0.0.1:8000/v1 --api-model Qwen3-8B
`,
		tail: `How it counts
  Decisions are candidates that ended well, a second of the span from the first intended
  send to the last answer. Of agentd that is what it calls completed; of llama-server what
  ended by itself, within the grammar of its turn; of a chat API what ended by itself and is a
  reply, or calls of the turn's tools with arguments that these take. With --fixed-tokens the
  texts are not read. Output tok/s are of what was generated: where agentd decodes
  deterministically, the tokens of one candidate. Latency counts from the intended send. TPOT is
  (E2EL - TTFT) / (output tokens of a candidate - 1). Percentiles are exact. What a server does
  not tell is a dash, and null in the file.

Signals
  SIGINT or SIGTERM ends the run; what was measured until then is printed and written, and
  says so.
`,
		groups:  []string{groupTarget, groupTrace, groupSynthetic, groupPrompt, groupLoad, groupLimits, groupDecoding, groupResult},
		options: opts,
	}
}

// check checks the options against each other.
func (c *benchConfig) check(given map[string]bool) error {
	if c.URL == "" {
		return errors.New("--url: is missing; name the server, such as http://127.0.0.1:8888")
	}
	if _, err := checkURL(c.URL); err != nil {
		return err
	}
	switch {
	case c.Target == openAI && c.APIModel == "":
		return errors.New("--api-model: is missing; a chat API needs the name of its model")
	case c.Target != openAI && given["api-model"]:
		return fmt.Errorf("--api-model: is for --target %s; remove one of the two", openAI)
	case c.Target == agentd && given["mode"]:
		return fmt.Errorf("--mode: is for --target %s and %s; agentd has one request for all candidates", llamaServer, openAI)
	case c.Target == agentd && given["stream"]:
		return errors.New("--stream: agentd does not stream and tells its TTFT by itself; remove it")
	case given["fixed-tokens"] && given["max-tokens"]:
		return errors.New("--max-tokens: --fixed-tokens says already how long answers are; remove one of the two")
	}
	c.Load.Target.Seed = c.Load.Seed
	if c.Load.Target.FixedTokens == 0 {
		c.Load.Target.MaxTokens = c.MaxTokens
	}
	if err := c.checkLoad(given); err != nil {
		return err
	}
	if _, err := result.ParseSLO(c.SLO); err != nil {
		return fmt.Errorf("--slo: %w", err)
	}
	if c.Name = strings.TrimSpace(c.Name); c.Name == "" {
		c.Name = c.Target
	}
	if c.Out != "" {
		paths, err := result.Paths(c.Out)
		if err != nil {
			return fmt.Errorf("--out: %w", err)
		}
		for _, path := range paths {
			if err := absent("--out", path); err != nil {
				return err
			}
		}
	}
	if c.HTML != "" {
		if err := inDirectory("--html", c.HTML); err != nil {
			return err
		}
	}
	return c.Trace.check(given)
}

// checkLoad checks what only some arrivals have.
func (c *benchConfig) checkLoad(given map[string]bool) error {
	c.Load.Arrival = load.Arrival(c.Arrival)
	rated := c.Arrival == string(load.Constant) || c.Arrival == string(load.Poisson) || c.Arrival == string(load.Gamma)
	switch {
	case rated && !(c.Load.Rate > 0):
		return fmt.Errorf("--rate: is missing; --arrival %s needs requests a second above 0, such as --rate 4", c.Arrival)
	case !rated && given["rate"]:
		return fmt.Errorf("--rate: is for --arrival %s, %s and %s; choose one of them or remove it", load.Constant, load.Poisson, load.Gamma)
	case c.Load.Arrival == load.Gamma && !given["shape"]:
		return errors.New("--shape: is missing; --arrival gamma needs one, such as --shape 0.5 for bursts")
	case c.Load.Arrival != load.Gamma && given["shape"]:
		return errors.New("--shape: is for --arrival gamma; choose it or remove this")
	case c.Load.Arrival != load.Closed && given["concurrency"]:
		return errors.New("--concurrency: is for --arrival closed; an open loop has no bound, remove one of the two")
	case c.Load.Arrival != load.Closed && given["ramp"]:
		return errors.New("--ramp: is for --arrival closed; an open loop has no agents that start, remove one of the two")
	case c.Load.Arrival != load.Closed && given["think"]:
		return errors.New("--think: is for --arrival closed; an open loop sends each turn at its time, remove one of the two")
	case c.Load.Arrival == load.Recorded && c.Trace.File == "":
		return errors.New("--arrival recorded: needs a recorded trace; name it with --trace")
	}
	return nil
}

// same are the options that both sides of a comparison must have, as text.
func (c *benchConfig) same() map[string]string {
	list := map[string]string{}
	for _, o := range c.loadOptions() {
		switch o.name {
		case "arrival", "rate", "concurrency": // result.Load has them
		case "stream": // agentd never does; the server's description says it
		case "max-tokens":
			if c.Load.Target.FixedTokens == 0 {
				list[o.name] = o.value.String()
			}
		default:
			list[o.name] = o.value.String()
		}
	}
	return list
}

// level is the load for the result, of a trace of so many agents.
func (c *benchConfig) level(agents int) result.Load {
	l := result.Load{Kind: c.Arrival, Level: c.Load.Rate}
	if c.Load.Arrival == load.Closed {
		l.Level = float64(agents)
		if c.Load.Concurrency > 0 {
			l.Level = float64(min(agents, c.Load.Concurrency))
		}
	}
	return l
}

// open makes the target.
func (c *benchConfig) open() (target.Target, error) {
	var opts []target.Option
	token := ""
	if c.TokenFile != "" {
		body, err := readLimited(c.TokenFile, tokenFileLimit)
		if err != nil {
			return nil, fmt.Errorf("--token-file: %w", err)
		}
		for line := range strings.Lines(string(body)) {
			if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
				token = line
				break
			}
		}
		if token == "" {
			return nil, fmt.Errorf("--token-file: %s has no token", c.TokenFile)
		}
		opts = append(opts, target.WithBearerToken(token))
	}
	switch c.Target {
	case llamaServer:
		return target.NewLlamaServer(c.URL, target.Mode(c.Mode), opts...)
	case openAI:
		return target.NewOpenAI(c.URL, c.APIModel, token, target.Mode(c.Mode), opts...)
	}
	return target.NewAgentd(c.URL, opts...)
}
