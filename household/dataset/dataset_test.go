package dataset

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"agentd/agent"
	"agentd/household"
)

var rewrite = flag.Bool("rewrite", false, "rewrite the golden file")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// kinds are all options of episodes.
var kinds = map[string]household.Options{
	"training":                 {},
	"first lessons":            {Lesson: true},
	"evaluation":               {Split: household.Eval},
	"evaluation, unseen tools": {Split: household.Eval, ToolNames: household.Unseen},
}

func text(pieces []Piece) string {
	var b strings.Builder
	for _, p := range pieces {
		b.WriteString(p.Text)
	}
	return b.String()
}

// TestTranscriptMatchesAgentPrompts: a group's beginning and an episode's pieces
// are, byte for byte, the agent's last prompt and the answer to it, and what the
// model has to write is the answer of each turn.
func TestTranscriptMatchesAgentPrompts(t *testing.T) {
	a, err := NewAgent(agent.ConstrainOff)
	if err != nil {
		t.Fatal(err)
	}
	for name, o := range kinds {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(60) {
				turns, err := Record(t.Context(), a, household.New(seed, o), nil)
				if err != nil {
					t.Fatal(err)
				}
				turns = turns[:min(len(turns), 1+int(seed%12))]
				last := turns[len(turns)-1]
				var want strings.Builder
				for _, p := range last.Prompt {
					want.WriteString(p.Text)
				}
				want.WriteString(last.Answer + turnEnd)

				pieces := transcript(last)
				end := prefixEnd(pieces)
				list := segments(pieces[end:], turns)
				got := text(pieces[:end])
				var written []string
				for _, s := range list {
					got += text(s.Pieces)
					if s.Loss {
						written = append(written, text(s.Pieces))
					}
				}
				if diff := cmp.Diff(want.String(), got); diff != "" {
					t.Fatalf("seed %d: %s", seed, diff)
				}
				var answers []string
				for _, turn := range turns {
					answers = append(answers, turn.Answer+turnEnd)
				}
				if diff := cmp.Diff(answers, written); diff != "" {
					t.Fatalf("seed %d: %s", seed, diff)
				}
			}
		})
	}
}

// TestEarlierTurnsStayAsTheyWere: but for the task's attributes, which only the
// last message shows, a prompt goes on from the prompt and the answer before it.
func TestEarlierTurnsStayAsTheyWere(t *testing.T) {
	a, err := NewAgent(agent.ConstrainOff)
	if err != nil {
		t.Fatal(err)
	}
	for seed := range uint64(20) {
		turns, err := Record(t.Context(), a, household.New(seed, household.Options{}), nil)
		if err != nil {
			t.Fatal(err)
		}
		for i, turn := range turns[1:] {
			before := text(transcript(turns[i]))
			at := strings.LastIndex(before, "\n\nTask attributes: ")
			if at < 0 { // the task has none
				at, before = len(before), before+"}"
			}
			end := at + strings.IndexByte(before[at:], '}') + 1
			if want := before[:at] + before[end:]; !strings.HasPrefix(text(transcript(turn)), want) {
				t.Fatalf("seed %d: turn %d does not begin with\n%s", seed, i+1, want)
			}
		}
	}
}

func TestEpisodesOfAGroupBeginAlike(t *testing.T) {
	a, err := NewAgent(agent.ConstrainOff)
	if err != nil {
		t.Fatal(err)
	}
	for name, o := range kinds {
		group := household.NewGroup(5, o)
		var first []Piece
		for i := range EpisodesPerGroup {
			turns, err := Record(t.Context(), a, group.Episode(i), nil)
			if err != nil {
				t.Fatal(err)
			}
			pieces := transcript(turns[len(turns)-1])
			begin := pieces[:prefixEnd(pieces)]
			if first == nil {
				first = begin
			}
			if diff := cmp.Diff(first, begin); diff != "" || len(begin) == 0 {
				t.Fatalf("%s, episode %d: %s", name, i, diff)
			}
		}
	}
}

// TestDataSetDependsOnlyOnSeed, and each line a group that can be read back.
func TestDataSetDependsOnlyOnSeed(t *testing.T) {
	write := func(seed uint64) []byte {
		var b bytes.Buffer
		if err := Write(t.Context(), &b, Options{Groups: 12, Seed: seed}); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	first := write(7)
	if !bytes.Equal(first, write(7)) {
		t.Error("the same seed gives another data set")
	}
	if bytes.Equal(first, write(8)) {
		t.Error("another seed gives the same data set")
	}
	lines := bytes.Split(bytes.TrimSpace(first), []byte("\n"))
	if len(lines) != 12 {
		t.Errorf("%d lines", len(lines))
	}
	for _, line := range lines {
		var g struct {
			Prefix   [][2]string
			Episodes [][]struct {
				Pieces [][2]string
				Loss   bool
			}
		}
		if err := json.Unmarshal(line, &g); err != nil || len(g.Episodes) != EpisodesPerGroup || len(g.Prefix) == 0 {
			t.Errorf("%v in %.200s", err, line)
		}
	}
}

// TestGoldenTranscripts pins what conversations look like, for people to review.
func TestGoldenTranscripts(t *testing.T) {
	a, err := NewAgent(agent.ConstrainOff)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for seed := range uint64(4) {
		turns, err := Record(t.Context(), a, household.New(seed, household.Options{}), nil)
		if err != nil {
			t.Fatal(err)
		}
		all := text(transcript(turns[len(turns)-1]))
		_, tools, _ := strings.Cut(all, "<tools>\n") // what comes before is the same for all
		b.WriteString("======== seed " + string('0'+byte(seed)) + "\n" + tools + "\n\n")
	}
	golden := filepath.Join("testdata", "transcripts.golden")
	if *rewrite {
		if err := os.WriteFile(golden, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), b.String()); diff != "" {
		t.Errorf("%s differs (rewrite it with -rewrite and read the change):\n%s", golden, diff)
	}
}

// TestOnlyTrainingDataHasBusyGroups, so that what is measured is as people are, and lessons stay short.
func TestOnlyTrainingDataHasBusyGroups(t *testing.T) {
	for _, c := range []struct {
		name string
		o    household.Options
		want int
	}{
		{"training", household.Options{}, 100 / busy},
		{"lessons", household.Options{Lesson: true}, 0},
		{"held out", household.Options{Split: household.Eval}, 0},
	} {
		got := 0
		for n := range 100 / busy * busy {
			if (Options{Options: c.o}).of(n).Busy {
				got++
			}
		}
		if got != c.want {
			t.Errorf("%s: %d groups are busy, not %d", c.name, got, c.want)
		}
	}
}
