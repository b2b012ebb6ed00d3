// Package eval is the command that measures how well a model decides.
package eval

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"agentd/cmd/agentd/serve"
	"agentd/cmd/internal/cli"
	"agentd/cmd/internal/options"
	"agentd/household"
	"agentd/household/evaluate"
	"agentd/internal/base/version"
)

// Config is all settings of the command.
type Config struct {
	Server serve.Config // of the server that it starts
	Remote cli.Remote   // instead of that, when its URL is not ""

	Episodes  int
	Seed      uint64
	ToolNames string // evaluate.Known, evaluate.Unseen, both or evaluate.Reports
	Constrain string // evaluate.ConstraintsOn, evaluate.ConstraintsOff or both
	Clients   int
	JSON      bool
	Check     bool
}

// both measures one after the other.
const both = "both"

// Defaults and bounds of the measurement.
const (
	// defaultEpisodes are about 1,400 decisions. Their accuracy is known to one or two
	// percent.
	defaultEpisodes = 200
	// maxEpisodes is more than anybody waits for.
	maxEpisodes = 1_000_000
	// defaultClients keep a CPU's batches filled.
	defaultClients = 16
	// defaultNewTokens is more than twice the longest decision. A model that does not stop
	// fails sooner than with the server's default.
	defaultNewTokens = 256
	// maxClients bounds the connections.
	maxClients = 4096
)

// DefaultConfig applies when a user sets nothing.
func DefaultConfig() *Config {
	c := &Config{Server: *serve.DefaultConfig(), Episodes: defaultEpisodes, Seed: 1, ToolNames: both, Constrain: both, Clients: defaultClients}
	c.Server.Log.Level = "warn" // stderr is for failures, stdout for the report
	c.Server.Inference.Agent.MaxNewTokens = defaultNewTokens
	return c
}

// serverGroups are the server's options that a measurement has too: the model's options.
// The measurement asks with inference_mode, so sampling has no part in it.
var serverGroups = []string{serve.GroupModel, serve.GroupFormat, serve.GroupPlace}

// serverOptions are the options of the server that the command starts.
func (c *Config) serverOptions() []options.Option {
	opts := slices.DeleteFunc(c.Server.Command().Options, func(o options.Option) bool {
		return !slices.Contains(serverGroups, o.Group) && o.Name != "log-level" && o.Name != "log-format"
	})
	for i := range opts {
		if o := &opts[i]; o.Name == "max-new-tokens" {
			o.Usage += " Models that reason before they decide need more than the default."
		}
	}
	return opts
}

// constraints are the constraints of the servers that are measured.
func (c *Config) constraints() []string {
	switch {
	case c.Remote.URL != "":
		return []string{evaluate.ConstraintsUnknown}
	case c.Constrain == both:
		return []string{evaluate.ConstraintsOn, evaluate.ConstraintsOff}
	}
	return []string{c.Constrain}
}

// Command is the command line that fills c.
func (c *Config) Command() *options.Command {
	option := options.In("Measurement")
	own := []options.Option{
		option("episodes", "N", "Conversations to measure, for each kind of tool names. One has about seven decisions.", options.Int(&c.Episodes, 1, maxEpisodes)),
		option("seed", "N", "Seed of the houses and conversations.", options.Uint64(&c.Seed)),
		option("tool-names", "KIND", "Tools with names that the default model's training had (known) or did not have (unseen), or both, one after the other. reports: known names, and reports of the simulation in forms that the training did not have.", options.Choice(&c.ToolNames, []string{evaluate.Known, evaluate.Unseen, both, evaluate.Reports}, nil)),
		option("clients", "N", "Conversations at a time.", options.Int(&c.Clients, 1, maxClients)),
		option("constrain", "on|off|both", "on keeps every tool call valid while it is generated. off only checks it afterwards. both: one server after the other.", options.Choice(&c.Constrain, []string{"on", "off", both}, serve.OnOff)),
		option("json", "", "Print the report as JSON, with counts.", options.Bool(&c.JSON)),
		option("check", "", "End with an error when a goal is missed.", options.Bool(&c.Check)),
	}
	return &options.Command{
		Name: "household eval", Version: version.Line("agentd"), Intro: intro, Outro: outro,
		Options: slices.Concat(own, c.Remote.Options("Measure a running server, such as http://127.0.0.1:8888, instead of one that the command starts."), c.serverOptions()),
	}
}

// parse makes a Config from defaults and flags.
func parse(args []string, stdout io.Writer) (*Config, error) {
	c := DefaultConfig()
	given, _, err := c.Command().Parse(args, os.LookupEnv, stdout)
	if err != nil {
		return nil, err
	}
	if c.Remote.URL == "" {
		if c.Remote.TokenFile != "" {
			return nil, errors.New("--token-file: is for --url, which is missing")
		}
		return c, c.Server.Validate(given)
	}
	for _, o := range c.serverOptions() {
		if from, ok := given[o.Name]; ok {
			return nil, fmt.Errorf("%s: is for a server that the command starts, and --url names a running one; remove one of the two", from)
		}
	}
	return c, nil
}

// intro is the help page before the options, outro after them.
var (
	intro = fmt.Sprintf(`household eval measures how well a model decides for robots in simulated households, which no
training data has. It asks a server as any client does. A planner knows the one right decision
of every situation. docs/model.md has the details.

Usage
  go run ./cmd/household eval [options]

Examples
  household eval
      the default model: its decisions and whole tasks with constraints, then the validity
      of its outputs without; --episodes 20 gives a first look in less time
  household eval --model Qwen3-8B-Q8_0.gguf --episodes 50 --constrain on
  household eval --url http://127.0.0.1:8888 --json

Goals of the default model
  %g %% right decisions with known tool names, %g %% with unseen ones; %g %% of the tasks finished
  within %d times the planner's steps; %g %% valid outputs, %g %% without constraints.
`,
		evaluate.GoalKnown, evaluate.GoalUnseen, evaluate.GoalTasks, household.Patience, evaluate.GoalValid, evaluate.GoalUnconstrained)
	outro = `Options are flags only: AGENTD_* variables and configuration files are for the server.

Signals
  SIGINT or SIGTERM ends the measurement and prints a partial report, which says so. So does a
  server that stops answering, which is an error.
`
)
