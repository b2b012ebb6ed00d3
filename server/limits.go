package server

import (
	"time"

	"agentd/protocol"
)

// Limits of the HTTP side.
const (
	// maxBody is the largest request body, before and after decompression.
	maxBody = protocol.MaxBodyBytes
	// bodyPrealloc caps what a Content-Length alone can make us allocate.
	bodyPrealloc = 1 << 20
	// maxHeader bounds request line and headers together.
	maxHeader = 64 << 10
	// headerTimeout is how long a client may take to send its headers.
	headerTimeout = 10 * time.Second
	// lingerBytes and lingerTime are how much of the rest of a refused body is
	// read so that its client gets to see the answer.
	lingerBytes = maxBody
	lingerTime  = 5 * time.Second
	// bodyTimeout is how long a client may take to send its body.
	bodyTimeout = 2 * time.Minute
	// writeTimeout is how long a client may take to read its answer. It starts
	// when the answer is ready, so that it never cuts a long generation.
	writeTimeout = 2 * time.Minute
	// idleTimeout closes kept-alive connections that nobody uses.
	idleTimeout = 2 * time.Minute
	// gzipFrom is the size in bytes below which compressing costs more than it saves.
	gzipFrom = 1 << 10
	// maxRequestID is the longest X-Request-Id taken over from a client, in bytes.
	maxRequestID = 128
	// maxRunID is the longest run_id of a coaching session, in bytes.
	maxRunID = 1 << 10

	// retryLoading, retryDraining and retryBusy are what Retry-After says when
	// nothing better is known.
	retryLoading  = 2 * time.Second
	retryDraining = 10 * time.Second
	retryBusy     = time.Second
)
