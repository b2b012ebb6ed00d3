package prompt

import (
	"fmt"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/agent/tools"
	"agentd/coaching/internal/quote"
	"agentd/protocol"
)

// inlineText is the longest text on the line of its label.
const inlineText = 200

// labelled appends a label and a text, as a block if it is long.
func labelled(b *strings.Builder, label, text string, limit int) {
	text = quote.Clip(strings.TrimSpace(text), limit)
	if len(text) <= inlineText && !strings.Contains(text, "\n") {
		fmt.Fprintf(b, "- %s: %s\n", label, text)
		return
	}
	fence := quote.Fence(text)
	fmt.Fprintf(b, "- %s:\n%s\n%s\n%s\n", label, fence, text, fence)
}

var spacing = []jsontext.Options{jsontext.SpaceAfterColon(true), jsontext.SpaceAfterComma(true)}

// readable is raw JSON on one line with spaces between tokens, clipped to about limit
// bytes.
func readable(v protocol.Raw, limit int) string {
	if len(v) > limit {
		return quote.Clip(v, limit)
	}
	if len(v) == 0 {
		return ""
	}
	spaced := append(protocol.Raw(nil), v...)
	if err := spaced.Format(spacing...); err != nil {
		return string(v)
	}
	return string(spaced)
}

// decisionText is a decision, one line for each call, clipped to about limit bytes.
func decisionText(say string, calls []tools.Call, limit int) string {
	switch {
	case len(calls) > 0:
		var b strings.Builder
		for i, call := range calls {
			if b.Len() > limit {
				fmt.Fprintf(&b, "\n(and %s)", plural(len(calls)-i, "call"))
				break
			}
			if i > 0 {
				b.WriteByte('\n')
			}
			fmt.Fprintf(&b, "%s calls %s %s", quote.Clip(call.Robot, limit), quote.Clip(call.Name, limit), readable(call.Arguments, limit))
		}
		return b.String()
	case strings.TrimSpace(say) == "":
		return "(nothing)"
	}
	return "says " + string(protocol.String(quote.Clip(say, limit)))
}

func outputText(d *protocol.AgentDecision, limit int) string {
	return decisionText(d.Say, calls(d), limit)
}

// calls are a decision's calls as the agent's memory stores them.
func calls(d *protocol.AgentDecision) []tools.Call {
	list := make([]tools.Call, len(d.ToolCalls))
	for i, call := range d.ToolCalls {
		list[i] = tools.Call{Name: call.Name, Arguments: call.Arguments, Robot: call.TargetRobotName}
	}
	return list
}

// empty reports whether raw JSON has no content.
func empty(v protocol.Raw) bool {
	switch string(v) {
	case "", "{}", "[]", "null", `""`:
		return true
	}
	return false
}

// plural is "1 step" or "7 steps".
func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
