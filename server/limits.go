package server

import (
	"time"

	"agentd/protocol"
)

// Limits of the HTTP side.
const (
	maxBody        = protocol.MaxBodyBytes // of a request, before and after decompression
	looseCopies    = 8                     // estimated copies of a body's text while it is handled
	coachingCopies = 3                     // the same for a coaching request: the point, the question and the log
	streamFrom     = 1 << 20               // bytes; larger answers are streamed and never whole in memory
	maxWaiting     = 1024                  // requests that wait for the model or a pause, without their bodies
	maxRequestID   = 128                   // bytes of an accepted X-Request-Id
	maxRunID       = protocol.MaxID        // bytes of a coaching session's run_id
	maxLogID       = 200                   // bytes of a run_id in the log
	maxLogReason   = 4000                  // bytes of a reason in the log
	maxLogCause    = 500                   // bytes of a reason in the log of a request
	keepAlive      = 10 * time.Second      // between comments of a stream: proxies close one without data for a minute

	// Default values of Retry-After.
	retryLoading  = 2 * time.Second
	retryDraining = 10 * time.Second
	retryBusy     = time.Second
)
