package agent

import (
	"fmt"
	"strings"

	"agentd/agent/internal/rawjson"
	"agentd/protocol"
	"agentd/scheduler/generation"
)

// Adapter is a LoRA adapter that an engine has loaded.
type Adapter struct {
	Name    string // "": the model without an adapter
	ID      generation.AdapterID
	Version string // identifies the adapter's weights; "": not known
}

// Adapters finds the adapters of an engine.
type Adapters interface {
	// Adapter returns the adapter of that name, which stays loaded until the request ends; false: there is none.
	Adapter(name string) (Adapter, bool)
	Names() []string // sorted
}

const maxNamed = 20 // adapters listed in a message

// readAdapter reads extra_keys.adapter, a name; null selects the model without an adapter.
func readAdapter(v protocol.Raw, adapters Adapters) (Adapter, protocol.Problems) {
	const name = "adapter"
	if v.Kind() == 'n' {
		return Adapter{}, nil
	}
	text, ok := protocol.Text(v)
	if !ok {
		return Adapter{}, rawjson.Wrong(protocol.TypeString, "the name of an adapter, or null for none", v, name)
	}
	if adapters != nil {
		if found, ok := adapters.Adapter(text); ok {
			return found, nil
		}
	}
	return Adapter{}, protocol.Problems{protocol.NewProblem(protocol.TypeLiteral, "it names no adapter of this server; "+KnownAdapters(adapters), name)}
}

// KnownAdapters returns a clause that lists the adapters, for messages about an unknown name.
func KnownAdapters(adapters Adapters) string {
	var names []string
	if adapters != nil {
		names = adapters.Names()
	}
	switch n := len(names); {
	case n > maxNamed:
		return "the adapters are " + strings.Join(names[:maxNamed], ", ") + ", ..."
	case n > 0:
		return "the adapters are " + strings.Join(names, ", ")
	}
	return "this server has no adapters; start it with one (docs/weights.md)"
}

// appendWeights appends the members that name the weights which computed a generation: the last ones, and if they
// changed meanwhile, the list of all. parts is empty if last computed everything.
func appendWeights(b []byte, adapter string, last generation.Part, parts []generation.Part) []byte {
	if n := len(parts); n > 0 {
		last = parts[n-1]
	}
	b = appendText(b, "model_version", last.Version)
	b = appendText(b, "adapter", adapter)
	b = appendText(b, "adapter_version", last.Adapter)
	if last.From == 0 {
		return b
	}
	b = append(b, `,"versions":`...)
	return rawjson.AppendList(b, parts, func(b []byte, p generation.Part) []byte {
		b = appendText(fmt.Appendf(b, `{"from":%d`, p.From), "model_version", p.Version)
		return append(appendText(b, "adapter_version", p.Adapter), '}')
	})
}

// appendText appends a member to an object that has members, unless its text is empty.
func appendText(b []byte, name, text string) []byte {
	if text == "" {
		return b
	}
	b = append(append(append(b, `,"`...), name...), `":`...)
	return rawjson.AppendString(b, text)
}
