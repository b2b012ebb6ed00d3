package household

import (
	_ "embed" // for the chat template
	"math/rand/v2"
	"slices"

	"agentd/protocol"
)

// ChatTemplate is the model's chat template: ChatML with tool calls in JSON, without
// thinking.
//
//go:embed chat_template.jinja
var ChatTemplate string

// Options of episodes.
type Options struct {
	Split     Split
	ToolNames ToolNames
	Reports   Reports
	Plain     bool // as few made-up names as possible, for people to read
	Lesson    bool // small houses and short tasks with all details: what a model learns from first
	Busy      bool // several robots, and more tasks for all of them at once: what a model learns last
}

// Streams separate the random numbers of different purposes and splits.
const (
	streamGroup   = 0x67726f7570
	streamEpisode = 0x657069
	streamReports = 0x726570
	streamSplit   = 1 << 48
)

// Group is shared by several episodes: the plan of the house, the robots, the tools, and
// the agent's initial knowledge. Their prompts share a prefix.
type Group struct {
	seed    uint64
	options Options
	plan    *plan
	tools   *toolbox
	raw     []protocol.Raw
	brief   briefing
	bare    bool // the attributes have no known_robots
}

// Chances of what simulations leave out, in percent.
const (
	fewTools  = 12
	bare      = 8
	bareOfFew = 40 // where there are few tools
)

// briefing is the way in which the agent learns the plan of the house, if at all.
type briefing int

const (
	briefNot briefing = iota
	briefSummary
	briefStatus
)

// NewGroup makes the group of a seed.
func NewGroup(seed uint64, o Options) *Group {
	r := rand.New(rand.NewPCG(seed, streamGroup+uint64(o.Split)*streamSplit))
	g := &Group{seed: seed, options: o, plan: newPlan(r, o)}
	g.tools = newToolbox(r, o)
	g.raw = g.tools.raw()
	g.brief = oneOf(r, []briefing{briefNot, briefNot, briefSummary, briefSummary, briefStatus})
	if o.Lesson {
		g.brief = briefNot
	}
	if r := rand.New(rand.NewPCG(seed, streamReports+uint64(o.Split)*streamSplit)); !o.Lesson && !o.Plain {
		unnamed := bare
		if r.IntN(100) < fewTools {
			g.tools.cut(r)
			g.raw, unnamed = g.tools.raw(), bareOfFew
		}
		g.bare = r.IntN(100) < unnamed
	}
	return g
}

// Episode is the conversation with that index in the group.
func (g *Group) Episode(index int) *Episode {
	stream := uint64(index)<<24 + uint64(g.options.Split)*streamSplit
	r := rand.New(rand.NewPCG(g.seed, streamEpisode+stream))
	e := &Episode{
		group: g, index: index, house: newHouse(g.plan, r), known: newKnowledge(g.plan.robots), rand: r,
		voice: &speaker{rand: r, split: g.options.Split}, memory: protocol.Raw("{}"),
		wanted:  minDecisions + r.IntN(maxWanted-minDecisions+1),
		reports: newReporter(rand.New(rand.NewPCG(g.seed, streamReports+1+stream)), g.options),
	}
	if g.options.Lesson {
		e.wanted = minDecisions
	}
	e.start()
	return e
}

// New is the first episode of the group of a seed.
func New(seed uint64, o Options) *Episode { return NewGroup(seed, o).Episode(0) }

// Lengths of episodes. No task begins after the target number of decisions, and no
// decision is taken after MaxDecisions.
const (
	minDecisions = 2
	maxWanted    = 10
	// MaxDecisions bounds the decisions of an episode.
	MaxDecisions = 48
)

// Episode is one conversation between people, a house and an agent.
type Episode struct {
	group *Group
	index int
	house *house
	known *knowledge
	rand  *rand.Rand
	voice *speaker

	reports *reporter
	failed  bool // the instruction reports a failure

	memory      protocol.Raw
	instruction protocol.AgentInstruction
	goals       []*goal
	next        decision
	wanted      int
	score       Score
	done        bool
	past        []protocol.AgentDecision
	steps       int // decisions of the present task
}

// Score counts what happened in an episode.
type Score struct {
	Decisions int // taken
	Right     int // of them, as the planner takes them
	Tasks     int // that ended
	Finished  int // of them, with the right reply
}

// Score of the episode so far.
func (e *Episode) Score() Score { return e.score }

// Done reports whether the conversation is over.
func (e *Episode) Done() bool { return e.done }

// Input is the agent's next input.
func (e *Episode) Input() protocol.AgentInput {
	attributes := protocol.Raw("{}")
	if !e.group.bare {
		robots := protocol.Raw("[]")
		for _, name := range e.group.plan.robots {
			robots = protocol.AppendElements(robots, protocol.String(name))
		}
		attributes = protocol.AppendMember(attributes, "known_robots", robots)
	}
	return protocol.AgentInput{
		ID: 1, Instruction: e.instruction, Tools: e.group.raw, NumOutputs: 1, Memory: e.memory,
		Attributes: attributes,
		ExtraKeys:  protocol.Raw(`{"inference_mode":true}`),
	}
}

// Expected is the one right decision.
func (e *Episode) Expected() protocol.AgentDecision {
	d := protocol.AgentDecision{Say: e.next.say}
	for _, a := range e.next.actions {
		d.ToolCalls = append(d.ToolCalls, e.group.tools.call(a))
	}
	return d
}

// Apply carries out a decision, right or wrong, stores the agent's memory, and makes the
// next input. It reports whether the conversation is over.
func (e *Episode) Apply(d protocol.AgentDecision, memory protocol.Raw) (done bool) {
	if e.done {
		return true
	}
	e.memory = memory
	e.past = append(e.past, d)
	e.steps++
	e.score.Decisions++
	right := Same(d, e.Expected())
	if right {
		e.score.Right++
	}
	switch {
	case len(d.ToolCalls) > 0:
		e.reopen(d.ToolCalls)
		e.execute(d.ToolCalls)
	case right && e.next.asks != "":
		e.reply()
	default:
		e.score.Tasks++
		if right {
			e.score.Finished++
		}
		if e.score.Decisions >= e.wanted {
			e.done = true
			return true
		}
		e.steps = 0
		e.newTask()
	}
	e.done = e.score.Decisions >= MaxDecisions
	e.plan()
	return e.done
}

// plan finds the right decision.
func (e *Episode) plan() { e.next = decide(e.known, e.goals, e.group.tools.can) }

// execute carries out calls and joins their reports.
func (e *Episode) execute(calls []protocol.ToolCall) {
	all := &news{}
	var reports []string
	for _, c := range calls {
		var n *news
		a, err := e.group.tools.action(c)
		if err != nil {
			n = &news{text: c.TargetRobotName + ":"}
			n.fail("%s", err.Error())
		} else {
			n = e.house.do(a)
		}
		e.reports.reword(n, e.known, a, c.Name, len(calls) > 1)
		reports = append(reports, n.text)
		all.learn = append(all.learn, n.learn...)
		all.why += n.why
	}
	all.text = e.reports.join(reports)
	e.instruct(protocol.InstructionEnv, all)
}

// instruct makes a text the next instruction.
func (e *Episode) instruct(author string, n *news) {
	e.known.learn(n)
	e.failed = n.why != ""
	e.instruction = protocol.AgentInstruction{Type: author, Content: n.text}
}

// Reward of a decision at this point: 1 if it is right. Otherwise it is the share of right calls
// in all calls that it makes, or in all that it should make if these are more.
func (e *Episode) Reward(d protocol.AgentDecision) float64 {
	want := e.Expected()
	if Same(d, want) {
		return 1
	}
	right := 0
	for _, w := range want.ToolCalls {
		if slices.ContainsFunc(d.ToolCalls, func(c protocol.ToolCall) bool {
			return w.TargetRobotName == c.TargetRobotName && sameCall(w, c)
		}) {
			right++
		}
	}
	return float64(right) / float64(max(1, len(want.ToolCalls), len(d.ToolCalls)))
}

// Same reports whether two decisions are the same. The order of calls to
// different robots does not matter.
func Same(a, b protocol.AgentDecision) bool { return a.Say == b.Say && SameCalls(a, b) }

// SameCalls is Same for the calls alone: two replies without a call are equal, whatever they say.
func SameCalls(a, b protocol.AgentDecision) bool {
	if len(a.ToolCalls) != len(b.ToolCalls) {
		return false
	}
	used := make([]bool, len(b.ToolCalls))
calls:
	for _, c := range a.ToolCalls {
		for i, d := range b.ToolCalls {
			if !used[i] && c.TargetRobotName == d.TargetRobotName {
				used[i] = true
				if !sameCall(c, d) {
					return false
				}
				continue calls
			}
		}
		return false
	}
	return true
}

func sameCall(a, b protocol.ToolCall) bool {
	return a.Name == b.Name && canonical(a.Arguments) == canonical(b.Arguments)
}

func canonical(v protocol.Raw) string {
	c := v.Clone()
	if err := c.Canonicalize(); err != nil {
		return string(v)
	}
	return string(c)
}
