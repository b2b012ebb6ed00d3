package repair

import (
	"strings"
	"testing"

	"agentd/coaching/backend"
)

// page is a question as a file.
func page(q backend.Question) string {
	var b strings.Builder
	b.WriteString("==== system\n" + q.System + "\n")
	for _, m := range q.Messages {
		b.WriteString("==== " + m.Role + "\n" + m.Text + "\n")
	}
	b.WriteString("==== schema " + q.SchemaName + "\n" + string(q.Schema) + "\n==== exact schema\n" + string(q.Exact) + "\n")
	return b.String()
}

func TestQuestionShowsTheRun(t *testing.T) {
	for _, name := range []string{"failure", "suboptimal", "format", "own_input"} {
		t.Run(name, func(t *testing.T) {
			golden(t, name+".question", page(load(t, name).Question(0)))
		})
	}
}
