package load

import (
	"agentd/llama"
	"agentd/scheduler"
)

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

// schedulerConfig returns cfg.Scheduler with the values that Open chooses.
func (m *Model) schedulerConfig(cfg Config, gpu bool, hostCells int) scheduler.Config {
	c := cfg.Scheduler
	c.MaxRunning, c.BatchTokens, c.DraftRows, c.HostCells = m.Info.Parallel, m.Info.BatchSize, m.Info.DraftRows, hostCells
	c.PrefillChunk, c.Threads = 0, 0
	if gpu {
		c.PrefillChunk = min(prefillChunkGPU, m.Info.BatchSize)
	}
	if cfg.Threads == 0 && !gpu && m.Info.Contexts == 1 { // several would measure each other's trials
		c.Threads = m.Info.Threads
	}
	return c
}
