package load

import "time"

// Limits and automatic choices.
const (
	// defaultQueueLimit admits the largest request of the protocol (4,096 candidates) with
	// as much again after it.
	defaultQueueLimit = 8192
	// defaultModelNewTokens bounds an answer of the default model. Its longest decisions
	// take about half of that: TestDefaultModelAnswersFit.
	defaultModelNewTokens = 256

	// autoContextCPU and autoContextGPU bound the default KV cache in tokens: enough for a batch
	// of long histories.
	autoContextCPU = 32 << 10
	autoContextGPU = 128 << 10
	// smallCache bounds the default KV cache, all contexts together, of a model of at most smallModel
	// on the CPU. Both are bytes. Such a model often runs beside a simulator.
	smallCache = 512 << 20
	smallModel = 256 << 20
	// minShared is the least default KV cache in tokens. A candidate uses no more than the
	// trained context, but many candidates share the cache.
	minShared = 32 << 10
	// minAutoContext is the least default KV cache when memory is short. With less nothing
	// useful fits, and llama.cpp reports the failed allocation.
	minAutoContext = 2 << 10
	// memoryShare bounds the default KV cache to 1/memoryShare of the free memory.
	memoryShare = 2

	// autoParallelCPU, autoParallelGGML and autoParallelGPU are the default numbers of running
	// sequences. The second is for the CPU with llama.cpp's attention, which computes many
	// masked values from 64 rows on.
	autoParallelCPU  = 64
	autoParallelGGML = 32
	autoParallelGPU  = 128
	// autoDraftCPU and autoDraftGPU are the rows that a step is filled up to with draft tokens.
	// On a CPU one agent takes 9 to 16 % less processor time with 2 rows, see
	// docs/decisions/speculation.md. On a GPU a few rows cost hardly more than one: llama.cpp's
	// kernels for few rows take up to 8.
	autoDraftCPU = 2
	autoDraftGPU = 8
	// spareCore is the number of cores above which one is left for other work than the model.
	spareCore = 4
	// autoBatchCPU and autoBatchGPU are the default batch sizes in tokens. A larger batch uses
	// the device better for prefill, a smaller one delays running candidates less.
	autoBatchCPU = 512
	autoBatchGPU = 2048
	// prefillChunkGPU bounds the prompt tokens of a step in which others decode. On a GPU the
	// first few hundred rows cost little beside reading the weights. On a CPU each row costs
	// about the same, so the scheduler's own rule applies.
	prefillChunkGPU = 512

	// microBatchCPU and microBatchGPU are the tokens that are computed at once. More need larger
	// compute buffers.
	microBatchCPU = 512
	microBatchGPU = 2048
	// hashedPart is how much of a model's files is read at once to hash them.
	hashedPart = 1 << 20
	// lookInterval is how often the files are looked at when nobody asks for the version.
	lookInterval = time.Minute
	// recurrentSequences times the running sequences is the number of states of a recurrent
	// model. Half of them are cached prefixes.
	recurrentSequences = 2

	// headroomReserve: weights must leave 1/headroomReserve of what they need free.
	headroomReserve = 20

	// The default budget leaves 1/summaryPart of the context for the turn that exceeds it. A
	// summary may have 1/summaryPart of the budget.
	summaryPart = 4
)
