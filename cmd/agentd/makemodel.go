package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"agentd/llama/synth"

	"github.com/spf13/pflag"
)

// makeModel is the subcommand that writes a model with random weights.
func makeModel(args []string, stdout io.Writer) error {
	fs := pflag.NewFlagSet("agentd make-model", pflag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.SortFlags = false
	arch := fs.String("arch", synth.Qwen3, "architecture: qwen2, qwen3, qwen35, gpt-oss or llama")
	shape := fs.String("shape", "tiny", "tiny (a few MB); qwen3 also 0.1b (103 M parameters) and 0.6b, the shape of Qwen3-0.6B")
	weights := fs.String("type", "q8_0", "type of the matrices: f32, f16, bf16, q8_0, or mxfp4 (gpt-oss)")
	seed := fs.Uint64("seed", 1, "seed of the weights")
	out := fs.String("out", "", "file to write; it must not exist")
	help := fs.BoolP("help", "h", false, "this page")
	if err := fs.Parse(args); err != nil {
		return fmt.Errorf("make-model: %w; agentd make-model --help lists the options", err)
	}
	if *help {
		fmt.Fprintf(stdout, "agentd make-model writes a GGUF model with random weights. It loads, computes and\n"+
			"generates like a real model of its shape, and what it says means nothing.\n\n"+
			"  agentd make-model --arch qwen3 --shape 0.6b --out random-0.6b.gguf\n\nOptions\n%s", fs.FlagUsages())
		return nil
	}
	if fs.NArg() > 0 {
		return fmt.Errorf("make-model: unexpected argument %q; name the file with --out", fs.Arg(0))
	}
	if *out == "" {
		return errors.New("make-model: --out is missing; name the file to write")
	}
	if _, err := os.Lstat(*out); err == nil {
		return fmt.Errorf("make-model: --out %s exists; remove it or name another file", *out)
	}
	spec, err := synth.Preset(strings.ToLower(*shape), *arch)
	if err != nil {
		return fmt.Errorf("make-model: --arch or --shape: %w", err)
	}
	spec.Type, spec.Seed = *weights, *seed
	if err := synth.Write(*out, spec); err != nil {
		return fmt.Errorf("make-model: %w", err)
	}
	info, err := os.Stat(*out)
	if err != nil {
		return fmt.Errorf("make-model: %w", err)
	}
	fmt.Fprintf(stdout, "%s: %s, random weights, %.1f MB\n", *out, spec.Arch, float64(info.Size())/1e6)
	return nil
}
