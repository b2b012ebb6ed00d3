// Package demo runs an agent server in the simulated household and prints every step for
// people.
package demo

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"

	"agentd/household"
	"agentd/protocol"
)

// Options of a demo.
type Options struct {
	Seed    uint64           // of the first house; the next ones follow it
	Tasks   int              // to do
	Colours bool             // with escape sequences for a terminal
	Now     func() time.Time // the clock; nil: time.Now
}

// Summary is the result of a demo.
type Summary struct {
	Tasks, Done int
	Decisions   int
	Asked       time.Duration // spent waiting for decisions
}

// show is a running demo.
type show struct {
	Options
	server household.Server
	out    io.Writer
	sum    Summary
	err    error // of the first write that failed
}

// Play runs tasks one after the other and writes what happens to w. An error is the
// server's or the writer's. Wrong decisions are part of the demo.
func Play(ctx context.Context, w io.Writer, s household.Server, o Options) (Summary, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	d := &show{Options: o, server: s, out: w}
	for house := o.Seed; d.sum.Tasks < o.Tasks; house++ {
		if err := d.house(ctx, house); err != nil {
			return d.sum, err
		}
	}
	d.line(plain, "\nTasks done: %d of %d.", d.sum.Done, d.sum.Tasks)
	if d.sum.Decisions > 0 && d.sum.Asked > 0 {
		d.line(faint, "%d decisions, %s each.", d.sum.Decisions, (d.sum.Asked / time.Duration(d.sum.Decisions)).Round(time.Millisecond))
	}
	return d.sum, d.err
}

// Episode is the conversation in the house of a seed, with plain words as names.
func Episode(seed uint64) *household.Episode {
	return household.New(seed, household.Options{Plain: true})
}

// house runs the tasks of one conversation, to its end or to a task that fails. The next
// task then is in another house.
func (d *show) house(ctx context.Context, seed uint64) error {
	e := Episode(seed)
	if d.sum.Tasks > 0 {
		d.line(plain, "")
	}
	d.line(faint, "House %d: %s. Robots: %s.", seed, strings.Join(e.Rooms(), ", "), strings.Join(e.Robots(), ", "))
	for d.sum.Tasks < d.Tasks && !e.Done() && d.err == nil {
		d.sum.Tasks++
		d.line(plain, "\nTask %d", d.sum.Tasks)
		if goesOn, err := d.task(ctx, e); err != nil || !goesOn {
			return err
		}
	}
	return d.err
}

// task runs one task. It reports whether the conversation can continue, which it cannot
// without a decision or after too many.
func (d *show) task(ctx context.Context, e *household.Episode) (goesOn bool, err error) {
	planned, _ := e.Planned()
	before := e.Score()
	for steps := 1; ; steps++ {
		in := e.Input()
		role, from := faint, "House"
		if in.Instruction.Type == protocol.InstructionUser {
			role, from = strong, "Person"
		}
		d.speech(role, from, in.Instruction.Content)
		asked := d.Now()
		out, err := e.Ask(ctx, d.server)
		if err != nil {
			return false, err
		}
		d.sum.Asked += d.Now().Sub(asked)
		d.sum.Decisions++
		if out.Output == nil {
			d.speech(bad, "Agent", "no decision: "+out.Error.Code+": "+out.Error.Message)
			d.line(bad, "  Not done: an agent that gives no decision is asked no further.")
			return false, nil
		}
		for _, c := range out.Output.ToolCalls {
			d.speech(act, c.TargetRobotName, c.Name+" "+string(c.Arguments))
		}
		if len(out.Output.ToolCalls) == 0 {
			d.speech(strong, "Agent", out.Output.Say)
		}
		expected := e.Expected()
		e.Apply(*out.Output, out.Memory)
		switch now := e.Score(); {
		case now.Finished > before.Finished:
			d.sum.Done++
			d.line(good, "  Done in %s; the planner takes %d.", count(steps, "step"), planned)
			return true, nil
		case now.Tasks > before.Tasks:
			d.line(bad, "  Not done after %s. Now it would be right to %s.", count(steps, "step"), described(expected))
			return true, nil
		case steps == household.Patience*planned || e.Done():
			d.line(bad, "  Not done after %s; the planner takes %d.", count(steps, "step"), planned)
			return false, nil
		}
	}
}

// described is a decision within a sentence.
func described(a protocol.AgentDecision) string {
	if a.Say != "" {
		return fmt.Sprintf("say %q", a.Say)
	}
	var list []string
	for _, c := range a.ToolCalls {
		list = append(list, c.TargetRobotName+" "+c.Name+" "+string(c.Arguments))
	}
	return "call " + strings.Join(list, " and ")
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// style holds the parameters of an escape sequence.
type style string

const (
	plain  style = ""
	strong style = "1"
	faint  style = "2"
	act    style = "36"
	good   style = "32"
	bad    style = "31"
)

// nameWidth is the width of the column of speakers.
const nameWidth = 10

// speech prints a speaker and a text. Further lines are indented.
func (d *show) speech(s style, name, text string) {
	indent := "\n" + strings.Repeat(" ", nameWidth+2)
	d.line(s, "  %-*s%s", nameWidth, name+" ", strings.ReplaceAll(text, "\n", indent))
}

// line prints one line. It replaces control characters, which texts of models and servers
// may hold.
func (d *show) line(s style, format string, args ...any) {
	text := strings.Map(func(r rune) rune {
		if r != '\n' && unicode.IsControl(r) {
			return unicode.ReplacementChar
		}
		return r
	}, fmt.Sprintf(format, args...))
	if d.Colours && s != plain {
		text = "\x1b[" + string(s) + "m" + text + "\x1b[0m"
	}
	if _, err := fmt.Fprintln(d.out, text); err != nil && d.err == nil {
		d.err = err
	}
}
