package report

import (
	_ "embed"
	"errors"
	"fmt"
	"html/template"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"agentd/bench/result"
)

//go:embed page.html
var pageText string

var page = template.Must(template.New("page").Parse(pageText))

// pageData is what the template shows.
type pageData struct {
	Title, Lead string
	Warnings    []string
	Headlines   []pageHeadline
	Arms        []pageArm
	Groups      []pageGroup
	Charts      []*chart
	Definitions string
	Setups      []setup
}

type pageHeadline struct{ Value, What string }

type pageArm struct{ Name, Load, Repeats string }

type pageGroup struct {
	Name string
	Rows []pageRow
}

type pageRow struct {
	Title, Unit string
	Cells       []pageCell
}

type pageCell struct{ Median, Range string }

// setup is what one arm was.
type setup struct {
	Name  string
	Facts []fact
}

type fact struct{ Name, Text string }

// WriteHTML writes one page with the results: headline ratios, the table, plots,
// and what ran.
func WriteHTML(w io.Writer, runs []*result.Full) error {
	if len(runs) == 0 {
		return errors.New("there is no result to show")
	}
	files := make([]*result.File, len(runs))
	byFile := map[*result.File]*result.Full{}
	for i, r := range runs {
		files[i] = r.File
		byFile[r.File] = r
	}
	arms := result.Arms(files)
	all := make([]group, len(arms))
	for i := range arms {
		all[i].arm = &arms[i]
		for _, f := range arms[i].Files {
			all[i].runs = append(all[i].runs, byFile[f])
		}
	}
	first := files[0]
	d := pageData{
		Title: "agentbench: " + strings.Join(names(arms), ", "),
		Lead: fmt.Sprintf("%d agents, %d turns, %d candidates (%s trace %s) on %d × %s, %s.", first.Trace.Agents, first.Trace.Turns,
			first.Trace.Candidates, first.Trace.Kind, short(first.Trace.Hash), first.Run.CPUs, first.Run.CPU, first.Made.UTC().Format(time.DateOnly)),
		Warnings:    warnings(files),
		Headlines:   headlines(arms),
		Charts:      plots(all),
		Definitions: definitions,
	}
	for i := range arms {
		d.Arms = append(d.Arms, pageArm{arms[i].Name, arms[i].Load.String(), repeats(&arms[i])})
		d.Setups = append(d.Setups, setupOf(&arms[i]))
	}
	for _, r := range rows(arms, func(result.Metric) bool { return false }) {
		if n := len(d.Groups); n == 0 || d.Groups[n-1].Name != r.group {
			d.Groups = append(d.Groups, pageGroup{Name: r.group})
		}
		g := &d.Groups[len(d.Groups)-1]
		line := pageRow{Title: r.title, Unit: r.unit}
		for _, s := range r.cells {
			c := pageCell{Median: number(s.Median)}
			if !s.Median.Known {
				c.Median = "–"
			} else if s.Min != s.Max {
				c.Range = number(s.Min) + "–" + number(s.Max)
			}
			line.Cells = append(line.Cells, c)
		}
		g.Rows = append(g.Rows, line)
	}
	return page.Execute(w, d)
}

func names(arms []result.Arm) []string {
	var list []string
	for _, a := range arms {
		if !slices.Contains(list, a.Name) {
			list = append(list, a.Name)
		}
	}
	return list
}

// headlines are the ratios to the other arms, then the first arm's own figures
// under its heaviest load.
func headlines(arms []result.Arm) []pageHeadline {
	var list []pageHeadline
	for _, r := range ratios(arms) {
		list = append(list, pageHeadline{r.value, "decisions/s, " + r.what})
	}
	best := &arms[0]
	for i := range arms {
		if arms[i].Name == best.Name {
			best = &arms[i]
		}
	}
	for _, h := range []struct{ name, what, unit string }{
		{result.Ratio, "decisions/s", ""},
		{"ttft_p50", "TTFT p50", " ms"},
		{"e2el_p99", "E2EL p99", " ms"},
		{"computed_to_ideal", "prompt tokens computed to ideal", ""},
	} {
		m, _ := result.MetricNamed(h.name)
		if v := best.Spread(m).Median; v.Known {
			list = append(list, pageHeadline{number(v) + h.unit, fmt.Sprintf("%s, %s", h.what, titled(best))})
		}
	}
	return list
}

// setupOf says what an arm was, as its first repeat tells.
func setupOf(a *result.Arm) setup {
	f := a.Files[0]
	s := setup{Name: titled(a) + ", " + repeats(a)}
	add := func(name, text string) {
		if text != "" {
			s.Facts = append(s.Facts, fact{name, text})
		}
	}
	add("Target", f.Run.Target)
	add("Command", "agentbench "+strings.Join(f.Run.Args, " "))
	add("Made", f.Made.UTC().Format(time.RFC3339))
	add("Commit", f.Run.Commit)
	add("Model (SHA-256)", f.Run.Model)
	add("Trace (SHA-256)", f.Trace.Hash)
	add("CPU", fmt.Sprintf("%d × %s", f.Run.CPUs, f.Run.CPU))
	add("GPU", f.Run.GPU)
	add("Threads of the server", f.Run.Threads)
	add("SLO", f.SLO.String())
	for _, name := range slices.Sorted(maps.Keys(f.Options)) {
		add("--"+name, f.Options[name])
	}
	for _, name := range slices.Sorted(maps.Keys(f.Run.Server)) {
		add("Server: "+name, f.Run.Server[name])
	}
	return s
}
