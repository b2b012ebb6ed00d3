package workload

// Options of a generated trace. The same options give the same trace on every
// machine. A trace with more turns begins like one with fewer.
type Options struct {
	Seed uint64 `json:"seed"`
	// Agents ask at the same time, Turns each.
	Agents int `json:"agents"`
	Turns  int `json:"turns"`
	// Candidates of every turn.
	Candidates int `json:"candidates"`
	// Groups divide the agents evenly. Agents of a group are in one house with the same
	// tools, so their prompts share a prefix. More groups than agents are as many.
	Groups int `json:"groups"`
}

// Defaults are the default options. They fit the default model's context.
func Defaults() Options { return Options{Seed: 1, Agents: 16, Turns: 6, Candidates: 4, Groups: 4} }
