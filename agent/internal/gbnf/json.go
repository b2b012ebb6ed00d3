package gbnf

import (
	"fmt"
	"strings"
)

// Spacing is the white space between the tokens of JSON values.
type Spacing int

const (
	// AnySpacing admits one space or none between most tokens.
	AnySpacing Spacing = iota
	// DumpsSpacing is the spacing of Python's json.dumps: one space after each colon and comma.
	DumpsSpacing
	// LinesSpacing also admits a line break with indentation, as models write JSON in fences.
	LinesSpacing
)

// spaceRules are the white space between JSON tokens, where it is free: a model that may write more may never stop.
var spaceRules = map[Spacing]string{AnySpacing: `" "?`, LinesSpacing: `( "\n" [ ]{0,24} | " " )?`}

// Space returns the name of the rule for this white space, or "" where it is fixed.
func (g *Grammar) Space() string {
	if body, free := spaceRules[g.Spacing]; free {
		g.Add("space", body)
		return "space"
	}
	return ""
}

// JSONChar is the body of a rule for one character of a JSON string; it excludes lone surrogates.
const JSONChar = `[^"\\\x7F\x00-\x1F] | [\\] (["\\bfnrt] | "u" ([0-9a-cA-Ce-fE-F] [0-9a-fA-F] [0-9a-fA-F] [0-9a-fA-F]` +
	` | [dD] [0-7] [0-9a-fA-F] [0-9a-fA-F]))`

// Names of the rules for JSON values of any kind. A grammar has each at most once.
const (
	AnyValue   = "value"
	AnyObject  = "object"
	AnyPair    = "pair" // a member of an object
	AnyArray   = "array"
	AnyString  = "string"
	AnyNumber  = "number"
	AnyInteger = "integer"
	AnyChar    = "char"
)

// JSON adds the rule of that name for any JSON, and those that it needs, and returns the name. Numbers fit a float64.
func (g *Grammar) JSON(name string) string {
	if _, ok := g.bodies[name]; ok {
		return name
	}
	switch name {
	case AnyChar:
		g.Add(name, JSONChar)
	case AnyString:
		g.Add(name, `"\"" `+g.JSON(AnyChar)+`* "\""`)
	case AnyInteger:
		g.Add(name, `"-"? integral-part`)
		g.Add("integral-part", `[0] | [1-9] [0-9]{0,31}`)
	case AnyNumber:
		g.Add(name, g.JSON(AnyInteger)+` ("." [0-9]{1,32})? ([eE] [-+]? [0-9] [0-9]?)?`)
	case AnyArray:
		g.Add(name, g.Seq().Open("[").Text("(").Text(AnyValue).Text("(").Comma().Text(AnyValue).Text(")*").Text(")?").Close("]").String())
		g.JSON(AnyValue)
	case AnyPair:
		g.Add(name, g.Seq().Text(g.JSON(AnyString)).Colon().Text(AnyValue).String())
		g.JSON(AnyValue)
	case AnyObject:
		g.Add(name, g.Seq().Open("{").Text("( pair").Text("(").Comma().Text("pair").Text(")*").Text(")?").Close("}").String())
		g.JSON(AnyPair)
	case AnyValue:
		g.Add(name, "object | array | string | number | ( \"true\" | \"false\" ) | \"null\"")
		for _, part := range []string{AnyObject, AnyArray, AnyString, AnyNumber} {
			g.JSON(part)
		}
	}
	return name
}

// Rule returns the name of a rule with this body, and adds it if there is none.
func (g *Grammar) Rule(body string) string {
	if name, ok := g.named[body]; ok {
		return name
	}
	name := g.Fresh()
	g.Add(name, body)
	g.named[body] = name
	g.shared = append(g.shared, body)
	return name
}

// Once calls body at the first use of a key, and returns that result at every use.
func (g *Grammar) Once(key string, body func() string) string {
	if _, ok := g.once[key]; !ok {
		g.once[key] = body()
		g.keys = append(g.keys, key)
	}
	return g.once[key]
}

// Fresh returns an unused name.
func (g *Grammar) Fresh() string {
	g.fresh++
	return fmt.Sprintf("r%d", g.fresh)
}

// Seq builds a rule's body as a sequence. Adjacent literals become one.
type Seq struct {
	g       *Grammar
	parts   []string
	literal strings.Builder
}

// Seq returns an empty sequence.
func (g *Grammar) Seq() *Seq { return &Seq{g: g} }

func (s *Seq) flush() {
	if s.literal.Len() > 0 {
		s.parts = append(s.parts, Literal(s.literal.String()))
		s.literal.Reset()
	}
}

// Literal appends a literal that matches text.
func (s *Seq) Literal(text string) *Seq {
	s.literal.WriteString(text)
	return s
}

// Text appends a part in GBNF, such as the name of a rule.
func (s *Seq) Text(part string) *Seq {
	s.flush()
	s.parts = append(s.parts, part)
	return s
}

func (s *Seq) space() *Seq {
	if space := s.g.Space(); space != "" {
		s.Text(space)
	}
	return s
}

// Open appends the bracket that opens an object or a list.
func (s *Seq) Open(bracket string) *Seq { return s.Literal(bracket).space() }

// Close appends the bracket that closes an object or a list.
func (s *Seq) Close(bracket string) *Seq { return s.space().Literal(bracket) }

// CloseUnit appends a mark and the closing bracket.
func (s *Seq) CloseUnit(mark, bracket string) *Seq { return s.space().Text(mark).Literal(bracket) }

// Comma appends the separator of members or elements.
func (s *Seq) Comma() *Seq {
	if s.g.Spacing == DumpsSpacing {
		return s.Literal(", ")
	}
	return s.Literal(",").space()
}

// Colon appends the separator of a name and its value.
func (s *Seq) Colon() *Seq {
	if s.g.Spacing == DumpsSpacing {
		return s.Literal(": ")
	}
	if s.g.Spacing == AnySpacing {
		s.space()
	}
	return s.Literal(":").space()
}

// String returns the body.
func (s *Seq) String() string {
	s.flush()
	return strings.Join(s.parts, " ")
}
