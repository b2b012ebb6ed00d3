package server

import (
	"time"

	"agentd/protocol"
)

// Limits of the HTTP side.
const (
	// maxBody is the largest request body, before and after decompression.
	maxBody = protocol.MaxBodyBytes
	// maxBodies bounds the bytes of all bodies that are held at the same time.
	maxBodies = 16 * maxBody
	// maxHeader bounds request line and headers together.
	maxHeader = 64 << 10
	// headerTimeout bounds the time in which a client sends its headers.
	headerTimeout = 10 * time.Second
	// idleTimeout closes idle keep-alive connections.
	idleTimeout = 2 * time.Minute
	// maxWaiting bounds the requests that wait for the model to load. Each has a connection and
	// its headers in memory, and no body.
	maxWaiting = 1024
	// maxRequestID is the longest accepted X-Request-Id, in bytes.
	maxRequestID = 128
	// maxRunID is the longest run_id of a coaching session, in bytes.
	maxRunID = protocol.MaxID
	// maxLogID and maxLogReason bound a run_id and a reason in the log, in bytes.
	maxLogID     = 200
	maxLogReason = 4000

	// keepAlive is how often a stream sends a comment: proxies close what is quiet for a minute.
	keepAlive = 10 * time.Second

	// retryLoading, retryDraining and retryBusy are the default values of Retry-After.
	retryLoading  = 2 * time.Second
	retryDraining = 10 * time.Second
	retryBusy     = time.Second
)
