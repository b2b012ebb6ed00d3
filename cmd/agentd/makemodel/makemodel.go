// Package makemodel is the command that writes a model with random weights.
package makemodel

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"agentd/cmd/internal/cli"
	"agentd/cmd/internal/options"
	"agentd/internal/base/version"
	"agentd/llama/synth"
)

const intro = `agentd make-model writes a GGUF model with random weights. It loads, computes and generates
like a real model of its shape. Its text means nothing.

Usage
  agentd make-model --out FILE [options]

Example
  agentd make-model --arch qwen3 --shape 0.6b --out random-0.6b.gguf
`

// Config is all settings of the command.
type Config struct {
	Arch, Shape string
	Spec        synth.Spec // Type and Seed of it
	Out         string
}

// DefaultConfig applies when a user sets nothing.
func DefaultConfig() *Config {
	return &Config{Arch: synth.Qwen3, Shape: "tiny", Spec: synth.Spec{Type: "q8_0", Seed: 1}}
}

// Command is the command line that fills c.
func (c *Config) Command() *options.Command {
	option := options.In("Options")
	return &options.Command{Name: "agentd make-model", Version: version.Line("agentd"), Intro: intro, Options: []options.Option{
		option("arch", "NAME", "Architecture: qwen2, qwen3, qwen3moe, qwen35, gpt-oss or llama.", options.Text(&c.Arch)),
		option("shape", "NAME", "tiny (a few MB). qwen3 also has 0.1b (103 M parameters), and 0.6b and 8b, the shapes of Qwen3-0.6B and Qwen3-8B. gpt-oss also has 20b, the shape of GPT-OSS 20B with a small vocabulary. qwen3moe and gpt-oss have moe, with 32 experts of 512 in 12 layers.", options.Text(&c.Shape)),
		option("type", "TYPE", "Type of the matrices: f32, f16, bf16, q8_0, or mxfp4 (experts only; the rest is q8_0).", options.Choice(&c.Spec.Type, []string{"f32", "f16", "bf16", "q8_0", "mxfp4"}, nil)),
		option("seed", "N", "Seed of the weights.", options.Uint64(&c.Spec.Seed)),
		option("out", "FILE", "File to write. It must not exist.", options.Text(&c.Out)),
	}}
}

// Run is the command.
func Run(_ context.Context, args []string, stdout, _ io.Writer) error {
	c := DefaultConfig()
	if _, _, err := c.Command().Parse(args, os.LookupEnv, stdout); err != nil {
		return err
	}
	if c.Out == "" {
		return errors.New("--out is missing; name the file to write")
	}
	spec, err := synth.Preset(strings.ToLower(c.Shape), c.Arch)
	if err != nil {
		return fmt.Errorf("--arch or --shape: %w", err)
	}
	if err := cli.Absent("--out", c.Out); err != nil {
		return err
	}
	spec.Type, spec.Seed = c.Spec.Type, c.Spec.Seed
	if err := synth.Write(c.Out, spec); err != nil {
		return err
	}
	info, err := os.Stat(c.Out)
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "%s: %s, random weights, %.1f MB\n", c.Out, spec.Arch, float64(info.Size())/1e6)
	return nil
}
