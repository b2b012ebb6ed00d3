package serve

import "time"

// Defaults and bounds of the options. A bound is where a larger value can only
// be a mistake or cannot work at all; everything below it is the user's choice.
const (
	// DefaultPort is the port of the protocol's reference agent.
	DefaultPort = 8888

	// maxSequences is llama.cpp's own limit on sequences in one context.
	maxSequences = 256
	// maxDraftRows is more than draft tokens are worth: each costs logits of its own.
	maxDraftRows = 64
	// minContext holds a short prompt and an answer.
	minContext = 256
	// minBatch and maxBatch bound the tokens of one model step.
	minBatch, maxBatch = 16, 1 << 16
	// maxThreads is llama.cpp's GGML_MAX_N_THREADS.
	maxThreads = 512
	// maxLayers is more than any model has.
	maxLayers = 10_000
	// maxHistory is more messages than any context holds.
	maxHistory = 1 << 20
	// maxCacheRAM is more host memory than machines have, in MB.
	maxCacheRAM = 1 << 26
	// maxEngines bounds the URLs of --engine.
	maxEngines = 256
	// maxAdapters bounds the adapters that are loaded at the start.
	maxAdapters = 64
	// maxReturns bounds the names of --return.
	maxReturns = 8
	// maxContexts is the scheduler's own limit.
	maxContexts = 64

	// defaultAskError and defaultAskWait are for a calibration without them.
	defaultAskError = 0.1
	defaultAskWait  = time.Minute

	// maxQueue bounds the candidates that wait in memory.
	maxQueue = 1 << 20
	// maxDuration bounds the time options; a longer one is a unit mistake.
	maxDuration = 7 * 24 * time.Hour

	// defaultLoadingWait lets a client start together with the server, as long as
	// clients and proxies usually wait for an answer.
	defaultLoadingWait = time.Minute
	// defaultDrainTimeout lets a long generation on a CPU finish.
	defaultDrainTimeout = 2 * time.Minute

	// maxCoaching bounds the numbers of workers, waiting requests and sessions,
	// maxCoachingSteps the steps of a trajectory: 64 MiB hold no more steps.
	maxCoaching, maxCoachingSteps = 1 << 16, 1 << 20
	// maxCoachingAllow bounds the list of hosts and networks.
	maxCoachingAllow = 1024

	// templateFileLimit bounds a chat template file in bytes.
	templateFileLimit = 1 << 20

	// keyFileLimit bounds a key file in bytes.
	keyFileLimit = 1 << 16

	// profilerHeaderTimeout bounds how long a client of the profiles may take to ask.
	profilerHeaderTimeout = 10 * time.Second
	// forcedExitGrace is how long an immediate exit waits for native code to
	// notice, before the process ends regardless.
	forcedExitGrace = 3 * time.Second
	// loadGrace is how long a load that was cancelled may take to end. A device may hang.
	loadGrace = 10 * time.Second
	// cancelGrace is how long cancelled requests may take to answer once
	// the drain timeout has passed.
	cancelGrace = 5 * time.Second
	// flushGrace is how long the last traces may take to the collector.
	flushGrace = 3 * time.Second
)
