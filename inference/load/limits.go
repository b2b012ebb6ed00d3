package load

import "time"

// Limits and automatic choices.
const (
	defaultQueueLimit     = 8192 // candidates: twice the largest request of the protocol
	defaultModelNewTokens = 256  // tokens of the default model's answers, twice what they need: TestDefaultModelAnswersFit
	// Timeouts of agent.FindForm. A processor may need minutes for the prompt; an engine at a URL may hang.
	formTimeout       = 10 * time.Minute
	formTimeoutRemote = time.Minute

	// The default KV cache, in cells. A candidate needs at most the trained context, but many share the cache.
	autoContextCPU = 32 << 10 // most on a CPU: enough for a batch of long histories
	autoContextGPU = 128 << 10
	minShared      = 32 << 10 // least
	minAutoContext = 2 << 10  // least with little memory; if that fails, llama.cpp reports the failed allocation
	memoryShare    = 2        // most: 1/memoryShare of the free memory
	// smallCache bounds all caches, in bytes, of a model of at most smallModel bytes on the CPU, which often runs
	// beside a simulator.
	smallCache = 512 << 20
	smallModel = 256 << 20

	// Default numbers of running sequences. llama.cpp's own attention on the CPU (GGML) computes many masked
	// values with 64 rows or more.
	autoParallelCPU  = 64
	autoParallelGGML = 32
	autoParallelGPU  = 128
	// Defaults of DraftRows. On a CPU one agent takes 9 to 16 % less processor time with 2 rows
	// (docs/decisions/speculation.md). On a GPU up to 8 rows cost hardly more than one.
	autoDraftCPU = 2
	autoDraftGPU = 8
	spareCore    = 4 // from this number of cores on, one is left for work other than the model's
	// Default batch sizes in tokens. A larger one uses the device better, a smaller one delays running candidates less.
	autoBatchCPU = 512
	autoBatchGPU = 2048
	// prefillChunkGPU is Policy.PrefillChunk on a GPU, where a few hundred rows cost little compared with reading
	// the weights. On a CPU each row costs about the same, so it is 0: the scheduler decides.
	prefillChunkGPU = 512

	microBatchCPU      = 512 // tokens that are computed at once; more need larger compute buffers
	microBatchGPU      = 2048
	hashedPart         = 1 << 20     // bytes of one read of a model's files for the hash
	lookInterval       = time.Minute // between checks whether a model's files were overwritten
	recurrentSequences = 2           // sequence ids of a recurrent model for each running one: half are for cached prefixes
	headroomReserve    = 20          // new weights must leave 1/headroomReserve of their memory free
	summaryPart        = 4           // 1/summaryPart of the context is not in a summary's budget; a summary has that share of it
)
