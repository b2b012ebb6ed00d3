// Package tools normalises the tools of an input. Their descriptions, in several notations, become JSON Schemas
// for prompt, grammar and check. Every tool gets a parameter for the robot that executes a call.
package tools

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"agentd/agent/internal/rawjson"
	"agentd/agent/internal/schema"
	"agentd/agent/internal/tree"
	"agentd/protocol"
)

// RobotParameter is the name of the robot parameter, unless a tool has a parameter of that name.
const RobotParameter = "target_robot"

// Call is one tool call. The robot is not among its arguments.
type Call = protocol.ToolCall

// Property is one parameter of a tool, in the order of the declaration.
type Property struct {
	Name     string
	Schema   protocol.Raw // its JSON Schema
	Required bool
}

// Tool is a normalised tool. It is immutable.
type Tool struct {
	Name        string
	Description string
	// Schema is a JSON Schema with all arguments under properties. The check uses Document instead.
	Schema     protocol.Raw
	Prompted   *tree.Value // Schema with the robot parameter, for the prompt
	Properties []Property  // of Prompted, the robot parameter last
	RobotParam string      // name of the robot parameter; "" in a chat

	Document *schema.Document // the client's schema of the arguments, without the robot, for check and grammar
}

// Set is the tools of one input. It is immutable, and safe for concurrent use.
type Set struct {
	Tools        []Tool
	Robots       []string // the known robots; empty if the attributes name none
	DefaultRobot string   // the target of a call without a robot

	Chat                      bool // the tools are functions of a chat; RobotParam and Call.TargetRobotName are ""
	MustCall, OneCall, MayEnd bool // see Functions

	Answer *schema.Document // of answers other than calls, in a chat; nil for any text

	index map[string]int
}

// Functions are the tools of a chat.
type Functions struct {
	Raw      []protocol.Raw // {"name", "description", "parameters"}
	Only     []string       // names of the functions that may be called; none: all may
	MustCall bool           // every answer is a call
	OneCall  bool           // an answer has at most one call
	NoCall   bool           // the prompt shows the functions, but no answer is a call
	MayEnd   bool           // an answer may be empty: it follows the result of a call
}

// Find returns the tool of that name.
func (s *Set) Find(name string) (*Tool, bool) {
	i, ok := s.index[name]
	if !ok {
		return nil, false
	}
	return &s.Tools[i], true
}

// Names returns the names of the tools in their order.
func (s *Set) Names() []string {
	names := make([]string, len(s.Tools))
	for i := range s.Tools {
		names[i] = s.Tools[i].Name
	}
	return names
}

// KnownRobots returns attributes.known_robots without duplicates and empty strings, nil if it is not a list of strings.
func KnownRobots(attributes protocol.Raw) []string {
	raw, _ := protocol.Get(attributes, "known_robots")
	robots, _ := rawjson.Strings(raw) // none of any other value
	seen := make(map[string]bool, len(robots))
	return slices.DeleteFunc(robots, func(r string) bool {
		drop := r == "" || seen[r]
		seen[r] = true
		return drop
	})
}

// Normalise makes the set of an input's raw tools. robots are the KnownRobots; if there is
// exactly one, it replaces defaultRobot. The error names the unusable tool.
func Normalise(raw []protocol.Raw, robots []string, defaultRobot string) (*Set, error) {
	if len(raw) > 0 {
		if err := checkRobots(robots, len(raw)); err != nil {
			return nil, err
		}
	}
	set := &Set{Robots: robots, DefaultRobot: defaultRobot}
	if len(robots) == 1 {
		set.DefaultRobot = robots[0]
	}
	if err := set.add(raw); err != nil {
		return nil, err
	}
	return set, nil
}

// NormaliseFunctions makes the set of a chat's functions, like Normalise. f.Only must have names of functions.
func NormaliseFunctions(f *Functions) (*Set, error) {
	set := &Set{Chat: true, MustCall: f.MustCall, OneCall: f.OneCall, MayEnd: f.MayEnd}
	if err := set.add(f.Raw); err != nil {
		return nil, err
	}
	if len(f.Only) > 0 {
		set.Tools = slices.DeleteFunc(set.Tools, func(t Tool) bool { return !slices.Contains(f.Only, t.Name) })
		set.index = make(map[string]int, len(set.Tools))
		for i := range set.Tools {
			set.index[set.Tools[i].Name] = i
		}
	}
	return set, nil
}

func (s *Set) add(raw []protocol.Raw) error {
	if len(raw) > MaxTools {
		return fmt.Errorf("%d tools, but at most %d are possible", len(raw), MaxTools)
	}
	if n := Subschemas(raw); n > MaxSetSubschemas {
		return fmt.Errorf("the tools hold %d schemas together, but at most %d are possible", n, MaxSetSubschemas)
	}
	s.index = make(map[string]int, len(raw))
	for i, r := range raw {
		tool, err := s.normaliseTool(r)
		if err != nil {
			return fmt.Errorf("tools[%d]: %w", i, err)
		}
		if j, ok := s.index[tool.Name]; ok {
			return fmt.Errorf("tools[%d]: the name %q is already that of tools[%d]", i, tool.Name, j)
		}
		s.index[tool.Name] = i
		s.Tools = append(s.Tools, tool)
	}
	return nil
}

// Bytes returns the bytes of the tools' JSON in a prompt.
func (s *Set) Bytes() (n int) {
	for i := range s.Tools {
		n += len(s.Tools[i].Prompted.Raw())
	}
	return n
}

// Subschemas returns an upper bound of the number of schemas in the tools; Normalise's cost is proportional.
func Subschemas(raw []protocol.Raw) (n int) {
	for _, r := range raw {
		n += subschemas(r)
	}
	return n
}

func checkRobots(robots []string, tools int) error {
	size := 0
	for _, r := range robots {
		size += len(r)
	}
	if len(robots) > MaxRobots || size > MaxRobotBytes {
		return fmt.Errorf("known_robots has %d names of %d bytes together, but at most %d and %d bytes are possible",
			len(robots), size, MaxRobots, MaxRobotBytes)
	}
	if copies := tools * len(rawjson.AppendStrings(nil, robots)); copies > MaxRobotCopies {
		return fmt.Errorf("known_robots has %d names, which each of the %d tools repeats to the model: %d bytes, but at most %d are possible; send fewer robots or fewer tools",
			len(robots), tools, copies, MaxRobotCopies)
	}
	return nil
}

func (s *Set) normaliseTool(raw protocol.Raw) (Tool, error) {
	var t Tool
	if len(raw) > MaxToolBytes {
		return t, fmt.Errorf("it has %d bytes, but at most %d are possible", len(raw), MaxToolBytes)
	}
	var parameters, arguments, optional, function protocol.Raw
	for name, value := range protocol.Members(raw) {
		switch name {
		case "name":
			t.Name, _ = rawjson.String(value)
		case "description":
			t.Description, _ = rawjson.String(value) // any other value says nothing to a model
		case "parameters":
			parameters = value
		case "arguments", "inputSchema", "input_schema": // MCP's and Anthropic's words among them
			arguments = value
		case "optional":
			optional = value
		case "function":
			function = value
		}
	}
	if t.Name == "" && function.Kind() == '{' {
		return t, fmt.Errorf("it is in OpenAI's form; send what this has as function")
	}
	blank := func(r rune) bool { return r < 0x20 || unicode.IsSpace(r) }
	switch {
	case t.Name == "":
		return t, fmt.Errorf("it needs a name, a nonempty string")
	case strings.ContainsAny(t.Name, `<>|"\`) || strings.ContainsFunc(t.Name, blank):
		return t, fmt.Errorf("the name %q has a space, a quote, a backslash or one of < > |", t.Name)
	}
	if parameters == nil || parameters.Kind() == 'n' {
		parameters = arguments
	}
	whole, err := objectSchema(parameters, optional)
	if err != nil {
		return t, fmt.Errorf("%s: %w", t.Name, err)
	}
	if t.Document, err = schema.New(whole); err != nil {
		return t, fmt.Errorf("%s: its parameters are not a usable JSON Schema: %w", t.Name, err)
	}
	flat, err := flatten(whole, t.Document)
	if err != nil {
		return t, fmt.Errorf("%s: %w", t.Name, err)
	}
	if t.Properties, err = properties(flat); err != nil {
		return t, fmt.Errorf("%s: %w", t.Name, err)
	}
	if err = t.Document.Usable(); err != nil {
		return t, fmt.Errorf("%s: its parameters are not a usable JSON Schema: %w", t.Name, err)
	}
	t.Schema = flat.Raw()
	if t.Prompted = flat; !s.Chat {
		t.addRobot(flat, s.Robots)
	}
	return t, nil
}

// FreeRobotParameter returns RobotParameter, executing_robot, executing_robot_2, ...: the first that is not taken.
func FreeRobotParameter(taken func(name string) bool) string {
	name := RobotParameter
	for i := 1; taken(name); i++ {
		name = "executing_robot"
		if i > 1 {
			name = fmt.Sprintf("executing_robot_%d", i)
		}
	}
	return name
}

// addRobot adds the robot parameter after the parameters in flat. It is required.
func (t *Tool) addRobot(flat *tree.Value, robots []string) {
	t.RobotParam = FreeRobotParameter(func(name string) bool {
		return slices.ContainsFunc(t.Properties, func(p Property) bool { return p.Name == name })
	})
	robot := []byte(`{"type":"string","description":"Robot that executes this call."`)
	if len(robots) > 0 {
		robot = append(robot, `,"enum":`...)
		robot = append(rawjson.AppendStrings(robot, robots), '}')
	} else {
		robot = append(robot, `,"minLength":1}`...)
	}
	names, _ := flat.Get("required").Strings()
	properties := flat.Get("properties").With(t.RobotParam, tree.Parse(robot))
	t.Prompted = flat.With("properties", properties).With("required", tree.Strings(append(names, t.RobotParam)))
	t.Properties = append(t.Properties, Property{Name: t.RobotParam, Schema: robot, Required: true})
}
