package protocol

// Limits of the wire. A body beyond one of them is rejected as a whole and the
// problem names the bound.
const (
	// MaxBodyBytes is the largest request body a server should read. The
	// decoders themselves take bodies of any size.
	MaxBodyBytes = 64 << 20

	// MaxDepth is the deepest nesting of objects and arrays in a body; the
	// body's own object is level 1.
	MaxDepth = 64

	// MaxResponseDepth is the same for the responses that a client decodes.
	// They may nest deeper than requests, since internal steps hold the raw JSON
	// of the request inside of records of their own.
	MaxResponseDepth = 2 * MaxDepth

	// MaxInputs is the largest number of inputs in one AgentRequest.
	MaxInputs = 1024

	// MaxNumOutputs is the largest num_outputs of one AgentInput.
	MaxNumOutputs = 256

	// MaxCandidates is the largest sum of num_outputs over the inputs of one
	// AgentRequest.
	MaxCandidates = 4096

	// MaxRepeated is the largest sum, over the inputs of one AgentRequest, of
	// num_outputs times the bytes of the input's instruction, memory, tools, attributes
	// and correction, and of the request_id: every candidate returns them, in its
	// memory, its step and by itself.
	MaxRepeated = 512 << 20

	// MaxID is how many bytes a run_id may have, and the name and the model of a coaching
	// backend: each is repeated or kept many times. A request_id has no bound of its own.
	MaxID = 1 << 10

	// MaxElements is the largest number of list elements and map entries of
	// typed fields (inputs, tools, internal_steps, trajectory, headers, ...) in
	// one body. Lists inside raw JSON do not count. It bounds the memory that
	// a body such as {"tools":[{},{},{},...]} can claim.
	MaxElements = 1 << 20

	// MaxObjectMembers is the largest number of members that objects open at
	// the same time may have together, raw JSON included: what the check for
	// duplicate names must remember.
	MaxObjectMembers = 1 << 18

	// MaxProblems is the largest number of problems reported for one body. The
	// last one then says that decoding stopped there.
	MaxProblems = 100

	// maxQuoted is how many bytes of a client's text a message repeats.
	maxQuoted = 64

	// maxLocName is how many bytes of an unknown field's name a location
	// repeats.
	maxLocName = 128
)
