package protocol

// Limits of the wire format. A body beyond one is refused as a whole, with a problem that names it.
const (
	MaxBodyBytes = 64 << 20 // the largest request body of a server. The decoders take any size.

	MaxDepth = 64 // the deepest nesting in a body, whose own object is level 1

	MaxResponseDepth = 2 * MaxDepth // the same for responses, whose internal steps have JSON of the request

	MaxInputs = 1024 // the largest number of inputs in one AgentRequest

	MaxNumOutputs = 256 // the largest num_outputs of one AgentInput

	MaxCandidates = 4096 // the largest sum of num_outputs in one AgentRequest

	// MaxRepeated bounds the bytes that all candidates return from their
	// request: instruction, memory, tools, attributes, correction, request_id.
	MaxRepeated = 512 << 20

	MaxID = 1 << 10 // bounds a run_id, and a coaching backend's name and model, in bytes. Each is stored many times.

	// MaxElements bounds list elements and map entries of typed fields in one body,
	// and so the memory for {"tools":[{},{},...]}. Lists in raw JSON do not count.
	MaxElements = 1 << 20

	// MaxObjectMembers bounds the members of all objects open at once: the check for duplicate names remembers them.
	MaxObjectMembers = 1 << 18

	MaxProblems = 100 // bounds the problems of one body. The last one reports that decoding stopped.

	sinkDirect = 4 << 10 // from how many bytes on a raw value is written without a copy

	elementBytes = 64 // about a list's element while the list grows, structBytes an input or step beside it
	structBytes  = 512
	takeStep     = 64 << 10 // the least memory that a decoder asks for at once

	maxQuoted = 64 // bounds a client's text in a message, in bytes

	maxLocName = 128 // bounds the name of an unknown field in a location, in bytes
)
