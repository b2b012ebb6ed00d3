package console

import (
	"time"

	"agentd/protocol"
)

// Defaults of Options.
const (
	// DefaultClaim is how long a claim holds unless it is renewed: a page that
	// was closed frees its task soon, one that lost its network for a moment
	// keeps it.
	DefaultClaim = 2 * time.Minute
	// DefaultKeep is how long a done task stays: time enough for an agent that
	// lost its connection to come back, and for people to look things up.
	DefaultKeep = 7 * 24 * time.Hour
)

// Sizes in bytes.
const (
	// maxTaskBody is the largest task an agent may post.
	maxTaskBody = protocol.MaxBodyBytes
	// maxBodies is how much all bodies in work may hold together.
	maxBodies = 8 * maxTaskBody
	// maxRequestID is the longest request_id, which names a task everywhere.
	maxRequestID = 1 << 10
	// maxPeopleBody is the largest body of the people's API: an answer or a
	// draft that a person wrote.
	maxPeopleBody = 2 << 20
	// maxHeader bounds request line and headers together.
	maxHeader = 64 << 10
	// maxSheets is how much of the tasks' requests is kept parsed at most; the
	// newest one is kept whatever its size.
	maxSheets = 128 << 20
)

// Counts.
const (
	// maxOpen bounds the tasks that wait for people; agents that post more are
	// answered 503.
	maxOpen = 10_000
	// maxListed is how many done tasks a list holds, the newest ones.
	maxListed = 500
	// maxStreams bounds the event streams, one for each open page.
	maxStreams = 512
	// maxCandidates is how many candidates a person may ask for at once.
	maxCandidates = 8
	// maxAsking bounds the requests to the agent server at one time.
	maxAsking = 8
	// sheetCache is how many tasks are kept parsed: a person's page asks for
	// checks while they type.
	sheetCache = 32
)

// Lengths of texts, in characters.
const (
	// maxPerson is the longest name of a person.
	maxPerson = 80
	// maxReason is the longest reason for not answering.
	maxReason = 4000
	// maxStage is how much of a stage's goal a list shows, and maxShown how much of
	// a run's name and a payload's type.
	maxStage = 300
	maxShown = 200
)

// Times.
const (
	// headerTimeout is how long a client may take to send its headers.
	headerTimeout = 10 * time.Second
	// idleTimeout closes kept-alive connections that nobody uses.
	idleTimeout = 2 * time.Minute
	// pingEvery is how often an event stream says that it is alive, so that
	// proxies keep it and a page that is gone is noticed.
	pingEvery = 15 * time.Second
	// lapseEvery is how often pages are told of claims that lapsed.
	lapseEvery = 2 * time.Second
	// pruneEvery is how often old tasks are removed.
	pruneEvery = time.Minute
	// askTimeout is how long the agent server may take for candidates.
	askTimeout = 5 * time.Minute
	// sessionTime is how long a login lasts.
	sessionTime = 7 * 24 * time.Hour
	// lockTimeout is how long to wait for another process to give up the store.
	lockTimeout = time.Second
	// retryAfter is when an agent that was turned away should post again.
	retryAfter = 2 * time.Second
)
