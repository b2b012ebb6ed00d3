package format

import (
	"fmt"

	"agentd/agent/internal/gbnf"
	"agentd/agent/internal/schema"
	"agentd/agent/tools"
	"agentd/protocol"
)

// addArguments adds the rules of a tool's arguments and returns the name of their root. robot is the rule of the
// robot's parameter, "" for none. Arguments whose rules exceed g.Share are widened to any object.
func addArguments(g *gbnf.Grammar, tool *tools.Tool, robot string) (string, error) {
	o := schema.Options{Object: true}
	if robot != "" {
		o.Extra = []schema.Extra{{Name: tool.RobotParam, Rule: robot}}
	}
	root := ""
	fits, err := g.Try(func() (err error) {
		root, err = tool.Document.Add(g, o)
		return err
	})
	switch {
	case err != nil:
		return "", unusable(tool, err)
	case fits:
		return root, nil
	case robot == "":
		return g.JSON(gbnf.AnyObject), nil
	}
	others := g.Seq().Text("(").Text(g.JSON(gbnf.AnyPair)).Comma().Text(")*").String()
	return g.Rule(g.Seq().Open("{").Text(others).Literal(string(protocol.String(tool.RobotParam))).Colon().Text(robot).Close("}").String()), nil
}

func unusable(tool *tools.Tool, err error) error {
	return fmt.Errorf("the parameters of %s can't be made a grammar: %w", tool.Name, err)
}

// How many calls of a decision may go to the same robot.
const (
	CallsOne = "one" // an output with a second one is invalid
	CallsAny = "any"
)

// rules are the settings for decisions that all formats share.
type rules struct {
	mixed string // MixedReject or MixedTools
	once  bool   // one call for each robot
	form  string // see Format.CallForm
	next  string // text between a call's name and its arguments in JSON
}

// inJSON reports whether the model calls in JSON of its own.
func (r rules) inJSON() bool { return r.form == FormBare || r.form == FormFenced }

// spacing returns the white space that calls admit: the format's, or free where a model calls in JSON of its own. Such
// models indent; on one line each argument would follow a text that they don't write.
func (r rules) spacing(format gbnf.Spacing) gbnf.Spacing {
	if r.inJSON() {
		return gbnf.LinesSpacing
	}
	return format
}

// most returns the most calls of a constrained answer. If each robot may be called once, that is
// the number of robots, so that every call that begins can name a free one.
func (r rules) most(set *tools.Set) int {
	// Small models give calls of unknown robots the same name, which is then an error.
	if set.OneCall || r.once && len(set.Robots) == 0 && !set.Chat && r.inJSON() {
		return 1
	}
	if r.once && len(set.Robots) > 0 {
		return min(maxCalls, len(set.Robots))
	}
	return maxCalls
}

// introduced returns the expression of calls that may follow a text: in a chat, whose answers may have both, and where
// the text is dropped. Elsewhere it is "".
func (r rules) introduced(set *tools.Set, calls string) string {
	if len(set.Tools) == 0 || set.MustCall || !set.Chat && r.mixed != MixedTools {
		return ""
	}
	return " ( " + calls + " )?"
}

// unit returns a mark such as gbnf.UnitBegin, which excludes equal calls. It is "" if each known robot may be called
// once, since then no two calls can be equal.
func (r rules) unit(set *tools.Set, mark string) string {
	if r.once && !set.Chat && len(set.Robots) > 0 {
		return ""
	}
	return mark + " "
}

// addRobot adds the rule of a call's robot and returns its name, "" in a chat. It admits the known robots, as write
// spells them, without any a nonempty string. If a robot may be called once, a mark precedes its name. Robots
// beyond the number of marks have none, and the check decides.
func (r rules) addRobot(g *gbnf.Grammar, set *tools.Set, write func(name string) string) string {
	if set.Chat {
		return ""
	}
	if len(set.Robots) == 0 {
		return g.Rule(`"\"" ` + g.JSON(gbnf.AnyChar) + `+ "\""`)
	}
	list := make([]string, len(set.Robots))
	for i, robot := range set.Robots {
		list[i] = gbnf.Literal(write(robot))
		if r.once && i < gbnf.MaxMarks {
			list[i] = gbnf.Mark(i) + " " + list[i]
		}
	}
	return g.Rule(gbnf.Alternatives(list))
}

// either returns the expression of an answer: calls, or a reply unless a call is required.
func either(set *tools.Set, calls, reply string) string {
	if set.MustCall {
		return calls
	}
	return "( " + calls + " | " + reply + " )"
}

func jsonString(name string) string { return string(protocol.String(name)) }
