package server

import (
	"context"
	"crypto/tls"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"agentd/internal/base/budget"
	"agentd/internal/base/tracing"
	"agentd/protocol"
	"agentd/server/openai"
)

// Options configure a Server.
type Options struct {
	Info  protocol.AgentInfo // the answer of /v1/info
	Build Build              // the program's version for /metrics
	// Coach answers the coaching routes; nil: they answer 503. It must agree with Info.
	Coach            Coach
	Log              zerolog.Logger    // for the access log and failures; never gets bodies or secrets
	Tokens           []string          // the accepted bearer tokens; empty: no authentication
	Clients          map[string]string // names of clients by token, for the log, metrics and traces
	MayChangeWeights map[string]bool   // the tokens with the right to change the weights
	Certificates     []tls.Certificate // for TLS; empty: plain HTTP
	LoadingWait      time.Duration     // how long a request waits at most while the model loads
	RequestTimeout   time.Duration     // limit of the generation of one request; 0: none
	// Completions adds the paths of OpenAI's API, for an Inference that is an openai.Provider.
	Completions bool
	Registry    *prometheus.Registry // the registry of /metrics, to which New adds the server's; nil: a new one
	Tracer      *tracing.Tracer      // makes the spans of requests; nil: no tracing
	Memory      *budget.Budget       // of all requests together; nil: budget.Default bytes
}

// Server is the HTTP server. Make it with New.
type Server struct {
	opts     Options
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
	healthy  atomic.Value   // closed, as <-chan struct{}, when the last pause of vLLM's path has ended

	mu        sync.Mutex // guards the following; held for a few instructions only
	state     State
	failed    bool          // the model cannot be loaded
	hangs     error         // a step of the load is stuck; nil: it is not
	loaded    chan struct{} // closed when requests no longer wait for the model
	inference Inference     // set by Ready
	inFlight  int           // requests between admit and end
	idle      chan struct{} // closed when draining and inFlight is 0
}

// Paths that middleware handles specially, and the path before a run_id.
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
	keyClient    = "agentd.client"  // name of the token's client, "" without one
	keyWeights   = "agentd.weights" // true: the client may change the weights
	keyStatus    = "agentd.status"  // status for log and metrics, if not the sent one
	keyReason    = "agentd.reason"  // reason of a failed request, for the log
	keyOpenAI    = "agentd.openai"  // true: errors have the form of OpenAI's API

	keyCoachingRequest = "agentd.coaching_request" // the decoded *protocol.SpecializedCoachingRequest
)
