// Package learn is the command that improves the default model by corrections.
package learn

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"agentd/cmd/agentd/internal/cli"
	"agentd/defaultmodel"
	rounds "agentd/defaultmodel/learn"
	"agentd/internal/options"
	"agentd/internal/version"
)

// Config is all that the command can be told.
type Config struct {
	Rounds  rounds.Options
	Threads int    // of the server and of the training
	Python  string // "": the environment of the training of the default model, else python3
	Trainer string // command instead of the own trainer
	Log     cli.Log
}

// Defaults and bounds.
const (
	maxRounds     = 1000
	maxHouses     = 100_000
	maxFiles      = 64
	maxThreads    = 1024 // of clients, too
	maxMinutes    = 100_000
	defaultHeld   = 200
	defaultHouses = 40
)

// DefaultConfig applies when a user sets nothing.
func DefaultConfig() *Config {
	return &Config{
		Rounds: rounds.Options{
			Settings: rounds.Settings{Houses: defaultHouses, Seed: 1, HeldOut: defaultHeld, HeldOutSeed: 2, Minutes: 15},
			Rounds:   5, Clients: 16,
		},
		Threads: 2, Log: cli.Log{Level: "warn", Format: "console"},
	}
}

const (
	intro = `agentd learn improves a model of the simulated household in rounds. The model does tasks in new
houses, a planner corrects its wrong decisions through the coaching protocol, a LoRA adapter is
trained on the corrections and on the right decisions, and held-out houses measure the result. New
weights are kept only when they are better. docs/learn.md has the details.

Usage
  agentd learn [options] DIR

DIR holds all files. The same command goes on where it was killed. DIR/README.md has a table of the
rounds, DIR/rounds.svg a plot, and DIR/best.gguf the best weights.

Examples
  agentd learn night
  agentd learn --rounds 1 --houses 2 --held-out 20 --minutes 1 first-look
  agentd learn --corrections people.jsonl night
`
	outro = `The trainer needs Python with PyTorch; without it the command says what to type. A command of
--trainer gets --model FILE --rows FILE ... --tokens FILE ... --out DIR --minutes N --threads N --name
NAME, and must write DIR/model.gguf, which marks its end.
`
)

// Command is the command line that fills c.
func (c *Config) Command() *options.Command {
	round, held, training := options.In("Rounds"), options.In("Held-out houses"), options.In("Training")
	opts := []options.Option{
		round("rounds", "N", "Rounds in all. Give more to go on.", options.Int(&c.Rounds.Rounds, 1, maxRounds)),
		round("houses", "N", "Houses in each round. One has eight conversations, about 25 tasks and 60 decisions.", options.Int(&c.Rounds.Houses, 1, maxHouses)),
		round("seed", "N", "Seed of these houses.", options.Uint64(&c.Rounds.Seed)),
		round("model", "FILE", "GGUF file to begin with, of the default model's shape and names. Without it, the default model.", options.Text(&c.Rounds.Model)),
		round("corrections", "FILES", "JSONL files of chat rows of agentd export, such as people's corrections, to learn from in every round.", options.ListOf(&c.Rounds.Corrections, maxFiles, func(s string) (string, error) { return s, nil }, func(s string) string { return s })),
		round("clients", "N", "Requests at a time.", options.Int(&c.Rounds.Clients, 1, maxThreads)),
		held("held-out", "N", "Conversations to measure after each round. One has about seven decisions.", options.Int(&c.Rounds.HeldOut, 1, maxHouses)),
		held("held-out-seed", "N", "Seed of these houses. agentd eval measures with other houses, of seed 1.", options.Uint64(&c.Rounds.HeldOutSeed)),
		training("minutes", "N", "Minutes of training in each round, at most.", options.Int(&c.Rounds.Minutes, 1, maxMinutes)),
		training("threads", "N", "CPU threads of the training and of the server.", options.Int(&c.Threads, 1, maxThreads)),
		training("python", "FILE", "Python with PyTorch. Without it, the environment in which the default model is trained, else python3.", options.Text(&c.Python)),
		training("trainer", "COMMAND", "Program that trains instead.", options.Text(&c.Trainer)),
	}
	return &options.Command{
		Name: "agentd learn", Version: version.Line("agentd"), Intro: intro, Outro: outro, Arguments: true,
		Options: append(opts, c.Log.Options()...),
	}
}

// parse makes a Config from defaults and flags.
func parse(args []string, stdout io.Writer) (*Config, error) {
	c := DefaultConfig()
	_, rest, err := c.Command().Parse(args, os.LookupEnv, stdout)
	if err != nil {
		return nil, err
	}
	switch {
	case len(rest) == 0:
		return nil, errors.New("the directory is missing; name one, such as agentd learn night")
	case len(rest) > 1:
		return nil, fmt.Errorf("got %d directories, want one", len(rest))
	case c.Trainer != "" && c.Python != "":
		return nil, errors.New("--python: is for the own trainer, and --trainer names another; remove one of the two")
	}
	if c.Rounds.Dir, err = filepath.Abs(rest[0]); err != nil {
		return nil, err
	}
	for i, path := range c.Rounds.Corrections {
		if c.Rounds.Corrections[i], err = file("--corrections", path); err != nil {
			return nil, err
		}
	}
	if c.Rounds.Model == "" {
		c.Rounds.Model, err = defaultmodel.Path("")
		return c, err
	}
	c.Rounds.Model, err = file("--model", c.Rounds.Model)
	return c, err
}

// file is the absolute path of a file, which must be there.
func file(option, path string) (string, error) {
	info, err := os.Stat(path)
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is no file", path)
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w", option, err)
	}
	return filepath.Abs(path)
}
