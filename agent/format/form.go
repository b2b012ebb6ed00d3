package format

import (
	"fmt"
	"slices"
	"unicode/utf8"

	"agentd/agent/internal/gbnf"
	"agentd/agent/tools"
)

// Forms of calls in an answer. Small models often write the right call without the format's marks.
const (
	FormNative = "native" // the format's own form
	FormBare   = "bare"   // JSON without the format's marks
	FormFenced = "fenced" // JSON in a fence of Markdown
	FormNamed  = "named"  // name({...}), or name(key=value)
)

// Forms lists all forms of calls.
var Forms = []string{FormNative, FormBare, FormFenced, FormNamed}

const (
	fence        = "```"
	functionOpen = "<function="
	toolsOpen    = "<tools>" // marks of the tools in prompts, which models that call in JSON also put around calls
	toolsClose   = "</tools>"
)

// otherForms has the grammar of the parts of calls in forms other than the format's own.
type otherForms struct {
	object string   // expression of a call as a JSON object, after its opening brace
	starts []string // beginnings of such objects, up to the quote before the tool's name
	args   []string // rules of the tools' arguments with the robot; empty without FormNamed
}

// addForms adds rules of calls in other forms. It returns the expression of answers; calls is that in the own form.
//
//	bare   ::= bare-call ("\n" bare-call)* | list
//	fenced ::= "```" word "\n" (bare-call | list) "\n```"; for such a model also "<tools>" (bare-call | list) "</tools>"
//	named  ::= named-call ("\n" named-call)*
//
// A model that writes bare JSON ends after one object, and continues only within a list. So if several calls are
// possible, such a model must write lists. No reply may begin like a call.
func (r rules) addForms(g *gbnf.Grammar, c *Catalog, reply *gbnf.Text, calls string, o otherForms) string {
	if c.plain {
		return either(c.Set, calls, "reply")
	}
	more := r.most(c.Set) - 1
	begin, end, next := r.unit(c.Set, gbnf.UnitBegin), r.unit(c.Set, gbnf.UnitEnd), r.unit(c.Set, gbnf.UnitNext)
	g.Add("gap", `"\n"? [ ]{0,8}`)
	g.Add("bare-call", begin+gbnf.Literal("{")+" gap "+o.object)
	list := fmt.Sprintf(`"[" gap bare-call ( %s"," gap bare-call ){0,%d} gap "]"`, next, more)
	bare, objects := fmt.Sprintf(`bare-call ( %s"\n" bare-call ){0,%d} | %s`, next, more, list), "bare-call | "+list
	lists := more > 0 && r.inJSON()
	if lists {
		bare, objects = list, list
	}
	g.Add("bare", bare)
	fenced := gbnf.Literal(fence) + ` [a-zA-Z0-9_+. -]{0,16} "\n" gap ( ` + objects + ` ) "\n"? ` + gbnf.Literal(fence)
	if r.inJSON() && c.CallBegin == callOpen {
		fenced += " | " + gbnf.Literal(toolsOpen) + " gap ( " + objects + " ) gap " + gbnf.Literal(toolsClose)
	}
	g.Add("fenced", fenced)
	forms := []string{FormBare, FormFenced}
	beyondASCII := func(t tools.Tool) bool { return t.Name[0] >= utf8.RuneSelf }
	if len(o.args) > 0 && (begin == "" || !slices.ContainsFunc(c.Set.Tools, beyondASCII)) { // see gbnf.UnitBegin
		named := make([]string, len(o.args))
		for i, args := range o.args {
			named[i] = begin + gbnf.Literal(c.Set.Tools[i].Name+"(") + " " + args
		}
		g.Add("named-call", gbnf.Alternatives(named)+" "+end+`")"`)
		g.Add("named", fmt.Sprintf(`named-call ( %s"\n" named-call ){0,%d}`, next, more))
		forms = append(forms, FormNamed)
	}
	own := calls
	if slices.Contains(forms, r.form) {
		own = r.form
	}
	if c.Set.MustCall {
		return own
	}
	reply.NotBegin = r.startsOf(c.Set, o, lists)
	c.starts = reply.NotBegin
	if c.Set.Answer != nil { // a model that begins a value like a call in another form would have to end it so
		forms, calls = nil, own
	}
	if calls != "" {
		forms = append(forms, calls)
	}
	return gbnf.Alternatives(append(forms, "reply"))
}

// startsOf returns the beginnings of calls in other forms. A model that writes bare JSON sometimes appends to the name
// of a tool, as in go_to_kitchen. For such a model the beginning does not include the quote after the name.
func (r rules) startsOf(set *tools.Set, o otherForms, lists bool) *gbnf.Starts {
	s, nameEnd, inFence := new(gbnf.Starts), `"`, fence+gbnf.Word+"\n"+gbnf.Gap
	if r.inJSON() {
		nameEnd = ""
	}
	if lists { // else the model would begin a call so, and could not end it
		// Without { a model wrote "name": 'ls' or name: ls in a fence, or a fence in it.
		for _, start := range []string{"{", `"name"`, inFence + "{", inFence + `"`, inFence + "'", inFence + "name:", inFence + fence} {
			s.Add(start)
		}
	}
	for i := range set.Tools {
		if len(o.args) > 0 {
			s.Add(set.Tools[i].Name + "(")
		}
		for _, before := range []string{"", inFence} {
			for _, start := range o.starts {
				object := "{" + gbnf.Gap + start + jsonText(set.Tools[i].Name) + nameEnd
				if !lists {
					s.Add(before + object)
				}
				s.Add(before + "[" + gbnf.Gap + object)
			}
		}
	}
	if lists && len(set.Tools) > 0 { // a fence of JSON has a list of objects
		s.After(fence, "json", "[", "{]")
	}
	return s
}

const targetRobotName = "target_robot_name" // the protocol's name for the robot of a call

// nameStart is the beginning of a call in JSON, up to and with the quote before its name.
const nameStart = `"name"` + gbnf.Gap + ":" + gbnf.Gap + `"`
