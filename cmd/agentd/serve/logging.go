package serve

import (
	"fmt"
	"os"

	"agentd/coaching/egress"
	store "agentd/coaching/postgres"
	"agentd/inference/load"
	"agentd/internal/base/version"
)

// logStart logs the version, and each option that was set with its origin.
func (d *Daemon) logStart() {
	d.log.Info().Str("version", version.Release).Str("commit", version.Commit()).Msg("agentd starts")
	event := d.log.Info()
	command := d.config.Command()
	for _, o := range command.Options {
		if from, ok := d.from[o.Name]; ok {
			value := o.Value.String()
			switch {
			case o.Name == "chat-template" && len(value) > 60:
				value = fmt.Sprintf("Jinja text of %d bytes", len(value))
			case o.Name == "store" && value != "":
				value = store.SafeURL(value)
			case o.Name == "coach-human" && value != "":
				value = egress.SafeURL(d.config.Coaching.People.Endpoint) // its query may hold a key
			}
			event = event.Str(o.Key(), value+" ("+from+")")
		}
	}
	if len(d.from) == 0 {
		event = event.Str("source", "defaults only")
	}
	event.Msg("configuration")
	for _, warning := range append(command.ExposedSecrets(), command.UnknownVariables(os.Environ())...) {
		d.log.Warn().Msg(warning)
	}
}

// logModel logs what is served and where it was placed.
func (d *Daemon) logModel(f load.EngineInfo) {
	d.log.Info().
		Str("file", f.Path).
		Bool("default_model", f.Default).
		Str("name", f.Name).
		Str("architecture", f.Architecture).
		Str("description", f.Description).
		Str("format", f.Format).
		Str("call_form", f.CallForm).
		Uint64("parameters", f.Params).
		Uint64("bytes", f.SizeBytes).
		Int("trained_context", f.ContextTrain).
		Msg("model")
	d.log.Info().
		Str("device", f.Device).
		Int("gpu_layers", f.GPULayers).
		Int("threads", f.Threads).
		Str("attention", f.Attention).
		Str("same_bytes", f.SameBytes()).
		Int("context_length", f.ContextLength).
		Str("kv_cache", f.KVType).
		Int("contexts", f.Contexts).
		Int("parallel", f.Parallel).
		Int("draft_rows", f.DraftRows).
		Int("batch_size", f.BatchSize).
		Int("max_new_tokens", f.MaxNewTokens).
		Float32("temperature", f.Sampling.Temperature).
		Float32("top_p", f.Sampling.TopP).
		Int("top_k", f.Sampling.TopK).
		Float32("min_p", f.Sampling.MinP).
		Msg("engine")
	for _, p := range f.Placement {
		d.log.Info().
			Str("device", p.Device).
			Int("layers", p.Layers).
			Uint64("weights_bytes", p.Weights).
			Uint64("kv_cache_bytes", p.Memory).
			Uint64("compute_bytes", p.Compute).
			Msg("placement")
	}
	if s := f.Summary; d.config.summarizes() {
		unit := unitTokens
		if d.config.Inference.Agent.Summary.Characters {
			unit = unitCharacters
		}
		d.log.Info().
			Int("budget", s.Budget).
			Str("unit", unit).
			Int("max_tokens", s.MaxTokens).
			Int("keep", s.Keep).
			Msg("histories are summarized")
	}
	if n := d.config.Inference.FixedTokens; n > 0 {
		d.log.Warn().Int("fixed_tokens", n).Msg("benchmark mode: answers are text of this length and no decisions")
	}
}
