package serve

import (
	"agentd/cmd/internal/options"
	"agentd/inference/load"
	"agentd/llama"
	"agentd/scheduler/remote"
)

// debug are settings for comparisons and for development. They are on no page for users; CONTRIBUTING.md
// has them.
func (c *Config) debug() []options.Option {
	option := options.In("")
	m, s, a := &c.Inference, &c.Inference.Scheduler, &c.Inference.Agent
	return []options.Option{option("debug", "KEY=VALUE,...", "Settings for comparisons.", options.Settings(
		option("batch-size", "TOKENS", "", options.IntOr(&s.BatchTokens, minBatch, maxBatch, "auto", 0)),
		option("constrain", "on|off", "", options.Choice(&a.Constrain, []string{"on", "off"}, OnOff)),
		option("cpu-attention", "HOW", "", options.Choice(&m.CPUAttention, []string{load.Shared, load.F32, load.GGML}, nil)),
		option("draft-rows", "N", "", options.IntOr(&s.DraftRows, 0, maxDraftRows, "auto", -1)),
		option("engine-retries", "N", "", options.Int(&m.Remote.Retries, 0, remote.MaxRetries)),
		option("fixed-tokens", "N", "", options.Int(&m.FixedTokens, 0, llama.MaxContext)),
		option("forced-tokens", "on|off", "", options.Either(&s.NoForcedTokens, "on", "off")),
		option("pprof", "ADDRESS", "", options.Text(&c.Pprof)),
		option("prefix-cache", "on|off", "", options.Either(&s.NoPrefixCache, "on", "off")),
		option("repetition-stop", "on|off", "", options.Either(&a.KeepRepeating, "on", "off")),
	))}
}
