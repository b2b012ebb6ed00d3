package main

import (
	"time"

	"github.com/schollz/progressbar/v3"
)

// bar shows progress on a terminal, and nothing elsewhere. Its functions may be
// called by several goroutines.
type bar struct{ drawn *progressbar.ProgressBar }

func (p *program) bar(total int, what string) bar {
	if !isTerminal(p.stderr) {
		return bar{}
	}
	return bar{progressbar.NewOptions(total,
		progressbar.OptionSetWriter(p.stderr),
		progressbar.OptionSetDescription(what),
		progressbar.OptionShowCount(),
		progressbar.OptionSetPredictTime(true),
		progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionClearOnFinish(),
	)}
}

// set, describe and finish draw; a bar that can't be drawn is no reason to stop.
func (b bar) set(n int) {
	if b.drawn != nil {
		_ = b.drawn.Set(n)
	}
}

func (b bar) describe(what string) {
	if b.drawn != nil {
		b.drawn.Describe(what)
	}
}

func (b bar) finish() {
	if b.drawn != nil {
		_ = b.drawn.Finish()
	}
}
