package serve

import (
	"time"

	"agentd/cmd/internal/cli"

	"github.com/schollz/progressbar/v3"
)

// Steps of the loading report.
const (
	barSteps = 1000            // resolution of the bar
	logEvery = 0.25            // part of the model between two log lines
	logAfter = 2 * time.Second // shorter loads have one line only
)

// progress reports how much of the model is loaded: a bar on a terminal, a few
// log lines elsewhere. The second function must be called when loading ends.
// Reports come from one goroutine.
func (d *Daemon) progress() (report func(fraction float32), finished func()) {
	if !cli.IsTerminal(d.stderr) {
		return d.progressLog(), func() {}
	}
	bar := progressbar.NewOptions(barSteps,
		progressbar.OptionSetWriter(d.stderr),
		progressbar.OptionSetDescription("loading the model"),
		progressbar.OptionSetPredictTime(true),
		progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionClearOnFinish(),
	)
	// Loading goes on if the bar cannot be drawn.
	return func(fraction float32) { _ = bar.Set(int(fraction * barSteps)) },
		func() { _ = bar.Finish() }
}

// progressLog logs the start of loading, and each quarter of a long load.
func (d *Daemon) progressLog() func(fraction float32) {
	start, next := time.Now(), float32(logEvery)
	d.log.Info().Msg("loading the model")
	return func(fraction float32) {
		if fraction < next || time.Since(start) < logAfter {
			return
		}
		d.log.Info().
			Int("percent", int(fraction*100)).
			Stringer("elapsed", time.Since(start).Round(time.Second)).
			Msg("loading the model")
		for next <= fraction {
			next += logEvery
		}
	}
}
