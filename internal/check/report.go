package check

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"strings"
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

// Report is the result of a run.
type Report struct {
	URL      string   `json:"url"`
	Revision string   `json:"revision"`
	Results  []Result `json:"rules"`
}

// Broken is the number of MUST rules that failed unexpectedly, and of stale expectations.
func (r *Report) Broken() (failed, stale int) {
	for i := range r.Results {
		switch x := &r.Results[i]; {
		case x.Stale:
			stale++
		case x.Verdict == Fail && x.Level == Must && x.Known == "":
			failed++
		}
	}
	return failed, stale
}

// Line is the result for people, in one line; that of a failure has a second one that repeats it.
func (x *Result) Line() string {
	verdict, seen := x.Verdict, x.Seen
	switch {
	case x.Stale:
		verdict, seen = "stale", "it is a known failure, but: "+x.Verdict
	case x.Verdict == "":
		verdict, seen = x.Level, x.About
	case x.Known != "":
		seen += " (known: " + x.Known + ")"
	}
	line := fmt.Sprintf("%-14s %-6s %-32s %-3s %s\n", verdict, x.Level, x.ID, x.Section, seen)
	if x.Verdict == "" {
		line = fmt.Sprintf("%-6s %-32s %-3s %s\n", x.Level, x.ID, x.Section, seen)
	}
	if x.Curl != "" && x.Known == "" {
		line += strings.Repeat(" ", 15) + x.Curl + "\n"
	}
	return line
}

// Summary counts the verdicts.
func (r *Report) Summary() string {
	counts := map[string]int{}
	for i := range r.Results {
		x := &r.Results[i]
		counts[x.Verdict]++
		if x.Verdict == Fail {
			counts[x.Level]++
		}
	}
	failed, stale := r.Broken()
	return fmt.Sprintf("%d rules: %d pass, %d fail (must %d, should %d, may %d), %d not applicable, %d never exercised; %d unexpected failures of must, %d stale",
		len(r.Results), counts[Pass], counts[Fail], counts[Must], counts[Should], counts[May], counts[NotAsked], counts[Unexercised], failed, stale)
}

// WriteJSON writes the report.
func (r *Report) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

// Elements of JUnit's format.
type (
	junitSuite struct {
		XMLName  xml.Name `xml:"testsuite"`
		Name     string   `xml:"name,attr"`
		Tests    int      `xml:"tests,attr"`
		Failures int      `xml:"failures,attr"`
		Skipped  int      `xml:"skipped,attr"`
		Cases    []junitCase
	}
	junitCase struct {
		XMLName xml.Name   `xml:"testcase"`
		Class   string     `xml:"classname,attr"`
		Name    string     `xml:"name,attr"`
		Failure *junitNote `xml:"failure"`
		Skipped *junitNote `xml:"skipped"`
		Out     string     `xml:"system-out,omitempty"`
	}
	junitNote struct {
		Message string `xml:"message,attr"`
		Text    string `xml:",chardata"`
	}
)

// WriteJUnit writes the report for CI. What makes the run fail is a failure. Other failures are
// passed with the text in system-out, and known ones are skipped.
func (r *Report) WriteJUnit(w io.Writer) error {
	suite := junitSuite{Name: "agentd check " + r.URL, Tests: len(r.Results)}
	for i := range r.Results {
		x := &r.Results[i]
		c := junitCase{Class: x.Level, Name: x.ID}
		note := &junitNote{Message: x.Seen, Text: x.Curl}
		switch {
		case x.Stale:
			c.Failure = &junitNote{Message: "stale: " + x.Known, Text: x.Seen}
		case x.Verdict == Fail && x.Known != "":
			c.Skipped = &junitNote{Message: "known: " + x.Known, Text: x.Seen}
		case x.Verdict == Fail && x.Level == Must:
			c.Failure = note
		case x.Verdict == Fail:
			c.Out = "fail: " + x.Seen + "\n" + x.Curl
		case x.Verdict != Pass:
			c.Skipped = &junitNote{Message: x.Verdict + ": " + x.Seen}
		}
		if c.Failure != nil {
			suite.Failures++
		}
		if c.Skipped != nil {
			suite.Skipped++
		}
		suite.Cases = append(suite.Cases, c)
	}
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	e := xml.NewEncoder(w)
	e.Indent("", "  ")
	return e.Encode(suite)
}
