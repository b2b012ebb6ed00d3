package scheduler

import (
	"reflect"
	"time"

	"agentd/scheduler/core"
	"agentd/scheduler/generation"
)

// Stats holds the gauges and counters of an engine. The tags of its fields, and of
// core.Stats, declare the metrics: a new one needs a field and the line that counts it.
// The tokens of a generation that is retried on another context count twice.
type Stats struct {
	core.Stats
	// KVCacheUsage is ActiveCells / Cells.
	KVCacheUsage float64 `metric:"kv_cache_usage" help:"KV cache usage by running sequences, from 0 to 1." context:"true"`
	Threads      int     `metric:"compute_threads" help:"CPU threads of the next step. There are fewer while other programs use the processors, if that is faster."`

	// The following are of the whole engine, and zero in ContextStats.

	Admitted   int    `metric:"candidates_admitted" help:"Candidates admitted, running or waiting."`
	QueueLimit int    `metric:"candidates_limit" help:"Limit of admitted candidates."`
	Refused    uint64 `metric:"admissions_refused_total" help:"Requests refused because the queue was full or too slow."`
	Retried    uint64 `metric:"generations_retried_total" help:"Generations that failed on one context and started again on another."`

	StuckSteps uint64 `metric:"steps_stuck_total" help:"Steps that did not end within the watchdog's bound. Some may have ended since."`

	Times
}

// Times has the total time of each part of all steps.
type Times struct {
	Plan   time.Duration `metric:"step_seconds_total" label:"plan" help:"Time spent in steps, by part." context:"true"`
	Decode time.Duration `metric:"step_seconds_total" label:"decode" help:"Time spent in steps, by part." context:"true"`
	Sample time.Duration `metric:"step_seconds_total" label:"sample" help:"Time spent in steps, by part." context:"true"`
	Commit time.Duration `metric:"step_seconds_total" label:"commit" help:"Time spent in steps, by part." context:"true"`
}

// ContextStats are the statistics of one context.
type ContextStats struct {
	Stats
	Device string
	Up     bool // the context gets requests, see health
}

// Stats returns the statistics as of the last step, of all contexts together.
func (e *Engine) Stats() Stats {
	e.mu.Lock()
	defer e.mu.Unlock()
	var s Stats
	for _, w := range e.workers {
		addNumbers(reflect.ValueOf(&s).Elem(), reflect.ValueOf(&w.stats).Elem())
	}
	s.setUsage()
	s.Admitted, s.QueueLimit, s.Refused, s.StuckSteps = e.admitted, e.cfg.QueueLimit, e.refused, e.stuckSteps
	s.Retried, s.Failed = e.retried, e.failed // the cores count those that are retried as failed
	return s
}

// Contexts returns the statistics of each context.
func (e *Engine) Contexts() []ContextStats {
	e.mu.Lock()
	defer e.mu.Unlock()
	list := make([]ContextStats, len(e.workers))
	for i, w := range e.workers {
		list[i] = ContextStats{Stats: w.stats, Device: w.Device, Up: w.health.up(e.now())}
		list[i].setUsage()
	}
	return list
}

// Failure returns a *generation.StuckError while steps do not end, and another error if the devices of
// all contexts are lost, which only a new process can use again. Otherwise it returns nil.
func (e *Engine) Failure() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	hang, lost := &generation.StuckError{}, 0
	for _, w := range e.workers {
		if w.health.stage == stuck {
			hang.Contexts = append(hang.Contexts, w.index)
		}
		if w.health.lost {
			lost++
		}
	}
	switch {
	case hang.Contexts != nil:
		return hang
	case lost == len(e.workers):
		return errNoContext
	}
	return nil
}

func (s *Stats) setUsage() {
	if s.Cells > 0 {
		s.KVCacheUsage = float64(s.ActiveCells) / float64(s.Cells)
	}
}

// addNumbers adds the numeric fields of one struct to the fields of another of the same type.
func addNumbers(to, from reflect.Value) {
	for i := range to.NumField() {
		switch f := to.Field(i); f.Kind() {
		case reflect.Struct:
			addNumbers(f, from.Field(i))
		case reflect.Uint64:
			f.SetUint(f.Uint() + from.Field(i).Uint())
		case reflect.Int, reflect.Int64:
			f.SetInt(f.Int() + from.Field(i).Int())
		}
	}
}
