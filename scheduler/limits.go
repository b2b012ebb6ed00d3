package scheduler

import (
	"time"

	"agentd/scheduler/core"
)

const (
	// MinHostCells is the least number of Config's HostCells that can be of use.
	MinHostCells = core.MinHostBlock

	// minRetry and maxRetry bound the estimate in QueueFullError.
	minRetry = time.Second
	maxRetry = time.Minute

	// rateSmoothing is the weight of the latest candidate in the average time
	// between two that end.
	rateSmoothing = 0.1

	// samplesPerWorker is how many rows to sample make another thread or goroutine
	// worth it: one row of a large vocabulary takes 0.01 to 0.2 ms, a wake-up 5 us.
	samplesPerWorker = 2

	// queueFactor times the sequences that run at once is the default QueueLimit.
	queueFactor = 64

	// maxWorkers is how many contexts an engine may have.
	maxWorkers = 64

	// maxQuoted is how many bytes of a completion a message quotes.
	maxQuoted = 200

	// prefixBlock is the block size, in tokens, in which prefixIndex remembers prompts.
	prefixBlock = 32

	// usualTokens is what the placement takes for the length of a completion: a decision
	// has some thirty tokens, whatever is allowed.
	typicalTokens = 32

	// maxFatal is how many devices may be lost in a step with a generation until it is
	// not given to another one.
	maxLostDevices = 1

	// maxFailures is how many steps must fail, one after the other, until a context is
	// left out, first for minPause and at most for maxPause.
	maxFailures = 3
	minPause    = 10 * time.Second
	maxPause    = 10 * time.Minute
)
