package serve

import (
	"agentd/inference/load"
	"agentd/internal/options"
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
		option("device-attention", "HOW", "", options.Choice(&m.DeviceAttention, []string{"auto", load.Gather, load.Dense}, nil)),
		option("draft-rows", "N", "", options.IntOr(&s.DraftRows, 0, maxDraftRows, "auto", -1)),
		option("engine-retries", "N", "", options.Int(&m.Remote.Retries, 0, remote.MaxRetries)),
		option("fixed-tokens", "N", "", options.Int(&m.FixedTokens, 0, maxContext)),
		option("forced-tokens", "on|off", "", options.Either(&s.NoForcedTokens, "on", "off")),
		option("pprof", "ADDRESS", "", options.Text(&c.Pprof)),
		option("prefix-cache", "on|off", "", options.Either(&s.NoPrefixCache, "on", "off")),
		option("repetition-stop", "on|off", "", options.Either(&a.KeepRepeating, "on", "off")),
	))}
}

// moved are former options: what to write now.
//
//nolint:gosec // "tokens" are not credentials
var moved = map[string]string{
	"batch-size":         "--debug batch-size=VALUE",
	"constrain":          "--debug constrain=VALUE",
	"cpu-attention":      "--debug cpu-attention=VALUE",
	"device-attention":   "--debug device-attention=VALUE",
	"draft-rows":         "--debug draft-rows=VALUE",
	"engine-retries":     "--debug engine-retries=VALUE",
	"fixed-tokens":       "--debug fixed-tokens=VALUE",
	"forced-tokens":      "--debug forced-tokens=VALUE",
	"pprof":              "--debug pprof=VALUE",
	"prefix-cache":       "--debug prefix-cache=VALUE",
	"repetition-stop":    "--debug repetition-stop=VALUE",
	"summary-budget":     "--summary budget=VALUE",
	"summary-unit":       "--summary unit=VALUE",
	"summary-max-tokens": "--summary max-tokens=VALUE",
	"summary-keep":       "--summary keep=VALUE",
	"coaching-workers":   "--coaching-limits workers=VALUE",
	"coaching-queue":     "--coaching-limits queue=VALUE",
	"coaching-sessions":  "--coaching-limits sessions=VALUE",
	"coaching-idle":      "--coaching-limits idle=VALUE",
	"coaching-max-steps": "--coaching-limits max-steps=VALUE",
	"tensor-split":       "a share of each name in --device, such as CUDA0=3,CUDA1=1,",
	"otlp-endpoint":      "the variable OTEL_EXPORTER_OTLP_ENDPOINT=VALUE",
	"otlp-content":       "the variable OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=true",
}
