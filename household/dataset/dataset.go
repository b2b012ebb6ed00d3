package dataset

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"

	"golang.org/x/sync/errgroup"

	"agentd/agent"
	"agentd/household"
)

// EpisodesPerGroup is the number of conversations with a shared prompt prefix.
const EpisodesPerGroup = 16

// Options of a data set.
type Options struct {
	household.Options
	Groups int
	Seed   uint64
}

// clumsy is the share of conversations with wrong decisions: one in so many.
const clumsy = 5

// busy is the share of busy groups in training data: one in so many. Decisions for
// several robots are otherwise rare, and hard.
const busy = 2

// of are the options of the n-th group.
func (o Options) of(n int) household.Options {
	made := o.Options
	made.Busy = made.Busy || made.Split == household.Train && !made.Lesson && n%busy == 0
	return made
}

// Write writes a data set, one group per line.
func Write(ctx context.Context, w io.Writer, o Options) error {
	a, err := NewAgent(agent.ConstrainOff)
	if err != nil {
		return err
	}
	batch := 4 * runtime.GOMAXPROCS(0)
	for start := 0; start < o.Groups; start += batch {
		lines := make([][]byte, min(batch, o.Groups-start))
		group, ctx := errgroup.WithContext(ctx)
		group.SetLimit(runtime.GOMAXPROCS(0))
		for i := range lines {
			group.Go(func() (err error) {
				lines[i], err = line(ctx, a, GroupSeed(o.Seed, start+i), o.of(start+i))
				return err
			})
		}
		if err := group.Wait(); err != nil {
			return err
		}
		for _, l := range lines {
			if _, err := w.Write(l); err != nil {
				return err
			}
		}
	}
	return nil
}

// GroupSeed is the seed of the n-th group of a data set, for household.NewGroup. Data sets
// with neighbouring seeds share no groups.
func GroupSeed(seed uint64, n int) uint64 { return rand.New(rand.NewPCG(seed, uint64(n))).Uint64() }

func line(ctx context.Context, a *agent.Agent, seed uint64, o household.Options) ([]byte, error) {
	g, err := NewGroup(ctx, a, seed, o)
	if err != nil {
		return nil, fmt.Errorf("group %d: %w", seed, err)
	}
	b, err := json.Marshal(g)
	return append(b, '\n'), err
}

// NewGroup records the conversations of one group. Half of them end at a random turn, so
// that every turn can be the last: only the last message shows the task's attributes. One
// in clumsy has wrong decisions.
func NewGroup(ctx context.Context, a *agent.Agent, seed uint64, o household.Options) (*Group, error) {
	r := rand.New(rand.NewPCG(seed, EpisodesPerGroup))
	group := household.NewGroup(seed, o)
	g := new(Group)
	for i := range EpisodesPerGroup {
		var errs *rand.Rand
		if r.IntN(clumsy) == 0 {
			errs = r
		}
		turns, err := Record(ctx, a, group.Episode(i), errs)
		if err != nil {
			return nil, fmt.Errorf("episode %d: %w", i, err)
		}
		if r.IntN(2) == 0 {
			turns = turns[:1+r.IntN(len(turns))]
		}
		pieces := transcript(turns[len(turns)-1])
		end := prefixEnd(pieces)
		g.Prefix = pieces[:end] // of all episodes: they have one plan and one toolbox
		g.Episodes = append(g.Episodes, segments(pieces[end:], turns))
	}
	return g, nil
}
