package repair

import (
	"fmt"
	"strings"
	"testing"

	"agentd/coaching/internal/quote"
	"agentd/coaching/repair/parse"
	"agentd/protocol"
)

const key = "sk-7f3d9a-very-secret"

// redacted is a case whose errors quote no key; "arm_2", the name of a robot, is one too.
func redacted(task *Case) *Case {
	return task.Redacted(quote.NewRedactor(protocol.Headers{"X-Key": key, "X-Team": "arm_2"}))
}

func TestKeysAreRedactedBeforeClipping(t *testing.T) {
	decide := func(decision string) string { return `{"reinjection_point_id":"here","decision":` + decision + `}` }
	calling := func(name, arguments string) string {
		return decide(`{"tool_calls":[{"name":"` + name + `","arguments":` + arguments + `,"target_robot_name":"rover"}]}`)
	}
	schema := strings.Replace(nested, `"any":{}`, `"any":{"pattern":"^a$"}`, 1)
	for _, c := range []struct {
		rule   string
		limit  int
		answer func(text string) string
	}{
		{"the name of a tool", quote.MaxQuoted, func(s string) string { return calling(s, `{}`) }},
		{"a robot", quote.MaxQuoted, func(s string) string { return strings.Replace(graspCup, "rover", s, 1) }},
		{"a point", quote.MaxQuoted, func(s string) string { return strings.Replace(graspCup, "here", s, 1) }},
		{"an outcome", quote.MaxQuoted, func(s string) string { return strings.Replace(graspCup, "corrected", s, 1) }},
		{"arguments", quote.MaxQuoted, func(s string) string { return calling("grasp", `["`+s+`"]`) }},
		{"a call", quote.MaxQuoted, func(s string) string { return decide(`{"tool_calls":["` + s + `"]}`) }},
		{"a member", quote.MaxQuoted, func(s string) string { return decide(`{"tool_calls":[{"` + s + `":1}]}`) }},
		{"a value that does not fit", 4 * quote.MaxQuoted, func(s string) string {
			return `{"reinjection_point_id":"p","decision":{"tool_calls":[{"name":"plan","arguments":{"any":"` + s + `"},"target_robot_name":"any"}]}}`
		}},
		{"a reason", parse.MaxWhy * 2 / 3, func(s string) string {
			return `{"outcome":"abandoned","why":"` + s + strings.Repeat("y", parse.MaxWhy) + `"}`
		}},
		{"the end of a reason", parse.MaxWhy / 3, func(s string) string {
			return `{"outcome":"abandoned","why":"` + strings.Repeat("y", parse.MaxWhy) + key + s[len(key):] + `"}`
		}},
	} {
		t.Run(c.rule, func(t *testing.T) {
			task := load(t, "failure")
			if c.limit == 4*quote.MaxQuoted {
				task = newCase(t, []byte(schema))
			}
			task = redacted(task)
			for at := c.limit - len(key) - 60; at <= c.limit; at++ {
				answer := c.answer(strings.Repeat("x", at) + key)
				said := ""
				for _, read := range []func(string) (*Verdict, error){task.Read, task.ReadHuman} {
					v, err := read(answer)
					if err == nil && v.Corrected {
						t.Fatalf("read as %s", proposed(v))
					}
					said += strings.ReplaceAll(fmt.Sprint(err, v), key, "") // places are shown whole
				}
				for _, half := range []string{key[:6], key[len(key)-6:]} {
					if strings.Contains(said, half) {
						t.Fatalf("behind %d bytes %q is left of the key in %s", at, half, said)
					}
				}
			}
		})
	}
}

func TestRawOutputKeysAreRedactedBeforeClipping(t *testing.T) {
	for at := quote.MaxQuoted - len(key); at <= quote.MaxQuoted; at++ {
		_, err := redacted(formatTask(t, `<function=go><parameter=`+strings.Repeat("x", at)+key+`>`)).WithoutModel()
		if err == nil || strings.Contains(err.Error(), key[:6]) {
			t.Fatalf("behind %d bytes: %v", at, err)
		}
	}
}

func TestRedactedCaseKeepsDecisions(t *testing.T) {
	task := load(t, "failure")
	answer := strings.Replace(graspCup, "rover", "arm", 1)
	if _, err := task.Read(answer); err == nil || !strings.Contains(err.Error(), `known are "rover", "arm_2"`) {
		t.Errorf("the coach is told %v", err)
	}
	if _, err := redacted(task).Read(answer); err == nil || !strings.Contains(err.Error(), `known are "rover", "***"`) {
		t.Errorf("others are told %v", err)
	}
	v, err := redacted(task).Read(strings.Replace(graspCup, "rover", "arm_2", 1))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := proposed(v), replaced("here", "arm_2", "grasp", `{"object":"cup"}`); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
