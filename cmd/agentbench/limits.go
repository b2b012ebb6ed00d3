package main

import "time"

// Bounds of the options: a larger value can only be a mistake.
const (
	// maxCount bounds numbers of requests and tokens.
	maxCount = 1 << 40
	// maxLength bounds the tokens of one answer, and messages of a history.
	maxLength = 1 << 20
	// maxRate is of an open loop, in requests a second.
	maxRate = 1e6
	// minShape and maxShape bound the shape of gamma arrivals.
	minShape, maxShape = 1e-3, 1e6
	// maxCancel is the largest share of requests that are left.
	maxCancel = 0.99
	// maxDuration bounds the time options; a longer one is a unit mistake.
	maxDuration = 7 * 24 * time.Hour

	// maxRepeats and maxThreads are of the standard comparison.
	maxRepeats, maxThreads = 1000, 4096

	// tokenFileLimit and templateFileLimit bound what is read of such files, in bytes.
	tokenFileLimit, templateFileLimit = 1 << 20, 1 << 20

	// Of the recorder: how long headers may take, and how long requests on their way
	// are waited for at the end.
	headerTimeout = 10 * time.Second
	drainTimeout  = 2 * time.Minute
)
