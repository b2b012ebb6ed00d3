package main

import "time"

// Bounds of the options: a larger value can only be a mistake.
const (
	maxLength   = 1 << 20            // tokens of an answer, turns of an agent
	maxRate     = 1e6                // requests a second
	maxDuration = 7 * 24 * time.Hour // of the time options
	maxRepeats  = 1000
	maxThreads  = 4096
	// tokenFileLimit bounds the token file in bytes.
	tokenFileLimit = 1 << 20
)
