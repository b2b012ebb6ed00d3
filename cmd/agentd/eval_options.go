package main

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"agentd/defaultmodel/evaluate"
	"agentd/defaultmodel/household"
	"agentd/protocol/client"
)

// evalConfig is everything agentd eval can be told; see evalOptions.
type evalConfig struct {
	Server Config // of the server that it starts
	Remote remote // instead of that, when its URL is not ""

	Episodes  int
	Seed      uint64
	ToolNames string // evaluate.Known, evaluate.Unseen or both
	Constrain string // evaluate.ConstraintsOn, evaluate.ConstraintsOff or both
	Clients   int
	JSON      bool
	Check     bool
}

// both measures one after the other.
const both = "both"

// Defaults and bounds of the measurement.
const (
	// defaultEpisodes are about 1,400 decisions, whose share of right ones is
	// known to one or two percent.
	defaultEpisodes = 200
	// maxEpisodes is more than anybody waits for.
	maxEpisodes = 1_000_000
	// defaultClients keep a CPU's batches filled.
	defaultClients = 16
	// evalMaxNewTokens is more than twice what the longest decisions take; a model
	// that does not find an end is found out sooner than by the server's default.
	evalMaxNewTokens = 256
	// maxClients bounds the connections.
	maxClients = 4096
)

func defaultEvalConfig() evalConfig {
	c := evalConfig{Server: defaultConfig(), Episodes: defaultEpisodes, Seed: 1, ToolNames: both, Constrain: both, Clients: defaultClients}
	c.Server.LogLevel = "warn" // stderr is for what went wrong, stdout for the report
	c.Server.MaxNewTokens = evalMaxNewTokens
	return c
}

// groupEval is the heading of the measurement's own options.
const groupEval = "Measurement"

// evalGroups are the server's options that a measurement has too: those of the
// model. Decisions are asked for with inference_mode, so sampling has no part in them.
var evalGroups = []string{groupModel, groupFormat, groupPlace}

// serverOptions are those of the server that agentd eval starts.
func (c *evalConfig) serverOptions() []option {
	opts := slices.DeleteFunc(options(&c.Server), func(o option) bool {
		return !slices.Contains(evalGroups, o.group) && o.name != "log-level" && o.name != "log-format"
	})
	for i := range opts {
		switch o := &opts[i]; o.name {
		case "max-new-tokens":
			o.usage += " Models that reason before they decide need more than the default."
		case "constrain":
			words := o.value.(choice)
			o.arg, o.usage = "on|off|both", o.usage+" both: one server after the other."
			o.value = choice{&c.Constrain, append(slices.Clone(words.words), both), words.aliases}
		}
	}
	return opts
}

// constraints are those of the servers that are measured.
func (c *evalConfig) constraints() []string {
	switch {
	case c.Remote.URL != "":
		return []string{evaluate.ConstraintsUnknown}
	case c.Constrain == both:
		return []string{evaluate.ConstraintsOn, evaluate.ConstraintsOff}
	}
	return []string{c.Constrain}
}

// evalOptions binds every option of the measurement to its field of c. They are
// flags only.
func evalOptions(c *evalConfig) []option {
	own := []option{
		{"episodes", "", groupEval, "N", "Conversations to measure, for each kind of tool names. One has about seven decisions.", integer{p: &c.Episodes, min: 1, max: maxEpisodes}},
		{"seed", "", groupEval, "N", "Which houses and conversations: the same number gives the same ones.", seed{&c.Seed}},
		{"tool-names", "", groupEval, "KIND", "known: tools have names that the default model's training had. unseen: names that it never had. both: one after the other.", choice{&c.ToolNames, []string{evaluate.Known, evaluate.Unseen, both}, nil}},
		{"clients", "", groupEval, "N", "Conversations at a time.", integer{p: &c.Clients, min: 1, max: maxClients}},
		{"json", "", groupEval, "", "Print the report as JSON, with counts.", toggle{&c.JSON}},
		{"check", "", groupEval, "", "End with an error when a goal is missed.", toggle{&c.Check}},
	}
	return slices.Concat(own, c.Remote.options("Measure a running server, such as http://127.0.0.1:8888, instead of one that is started for it."), c.serverOptions())
}

// loadEvalConfig fills an evalConfig from defaults and flags.
func loadEvalConfig(args []string) (evalConfig, error) {
	c := defaultEvalConfig()
	given, err := loadFlags("eval", evalOptions(&c), args)
	if err != nil {
		return c, err
	}
	if c.Remote.URL == "" {
		if c.Remote.TokenFile != "" {
			return c, errors.New("--token-file: is for --url, which is missing")
		}
		return c, c.Server.Validate(given)
	}
	for _, o := range c.serverOptions() {
		if from, ok := given[o.name]; ok {
			return c, fmt.Errorf("%s: is for the server, and the one at --url is running already; remove one of the two", from)
		}
	}
	if _, err := client.New(c.Remote.URL); err != nil {
		return c, fmt.Errorf("--url: %w", err)
	}
	return c, nil
}

// writeEvalHelp prints the page of agentd eval --help.
func writeEvalHelp(w io.Writer) {
	c := defaultEvalConfig()
	opts := evalOptions(&c)
	fmt.Fprintf(w, `agentd eval measures how well a model decides for robots in simulated households that no
training has, by asking a server as any client does. A planner knows the one right decision
of every situation. docs/model.md has the rest.

Usage
  agentd eval [options]

Examples
  agentd eval
      the default model: with constraints on its decisions and the tasks that it does alone,
      then with constraints off how many of its outputs are valid by themselves; a CPU takes
      its time, and --episodes 20 is enough for a first look
  agentd eval --model Qwen3-8B-Q8_0.gguf --episodes 50 --constrain on
  agentd eval --url http://127.0.0.1:8888 --json

Goals of the default model
  %g %% right decisions with known tool names, %g %% with unseen ones; %g %% of the tasks finished
  within %d times the planner's steps; %g %% valid outputs, %g %% without constraints.
`, evaluate.GoalKnown, evaluate.GoalUnseen, evaluate.GoalTasks, household.Patience, evaluate.GoalValid, evaluate.GoalUnconstrained)
	writeOptions(w, opts, slices.Concat([]string{groupEval, groupRemote}, evalGroups, []string{groupLogs})...)
	fmt.Fprint(w, `
Options are flags only: AGENTD_* variables and configuration files are for the server.

Signals
  SIGINT or SIGTERM ends the measurement; what was measured until then is printed and says so.
  That also holds for a server that stops answering, but it is an error.
`)
}
