// Package commands is the table of agentd's commands: what runs each, and its options.
package commands

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"agentd/cmd/agentd/calibrate"
	"agentd/cmd/agentd/check"
	"agentd/cmd/agentd/console"
	"agentd/cmd/agentd/convert"
	"agentd/cmd/agentd/demo"
	"agentd/cmd/agentd/export"
	"agentd/cmd/agentd/makemodel"
	"agentd/cmd/agentd/pull"
	"agentd/cmd/agentd/serve"
	"agentd/cmd/internal/cli"
	"agentd/cmd/internal/options"
	"agentd/internal/base/version"
)

// Runners run the commands of cli.Commands.
var Runners = map[string]func(ctx context.Context, args []string, stdout, stderr io.Writer) error{
	"serve":      serve.Run,
	"pull":       pull.Run,
	"console":    console.Run,
	"demo":       demo.Run,
	"check":      check.Run,
	"export":     export.Run,
	"calibrate":  calibrate.Run,
	"convert":    convert.Run,
	"make-model": makemodel.Run,
	"completion": complete,
	"man": func(_ context.Context, _ []string, stdout, _ io.Writer) error {
		Program().WriteMan(stdout, version.Release)
		return nil
	},
	"version": func(_ context.Context, _ []string, stdout, _ io.Writer) error {
		fmt.Fprintln(stdout, version.Line("agentd"))
		return nil
	},
	"help": func(_ context.Context, _ []string, stdout, _ io.Writer) error {
		serve.DefaultConfig().Command().WriteHelp(stdout)
		return nil
	},
}

// Program is all command lines with their defaults, in the order of the help page. A command that takes no arguments
// has no line.
func Program() *options.Program {
	page := console.DefaultConfig()
	page.DataDir = "~/.local/share/agentd/console" // the machine's own depends on its user
	lines := map[string]*options.Command{
		"serve": serve.DefaultConfig().Command(), "pull": pull.Command(), "console": page.Command(), "demo": demo.DefaultConfig().Command(),
		"check": check.DefaultConfig().Command(), "export": export.DefaultConfig().Command(), "calibrate": calibrate.DefaultConfig().Command(), "convert": convert.DefaultConfig().Command(),
		"make-model": makemodel.DefaultConfig().Command(), "completion": completion(),
	}
	p := &options.Program{Name: "agentd", About: "decisions for robot and agent simulations"}
	for _, c := range cli.Commands {
		p.Commands = append(p.Commands, options.Subcommand{Name: c.Name, About: c.About, Line: lines[c.Name]})
	}
	return p
}

func completion() *options.Command {
	return &options.Command{Name: "agentd completion", Arguments: true, Words: options.Shells, Intro: `agentd completion prints completions of the commands and options for a shell.

Usage
  agentd completion bash|zsh|fish

Examples
  source <(agentd completion bash)          # in ~/.bashrc
  source <(agentd completion zsh)           # in ~/.zshrc, after compinit
  agentd completion fish | source           # in ~/.config/fish/config.fish
`}
}

func complete(_ context.Context, args []string, stdout, _ io.Writer) error {
	_, rest, err := completion().Parse(args, os.LookupEnv, stdout)
	if err != nil {
		return err
	}
	if len(rest) != 1 {
		return errors.New("name one shell: bash, zsh or fish")
	}
	return Program().WriteCompletion(stdout, rest[0])
}
