package coach

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"agentd/coaching/human"
	"agentd/coaching/store"
	"agentd/protocol"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// given is a coach that gives one reply or error.
type given struct {
	reply Reply
	err   error
	asked *int
}

func (g given) Ask(context.Context, *Request) (Reply, error) {
	*g.asked++
	return g.reply, g.err
}

func TestCoachesAreAskedUntilOneDecides(t *testing.T) {
	yes := Reply{Status: protocol.CoachingCorrected, Reason: "so", final: true}
	full := &store.FullError{What: "tasks"}
	for name, c := range map[string]struct {
		list    []given
		points  int
		want    Reply
		err     error
		skipped int // coaches at the end that are not asked
	}{
		"the first corrects":            {[]given{{reply: yes}, {reply: yes}}, 1, yes, nil, 1},
		"the second corrects":           {[]given{{reply: Failed("a")}, {reply: yes}}, 1, yes, nil, 0},
		"the first has the last word":   {[]given{{reply: Abandoned("no").last()}, {reply: yes}}, 1, Abandoned("no").last(), nil, 1},
		"none is reached":               {[]given{{reply: Failed("a")}, {reply: Failed("b")}}, 1, Failed("a; then: b"), nil, 0},
		"only the first answers":        {[]given{{reply: Abandoned("a")}, {reply: Failed("b")}}, 1, Abandoned("a; then: b"), nil, 0},
		"only the second answers":       {[]given{{reply: Failed("a")}, {reply: Abandoned("b")}}, 1, Abandoned("a; then: b"), nil, 0},
		"a person answers first":        {[]given{{reply: Reply{Status: protocol.CoachingFailed, Reason: "a", ByPerson: true}}, {reply: yes}}, 1, Reply{Status: yes.Status, Reason: "so", ByPerson: true, final: true}, nil, 0},
		"the session closes meanwhile":  {[]given{{reply: Failed("a")}, {err: errClosing}, {reply: yes}}, 1, Failed("a"), nil, 1},
		"the second is full":            {[]given{{reply: Failed("a")}, {err: full}}, 1, Reply{}, full, 0},
		"the caller leaves":             {[]given{{err: context.Canceled}, {reply: yes}}, 1, Reply{}, context.Canceled, 1},
		"there are no points to change": {[]given{{reply: yes}}, 0, Abandoned("the request has no reinjection points, so a correction could not be put in anywhere; name at least one"), nil, 1},
	} {
		t.Run(name, func(t *testing.T) {
			asked := make([]int, len(c.list))
			var list []Coach
			for i, g := range c.list {
				g.asked = &asked[i]
				list = append(list, g)
			}
			r := &Request{Body: &protocol.SpecializedCoachingRequest{ReinjectionPoints: make([]protocol.ReinjectionPoint, c.points)}}
			got, err := Ask(t.Context(), list, r)
			if got.Proposals = nil; got.Status != c.want.Status || got.Reason != c.want.Reason || got.ByPerson != c.want.ByPerson || got.final != c.want.final || !errors.Is(err, c.err) {
				t.Errorf("got %+v, %v, want %+v, %v", got, err, c.want, c.err)
			}
			want := slices.Concat(slices.Repeat([]int{1}, len(asked)-c.skipped), make([]int, c.skipped))
			if !slices.Equal(asked, want) {
				t.Errorf("asked %v times, want %v", asked, want)
			}
		})
	}
}

func TestEachReasonGetsHalfOfTheBytes(t *testing.T) {
	long := strings.Repeat("x", 3*MaxReason)
	got := (&Request{}).both(Failed("a%s", long), Failed("b%s", long)).Reason
	if len(got) > MaxReason || !strings.HasPrefix(got, "ax") || !strings.Contains(got, "; then: bx") || strings.Count(got, "more bytes)") != 2 {
		t.Errorf("%d bytes: %s", len(got), got)
	}
}

func TestBreakerTripsOnlyWhenPeopleAreUnreachable(t *testing.T) {
	for name, c := range map[string]struct {
		err     error
		running bool // the service
		trips   bool
	}{
		"unreachable":                     {&human.Error{Kind: human.Unreachable, Detail: "nobody listens"}, true, true},
		"unreachable, the service closes": {&human.Error{Kind: human.Unreachable}, false, false},
		"an answer against the protocol":  {&human.Error{Kind: human.Broken}, true, false},
		"a forbidden endpoint":            {&human.Error{Kind: human.Forbidden}, true, false},
		"a closed session":                {context.Canceled, true, false},
		"an answer":                       {nil, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			begun := 0
			b := &Breaker{
				Endpoint: "http://127.0.0.1:1", Now: func() time.Time { return time.Unix(0, 0) },
				Go: func(func()) bool {
					begun++
					return c.running
				},
			}
			b.Observe(c.err)
			b.Observe(c.err) // it looks for them once
			err := b.Check()
			if (err != nil) != c.trips || c.trips && (begun != 1 || !strings.Contains(err.Error(), "nobody listens (since 1970-01-01T00:00:00Z; agentd looks for it every 10s)")) {
				t.Errorf("got %v after %d searches", err, begun)
			}
		})
	}
	var none *Breaker
	if none.Observe(&human.Error{Kind: human.Unreachable}); none.Check() != nil {
		t.Error("a nil breaker trips")
	}
}
