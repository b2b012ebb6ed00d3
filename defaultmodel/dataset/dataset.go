package dataset

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"

	"agentd/agent"
	"agentd/defaultmodel/household"
)

// EpisodesPerGroup is how many conversations share the beginning of their prompts.
const EpisodesPerGroup = 16

// Options of a data set.
type Options struct {
	household.Options
	Groups int
	Seed   uint64
}

// clumsy: one in so many conversations has wrong decisions in it.
const clumsy = 5

// busy: one in so many groups of training data is, since decisions for several robots at once are rare and hard.
const busy = 2

// of is what the n-th group of a data set is made with.
func (o Options) of(n int) household.Options {
	made := o.Options
	made.Busy = made.Busy || made.Split == household.Train && !made.Lesson && n%busy == 0
	return made
}

// errPrefix can't happen: the house's plan, the tools and the rules are the group's.
var errPrefix = errors.New("the episodes of a group begin differently")

// Write writes a data set, one group a line.
func Write(ctx context.Context, w io.Writer, o Options) error {
	a, err := NewAgent()
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

// GroupSeed is the seed of the n-th group of a data set, with which household.NewGroup
// makes its house. The groups of data sets with neighbouring seeds have nothing in common.
func GroupSeed(seed uint64, n int) uint64 { return rand.New(rand.NewPCG(seed, uint64(n))).Uint64() }

func line(ctx context.Context, a *agent.Agent, seed uint64, o household.Options) ([]byte, error) {
	g, err := NewGroup(ctx, a, seed, o)
	if err != nil {
		return nil, fmt.Errorf("group %d: %w", seed, err)
	}
	b, err := json.Marshal(g)
	return append(b, '\n'), err
}

// NewGroup records the conversations of one group. Half of them are cut at a
// random turn: only the last message of a prompt shows the task's attributes, and
// the model has to know it so at every turn. In one of clumsy wrong decisions are taken.
func NewGroup(ctx context.Context, a *agent.Agent, seed uint64, o household.Options) (*Group, error) {
	r := rand.New(rand.NewPCG(seed, EpisodesPerGroup))
	group := household.NewGroup(seed, o)
	g := new(Group)
	for i := range EpisodesPerGroup {
		var o Recording
		if r.IntN(clumsy) == 0 {
			o.Blunders = r
		}
		turns, err := Record(ctx, a, group.Episode(i), o)
		if err != nil {
			return nil, fmt.Errorf("episode %d: %w", i, err)
		}
		if r.IntN(2) == 0 {
			turns = turns[:1+r.IntN(len(turns))]
		}
		pieces := transcript(turns[len(turns)-1])
		end := prefixEnd(pieces)
		switch {
		case g.Prefix == nil:
			g.Prefix = pieces[:end]
		case !slices.Equal(g.Prefix, pieces[:end]):
			return nil, errPrefix
		}
		g.Episodes = append(g.Episodes, segments(pieces[end:], turns))
	}
	return g, nil
}
