package main

import (
	"time"

	"github.com/schollz/progressbar/v3"
)

// Steps of the loading report.
const (
	barSteps = 1000 // resolution of the bar
	logEvery = 0.25 // part of the model between two log lines
)

// progress reports how much of the model is loaded: a bar on a terminal, a few
// log lines elsewhere. The second function must be called when loading ends.
// Reports come from one goroutine.
func (d *daemon) progress() (report func(fraction float32), finished func()) {
	if !isTerminal(d.stderr) {
		return d.progressLog(), func() {}
	}
	bar := progressbar.NewOptions(barSteps,
		progressbar.OptionSetWriter(d.stderr),
		progressbar.OptionSetDescription("loading the model"),
		progressbar.OptionSetPredictTime(true),
		progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionClearOnFinish(),
	)
	// A bar that cannot be drawn is no reason to stop loading.
	return func(fraction float32) { _ = bar.Set(int(fraction * barSteps)) },
		func() { _ = bar.Finish() }
}

// progressLog logs the first report of every quarter.
func (d *daemon) progressLog() func(fraction float32) {
	start, next := time.Now(), float32(0)
	return func(fraction float32) {
		if fraction < next {
			return
		}
		d.log.Info().Int("percent", int(fraction*100)).Dur("elapsed_ms", time.Since(start)).Msg("loading the model")
		for next <= fraction {
			next += logEvery
		}
	}
}
