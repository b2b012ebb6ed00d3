package load

import "time"

// Limits and automatic choices.
const (
	defaultQueueLimit     = 8192        // the largest request of the protocol (4,096 candidates), and as much again after it
	defaultModelNewTokens = 256         // tokens of the default model's answers, which take half of it: TestDefaultModelAnswersFit
	formTimeout           = time.Minute // of the questions that show in which form the model calls

	// The default KV cache, in tokens. A candidate uses no more than the trained context, but many share the cache.
	autoContextCPU = 32 << 10 // at most: enough for a batch of long histories
	autoContextGPU = 128 << 10
	minShared      = 32 << 10 // at least
	minAutoContext = 2 << 10  // the same where memory is short. With less, llama.cpp reports the failed allocation.
	memoryShare    = 2        // at most 1/memoryShare of the free memory
	// smallCache bounds the caches of a model of at most smallModel on the CPU, which often runs beside a
	// simulator. Both are bytes.
	smallCache = 512 << 20
	smallModel = 256 << 20

	// The default numbers of running sequences. llama.cpp's own attention on the CPU, GGML, computes many masked
	// values from 64 rows on.
	autoParallelCPU  = 64
	autoParallelGGML = 32
	autoParallelGPU  = 128
	// Rows that a step is filled up to with draft tokens. On a CPU one agent takes 9 to 16 % less processor time
	// with 2 rows (docs/decisions/speculation.md). On a GPU up to 8 rows cost hardly more than one.
	autoDraftCPU = 2
	autoDraftGPU = 8
	spareCore    = 4 // cores above which one is left for other work than the model
	// Batch sizes in tokens. A larger one uses the device better, a smaller one delays running candidates less.
	autoBatchCPU = 512
	autoBatchGPU = 2048
	// prefillChunkGPU bounds the prompt tokens of a step in which others decode: a few hundred rows cost little beside
	// reading the weights. On a CPU each row costs about the same, so the scheduler's own rule applies.
	prefillChunkGPU = 512

	microBatchCPU      = 512 // tokens that are computed at once. More need larger compute buffers.
	microBatchGPU      = 2048
	hashedPart         = 1 << 20     // bytes of a model's files that are read at once to hash them
	lookInterval       = time.Minute // between looks at the files when nobody asks for the version
	recurrentSequences = 2           // states of a recurrent model for each running sequence: half are cached prefixes
	headroomReserve    = 20          // weights must leave 1/headroomReserve of what they need free
	summaryPart        = 4           // 1/summaryPart of the context is left beside a budget; a summary has as much of the budget
)
