package protocol

// Limits of the wire format. A body beyond a limit is refused as a whole, and the problem names
// the limit.
const (
	// MaxBodyBytes is the largest request body a server should read. The
	// decoders themselves take bodies of any size.
	MaxBodyBytes = 64 << 20

	// MaxDepth is the deepest nesting of objects and arrays in a body; the
	// body's own object is level 1.
	MaxDepth = 64

	// MaxResponseDepth is the same for the responses that a client decodes. They may nest
	// deeper than requests, since internal steps contain raw JSON of the request.
	MaxResponseDepth = 2 * MaxDepth

	// MaxInputs is the largest number of inputs in one AgentRequest.
	MaxInputs = 1024

	// MaxNumOutputs is the largest num_outputs of one AgentInput.
	MaxNumOutputs = 256

	// MaxCandidates is the largest sum of num_outputs over the inputs of one
	// AgentRequest.
	MaxCandidates = 4096

	// MaxRepeated bounds the bytes that all candidates of one AgentRequest return from it. Each
	// candidate repeats its input's instruction, memory, tools, attributes and correction, and
	// the request_id.
	MaxRepeated = 512 << 20

	// MaxID bounds a run_id, and the name and the model of a coaching backend, in bytes. Each is
	// repeated or stored many times. A request_id has no bound of its own.
	MaxID = 1 << 10

	// MaxElements bounds the list elements and map entries of typed fields (inputs, tools,
	// internal_steps, trajectory, headers, ...) in one body. Lists inside raw JSON do not
	// count. It bounds the memory for a body such as {"tools":[{},{},{},...]}.
	MaxElements = 1 << 20

	// MaxObjectMembers bounds the members of all objects that are open at the same time, raw
	// JSON included. The check for duplicate names must remember them.
	MaxObjectMembers = 1 << 18

	// MaxProblems bounds the problems of one body. The last one reports that decoding stopped.
	MaxProblems = 100

	// sinkDirect is from how many bytes on a raw value is written without a copy.
	sinkDirect = 4 << 10

	// elementBytes is about the memory of an element of a typed list while the list grows, and
	// structBytes that of an input or a step beside it.
	elementBytes = 64
	structBytes  = 512
	// takeStep is the least memory that a decoder asks for at once.
	takeStep = 64 << 10

	// maxQuoted bounds a client's text in a message, in bytes.
	maxQuoted = 64

	// maxLocName bounds the name of an unknown field in a location, in bytes.
	maxLocName = 128
)
