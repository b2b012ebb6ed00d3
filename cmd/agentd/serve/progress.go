package serve

import "time"

// Steps of the loading report.
const (
	logEvery = 0.25            // part of the model between two log lines
	logAfter = 2 * time.Second // shorter loads have one line only
)

// progress logs the start of loading, and each quarter of a long load. Reports come from one goroutine.
func (d *Daemon) progress() (report func(fraction float32)) {
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
