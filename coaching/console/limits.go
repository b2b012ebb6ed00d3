package console

import (
	"time"

	"agentd/protocol"
)

// Defaults of Options.
const (
	// DefaultClaim is the lifetime of a claim that is not renewed. A closed page frees its
	// task soon; a page that lost its network for a moment keeps it.
	DefaultClaim = 2 * time.Minute
	// DefaultKeep is the retention time of a done task. An agent that lost its connection can
	// still fetch the answer, and people can look it up.
	DefaultKeep = 7 * 24 * time.Hour
)

// Sizes in bytes.
const (
	// maxTaskBody is the largest task an agent may post.
	maxTaskBody = protocol.MaxBodyBytes
	// bodyCopies is the number of copies of a body's text in memory: decoded, and for the store.
	bodyCopies = 3
	// maxRequestID is the longest request_id.
	maxRequestID = 1 << 10
	// maxPeopleBody is the largest body of the people's API: an answer or a draft.
	maxPeopleBody = 2 << 20
	// maxViewBytes bounds the requests of all cached views. The newest view is cached whatever
	// its size.
	maxViewBytes = 128 << 20
)

// Counts.
const (
	// maxOpen bounds the open tasks. An agent that posts more is answered 503.
	maxOpen = 10_000
	// maxListed bounds a list of done tasks. It has the newest ones.
	maxListed = 500
	// maxStreams bounds the event streams. Each browser has one.
	maxStreams = 512
	// maxCandidates bounds the candidates of one request by a person.
	maxCandidates = 8
	// maxAsking bounds concurrent requests to the agent server.
	maxAsking = 8
	// maxViews bounds the cached views. Each open page uses one for checks while its person
	// types.
	maxViews = 32
)

// Lengths of texts, in characters.
const (
	// maxPerson is the longest name of a person.
	maxPerson = 80
	// maxReason is the longest reason for not answering.
	maxReason = 4000
	// maxStage bounds the bytes of a stage's goal in a list, maxShown the bytes of a run's name and
	// of a payload's type.
	maxStage = 300
	maxShown = 200
)

// Times.
const (
	// pingEvery is the interval of pings in an event stream. They keep proxies from closing
	// it, and reveal a page that has left.
	pingEvery = 15 * time.Second
	// pruneEvery is the interval in which old tasks are removed.
	pruneEvery = time.Minute
	// askTimeout bounds a request for candidates to the agent server.
	askTimeout = 5 * time.Minute
	// sessionTime is the lifetime of a login.
	sessionTime = 7 * 24 * time.Hour
	// lockTimeout bounds the wait for another process that has the store open.
	lockTimeout = time.Second
	// retryAfter is the delay before a refused client should try again.
	retryAfter = 2 * time.Second
)
