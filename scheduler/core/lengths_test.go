package core

import (
	"testing"

	"agentd/scheduler/generation"
)

func TestReserve(t *testing.T) {
	for name, test := range map[string]struct {
		overcommit bool
		ended      []int // lengths of candidates
		generated  int
		want       int
	}{
		"the worst case without overcommit":          {false, make([]int, 100), 10, 89},
		"the worst case while little is known":       {true, make([]int, lengthMemory-1), 10, 89},
		"twice the mean of ended candidates":         {true, repeat(20, 40), 10, 30},
		"some more for a longer candidate":           {true, repeat(20, 40), 60, minReserve},
		"never more than the worst case":             {true, repeat(20, 40), 95, 4},
		"the worst case where candidates use it all": {true, repeat(100, 40), 10, 89},
		"recent candidates count":                    {true, append(repeat(90, 40), repeat(20, 400)...), 0, 40},
	} {
		t.Run(name, func(t *testing.T) {
			l := lengthEstimate{enabled: test.overcommit}
			for _, n := range test.ended {
				l.add(n)
			}
			j := &group{Request: Request{Request: generation.Request{Params: generation.Params{MaxTokens: 100}}}, lengths: &l}
			if got := j.reserve(test.generated); got != test.want {
				t.Errorf("%d cells, want %d", got, test.want)
			}
		})
	}
}

func repeat(length, n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = length
	}
	return all
}
