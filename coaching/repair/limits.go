package repair

// A request's work is bounded by its size; what costs more than reading it is
// bounded here. Lengths of texts are counted in bytes, which are never fewer than
// characters.

// DefaultBudget is the length of a prompt where the backend names no limit, and
// the length of what a person is shown.
const DefaultBudget = 120_000

// minBudget is the shortest budget that is obeyed: the instructions, the target
// step cut short and the names of the tools need so much.
const minBudget = 8_000

// maxTokens is how long a coach's answer may become, thoughts included.
const maxTokens = 4096

// A set of tools is compiled once for all points that share it; beyond these
// bounds the tools of the remaining points count as unusable.
const (
	maxToolSets     = 64
	maxToolSetBytes = 8 << 20
)

// maxAnswer bounds what is read of a coach's answer, a person's or a model's raw
// output; maxRepair what is handed to the repair of near-JSON, which tries many
// readings.
const (
	maxAnswer = 256 << 10
	maxRepair = 64 << 10
)
