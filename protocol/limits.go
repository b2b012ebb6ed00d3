package protocol

// Limits of the wire format. A body beyond one is refused as a whole, with a problem that names it.
const (
	// MaxBodyBytes is the largest request body of a server. The decoders take any size.
	MaxBodyBytes = 64 << 20

	// MaxDepth is the deepest nesting in a body, whose own object is level 1.
	MaxDepth = 64

	// MaxResponseDepth is the same for responses, whose internal steps have JSON of the request.
	MaxResponseDepth = 2 * MaxDepth

	// MaxInputs is the largest number of inputs in one AgentRequest.
	MaxInputs = 1024

	// MaxNumOutputs is the largest num_outputs of one AgentInput.
	MaxNumOutputs = 256

	// MaxCandidates is the largest sum of num_outputs in one AgentRequest.
	MaxCandidates = 4096

	// MaxRepeated bounds the bytes that all candidates return from their
	// request: instruction, memory, tools, attributes, correction, request_id.
	MaxRepeated = 512 << 20

	// MaxID bounds a run_id, and a coaching backend's name and model, in bytes. Each is stored many times.
	MaxID = 1 << 10

	// MaxElements bounds list elements and map entries of typed fields in one body,
	// and so the memory for {"tools":[{},{},...]}. Lists in raw JSON do not count.
	MaxElements = 1 << 20

	// MaxObjectMembers bounds the members of all objects open at once: the check for duplicate names remembers them.
	MaxObjectMembers = 1 << 18

	// MaxProblems bounds the problems of one body. The last one reports that decoding stopped.
	MaxProblems = 100

	// sinkDirect is from how many bytes on a raw value is written without a copy.
	sinkDirect = 4 << 10

	// elementBytes is about a list's element while the list grows, structBytes an input or step beside it.
	elementBytes = 64
	structBytes  = 512
	// takeStep is the least memory that a decoder asks for at once.
	takeStep = 64 << 10

	// maxQuoted bounds a client's text in a message, in bytes.
	maxQuoted = 64

	// maxLocName bounds the name of an unknown field in a location, in bytes.
	maxLocName = 128
)
