package scheduler

import "time"

const (
	// minRetry and maxRetry bound the estimate in QueueFullError.
	minRetry = time.Second
	maxRetry = time.Minute

	// rateSmoothing is the weight of the latest candidate in the average time
	// between two that end.
	rateSmoothing = 0.1

	// samplesPerWorker is how many rows to sample make another goroutine worth
	// waking: one row of a large vocabulary takes about 0.4 ms, a wake-up 5 us.
	samplesPerWorker = 2

	// queueFactor times the sequences that run at once is the default QueueLimit.
	queueFactor = 64
)
