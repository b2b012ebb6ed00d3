package console

import (
	"errors"
	"fmt"
	"net/http"

	"agentd/internal/http/transfer"
	"agentd/protocol"
)

// failure is an error answer with its cause.
type failure struct {
	transfer.ErrorAnswer
	err error // logged, never sent
}

func (f *failure) Error() string {
	if f.err != nil {
		return f.Detail + ": " + f.err.Error()
	}
	if len(f.Problems) > 0 {
		return f.Problems.Error()
	}
	return f.Detail
}

func (f *failure) Unwrap() error { return f.err }

// fail returns a failure with a sentence. After a 503 a client should repeat its request.
func fail(status int, format string, args ...any) *failure {
	f := &failure{ErrorAnswer: transfer.ErrorAnswer{Status: status, Detail: fmt.Sprintf(format, args...)}}
	if status == http.StatusServiceUnavailable {
		f.RetryAfter = retryAfter
	}
	return f
}

// invalid returns a 422 with its problems.
func invalid(problems ...protocol.Problem) *failure {
	return &failure{ErrorAnswer: transfer.ErrorAnswer{Status: http.StatusUnprocessableEntity, Problems: problems}}
}

// leaving sets the treatment of the rest of the request's body.
func (f *failure) leaving(rest transfer.Rest) *failure {
	f.Rest = rest
	return f
}

// Failures that several handlers return.
var (
	errNoTask     = fail(http.StatusNotFound, "there is no such task; it may be too old to be kept")
	errLapsed     = fail(http.StatusConflict, "your claim on this task has lapsed; claim it again")
	errDone       = fail(http.StatusConflict, "the task is already answered")
	errWithdrawn  = fail(http.StatusConflict, "the agent withdrew the task")
	errFull       = fail(http.StatusServiceUnavailable, "%d tasks are waiting for people, which is the most this console takes", maxOpen)
	errStopping   = fail(http.StatusServiceUnavailable, "the console is stopping; post the same request again to go on waiting")
	errClientGone = fail(http.StatusServiceUnavailable, "the client closed the connection before the answer").leaving(transfer.RestGone)
)

// asFailure returns the failure for err. An error that it does not know is internal.
func asFailure(err error) *failure {
	if f, ok := errors.AsType[*failure](err); ok {
		return f
	}
	if problems, ok := errors.AsType[protocol.Problems](err); ok {
		return invalid(problems...)
	}
	return &failure{ErrorAnswer: transfer.ErrorAnswer{Status: http.StatusInternalServerError, Detail: "internal error; the console's log has the request id"}, err: err}
}
