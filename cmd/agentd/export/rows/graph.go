package rows

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"

	"agentd/protocol"
)

// graph is a folder in which magma-gen saved a run: config.json, and a file for each situation.
type graph struct{ path string }

// graphConfig is what is read of config.json.
type graphConfig struct {
	RunID            string `json:"run_id"`
	GeneratorVersion string `json:"generator_version"`
}

func readGraphConfig(path string) (c graphConfig, err error) {
	file := filepath.Join(path, "config.json")
	body, err := os.ReadFile(file)
	if err != nil {
		return c, err
	}
	if err := json.Unmarshal(body, &c); err != nil {
		return c, fmt.Errorf("%s: %w", file, err)
	}
	return c, nil
}

// graphSituation is a file of a graph.
type graphSituation struct {
	ID         int64            `json:"id"`
	ParentID   *int64           `json:"parent_id"` // of a candidate
	Input      protocol.Raw     `json:"input"`
	Candidates []graphCandidate `json:"candidates"`
}

type graphCandidate struct {
	ID             int64          `json:"id"`
	StageID        int64          `json:"stage_id"`
	ResponseStatus string         `json:"response_status"`
	Output         protocol.Raw   `json:"output"`
	InternalSteps  []protocol.Raw `json:"internal_steps"`
	Status         string         `json:"status"` // of the execution
	Origin         string         `json:"origin"`
	Coaching       struct {
		Faulty bool `json:"diagnosed_as_faulty"`
	} `json:"coaching"`
	// The candidate that was found faulty. At the anchor fixed_node the correction replaces it. At the
	// anchor recovery_node it answers the input that followed.
	CoachingSource struct {
		NodeID *int64 `json:"node_id"`
	} `json:"coaching_source"`
	// The ends of each stage, such as "stage_0", that the candidate and what followed it reached.
	Score map[string]struct {
		Optimal    int `json:"optimal"`
		NonOptimal int `json:"non-optimal"`
		Unassessed int `json:"unassessed"`
	} `json:"score"`
}

// originSimulation is the origin of a candidate for which nobody was asked: a suspended action went on.
const originSimulation = "simulation"

func (g *graph) each(_ secrets, _ map[string]int, f func(*Situation) error) error {
	config, err := readGraphConfig(g.path)
	if err != nil {
		return err
	}
	if major, _, _ := strings.Cut(config.GeneratorVersion, "."); major != "2" {
		return fmt.Errorf("%s is a graph of magma-gen %s; graphs of 2.x can be read", g.path, config.GeneratorVersion)
	}
	names, err := os.ReadDir(g.path)
	if err != nil {
		return err
	}
	var files []int64 // their numbers
	for _, name := range names {
		number, isJSON := strings.CutSuffix(name.Name(), ".json")
		if n, err := strconv.ParseInt(number, 10, 64); isJSON && err == nil {
			files = append(files, n)
		}
	}
	slices.Sort(files)
	for _, n := range files {
		s, err := g.load(ref{offset: n})
		if err != nil {
			return err
		}
		s.RunID = config.RunID
		if err := f(s); err != nil {
			return fmt.Errorf("%s: %w", g.file(n), err)
		}
	}
	return nil
}

func (g *graph) file(n int64) string {
	return filepath.Join(g.path, strconv.FormatInt(n, 10)+".json")
}

// load reads the situation of a file; the offset of its ref is the file's number.
func (g *graph) load(at ref) (s *Situation, err error) {
	err = values(g.file(at.offset), g.file(at.offset), 0, 1, func(raw protocol.Raw, _ int, _ int64) error {
		if s != nil {
			return errors.New("a situation needs its own file")
		}
		s, err = g.read(raw, at)
		return err
	})
	if err == nil && s == nil {
		err = fmt.Errorf("%s is empty", g.file(at.offset))
	}
	return s, err
}

func (g *graph) read(raw protocol.Raw, at ref) (*Situation, error) {
	var x graphSituation
	if err := json.Unmarshal(raw, &x); err != nil {
		return nil, fmt.Errorf("no situation of a graph: %w", err)
	}
	// A separate request makes the same checks of the input.
	request, err := protocol.DecodeAgentRequest(slices.Concat([]byte(`{"request_id":"graph","inputs":[`), x.Input, []byte("]}")))
	if err != nil {
		return nil, fmt.Errorf("the input is invalid: %w", err)
	}
	s := &Situation{Source: filepath.Join(filepath.Base(g.path), strconv.FormatInt(at.offset, 10)+".json"), Input: &request.Inputs[0], scope: g.path, at: at}
	if x.ParentID != nil {
		s.back = g.key(*x.ParentID)
		// A correction has the parent of what it replaces. Other branches may repeat the input.
		s.scope += "#" + strconv.FormatInt(*x.ParentID, 10)
	}
	for i := range x.Candidates {
		c := &x.Candidates[i]
		if c.Origin == originSimulation {
			continue
		}
		made := Candidate{
			Index: i, Status: c.ResponseStatus, Steps: c.InternalSteps, Outcome: c.outcome(),
			corrects: c.Origin == protocol.OriginCoaching, led: slices.Contains(stageEnds, c.Status),
			faulty: c.Coaching.Faulty, reached: c.reached(), next: g.key(c.ID),
		}
		if c.CoachingSource.NodeID != nil {
			made.replaces = g.key(*c.CoachingSource.NodeID)
		}
		if c.Output != nil && c.Output.Kind() == '{' {
			if made.Output, err = readDecision(c.Output); err != nil {
				return nil, fmt.Errorf("the output of candidate %d is invalid: %w", c.ID, err)
			}
		}
		s.Candidates = append(s.Candidates, made)
	}
	return s, nil
}

// readDecision reads a decision. MAGMA's may have a reply beside calls; its runtimes carry out the
// calls.
func readDecision(raw protocol.Raw) (*protocol.AgentDecision, error) {
	correction := protocol.SetMember(protocol.Raw(`{"kind":"replace_decision"}`), "decision", raw)
	made, err := protocol.DecodeCorrection(protocol.CallsOverSay(correction))
	if err != nil {
		return nil, err
	}
	decision := made.Corrected()
	return &decision, nil
}

// key joins a candidate to the situations that follow it.
func (g *graph) key(candidate int64) uint64 {
	return hash("graph", g.path, strconv.FormatInt(candidate, 10))
}

// stageEnds are the states of candidates that ended their stage.
var stageEnds = []string{"optimal", "suboptimal", "unassessed"}

// outcome is what the run found out about a candidate.
func (c *graphCandidate) outcome() string {
	switch {
	case c.Status == "error" || c.Status == "invalid" || c.Coaching.Faulty:
		return Failure
	case c.Status == "optimal":
		return Success
	}
	return ""
}

// reached reports whether the candidate or what followed it reached the end of its stage.
func (c *graphCandidate) reached() *bool {
	score, known := c.Score["stage_"+strconv.FormatInt(c.StageID, 10)]
	if !known {
		return nil
	}
	reached := score.Optimal+score.NonOptimal+score.Unassessed > 0
	return &reached
}
