package live

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"agentd/inference/load"
	"agentd/llama/synth"
)

// refusedTemplates are chat templates that can't serve, and a part of the reason.
var refusedTemplates = map[string]struct{ template, want string }{
	"raises": {`{{ raise_exception('this model has no chats') }}`, "this model has no chats"},
	"itself": {`{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}`, "nested too deeply"},
	"memory": {`{{ 'abc' * 1000000000000 }}`, "256 MiB of memory"},
	"blocks": {strings.Repeat(`{% if 1 %}`, 50000) + strings.Repeat(`{% endif %}`, 40000), "nested too deeply"},
}

// TestModelWithARefusedTemplateIsNotServed: neither in place of another one, which answers as before, nor at start.
func TestModelWithARefusedTemplateIsNotServed(t *testing.T) {
	cfg, dir := liveConfig(t)
	cfg.Agent.Format = "template"
	l := openLive(t, cfg)
	before := asked(t, l, "Go on", "")
	for name, tc := range refusedTemplates {
		t.Run(name, func(t *testing.T) {
			spec := tinySpec(t)
			spec.ChatTemplate = tc.template
			file := name + ".gguf"
			if err := synth.Write(filepath.Join(dir, file), spec); err != nil {
				t.Fatal(err)
			}
			err := l.SetModel(t.Context(), file)
			var refused *Error
			if !errors.As(err, &refused) || refused.Reason != Unusable || !strings.Contains(refused.Detail, tc.want) {
				t.Errorf("%v, want unusable with %q", err, tc.want)
			}
			if after := asked(t, l, "Go on", ""); after != before {
				t.Errorf("afterwards %+v, before %+v", after, before)
			}
			start := cfg
			start.Path = filepath.Join(dir, file)
			if m, err := load.Open(t.Context(), start); err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("at start: %v, want one sentence with %q", err, tc.want)
				if m != nil {
					m.Close()
				}
			}
		})
	}
}
