package learn

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sync/errgroup"

	"agentd/defaultmodel/household"
	"agentd/export"
)

// Settings decide what is learned. They are stored in the directory and must stay the same
// in it.
type Settings struct {
	Model       string   `json:"model"`         // GGUF file to begin with
	Houses      int      `json:"houses"`        // in each round, with PerHouse conversations each
	Seed        uint64   `json:"seed"`          // of the houses of the rounds
	HeldOut     int      `json:"held_out"`      // conversations of the measurement
	HeldOutSeed uint64   `json:"held_out_seed"` // of its houses
	Minutes     int      `json:"minutes"`       // of training in each round
	Corrections []string `json:"corrections"`   // files of chat rows to learn from in every round
}

// Options of Run.
type Options struct {
	Settings
	Dir     string // of all files
	Rounds  int    // in all; rounds that are done are not done again
	Clients int    // requests at a time
	Log     func(format string, args ...any)

	// Serve starts an agent server with a GGUF file.
	Serve func(ctx context.Context, model string) (Server, error)
	// Train writes new weights.
	Train func(ctx context.Context, t Training) error
}

// Server is a running agent server.
type Server struct {
	Agent
	Stop func() error
}

// Training is what a trainer gets. It goes on from what it left in Out before it was
// killed.
type Training struct {
	Model   string   // GGUF file to begin with
	Rows    []string // chat rows of agentd export
	Tokens  []string // rollouts of the same steps, whose prompts must have these tokens
	Out     string   // directory for Weights and whatever else the trainer writes
	Minutes int
	Round   int
}

// Weights is the file of the new weights in Training.Out.
const Weights = "model.gguf"

// Names of files in Options.Dir and in the directory of a round.
const (
	settingsFile = "learn.json"
	reportFile   = "report.json"
	bestFile     = "best.gguf"
	workFolder   = "work"
	trainFolder  = "training"
	heldFolder   = "held-out"
	chatFile     = "chat.jsonl"
	tokensFile   = "rollouts.jsonl" //nolint:gosec // no credential
	roundFile    = "round.json"
)

// loop is a running Run.
type loop struct {
	Options
	coach    *Coach
	coachURL string
}

// Run does the rounds that are missing and returns the report of all. After the last round
// the best model works once more in new houses, which shows what the corrections changed.
func Run(ctx context.Context, o Options) (*Report, error) {
	if err := os.MkdirAll(o.Dir, 0o750); err != nil {
		return nil, err
	}
	if err := o.settle(); err != nil {
		return nil, err
	}
	l := &loop{Options: o, coach: NewCoach()}
	url, stop, err := listen(l.coach)
	if err != nil {
		return nil, err
	}
	defer stop()
	l.coachURL = url
	return l.run(ctx)
}

// settle stores the settings, or compares them with the stored ones.
func (o *Options) settle() error {
	path := filepath.Join(o.Dir, settingsFile)
	want, err := json.MarshalIndent(o.Settings, "", "  ")
	if err != nil {
		return err
	}
	found, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return writeFile(path, want)
	case err != nil:
		return err
	case !bytes.Equal(found, want):
		return fmt.Errorf("%s was begun with other settings: %s; give the same, or name another directory", o.Dir, found)
	}
	return nil
}

func (l *loop) run(ctx context.Context) (*Report, error) {
	report, best := new(Report), l.Model
	before, err := l.measure(ctx, 0, best)
	if err != nil {
		return nil, err
	}
	report.Base = before.shares()
	for round := 1; round <= l.Rounds; round++ {
		r, after, err := l.round(ctx, round, best, before)
		if err != nil {
			return nil, fmt.Errorf("round %d: %w", round, err)
		}
		report.Rounds = append(report.Rounds, *r)
		if r.Kept {
			best, before = r.model, after
		}
		if err := l.publish(report, best); err != nil {
			return nil, err
		}
	}
	if report.Last, err = l.works(ctx, l.Rounds+1, best); err != nil {
		return nil, err
	}
	return report, l.publish(report, best)
}

// round is one round with the best model before it. It returns the held-out decisions of
// the new model, too.
func (l *loop) round(ctx context.Context, n int, best string, before held) (*Round, held, error) {
	r := &Round{Round: n, model: filepath.Join(l.folder(n), trainFolder, Weights)}
	var err error
	if r.Work, err = l.works(ctx, n, best); err != nil {
		return nil, nil, err
	}
	t := Training{Model: best, Rows: l.Corrections, Out: filepath.Join(l.folder(n), trainFolder), Minutes: l.Minutes, Round: n}
	for of := 1; of <= n; of++ { // the rows of all rounds, so that nothing is forgotten
		chat, tokens, err := l.export(ctx, of)
		if err != nil {
			return nil, nil, err
		}
		t.Rows, t.Tokens = append(t.Rows[:len(t.Rows):len(t.Rows)], chat), append(t.Tokens, tokens)
	}
	if !exists(r.model) {
		l.Log("round %d: training on the rows of %d rounds for at most %d minutes", n, n, l.Minutes)
		if err := os.MkdirAll(t.Out, 0o750); err != nil {
			return nil, nil, err
		}
		if err := l.Train(ctx, t); err != nil {
			return nil, nil, err
		}
		if !exists(r.model) {
			return nil, nil, fmt.Errorf("the trainer ended without %s", r.model)
		}
	}
	after, err := l.measure(ctx, n, r.model)
	if err != nil {
		return nil, nil, err
	}
	if r.Verdict, err = judge(before.right(), after.right()); err != nil {
		return nil, nil, err
	}
	r.Right = after.shares()
	l.Log("round %d: %s held-out decisions right; %d better, %d worse, p %.3f: %s", n, r.Right.Known, r.Better, r.Worse, r.P, r.fate())
	return r, after, writeJSON(filepath.Join(l.folder(n), roundFile), r)
}

func (l *loop) folder(round int) string { return filepath.Join(l.Dir, fmt.Sprintf("round-%d", round)) }

// works lets a model work in the houses of a round, except those that are done.
func (l *loop) works(ctx context.Context, round int, model string) (total Work, err error) {
	folder := filepath.Join(l.folder(round), workFolder)
	if err := os.MkdirAll(folder, 0o750); err != nil {
		return total, err
	}
	counts := func(house int) string { return filepath.Join(folder, fmt.Sprintf("house-%04d.json", house)) }
	var missing []int
	for house := range l.Houses {
		var w Work
		switch done, err := readJSON(counts(house), &w); {
		case err != nil:
			return total, err
		case done:
			total.add(w)
		default:
			missing = append(missing, house)
		}
	}
	if len(missing) == 0 {
		return total, nil
	}
	l.Log("round %d: tasks in %d houses", round, len(missing))
	err = l.with(ctx, model, func(s Server) error {
		var mu sync.Mutex // guards total
		group, all := errgroup.WithContext(ctx)
		group.SetLimit(max(1, l.Clients/PerHouse))
		for _, house := range missing {
			group.Go(func() error {
				w := &worker{agent: s, coach: l.coach, coachURL: l.coachURL, name: fmt.Sprintf("r%d-h%d", round, house)}
				work, lines, err := w.house(all, household.NewGroup(houseSeed(l.Seed, round, house), houseOptions(house)))
				if err != nil {
					return err
				}
				// The counts come last: they say that the house is done.
				if err := writeFile(filepath.Join(folder, fmt.Sprintf("house-%04d.jsonl", house)), lines); err != nil {
					return err
				}
				mu.Lock()
				defer mu.Unlock()
				total.add(work)
				return writeJSON(counts(house), work)
			})
		}
		return group.Wait()
	})
	if err == nil {
		l.Log("round %d: %d tasks, %d decisions, %.1f coach calls for 100 tasks", round, total.Tasks, total.Decisions, total.CallsPer100())
	}
	return total, err
}

// with calls f while a server runs.
func (l *loop) with(ctx context.Context, model string, f func(Server) error) error {
	s, err := l.Serve(ctx, model)
	if err != nil {
		return err
	}
	return errors.Join(f(s), s.Stop())
}

// export writes the rows of a round: right decisions and corrections, and the tokens of the
// right decisions.
func (l *loop) export(ctx context.Context, round int) (chat, tokens string, err error) {
	chat, tokens = filepath.Join(l.folder(round), chatFile), filepath.Join(l.folder(round), tokensFile)
	for path, kind := range map[string]string{chat: export.Chat, tokens: export.Rollouts} {
		if exists(path) {
			continue
		}
		sources, err := export.Open([]string{filepath.Join(l.folder(round), workFolder)})
		if err != nil {
			return "", "", err
		}
		err = write(path, func(w io.Writer) error {
			summary, err := export.Run(ctx, sources, export.Config{Kind: kind, Format: export.JSONL, Outcomes: []string{export.Success}}, w)
			if err == nil && kind == export.Chat && len(summary.Skipped) > 0 {
				return fmt.Errorf("rows are missing: %s", summary)
			}
			return err
		})
		if err != nil {
			return "", "", err
		}
	}
	return chat, tokens, nil
}
