package server

import (
	"context"
	"crypto/tls"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"agentd/internal/base/budget"
	"agentd/internal/base/tracing"
	"agentd/protocol"
	"agentd/server/openai"

	"github.com/gin-gonic/gin"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
)

// Options configure a Server.
type Options struct {
	Info  protocol.AgentInfo // the answer of /v1/info
	Build Build              // the program's version for /metrics
	// Coach answers the coaching routes, as Info advertises; without one they answer 503.
	Coach            Coach
	Log              zerolog.Logger    // receives the access log and failures, never bodies or secrets
	Tokens           []string          // the accepted bearer tokens; none: no authentication
	Clients          map[string]string // names of tokens, by token: for the log, metrics and traces
	MayChangeWeights map[string]bool   // the tokens with the right to change the weights
	Certificates     []tls.Certificate // make Serve speak TLS
	LoadingWait      time.Duration     // bounds the wait of a request while the model loads; 0: it does not wait
	RequestTimeout   time.Duration     // bounds the generation of one request; 0: unbounded
	// Completions adds the paths of OpenAI's API, for an Inference that is an openai.Provider.
	Completions bool
	Registry    *prometheus.Registry // has the metrics of /metrics, and gets the server's own; nil: a new one
	Tracer      *tracing.Tracer      // makes the spans of requests; nil: none
	Memory      *budget.Budget       // bounds what all requests hold; nil: budget.Default
}

// Server is the HTTP server. Make it with New.
type Server struct {
	opts     Options
	log      zerolog.Logger
	auth     authenticator
	metrics  *metrics
	router   *gin.Engine
	http     *http.Server
	info     map[string][]byte // body of /v1/info, by base path
	memory   *budget.Budget    // of requests
	cancel   context.CancelCauseFunc
	newID    func() string
	running  openai.Running // requests of OpenAI's API and of trainers
	waiting  atomic.Int64   // requests that wait for the model to load
	loopback atomic.Bool    // it listens on a loopback address

	mu        sync.Mutex // guards the fields below; locked for a few instructions only
	state     State
	failed    bool          // the model cannot be loaded
	hangs     error         // a step of its load; nil: it does not hang
	loaded    chan struct{} // closed when waiting for the model ends
	inference Inference     // set by Ready
	inFlight  int           // requests between admit and end
	idle      chan struct{} // closed when draining and inFlight is 0
}

// Paths that middleware handles differently, and the prefix of a run_id.
const (
	pathHealth   = "/health"
	queryLive    = "live"
	pathMetrics  = "/metrics"
	pathCoaching = "/v1/coaching"
	pathSessions = "/v1/coaching/sessions/"
)

// Keys of values in a request's context.
const (
	keyRequestID = "agentd.request_id"
	keyClient    = "agentd.client"  // name of the token's client; "": none
	keyWeights   = "agentd.weights" // true: the client may change the weights
	keyStatus    = "agentd.status"  // for log and metrics, instead of the sent status
	keyReason    = "agentd.reason"  // why the request failed, for the log
	keyOpenAI    = "agentd.openai"  // true: errors have the form of OpenAI's API

	keyCoachingRequest = "agentd.coaching_request" // a *protocol.SpecializedCoachingRequest that was decoded
)
