package check

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/template"
)

// Result is what a rule found.
type Result struct {
	ID      string `json:"id"`
	Level   string `json:"level"`
	Section string `json:"section"`
	About   string `json:"about"` // what is sent and what is right
	Verdict string `json:"verdict,omitempty"`
	Seen    string `json:"seen,omitempty"`
	Curl    string `json:"curl,omitempty"`  // repeats what failed
	Known   string `json:"known,omitempty"` // why a failure is expected
	Stale   bool   `json:"stale,omitempty"` // it is expected, and did not fail
}

// Breaks reports whether the result makes the run fail.
func (x *Result) Breaks() bool {
	return x.Stale || x.Verdict == Fail && x.Level == Must && x.Known == ""
}

// Line is the result for people, in one line; that of a failure has a second one that repeats it.
func (x *Result) Line() string {
	if x.Verdict == "" {
		return fmt.Sprintf("%-6s %-32s %-3s %s\n", x.Level, x.ID, x.Section, x.About)
	}
	verdict, seen := x.Verdict, x.Seen
	switch {
	case x.Stale:
		verdict, seen = "stale", "a known failure, but: "+x.Verdict
	case x.Known != "":
		seen += " (known: " + x.Known + ")"
	case x.Curl != "":
		seen += "\n" + strings.Repeat(" ", 15) + x.Curl
	}
	return fmt.Sprintf("%-14s %-6s %-32s %-3s %s\n", verdict, x.Level, x.ID, x.Section, seen)
}

// Report is the result of a run.
type Report struct {
	URL      string    `json:"url"`
	Revision string    `json:"revision"`
	Results  []*Result `json:"rules"`
}

// add adds a result, which is also given to each.
func (r *Report) add(x *Result, each func(*Result)) {
	r.Results = append(r.Results, x)
	each(x)
}

// Count is the number of results for which is is true.
func (r *Report) Count(is func(x *Result) bool) (n int) {
	for _, x := range r.Results {
		if is(x) {
			n++
		}
	}
	return n
}

// Summary counts the verdicts.
func (r *Report) Summary() string {
	parts := []string{fmt.Sprint(len(r.Results), " rules")}
	for _, verdict := range []string{Pass, Fail, NotAsked, Unexercised} {
		parts = append(parts, fmt.Sprint(r.Count(func(x *Result) bool { return x.Verdict == verdict }), " ", verdict))
	}
	parts = append(parts, fmt.Sprint(r.Count((*Result).Breaks), " break the run"))
	return strings.Join(parts, ", ")
}

// WriteJSON writes the report.
func (r *Report) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

// junit is the report for CI. What makes the run fail is a failure. Other failures are passed, with
// the text in system-out, and known ones are skipped.
var junit = template.Must(template.New("junit").Parse(`<?xml version="1.0" encoding="UTF-8"?>
<testsuite name="agentd check {{.URL | html}}" tests="{{len .Results}}">
{{- range .Results}}
<testcase classname="{{.Level}}" name="{{.ID}}">
{{- if .Breaks}}<failure message="{{if .Stale}}stale: {{end}}{{.Seen | html}}">{{.Curl | html}}</failure>
{{- else if .Known}}<skipped message="known: {{.Known | html}}"/>
{{- else if eq .Verdict "fail"}}<system-out>{{.Seen | html}} {{.Curl | html}}</system-out>
{{- else if ne .Verdict "pass"}}<skipped message="{{.Verdict}}: {{.Seen | html}}"/>{{end -}}
</testcase>
{{- end}}
</testsuite>
`))

// WriteJUnit writes the report in JUnit's format.
func (r *Report) WriteJUnit(w io.Writer) error { return junit.Execute(w, r) }
