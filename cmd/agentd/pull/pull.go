// Package pull is the command that gets a model of a Hugging Face hub.
package pull

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"agentd/cmd/internal/cli"
	"agentd/cmd/internal/hub"
	"agentd/cmd/internal/options"
	"agentd/internal/base/version"
)

const (
	intro = `agentd pull downloads a model of a Hugging Face hub, or finds it in the cache, and prints its path.

Usage
  agentd pull OWNER/REPO[:FILE or QUANTIZATION]

Without a file or quantization it takes the only GGUF file, else Q4_K_M, else Q8_0. It takes all
parts of a split file. OWNER/REPO:safetensors, or a repository without GGUF files, gives the directory
of safetensors with their configuration and vocabulary.

Examples
  agentd --model "$(agentd pull OWNER/REPO:Q8_0)"    # as agentd --hf OWNER/REPO:Q8_0
  agentd pull OWNER/REPO:safetensors                 # a checkpoint
`
	outro = `Variables, as Python's huggingface_hub has them
  HF_TOKEN        token for private and gated repositories; else the file HF_HOME/token
  HF_HOME         directory of the cache; default: ~/.cache/huggingface
  HF_HUB_CACHE    directory of its repositories; default: HF_HOME/hub
  HF_ENDPOINT     another hub; default: https://huggingface.co
  HF_HUB_OFFLINE  1 uses the cache alone
`
)

// Command is the command line.
func Command() *options.Command {
	return &options.Command{Name: "agentd pull", Version: version.Line("agentd"), Intro: intro, Outro: outro, Arguments: true}
}

// Run is the command. The path is the last line of stdout.
func Run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	_, rest, err := Command().Parse(args, os.LookupEnv, stdout)
	if err != nil {
		return err
	}
	if len(rest) != 1 {
		return errors.New("name one repository, such as OWNER/REPO; agentd pull --help has examples")
	}
	name, err := hub.Parse(rest[0])
	if err != nil {
		return err
	}
	ctx, stop := cli.UntilSignal(ctx)
	defer stop()
	log := cli.Log{Level: "info", Format: "console"}
	path, err := cli.Download(ctx, name, stderr, log.New(stderr))
	switch {
	case ctx.Err() != nil:
		return errors.New("stopped; the next agentd pull continues the download")
	case err == nil:
		fmt.Fprintln(stdout, path)
	}
	return err
}
