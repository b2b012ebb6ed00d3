package serve

import (
	"fmt"
	"strings"

	"agentd/cmd/internal/options"
	"agentd/inference/load"
	"agentd/llama/checkpoint"
	"agentd/server/rollout"
)

// loraFiles is a list of NAME=FILE.
func loraFiles(p *[]load.LoRA) options.Value {
	return options.ListOf(p, maxAdapters, func(s string) (load.LoRA, error) {
		name, path, ok := strings.Cut(s, "=")
		if !ok || path == "" || !rollout.AdapterName.MatchString(name) {
			return load.LoRA{}, fmt.Errorf("got %q, want NAME=FILE, and NAME %s", s, rollout.AdapterForm)
		}
		return load.LoRA{Name: name, Path: path}, nil
	}, func(l load.LoRA) string { return l.Name + "=" + l.Path })
}

// checkWeights checks the adapters.
func (c *Config) checkWeights(p *options.Problems) {
	if dir := c.Inference.WeightsDir; dir != "" && !directory(dir) {
		p.Add("weights-dir", "%s is not a directory", dir)
	}
	seen := map[string]bool{}
	for _, l := range c.Inference.LoRA {
		if seen[l.Name] {
			p.Add("lora", "names two adapters %s; give each its own name", l.Name)
		}
		seen[l.Name] = true
		if err := regularFile(l.Path); err != nil && !checkpoint.IsAdapterDirectory(l.Path) {
			p.Add("lora", "%s: %w; name a GGUF file", l.Name, err)
		}
	}
}
