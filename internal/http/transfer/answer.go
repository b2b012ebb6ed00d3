package transfer

import (
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/gin-gonic/gin"

	"agentd/internal/http/connection"
	"agentd/protocol"
)

// Rest is what [SendError] does with the unread part of a request's body.
type Rest int

const (
	// RestLinger continues to read for a while: a client that is still sending would get a reset instead of the answer.
	RestLinger Rest = iota
	// RestClose continues to read for a while, and closes the connection.
	RestClose
	// RestDrain closes the connection of a body without a known end, see connection.Drain.
	RestDrain
	// RestGone does nothing: the client has left.
	RestGone
)

// ErrorAnswer is an answer with an error status: {"detail": …} or Body.
type ErrorAnswer struct {
	Status     int
	Detail     string            // for people
	Problems   protocol.Problems // of invalid input; replaces Detail
	Body       []byte            // in the form of another protocol; replaces both
	RetryAfter time.Duration     // header Retry-After; 0: none
	Rest       Rest
}

// SendError sends an answer and handles the rest of the request's body, see Rest. The error is that of
// a client that does not read the answer.
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
