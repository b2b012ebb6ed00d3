package server

import (
	"time"

	"agentd/protocol"
)

// Limits of the HTTP side.
const (
	// maxBody is the largest request body, before and after decompression.
	maxBody = protocol.MaxBodyBytes
	// looseCopies is how many times its text a body takes where it is not counted more exactly.
	looseCopies = 8
	// coachingCopies is the same for a coaching request: the point, the question and the log.
	coachingCopies = 3
	// streamFrom is the size in bytes from which on an answer is never whole in memory.
	streamFrom = 1 << 20
	// maxHeader bounds request line and headers together.
	maxHeader = 64 << 10
	// headerTimeout bounds the time in which a client sends its headers.
	headerTimeout = 10 * time.Second
	// idleTimeout closes idle keep-alive connections.
	idleTimeout = 2 * time.Minute
	// maxWaiting bounds requests that wait for the model or a pause: a connection and headers each.
	maxWaiting = 1024
	// maxRequestID is the longest accepted X-Request-Id, in bytes.
	maxRequestID = 128
	// maxRunID is the longest run_id of a coaching session, in bytes.
	maxRunID = protocol.MaxID
	// maxLogID and maxLogReason bound a run_id and a reason in the log, in bytes.
	maxLogID     = 200
	maxLogReason = 4000
	// maxLogCause bounds the reason in the log of a request, in bytes.
	maxLogCause = 500

	// keepAlive is how often a stream sends a comment: proxies close what is quiet for a minute.
	keepAlive = 10 * time.Second

	// retryLoading, retryDraining and retryBusy are the default values of Retry-After.
	retryLoading  = 2 * time.Second
	retryDraining = 10 * time.Second
	retryBusy     = time.Second
)
