package inference

// Limits and automatic choices.
const (
	// defaultQueueLimit admits the largest request of the protocol (4,096 candidates) with
	// as much again behind it.
	defaultQueueLimit = 8192
	// defaultModelNewTokens bounds an answer of the default model. Its longest decisions
	// take about half of that: TestDefaultModelAnswersFit.
	defaultModelNewTokens = 256

	// autoContextCPU and autoContextGPU cap the KV cache that nobody asked for,
	// in tokens: enough for a batch of long histories, not all of the memory.
	autoContextCPU = 32 << 10
	autoContextGPU = 128 << 10
	// minShared is the cache of a model with a short context, in tokens: no
	// candidate uses more than the model was trained on, but many share the cache.
	minShared = 32 << 10
	// minAutoContext is used even when memory looks too small: below it nothing
	// useful fits, and llama.cpp's own error is the better message.
	minAutoContext = 2 << 10
	// memoryShare is the part (1/memoryShare) of the free memory that the KV
	// cache may take when nobody chose its size.
	memoryShare = 2

	// autoParallelCPU, autoParallelGGML and autoParallelGPU are how many candidates
	// decode together. The second is for the CPU with llama.cpp's attention, which
	// from 64 rows on computes far more than they see.
	autoParallelCPU  = 64
	autoParallelGGML = 32
	autoParallelGPU  = 128
	// autoDraftCPU and autoDraftGPU are the rows that a step is filled up to with guesses.
	// On a CPU the second row of a step costs half of the first or more, and two guesses
	// of three are right. On a GPU a few rows cost hardly more than one: llama.cpp's
	// kernels for products with few rows take up to 8.
	autoDraftCPU = 2
	autoDraftGPU = 8
	// spareCore is from how many cores on one is left to what is not the model.
	spareCore = 4
	// autoBatchCPU and autoBatchGPU are the tokens of one model step: large
	// enough to keep the device busy with a prefill, small enough that running
	// candidates don't wait long for their next token.
	autoBatchCPU = 512
	// prefillChunkGPU is the most prompt tokens of a step in which others decode. On a
	// CPU each row costs about the same, so that the scheduler's own rule holds; on a
	// GPU the first few hundred cost little beside reading the weights.
	prefillChunkGPU = 512
	autoBatchGPU    = 2048

	// microBatchCPU and microBatchGPU are the tokens computed at once; a larger
	// one costs compute buffers.
	microBatchCPU = 512
	microBatchGPU = 2048
	// recurrentSequences times the running sequences is how many a recurrent
	// model keeps states for: half of them are cached prefixes.
	recurrentSequences = 2

	// minLocalAnswer is the least number of tokens worth asking a coach's answer
	// of, when the question leaves no room for more.
	minLocalAnswer = 256

	// summaryPart of a context is not for prompts where nobody chose a budget, but for
	// the turn that exceeds it; and as much of a budget is for the summary.
	summaryPart = 4
)
