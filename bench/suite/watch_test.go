package suite

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"agentd/bench/target"
)

// clock is a server that counts a step in a millisecond.
type clock struct {
	target.Target
	began time.Time
}

func (c clock) Counters(context.Context) (target.Counters, error) {
	return target.Counters{Steps: float64(time.Since(c.began).Milliseconds())}, nil
}

func TestAWatchSeesWhatWasCountedUntilItWasStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watching(t.Context(), clock{began: time.Now()})
		time.Sleep(watchEvery + watchEvery/2)
		list, err := w.stop()
		if err != nil {
			t.Fatal(err)
		}
		var got []float64
		for _, m := range list {
			got = append(got, m.Steps)
		}
		if len(got) != 3 || got[0] != 0 || got[1] != 20 || got[2] != 30 {
			t.Errorf("steps %v", got)
		}
	})
}
