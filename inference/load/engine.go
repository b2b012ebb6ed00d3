package load

import "agentd/llama"

// contextOptions returns the options of the engine's llama.cpp contexts.
func (m *Model) contextOptions(gpu bool) []llama.ContextOption {
	f, info := &m.Info, m.Llama.Info()
	sequences := llama.MaxSequences
	if info.Recurrent || info.Hybrid { // each sequence id needs a whole state
		sequences = min(sequences, recurrentSequences*f.Parallel)
	}
	return []llama.ContextOption{
		llama.SetContext(f.ContextLength),
		llama.SetBatch(f.BatchSize),
		llama.SetMicroBatch(min(f.BatchSize, choose(0, gpu, microBatchGPU, microBatchCPU))),
		llama.SetMaxSequences(max(sequences, f.Parallel)),
		llama.SetMaxOutputs(max(f.Parallel, f.DraftRows, sequences)), // llama.cpp has a row for each sequence anyway
		llama.SetThreads(f.Threads, f.Threads),
		llama.SetKVType(f.KVType),
	}
}
