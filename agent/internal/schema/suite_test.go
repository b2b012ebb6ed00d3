package schema

import (
	"encoding/json"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/agent/internal/gbnf"
	"agentd/agent/internal/gbnf/gbnftest"
	"agentd/protocol"
)

// TestSuite measures the public JSON-Schema-Test-Suite in its own folder
// (AGENTD_SCHEMA_SUITE): of each keyword, how many valid values are admitted and how many
// invalid ones refused, by the grammar alone and with the check. The check must refuse all of those.
func TestSuite(t *testing.T) {
	folder := os.Getenv("AGENTD_SCHEMA_SUITE")
	if folder == "" {
		t.Skip("AGENTD_SCHEMA_SUITE names no folder")
	}
	verbose := os.Getenv("AGENTD_SCHEMA_SUITE_LOST") != ""
	for _, draft := range []string{"draft2020-12", "draft7"} {
		files, err := filepath.Glob(filepath.Join(folder, "tests", draft, "*.json"))
		if err != nil || len(files) == 0 {
			t.Fatalf("no tests of %s, %v", draft, err)
		}
		var all [4]tally
		for _, file := range files {
			var of [4]tally // open grammar, with the check, the grammar of tools, with the check
			for _, group := range readSuite(t, file) {
				if draft == "draft7" && group.Schema[0] == '{' {
					group.Schema = protocol.SetMember(group.Schema, "$schema", protocol.Raw(`"http://json-schema.org/draft-07/schema#"`))
				}
				measure(t, &group, &of, verbose, filepath.Base(file))
			}
			t.Logf("%-12s %-24s %s %s %s %s", draft, strings.TrimSuffix(filepath.Base(file), ".json"), of[0], of[1], of[2], of[3])
			for i := range of {
				all[i].add(of[i])
			}
		}
		t.Logf("%-12s %-24s %s %s %s %s", draft, "all", all[0], all[1], all[2], all[3])
		if checked := all[1]; checked.refused != checked.invalid {
			t.Errorf("%s: the check accepts %d invalid values", draft, checked.invalid-checked.refused)
		}
	}
}

type suiteGroup struct {
	Description string
	Schema      protocol.Raw
	Tests       []struct {
		Description string
		Data        protocol.Raw
		Valid       bool
	}
}

func readSuite(t *testing.T, file string) (groups []suiteGroup) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var raws []struct {
		Description string
		Schema      json.RawMessage
		Tests       []struct {
			Description string
			Data        json.RawMessage
			Valid       bool
		}
	}
	if err := json.Unmarshal(text, &raws); err != nil {
		t.Fatal(err)
	}
	compacted := func(r json.RawMessage) protocol.Raw {
		v := protocol.Raw(r)
		if err := v.Compact(jsontext.AllowInvalidUTF8(true)); err != nil {
			t.Fatal(err)
		}
		return v
	}
	for _, r := range raws {
		g := suiteGroup{Description: r.Description, Schema: compacted(r.Schema)}
		for _, test := range r.Tests {
			g.Tests = append(g.Tests, struct {
				Description string
				Data        protocol.Raw
				Valid       bool
			}{test.Description, compacted(test.Data), test.Valid})
		}
		groups = append(groups, g)
	}
	return groups
}

type tally struct{ valid, admitted, invalid, refused int }

func (a *tally) add(b tally) {
	a.valid, a.admitted, a.invalid, a.refused = a.valid+b.valid, a.admitted+b.admitted, a.invalid+b.invalid, a.refused+b.refused
}

func (a tally) String() string {
	return fmt.Sprintf("%4d/%-4d %4d/%-4d", a.admitted, a.valid, a.refused, a.invalid)
}

func (a *tally) count(valid, admitted bool) {
	if valid {
		a.valid++
		if admitted {
			a.admitted++
		}
		return
	}
	if a.invalid++; !admitted {
		a.refused++
	}
}

func measure(t *testing.T, group *suiteGroup, of *[4]tally, verbose bool, file string) {
	var grammars [2]*gbnftest.Grammar
	document, err := parse(group.Schema)
	for i := range grammars {
		g := gbnf.New(gbnf.DumpsSpacing)
		if err != nil {
			break
		}
		if root, err := document.Add(g, Options{Open: i == 0}); err == nil {
			g.Add("root", root)
			var bad error
			if grammars[i], bad = gbnftest.Parse(g.String()); bad != nil {
				t.Errorf("%s: %v", group.Schema, bad)
			}
		}
	}
	if err == nil {
		err = document.Usable()
	}
	if err != nil && verbose {
		t.Logf("%s: %s: %v", file, group.Description, err)
	}
	for _, test := range group.Tests {
		spelled := canonical(test.Data)
		passes := false
		if err == nil {
			_, bad := document.Validate(test.Data)
			passes = bad == nil
		}
		for i, grammar := range grammars {
			admitted := grammar != nil && slices.ContainsFunc(append(orders(spelled, dumps), orders(test.Data, dumps)...), func(s string) bool { return grammar.Admits("root", s) })
			of[2*i].count(test.Valid, admitted)
			of[2*i+1].count(test.Valid, admitted && passes)
			if verbose && i == 0 && test.Valid && (!admitted || !passes) {
				t.Logf("%s: %s: %s: %.100s: admitted %t, passes %t", file, group.Description, test.Description, test.Data, admitted, passes)
			}
		}
	}
}

// canonical spells numbers and strings as the rules do.
func canonical(v protocol.Raw) protocol.Raw {
	switch v.Kind() {
	case '{':
		out := protocol.Raw("{}")
		for name, value := range protocol.Members(v) {
			out = protocol.SetMember(out, name, canonical(value))
		}
		return out
	case '[':
		var list []protocol.Raw
		for e := range protocol.Elements(v) {
			list = append(list, canonical(e))
		}
		return protocol.AppendElements(nil, list...)
	case '"':
		s, _ := protocol.Text(v)
		return protocol.String(s)
	case '0':
		if x, ok := new(big.Rat).SetString(string(v)); ok {
			digits, _ := x.FloatPrec()
			return protocol.Raw(x.FloatString(digits))
		}
	}
	return v
}
