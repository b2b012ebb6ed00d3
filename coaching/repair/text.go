package repair

import (
	"fmt"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/agent/tools"
	"agentd/coaching/internal/backtick"
	"agentd/protocol"
)

// clip shortens a text to about n bytes: its beginning and its end, where
// results and errors say most, and between them how much is missing.
func clip[T ~string | ~[]byte](s T, n int) string {
	if len(s) <= n {
		return string(s)
	}
	head := cutAt(string(s[:n*2/3+1]), n*2/3)
	tail := string(s[len(s)-n/3:])
	for len(tail) > 0 && tail[0]&0xC0 == 0x80 { // the rest of a character
		tail = tail[1:]
	}
	return fmt.Sprintf("%s … [%d of %d characters left out] … %s", head, len(s)-len(head)-len(tail), len(s), tail)
}

// inlineText is the longest text that stands on the line of its label.
const inlineText = 200

// labelled appends a line with a text behind its label, as a block where it is long.
func labelled(b *strings.Builder, label, text string, limit int) {
	text = clip(strings.TrimSpace(text), limit)
	if len(text) <= inlineText && !strings.Contains(text, "\n") {
		fmt.Fprintf(b, "- %s: %s\n", label, text)
		return
	}
	fence := backtick.Fence(text)
	fmt.Fprintf(b, "- %s:\n%s\n%s\n%s\n", label, fence, text, fence)
}

var spacing = []jsontext.Options{jsontext.SpaceAfterColon(true), jsontext.SpaceAfterComma(true)}

// readable is raw JSON with spaces between its tokens, on one line, cut to about
// limit bytes where it is longer.
func readable(v protocol.Raw, limit int) string {
	if len(v) > limit {
		return clip(v, limit)
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

// decisionText is a decision, a line for each call, cut to about limit bytes.
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
			fmt.Fprintf(&b, "%s calls %s %s", clip(call.Robot, limit), clip(call.Name, limit), readable(call.Arguments, limit))
		}
		return b.String()
	case strings.TrimSpace(say) == "":
		return "(nothing)"
	}
	return "says " + string(protocol.String(clip(say, limit)))
}

func outputText(d *protocol.AgentDecision, limit int) string {
	return decisionText(d.Say, calls(d), limit)
}

// calls are a decision's calls as the agent's memory has them.
func calls(d *protocol.AgentDecision) []tools.Call {
	list := make([]tools.Call, len(d.ToolCalls))
	for i, call := range d.ToolCalls {
		list[i] = tools.Call{Name: call.Name, Arguments: call.Arguments, Robot: call.TargetRobotName}
	}
	return list
}

// empty tells whether raw JSON says nothing.
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
