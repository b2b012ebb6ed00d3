package backend

import (
	"fmt"
	"strings"

	"agentd/protocol"
)

// New returns the backend of a definition. It makes no connection.
func New(def protocol.CoachingBackend, o Options) (Backend, error) {
	r := &remote{name: def.Name, typ: def.Type, model: def.DefaultModel}
	switch def.Type {
	case protocol.BackendLocal:
		if o.Local == nil {
			return nil, fmt.Errorf("backend %q: the default model can't coach; start the server with a model, or use another type", def.Name)
		}
		return &local{model: o.Local, name: def.Name, shown: def.DefaultModel, keys: o.Redactor}, nil
	case protocol.BackendOpenAI, protocol.BackendOllama:
		r.try, r.modes.modes = r.tryChat, []string{ModeSchema, ModeTool, ModeText}
	case protocol.BackendAnthropic:
		r.try, r.modes.modes = r.tryClaude, []string{ModeTool, ModeText}
	default:
		return nil, fmt.Errorf("backend %q: type %q is unknown: use %s, %s, %s or %s", def.Name, def.Type,
			protocol.BackendOpenAI, protocol.BackendOllama, protocol.BackendAnthropic, protocol.BackendLocal)
	}
	var err error
	if r.wire, err = newWire(def, o); err != nil {
		return nil, fmt.Errorf("backend %q: %w", def.Name, err)
	}
	if def.Type == protocol.BackendOllama && strings.HasSuffix(strings.TrimRight(r.endpoint.Path, "/"), ollamaChat) {
		// It takes Ollama's own bodies rather than chat completions. Its tools are only ever offered, never required.
		r.try, r.modes.modes = r.tryOllama, []string{ModeSchema, ModeText}
	}
	return r, nil
}
