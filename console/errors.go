package console

import (
	"errors"
	"fmt"
	"net/http"

	"agentd/internal/transfer"
	"agentd/protocol"
)

// failure is a reason for an answer that is not a success: a status and a
// sentence, or the problems of a 422.
type failure struct {
	status   int
	detail   string
	problems protocol.Problems
	err      error // the cause: logged, never sent
}

func (f *failure) Error() string {
	if f.err != nil {
		return f.detail + ": " + f.err.Error()
	}
	if len(f.problems) > 0 {
		return f.problems.Error()
	}
	return f.detail
}

func (f *failure) Unwrap() error { return f.err }

func fail(status int, format string, args ...any) *failure {
	return &failure{status: status, detail: fmt.Sprintf(format, args...)}
}

// invalid is a 422 with its problems.
func invalid(problems ...protocol.Problem) *failure {
	return &failure{status: http.StatusUnprocessableEntity, problems: problems}
}

// Reasons that more than one place has.
var (
	errNoTask     = fail(http.StatusNotFound, "there is no such task; it may be too old to be kept")
	errLapsed     = fail(http.StatusConflict, "your claim on this task has lapsed; claim it again")
	errDone       = fail(http.StatusConflict, "the task is already answered")
	errWithdrawn  = fail(http.StatusConflict, "the agent withdrew the task")
	errOther      = fail(http.StatusConflict, "another request with this request_id is known; give each request an id of its own")
	errFull       = fail(http.StatusServiceUnavailable, "%d tasks are waiting for people, which is the most this console takes", maxOpen)
	errStopping   = fail(http.StatusServiceUnavailable, "the console is stopping; post the same request again to go on waiting")
	errRemoved    = fail(http.StatusServiceUnavailable, "the task was removed just now; post the same request again")
	errTooLarge   = fail(http.StatusRequestEntityTooLarge, "the body is larger than this path takes")
	errNoRoom     = fail(http.StatusServiceUnavailable, "%s", transfer.ErrNoRoom)
	errMediaType  = fail(http.StatusUnsupportedMediaType, "send the body with the header Content-Type: application/json")
	errEncoding   = fail(http.StatusUnsupportedMediaType, "send the body plain or as valid gzip with Content-Encoding: gzip")
	errSlowBody   = fail(http.StatusRequestTimeout, "the request body did not arrive in time")
	errClientGone = fail(http.StatusServiceUnavailable, "the client closed the connection before the answer")
)

// asFailure finds the reason in err; what has none is internal.
func asFailure(err error) *failure {
	var f *failure
	if errors.As(err, &f) {
		return f
	}
	var problems protocol.Problems
	if errors.As(err, &problems) {
		return invalid(problems...)
	}
	return &failure{status: http.StatusInternalServerError, detail: "internal error; the console's log has the request id", err: err}
}
