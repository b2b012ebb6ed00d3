package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"agentd/coaching/egress"
	"agentd/inference"

	"github.com/rs/zerolog"
	"golang.org/x/term"
)

// newLogger writes to stderr in the chosen format: coloured on a terminal.
func newLogger(c Config, stderr io.Writer) zerolog.Logger {
	level, err := zerolog.ParseLevel(c.LogLevel)
	if err != nil {
		level = zerolog.InfoLevel // Validate lets no other word through
	}
	out := stderr
	if c.LogFormat == "console" {
		out = zerolog.ConsoleWriter{Out: stderr, NoColor: !isTerminal(stderr), TimeFormat: time.TimeOnly}
	}
	// Several goroutines log, and stderr need not be safe for that.
	return zerolog.New(zerolog.SyncWriter(out)).Level(level).With().Timestamp().Logger()
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// logStart says what was decided before anything is loaded: what runs and
// each option that is not a default, with where it came from.
func (d *daemon) logStart() {
	d.log.Info().Str("version", release).Str("commit", buildCommit()).Msg("agentd starts")
	event := d.log.Info()
	for _, o := range options(&d.config) {
		if from, ok := d.from[o.name]; ok {
			value := o.value.String()
			switch {
			case o.name == "chat-template" && len(value) > 60:
				value = fmt.Sprintf("Jinja text of %d bytes", len(value))
			case o.name == "coach-human" && value != "":
				value = egress.SafeURL(value) // its query may hold a key
			}
			event = event.Str(o.key(), value+" ("+from+")")
		}
	}
	if len(d.from) == 0 {
		event = event.Str("source", "defaults only")
	}
	event.Msg("configuration")
	for _, name := range unknownVariables(os.Environ()) {
		d.log.Warn().Str("variable", name).Msg("no option has this variable; agentd --help lists them")
	}
}

// logModel says once what is served and how it was placed.
func (d *daemon) logModel(f inference.EngineInfo) {
	d.log.Info().
		Str("file", f.Path).
		Bool("default_model", f.Default).
		Str("name", f.Name).
		Str("architecture", f.Architecture).
		Str("description", f.Description).
		Str("format", f.Format).
		Uint64("parameters", f.Parameters).
		Uint64("bytes", f.Bytes).
		Int("trained_context", f.TrainedContext).
		Msg("model")
	d.log.Info().
		Str("device", f.Device).
		Int("gpu_layers", f.GPULayers).
		Int("threads", f.Threads).
		Str("attention", f.Attention).
		Int("context_length", f.ContextLength).
		Str("kv_cache", f.KVType).
		Int("contexts", f.Contexts).
		Int("parallel", f.Parallel).
		Int("draft_rows", f.DraftRows).
		Int("batch_size", f.BatchSize).
		Int("max_new_tokens", d.config.maxNewTokens()).
		Float32("temperature", f.Sampling.Temperature).
		Float32("top_p", f.Sampling.TopP).
		Int("top_k", f.Sampling.TopK).
		Float32("min_p", f.Sampling.MinP).
		Msg("engine")
	if s := f.Summary; d.config.summarizes() {
		d.log.Info().
			Int("budget", s.Budget).
			Str("unit", d.config.SummaryUnit).
			Int("max_tokens", s.MaxTokens).
			Int("keep", s.Keep).
			Msg("histories are summarized")
	}
	if n := d.config.FixedTokens; n > 0 {
		d.log.Warn().Int("fixed_tokens", n).Msg("for benchmarks: answers are text of this length, no decisions")
	}
}
