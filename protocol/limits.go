package protocol

// Limits of the wire format. A body that exceeds one is refused, with a problem that names the limit.
const (
	MaxBodyBytes     = 64 << 20     // the largest request body that a server reads. The decoders have no limit.
	MaxDepth         = 64           // levels of nesting in a body; its outermost value is level 1
	MaxResponseDepth = 2 * MaxDepth // the same for responses, whose internal steps contain JSON of the request
	MaxInputs        = 1024         // the most inputs of one AgentRequest
	MaxNumOutputs    = 256          // the largest num_outputs of one AgentInput
	MaxCandidates    = 4096         // the largest sum of num_outputs in one AgentRequest
	MaxProblems      = 100          // problems reported for one body. The last one says that decoding stopped.

	// MaxRepeated bounds the bytes of the request that all candidates together return:
	// instruction, memory, tools, attributes, correction, request_id.
	MaxRepeated = 512 << 20
	// MaxID bounds a run_id, and a coaching backend's name and model, in bytes. Each is stored many times.
	MaxID = 1 << 10
	// MaxElements bounds list elements and map entries of typed fields in one body, since
	// {"tools":[{},{},...]} takes many times its size in memory. Lists in raw JSON don't count.
	MaxElements = 1 << 20
	// MaxObjectMembers bounds the names that the check for duplicates stores: all members of the objects
	// around the current value.
	MaxObjectMembers = 1 << 18

	sinkDirect   = 4 << 10  // the least bytes of a raw value that is written without a copy
	elementBytes = 64       // estimated memory of a list element while the list grows
	structBytes  = 512      // estimated memory of an input or a step without its raw values
	takeStep     = 64 << 10 // the least bytes for which a decoder calls hold
	maxQuoted    = 64       // bytes of a client's text in a message
	maxLocName   = 128      // bytes of the name of an unknown field in a location
)
