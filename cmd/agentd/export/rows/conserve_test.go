package rows

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// node is a candidate of a generated graph.
type node struct {
	id, named int64 // named by a correction; -1: none
	situation int
	say       string
	status    string
	origin    string
	faulty    bool
	reached   int
	asked     bool // has an internal step
}

// situation is an input of a generated graph: what was asked, and after which candidate.
type situation struct {
	parent int64 // -1: none
	text   string
}

// randomGraph saves a graph in the form of magma-gen: decisions of models, and corrections at the
// input of the decision that they name or at the one that followed it.
func randomGraph(t *testing.T, r *rand.Rand) (folder string, situations []situation, nodes []node) {
	t.Helper()
	situations = []situation{{-1, "start"}}
	add := func(at int, origin string, named int64) {
		statuses := []string{"optimal", "suboptimal", "unassessed", "error", "finished", "ongoing", "invalid"}
		nodes = append(nodes, node{int64(len(nodes)), named, at, fmt.Sprint("answer ", r.IntN(4)), statuses[r.IntN(len(statuses))], origin, r.IntN(4) == 0, r.IntN(2), r.IntN(6) > 0})
	}
	add(0, "model", -1)
	for range 2 + r.IntN(25) {
		of := nodes[r.IntN(len(nodes))]
		switch r.IntN(6) {
		case 0: // the run went on
			situations = append(situations, situation{of.id, fmt.Sprint("report ", r.IntN(3))})
			add(len(situations)-1, "model", -1)
		case 1: // another branch
			add(of.situation, "model", -1)
		case 2: // a suspended action went on
			situations = append(situations, situation{of.id, "report"})
			add(len(situations)-1, "simulation", -1)
		case 3: // at a recovery, whose input was seldom asked before
			at := situation{of.id, fmt.Sprint("report ", r.IntN(3))}
			situations = append(situations, at)
			add(len(situations)-1, "coaching", of.id)
		default: // a correction replaces it
			situations = append(situations, situations[of.situation])
			named := []int64{of.id, of.id, of.id, -1, 10_000}[r.IntN(5)]
			nodes[of.id].faulty = nodes[of.id].faulty || named == of.id
			add(len(situations)-1, "coaching", named)
		}
	}
	return saveGraph(t, situations, nodes), situations, nodes
}

// saveGraph saves a graph in the form of magma-gen.
func saveGraph(t *testing.T, situations []situation, nodes []node) string {
	t.Helper()
	folder := filepath.Join(t.TempDir(), "run")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	save := func(name, text string) {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	save("config.json", `{"run_id": "run", "generator_version": "2.0.0"}`)
	for i, s := range situations {
		var list []string
		for _, n := range nodes {
			if n.situation == i {
				list = append(list, n.json())
			}
		}
		parent := "null"
		if s.parent >= 0 {
			parent = fmt.Sprint(s.parent)
		}
		save(fmt.Sprint(i, ".json"), fmt.Sprintf(`{"id": %d, "parent_id": %s, "input": {"id": 1, "instruction": {"type": "env", "content": %q}}, "candidates": [%s]}`, i, parent, s.text, strings.Join(list, ",")))
	}
	return folder
}

func (n *node) json() string {
	source, steps, output, response := "{}", "[]", fmt.Sprintf(`{"say": %q, "tool_calls": []}`, n.say), "completed"
	if n.named >= 0 {
		source = fmt.Sprintf(`{"node_id": %d, "request_id": 1}`, n.named)
	}
	if n.asked {
		steps = fmt.Sprintf(`[{"id": "s", "component": "commander", "origin": "model", "output_raw": %q, "input_elements": {"messages": [{"role": "user", "content": "Go."}]}}]`, n.say)
	}
	if n.status == "invalid" {
		output, response = "null", "error"
	}
	return fmt.Sprintf(`{"id": %d, "stage_id": 0, "response_status": %q, "output": %s, "internal_steps": %s, "status": %q, "origin": %q,
		"coaching": {"diagnosed_as_faulty": %t}, "coaching_source": %s, "score": {"stage_0": {"optimal": %d, "non-optimal": 0, "unassessed": 0, "total_child": 1}}}`,
		n.id, response, output, steps, n.status, n.origin, n.faulty, source, n.reached)
}

// rejects are the answers that a correction beats, by a plain reading of the whole graph.
func rejects(situations []situation, nodes []node, c *node) (list []string) {
	led := func(n *node) bool {
		for _, s := range situations {
			if s.parent == n.id {
				return true
			}
		}
		return n.status == "optimal" || n.status == "suboptimal" || n.status == "unassessed"
	}
	failed := func(n *node) bool { return n.faulty || n.status == "error" || n.status == "invalid" }
	if failed(c) || !led(c) {
		return nil
	}
	same := func(n *node) bool { return situations[n.situation] == situations[c.situation] }
	wrong := func(n *node) bool {
		return n.faulty || n.status != "optimal" && (n.reached == 0 && c.reached > 0 || !led(n))
	}
	seen, prompt := map[string]bool{c.say: true}, c.asked
	defer func() {
		if !prompt {
			list = nil
		}
	}()
	take := func(n *node) {
		prompt = prompt || wrong(n) && n.asked
		if wrong(n) && !seen[n.say] && (n.asked || n.status != "invalid") {
			seen[n.say] = true
			list = append(list, n.say)
		}
	}
	named, visited := c.named, map[int64]bool{}
	for named >= 0 && named < int64(len(nodes)) && same(&nodes[named]) && nodes[named].origin != "simulation" && !visited[named] {
		visited[named] = true
		take(&nodes[named])
		if nodes[named].origin == "model" {
			return list
		}
		named = nodes[named].named
	}
	for i := range nodes {
		if n := &nodes[i]; same(n) && n.origin != "simulation" && !visited[n.id] && (n.origin == "model" || n.faulty) {
			take(n)
		}
	}
	return list
}

// TestEveryCorrectionIsAPairOrCounted compares graphs with a plain reading of them.
func TestEveryCorrectionIsAPairOrCounted(t *testing.T) {
	reasons := map[string]int{}
	pairs := 0
	for seed := range uint64(150) {
		folder, situations, nodes := randomGraph(t, rand.New(rand.NewPCG(seed, 1)))
		rows, s := rowsOf[pairRow](t, Config{Kind: Pairs}, folder)
		got, want := map[string]int{}, map[string]int{}
		paired := map[string]bool{}
		for _, row := range rows {
			if row.Reason == byCorrection {
				got[fmt.Sprint(row.Source, " ", row.Chosen[0].Content, " > ", row.Rejected[0].Content)]++
				paired[fmt.Sprint(row.Source, row.Index)] = true
			}
		}
		corrections, lost := 0, 0
		for i := range nodes {
			if c := &nodes[i]; c.origin == "coaching" {
				corrections++
				for _, say := range rejects(situations, nodes, c) {
					want[fmt.Sprint("run/", c.situation, ".json ", c.say, " > ", say)]++
				}
			}
		}
		for reason, n := range s.Unpaired {
			lost += n
			reasons[reason] += n
		}
		pairs += len(paired)
		if s.Corrections != corrections || len(paired)+lost != corrections {
			t.Errorf("seed %d: %d corrections, %d with pairs: %s", seed, corrections, len(paired), s)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("seed %d: %s", seed, diff)
		}
	}
	if pairs < 100 || len(reasons) < 6 {
		t.Errorf("%d corrections gave pairs, others none for %v: the graphs show little", pairs, reasons)
	}
}

func TestPairsOfCorrectionsInGraphs(t *testing.T) {
	start, after := situation{-1, "start"}, situation{0, "it failed"}
	wrong := func(id int64, at int, status string, faulty bool) node {
		return node{id, -1, at, fmt.Sprint("wrong ", id), status, "model", faulty, 0, true}
	}
	right := func(id, named int64, at int) node {
		return node{id, named, at, "right", "optimal", "coaching", false, 1, true}
	}
	for name, c := range map[string]struct {
		situations []situation
		nodes      []node
		want       []string
		lost       string
	}{
		"at the faulty decision": {[]situation{start, start}, []node{wrong(0, 0, "error", true), right(1, 0, 1)}, []string{"correction: right > wrong 0"}, ""},
		"the run went on from the faulty one": {[]situation{start, after, start}, []node{wrong(0, 0, "finished", true), wrong(1, 1, "finished", false), right(2, 0, 2)},
			[]string{"correction: right > wrong 0"}, ""},
		"the faulty one was optimal": {[]situation{start, after, start}, []node{wrong(0, 0, "optimal", true), wrong(1, 1, "optimal", false), right(2, 0, 2)},
			[]string{"correction: right > wrong 0"}, ""},
		"only the named branch": {[]situation{start, start}, []node{wrong(0, 0, "error", true), wrong(1, 0, "finished", false), right(2, 0, 1)},
			[]string{"correction: right > wrong 0"}, ""},
		"at a recovery": {[]situation{start, after, after}, []node{wrong(0, 0, "finished", false), wrong(1, 1, "error", false), right(2, 0, 2)},
			[]string{"correction: right > wrong 1"}, ""},
		"at a recovery from which nothing was reached": {[]situation{start, after, after, {1, "it failed again"}}, []node{wrong(0, 0, "finished", false), wrong(1, 1, "finished", false), right(2, 0, 2), wrong(3, 3, "error", false)},
			[]string{"correction: right > wrong 1"}, ""},
		"at a recovery that nobody answered": {[]situation{start, after}, []node{wrong(0, 0, "error", false), right(1, 0, 1)}, nil, noAnswer},
		"at a recovery that went well": {[]situation{start, after, after}, []node{wrong(0, 0, "finished", false), {1, -1, 1, "also right", "optimal", "model", false, 1, true}, right(2, 0, 2)},
			nil, allWereFine},
		"another branch with the same report": {[]situation{start, after, {1, after.text}, after}, []node{wrong(0, 0, "finished", false), wrong(1, 0, "finished", false), wrong(2, 2, "error", false), right(3, 0, 3), wrong(4, 1, "error", false)},
			[]string{"correction: right > wrong 4"}, ""},
		"of a correction that was wrong": {[]situation{start, start, start}, []node{wrong(0, 0, "error", true), {1, 0, 1, "not right", "error", "coaching", true, 0, true}, right(2, 1, 2)},
			[]string{"correction: right > not right", "correction: right > wrong 0"}, wasWrong},
		"the run did not go on": {[]situation{start, start}, []node{wrong(0, 0, "error", true), {1, 0, 1, "right", "ongoing", "coaching", false, 0, true}}, nil, ledNowhere},
		"the same again":        {[]situation{start, start}, []node{{0, -1, 0, "right", "error", "model", true, 0, true}, right(1, 0, 1)}, nil, sameAnswer},
	} {
		t.Run(name, func(t *testing.T) {
			rows, s := rowsOf[pairRow](t, Config{Kind: Pairs}, saveGraph(t, c.situations, c.nodes))
			var got []string
			for _, text := range texts(rows) {
				if strings.HasPrefix(text, byCorrection) {
					got = append(got, text)
				}
			}
			lost := map[string]int{}
			if c.lost != "" {
				lost[c.lost] = 1
			}
			if diff := cmp.Diff(c.want, got) + cmp.Diff(lost, s.Unpaired); diff != "" {
				t.Error(diff)
			}
		})
	}
}
