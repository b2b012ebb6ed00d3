package report

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"agentd/bench/result"
)

// row is one figure of all arms.
type row struct {
	group, title, unit string
	cells              []result.Spread // one for each arm
}

// rows are the figures of arms: the metrics, then failures by kind and phases by
// name below their groups. A figure that no arm knows stays as one row of dashes;
// of a distribution's, only the first does.
func rows(arms []result.Arm, skip func(result.Metric) bool) []row {
	var list []row
	for _, m := range result.Metrics() {
		if skip(m) {
			continue
		}
		r := row{group: m.Group, title: m.Title, unit: m.Unit}
		known := false
		for i := range arms {
			s := arms[i].Spread(m)
			known = known || s.N > 0
			r.cells = append(r.cells, s)
		}
		if known || m.Group != result.GroupLatency || strings.HasSuffix(m.Name, "_p50") {
			list = append(list, r)
		}
	}
	list = append(list, counted(arms, "Failed requests: ", func(s *result.Summary) map[string]int { return s.Failures })...)
	list = append(list, counted(arms, "Failed candidates: ", func(s *result.Summary) map[string]int { return s.CandidateFailures })...)
	list = append(list, phases(arms)...)
	slices.SortStableFunc(list, func(a, b row) int { return place(a.group) - place(b.group) })
	return list
}

// groups in their order.
var groups = []string{
	result.GroupThroughput, result.GroupLatency, result.GroupTokens, result.GroupServer, result.GroupOutcome,
}

func place(group string) int { return slices.Index(groups, group) }

// counted are rows of counts by a word that only the runs know. Who does not have
// the word counted none.
func counted(arms []result.Arm, before string, of func(*result.Summary) map[string]int) []row {
	words := map[string]bool{}
	each(arms, func(s *result.Summary) {
		for word := range of(s) {
			words[word] = true
		}
	})
	list := make([]row, 0, len(words))
	for _, word := range slices.Sorted(maps.Keys(words)) {
		list = append(list, row{result.GroupOutcome, before + word, "", spreads(arms, func(s *result.Summary) result.Value {
			return result.Known(float64(of(s)[word]))
		})})
	}
	return list
}

// phases are rows of the seconds in the phases of a step.
func phases(arms []result.Arm) []row {
	names := map[string]bool{}
	each(arms, func(s *result.Summary) {
		for name := range s.Phases {
			names[name] = true
		}
	})
	list := make([]row, 0, len(names))
	for _, name := range slices.Sorted(maps.Keys(names)) {
		list = append(list, row{result.GroupServer, "Steps: " + name, "s", spreads(arms, func(s *result.Summary) result.Value {
			seconds, ok := s.Phases[name]
			if !ok {
				return result.Value{}
			}
			return result.Known(seconds)
		})})
	}
	return list
}

func each(arms []result.Arm, do func(*result.Summary)) {
	for _, a := range arms {
		for _, f := range a.Files {
			do(&f.Summary)
		}
	}
}

func spreads(arms []result.Arm, of func(*result.Summary) result.Value) []result.Spread {
	list := make([]result.Spread, len(arms))
	for i := range arms {
		list[i] = arms[i].Spread(result.Metric{Of: of})
	}
	return list
}

// unknown is what stands for an unknown number.
const unknown = "-"

// number writes a value for people: three significant digits, whole ones in full.
func number(v result.Value) string {
	x := v.X
	size := math.Abs(x)
	switch {
	case !v.Known:
		return unknown
	case x == math.Trunc(x) && size < 1e15, size >= 100 && size < 1e15:
		return strconv.FormatFloat(x, 'f', 0, 64)
	case size >= 10 && size < 100:
		return strconv.FormatFloat(x, 'f', 1, 64)
	case size >= 1 && size < 10:
		return strconv.FormatFloat(x, 'f', 2, 64)
	}
	return strconv.FormatFloat(x, 'g', 3, 64)
}

// spread writes a median, of repeats with the smallest and the largest.
func spread(s result.Spread) string {
	if !s.Median.Known || s.N == 1 || s.Min == s.Max {
		return number(s.Median)
	}
	return fmt.Sprintf("%s (%s-%s)", number(s.Median), number(s.Min), number(s.Max))
}

// titled is the title of an arm in one line.
func titled(a *result.Arm) string { return a.Name + ", " + a.Load.String() }

// repeats says how many runs an arm has.
func repeats(a *result.Arm) string {
	if len(a.Files) == 1 {
		return "1 run"
	}
	return fmt.Sprintf("%d runs", len(a.Files))
}

// short is the beginning of a hash.
func short(hash string) string { return hash[:min(len(hash), 12)] }

// definitions say how figures are counted.
const definitions = "Latency counts from the intended send of a request to the end of its last candidate, without warm-up. " +
	"TPOT is (E2EL - TTFT) / (output tokens of a candidate - 1). Percentiles are of all requests, " +
	"interpolated between neighbours. Prompt tokens and the server's counts are of the whole run."

// warnings are sentences about runs that are not what they should be.
func warnings(files []*result.File) []string {
	var list []string
	for _, f := range files {
		if f.Interrupted != "" {
			list = append(list, fmt.Sprintf("INTERRUPTED (%s): a run of %s shows what was measured until then.", f.Interrupted, f.Run.Name))
		}
	}
	for _, f := range files[1:] {
		if f.Trace.Hash != files[0].Trace.Hash {
			list = append(list, "The runs had different traces; their figures can't be compared.")
			break
		}
	}
	return list
}

// Wrap breaks text between words into lines of at most width bytes.
func Wrap(text string, width int) []string {
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && len(line)+1+len(word) > width {
			lines = append(lines, line)
			line = ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return append(lines, line)
}
