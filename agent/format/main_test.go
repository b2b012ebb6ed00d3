package format_test

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"agentd/agent/format"
	"agentd/llama"
	"agentd/llama/synth"
)

// rooted is a grammar that begins at another rule or expression.
func rooted(grammar, root string) string {
	_, rules, _ := strings.Cut(grammar, "\n")
	return "root ::= " + root + "\n" + rules
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// kit is the model API over a real vocabulary and llama.cpp's Jinja engine.
type kit struct {
	model    *llama.Model
	template *llama.Template
	specials []string
}

func (k *kit) SpecialTokens() []string { return k.specials }

func (k *kit) RenderTemplate(vars []byte) (string, error) {
	return k.template.Render(vars, time.Now())
}

var models sync.Map // of architecture to a function that loads it once

// newKit is a kit for an architecture's tiny model with another chat template.
func newKit(t testing.TB, arch, template string) *kit {
	t.Helper()
	load, _ := models.LoadOrStore(arch, sync.OnceValues(func() (*llama.Model, error) {
		spec, err := synth.Preset("tiny", arch)
		if err != nil {
			return nil, err
		}
		spec.Small = true // only the special tokens matter
		path, err := synth.Cached("", spec)
		if err != nil {
			return nil, err
		}
		return llama.New(path)
	}))
	model, err := load.(func() (*llama.Model, error))()
	if err != nil {
		t.Fatal(err)
	}
	k := &kit{model: model}
	for _, token := range model.Vocab().SpecialTokens() {
		k.specials = append(k.specials, string(model.Vocab().Piece(token, true)))
	}
	if k.template, err = model.NewTemplate(template); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { k.template.Close() })
	return k
}

// reference is a template of llama.cpp's collection.
func reference(t testing.TB, name string) string {
	t.Helper()
	path := filepath.Join("..", "..", "third_party", "llama.cpp", "models", "templates", name)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Skipf("no reference templates: %v (build llama.cpp first)", err)
	}
	return string(text)
}

func newFormat(t testing.TB, name string, o format.Options) format.Format {
	t.Helper()
	f, err := format.New(name, o)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// text concatenates segments, and checks what holds for all prompts.
func text(t testing.TB, p *format.Prompt, specials []string) string {
	t.Helper()
	known := map[string]bool{}
	for _, s := range specials {
		known[s] = true
	}
	all := ""
	for i, segment := range p.Segments {
		switch {
		case segment.Special && !known[segment.Text]:
			t.Errorf("segment %d, %q, is no special token", i, segment.Text)
		case !segment.Special && i > 0 && !p.Segments[i-1].Special:
			t.Errorf("segments %d and %d are both plain", i-1, i)
		}
		all += segment.Text
	}
	if all != p.Text {
		t.Errorf("the segments make %q, the text is %q", all, p.Text)
	}
	return all
}
