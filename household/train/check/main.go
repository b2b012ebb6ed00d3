// Command check compares an exported model in llama.cpp with what the training
// program computed for it: tokens exactly, logits within a tolerance.
//
//	go run ./household/train/check --model m.gguf --expect expect.json
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"

	"agentd/llama"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// tolerance is the largest difference of a logit. F16 takes part of it; bfloat16 was not used.
const tolerance = 0.05

func run(args []string, out io.Writer) error {
	flags := flag.NewFlagSet("check", flag.ContinueOnError)
	model := flags.String("model", "", "GGUF file")
	expect := flags.String("expect", "", "JSON file that export.py wrote beside it")
	if err := flags.Parse(args); err != nil {
		return err
	}
	data, err := os.ReadFile(*expect)
	if err != nil {
		return err
	}
	var samples []sample
	if err := json.Unmarshal(data, &samples); err != nil {
		return fmt.Errorf("%s: %w", *expect, err)
	}
	m, err := llama.New(*model, llama.SetGPULayers(0))
	if err != nil {
		return err
	}
	defer m.Free() //nolint:errcheck // the process ends
	worst, rows := 0.0, 0
	for i := range samples {
		d, err := samples[i].compare(m)
		if err != nil {
			return fmt.Errorf("sample %d: %w", i, err)
		}
		worst = max(worst, d)
		rows += len(samples[i].Rows)
	}
	fmt.Fprintf(out, "%d samples, %d rows of logits: tokens are equal, logits differ by at most %.5f\n", len(samples), rows, worst)
	if rows == 0 || !(worst <= tolerance) { // NaN is not a success
		return fmt.Errorf("the logits of %d rows differ by %g, more than %g", rows, worst, tolerance)
	}
	return nil
}
