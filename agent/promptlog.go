package agent

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"
)

// promptLog writes a file for each model call: the prompt, the raw answer, and whether it is
// valid. Only the owner can read the files, since they have the text of users.
type promptLog struct {
	dir    string
	now    func() time.Time
	report func(error)
	count  atomic.Uint64
}

func newPromptLog(dir string, now func() time.Time, report func(error)) (*promptLog, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("prompt_log_dir: %w", err)
	}
	return &promptLog{dir: dir, now: now, report: report}, nil
}

// write writes the file of one model call by a component. err is the reason why the answer is
// invalid, or nil.
func (l *promptLog) write(component, prompt, answer string, err error) {
	if l == nil {
		return
	}
	var b strings.Builder
	b.WriteString("----- PROMPT -----\n")
	b.WriteString(prompt)
	b.WriteString("\n----- RAW RESPONSE -----\n")
	b.WriteString(answer)
	b.WriteString("\n----- AGENT VALIDATION STATUS -----\n")
	if err == nil {
		b.WriteString("VALID\n")
	} else {
		fmt.Fprintf(&b, "INVALID\n%v\n", err)
	}
	name := fmt.Sprintf("%s_%s_%06d.log", l.now().Format("20060102_150405.000000"), component, l.count.Add(1))
	if err := os.WriteFile(filepath.Join(l.dir, name), []byte(b.String()), 0o600); err != nil {
		l.report(fmt.Errorf("prompt log: %w", err))
	}
}
