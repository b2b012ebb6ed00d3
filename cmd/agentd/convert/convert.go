// Package convert is the command that writes a Hugging Face checkpoint as a GGUF file.
package convert

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/rs/zerolog"

	"agentd/cmd/internal/cli"
	"agentd/cmd/internal/options"
	"agentd/internal/base/version"
	"agentd/llama"
	"agentd/llama/checkpoint"
	"agentd/llama/synth"
)

const intro = `agentd convert writes a checkpoint of Hugging Face's transformers as a GGUF file. The server
loads checkpoints without it; a file loads faster, and can be quantized.

Usage
  agentd convert [options] DIR FILE.gguf

DIR has config.json, tokenizer.json and model.safetensors, or the files of its index.

Example
  agentd convert --type q8_0 output/checkpoint-200 policy-q8_0.gguf
`

const (
	typeStored = "stored"
	typeQ8     = "q8_0"
)

// Config is all settings of the command.
type Config struct{ Type string }

// DefaultConfig applies when a user sets nothing.
func DefaultConfig() *Config { return &Config{Type: typeStored} }

// Command is the command line that fills c.
func (c *Config) Command() *options.Command {
	option := options.In("Options")
	return &options.Command{
		Name: "agentd convert", Version: version.Line("agentd"), Intro: intro, Arguments: true,
		Options: []options.Option{
			option("type", "TYPE", "stored keeps the weights as they are; q8_0 quantizes the matrices.", options.Choice(&c.Type, []string{typeStored, typeQ8}, nil)),
		},
	}
}

// Run is the command.
func Run(ctx context.Context, args []string, stdout, _ io.Writer) error {
	c := DefaultConfig()
	_, rest, err := c.Command().Parse(args, os.LookupEnv, stdout)
	if err != nil {
		return err
	}
	if len(rest) != 2 {
		return errors.New("name the checkpoint's directory and the file to write: agentd convert DIR FILE.gguf")
	}
	dir, out := rest[0], rest[1]
	if err := cli.Absent("FILE", out); err != nil {
		return err
	}
	if !checkpoint.IsDirectory(dir) {
		return fmt.Errorf("%s is not a directory with a config.json; name a checkpoint of transformers", dir)
	}
	if err := c.write(ctx, dir, out); err != nil {
		return err
	}
	info, err := os.Stat(out)
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "%s: %.1f MB\n", out, float64(info.Size())/1e6)
	return nil
}

func (c *Config) write(ctx context.Context, dir, out string) error {
	if c.Type == typeStored {
		return synth.WriteFile(out, func(f *os.File) error { return checkpoint.Write(f, dir) })
	}
	if err := llama.Init(zerolog.Nop()); err != nil { // it prints each tensor
		return err
	}
	whole, err := checkpoint.Open(ctx, dir)
	if err != nil {
		return err
	}
	defer whole.Close()
	return synth.Quantize(whole.Name(), out)
}
