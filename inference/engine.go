package inference

import (
	"agentd/llama"
	"agentd/scheduler"
)

// contextOptions returns the options of the engine's llama.cpp contexts.
func (s *Service) contextOptions(gpu bool) []llama.ContextOption {
	f, info := &s.info, s.model.Info()
	sequences := llama.MaxSequences
	if info.Recurrent || info.Hybrid { // each sequence id needs a whole state
		sequences = min(sequences, recurrentSequences*f.Parallel)
	}
	return []llama.ContextOption{
		llama.SetContext(f.ContextLength),
		llama.SetBatch(f.BatchSize),
		llama.SetMicroBatch(min(f.BatchSize, choose(0, gpu, microBatchGPU, microBatchCPU))),
		llama.SetMaxSequences(max(sequences, f.Parallel)),
		llama.SetMaxOutputs(max(f.Parallel, f.DraftRows)),
		llama.SetThreads(f.Threads, f.Threads),
		llama.SetKVType(f.KVType),
	}
}

// schedulerConfig completes the policy of the engine.
func (s *Service) schedulerConfig(cfg Config, gpu bool, hostCells int) scheduler.Config {
	c := cfg.Scheduler
	c.MaxRunning, c.BatchTokens, c.DraftRows, c.HostCells = s.info.Parallel, s.info.BatchSize, s.info.DraftRows, hostCells
	c.PrefillChunk, c.Threads, c.SharedThreads = 0, 0, 0
	if gpu {
		c.PrefillChunk = min(prefillChunkGPU, s.info.BatchSize)
	}
	switch {
	case cfg.Threads != 0 || gpu:
	case s.info.Contexts == 1:
		c.Threads = s.info.Threads
	default: // several would measure each other's trials
		c.SharedThreads = autoThreads()
	}
	return c
}
