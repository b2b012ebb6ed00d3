package transfer

import (
	"math"
	"net/http"
	"strconv"
	"time"

	"agentd/internal/http/connection"
	"agentd/protocol"

	"github.com/gin-gonic/gin"
)

// Rest is what [SendError] does with the part of a request's body that nobody read.
type Rest int

const (
	// RestLinger reads on for a while: a client that is still sending would see its connection
	// reset instead of the answer.
	RestLinger Rest = iota
	// RestClose reads on for a while, and closes the connection.
	RestClose
	// RestDrain closes the connection of a body that has no end to wait for.
	RestDrain
	// RestGone leaves the connection alone: its client has left.
	RestGone
)

// ErrorAnswer is an answer that is not a success: {"detail": …} or Body.
type ErrorAnswer struct {
	Status     int
	Detail     string            // for people
	Problems   protocol.Problems // replace Detail, for invalid input
	Body       []byte            // replaces both, for another protocol
	RetryAfter time.Duration     // 0: no header
	Rest       Rest
}

// SendError sends an answer and takes care of the rest of the request's body. It returns the
// error of a client that does not read the answer.
func SendError(c *gin.Context, a *ErrorAnswer) error {
	if a.RetryAfter > 0 {
		c.Header("Retry-After", strconv.Itoa(int(math.Ceil(a.RetryAfter.Seconds()))))
	}
	if a.Rest == RestClose || a.Rest == RestDrain {
		c.Header("Connection", "close")
	}
	// Without it, net/http stops reading the body when the answer begins.
	_ = http.NewResponseController(c.Writer).EnableFullDuplex()
	body := protocol.AppendErrorBody(nil, a.Detail)
	if len(a.Problems) > 0 {
		body = a.Problems.AppendBody(nil)
	}
	if a.Body != nil {
		body = a.Body
	}
	err := SendJSON(c, a.Status, body)
	switch a.Rest {
	case RestGone:
	case RestDrain:
		connection.Drain(c.Request)
	default:
		Linger(c)
	}
	return err
}
