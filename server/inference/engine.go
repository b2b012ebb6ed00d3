package inference

import (
	"agentd/llama"
	"agentd/scheduler"
)

// contextOptions are those of the llama.cpp context under the engine.
func (s *Service) contextOptions(gpu bool) []llama.ContextOption {
	f, info := &s.facts, s.model.Info()
	sequences := llama.MaxSequences
	if info.Recurrent || info.Hybrid { // each sequence id costs a whole state
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

// schedulerConfig is the policy of the engine; what it leaves out follows from
// the context.
func (s *Service) schedulerConfig(opts Options, gpu bool, hostCells int) scheduler.Config {
	chunk := 0
	if gpu {
		chunk = min(prefillChunkGPU, s.facts.BatchSize)
	}
	threads := 0
	if opts.Threads == 0 && !gpu && !opts.Reproducible && s.facts.Contexts == 1 { // several would measure each other's trials
		threads = s.facts.Threads
	}
	return scheduler.Config{
		Threads:        threads,
		PrefillChunk:   chunk,
		BatchTokens:    s.facts.BatchSize,
		MaxRunning:     s.facts.Parallel,
		DraftRows:      s.facts.DraftRows,
		QueueLimit:     s.queueLimit,
		QueueTime:      opts.QueueTime,
		NoForcedTokens: opts.NoForcedTokens,
		NoPrefixCache:  opts.NoPrefixCache,
		BatchInvariant: opts.Reproducible,
		HostCells:      hostCells,
	}
}
