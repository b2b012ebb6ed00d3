package server

import (
	"time"

	"agentd/protocol"
)

// Limits of the HTTP side.
const (
	maxBody = protocol.MaxBodyBytes // the largest request body, before and after decompression
	// looseCopies is how many times its text a body takes where it is not counted more exactly.
	looseCopies    = 8
	coachingCopies = 3                // the same for a coaching request: the point, the question and the log
	streamFrom     = 1 << 20          // the size in bytes from which on an answer is never whole in memory
	maxHeader      = 64 << 10         // bounds request line and headers together
	headerTimeout  = 10 * time.Second // bounds the time in which a client sends its headers
	idleTimeout    = 2 * time.Minute  // closes idle keep-alive connections
	// maxWaiting bounds requests that wait for the model or a pause: a connection and headers each.
	maxWaiting   = 1024
	maxRequestID = 128            // the longest accepted X-Request-Id, in bytes
	maxRunID     = protocol.MaxID // the longest run_id of a coaching session, in bytes
	// maxLogID and maxLogReason bound a run_id and a reason in the log, in bytes.
	maxLogID     = 200
	maxLogReason = 4000
	maxLogCause  = 500 // bounds the reason in the log of a request, in bytes

	keepAlive = 10 * time.Second // how often a stream sends a comment: proxies close what is quiet for a minute

	// retryLoading, retryDraining and retryBusy are the default values of Retry-After.
	retryLoading  = 2 * time.Second
	retryDraining = 10 * time.Second
	retryBusy     = time.Second
)
