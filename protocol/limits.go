package protocol

// Limits of the wire format. A body beyond one is refused as a whole, with a problem that names it.
const (
	MaxBodyBytes     = 64 << 20     // the largest request body of a server. The decoders take any size.
	MaxDepth         = 64           // the deepest nesting in a body, whose own object is level 1
	MaxResponseDepth = 2 * MaxDepth // the same for responses, whose internal steps have JSON of the request
	MaxInputs        = 1024         // the most inputs of one AgentRequest
	MaxNumOutputs    = 256          // the largest num_outputs of one AgentInput
	MaxCandidates    = 4096         // the largest sum of num_outputs in one AgentRequest
	MaxProblems      = 100          // of one body. The last one reports that decoding stopped.

	// MaxRepeated bounds the bytes that all candidates return from their
	// request: instruction, memory, tools, attributes, correction, request_id.
	MaxRepeated = 512 << 20
	// MaxID bounds a run_id, and a coaching backend's name and model, in bytes. Each is stored many times.
	MaxID = 1 << 10
	// MaxElements bounds list elements and map entries of typed fields in one body,
	// and so the memory for {"tools":[{},{},...]}. Lists in raw JSON do not count.
	MaxElements = 1 << 20
	// MaxObjectMembers bounds the members of all objects open at once: the check for duplicates stores them.
	MaxObjectMembers = 1 << 18

	sinkDirect   = 4 << 10  // from how many bytes on a raw value is written without a copy
	elementBytes = 64       // about a list's element while the list grows
	structBytes  = 512      // about an input or a step beside it
	takeStep     = 64 << 10 // the least memory that a decoder asks for at once
	maxQuoted    = 64       // bytes of a client's text in a message
	maxLocName   = 128      // bytes of the name of an unknown field in a location
)
