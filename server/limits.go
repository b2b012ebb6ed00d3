package server

import (
	"time"

	"agentd/protocol"
)

// Limits of the HTTP side.
const (
	// maxBody is the largest request body, before and after decompression.
	maxBody = protocol.MaxBodyBytes
	// maxBodies is how much all bodies in work may hold together.
	maxBodies = 16 * maxBody
	// maxHeader bounds request line and headers together.
	maxHeader = 64 << 10
	// headerTimeout is how long a client may take to send its headers.
	headerTimeout = 10 * time.Second
	// idleTimeout closes kept-alive connections that nobody uses.
	idleTimeout = 2 * time.Minute
	// maxWaiting bounds the requests that wait for the model to load. Each holds a
	// connection and its headers, and nothing of its body.
	maxWaiting = 1024
	// maxRequestID is the longest X-Request-Id taken over from a client, in bytes.
	maxRequestID = 128
	// maxRunID is the longest run_id of a coaching session, in bytes.
	maxRunID = protocol.MaxID
	// maxLogID and maxLogReason bound, in bytes, a run_id and the reasons for a
	// refusal in the log.
	maxLogID     = 200
	maxLogReason = 4000

	// retryLoading, retryDraining and retryBusy are what Retry-After says when
	// nothing better is known.
	retryLoading  = 2 * time.Second
	retryDraining = 10 * time.Second
	retryBusy     = time.Second
)
