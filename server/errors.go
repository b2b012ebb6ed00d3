package server

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"agentd/coaching"
	"agentd/internal/base/budget"
	"agentd/internal/base/clip"
	"agentd/internal/http/transfer"
	"agentd/protocol"
	"agentd/scheduler/generation"
	"agentd/server/openai"
)

// Code is the kind of an error answer, with its status and its default detail.
type Code *code

type code struct {
	status int
	detail string
	retry  time.Duration // Retry-After; 0: none
	rest   transfer.Rest // what happens to the unread part of the request's body
}

var codes []Code // all codes

func newCode(status int, detail string, retry time.Duration, rest transfer.Rest) Code {
	codes = append(codes, &code{status, detail, retry, rest})
	return codes[len(codes)-1]
}

const statusClientGone = 499 // for logs and metrics: the client left before the answer

// The table of all HTTP errors.
var (
	CodeInternal            = newCode(http.StatusInternalServerError, "internal error; the server's log has the request id", 0, 0)
	CodeInvalid             = newCode(http.StatusUnprocessableEntity, "invalid request", 0, 0)
	CodeBrokenBody          = newCode(http.StatusBadRequest, "the body is not valid HTTP", 0, transfer.RestDrain)
	CodeUnauthorized        = newCode(http.StatusUnauthorized, "a bearer token is required: send Authorization: Bearer <token>", 0, 0)
	CodeForbidden           = newCode(http.StatusForbidden, "this server answers programs, not pages in a browser: serve the page and this server on one origin, such as by a proxy, and configure bearer tokens", 0, 0)
	CodeForeignHost         = newCode(http.StatusMisdirectedRequest, "this server listens on a loopback address and answers to localhost and IP addresses only; a proxy in front of it sends Host: 127.0.0.1, or configure bearer tokens", 0, 0)
	CodeNotFound            = newCode(http.StatusNotFound, "no such path; see /openapi.json", 0, 0)
	CodeNoSession           = newCode(http.StatusNotFound, "this run has no coaching session", 0, 0)
	CodeMethodNotAllowed    = newCode(http.StatusMethodNotAllowed, "method not allowed; see the Allow header", 0, 0)
	CodeSlowBody            = newCode(http.StatusRequestTimeout, "the request body did not arrive in time", 0, transfer.RestDrain)
	CodeConflict            = newCode(http.StatusConflict, "this run has a coaching session with another configuration", 0, 0)
	CodeTooLarge            = newCode(http.StatusRequestEntityTooLarge, fmt.Sprintf("the request body is larger than %d bytes; send fewer inputs in each request", maxBody), 0, transfer.RestClose)
	CodeMediaType           = newCode(http.StatusUnsupportedMediaType, "send the body with the header Content-Type: application/json", 0, 0)
	CodeLoading             = newCode(http.StatusServiceUnavailable, "the model is still loading", retryLoading, 0)
	CodeNotLoaded           = newCode(http.StatusServiceUnavailable, "the model could not be loaded; the server's log has the reason", retryDraining, 0)
	CodeDraining            = newCode(http.StatusServiceUnavailable, "the server is shutting down", retryDraining, 0)
	CodeBusy                = newCode(http.StatusServiceUnavailable, "the queue is full", retryBusy, 0)
	CodeCoachingUnavailable = newCode(http.StatusServiceUnavailable, "specialized coaching is unavailable", 0, 0)
	CodeUnreachable         = newCode(http.StatusServiceUnavailable, "a coaching backend cannot be used", 0, 0)
	CodeStoreDown           = newCode(http.StatusServiceUnavailable, "the store of coaching sessions cannot be reached; the server's log has the reason", retryDraining, 0)
	CodeUnsupported         = newCode(http.StatusBadRequest, "the request is not supported", 0, 0)
	CodeTimeout             = newCode(http.StatusGatewayTimeout, "the request's time was up before the answer was complete; ask for less, or raise request_timeout on the server", 0, 0)
	CodeNotImplemented      = newCode(http.StatusNotImplemented, "this server can't do this", 0, 0)
	CodeNoMemory            = newCode(http.StatusInsufficientStorage, "the memory is too small", 0, 0)
	// Clients of HTTP/1.0 that closed their sending side read this, and must not see success.
	CodeClientGone = newCode(http.StatusServiceUnavailable, "the client closed the connection before the answer", 0, transfer.RestGone)
)

// Error is an error answer. Only Code is required.
type Error struct {
	Code       Code
	Detail     string            // replaces the table's
	Param      string            // the field, for OpenAI's API
	Problems   protocol.Problems // replace the detail of CodeInvalid
	RetryAfter time.Duration     // replaces the table's if it is longer
	Err        error             // the cause: logged, never sent
}

func (e *Error) Error() string {
	detail := e.detail()
	if e.Err != nil {
		return detail + ": " + e.Err.Error()
	}
	return detail
}

// reason returns the text for the client in one line, for the log.
func (e *Error) reason() string {
	reason := e.detail()
	if len(e.Problems) > 0 {
		reason = e.Problems.All()
	}
	return clip.Text(strings.ReplaceAll(reason, "\n", "; "), maxLogReason)
}

// logged returns the reason for the log of requests, without text from a body: problems become types and fields.
func (e *Error) logged() string {
	if len(e.Problems) == 0 {
		return clip.Text(e.reason(), maxLogCause)
	}
	problems := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		loc := make([]string, len(p.Loc))
		for k, step := range p.Loc {
			loc[k] = fmt.Sprint(step)
			if name, ok := step.(string); ok && (!fieldName.MatchString(name) || p.Type == protocol.TypeExtraForbidden && k == len(p.Loc)-1) {
				loc[k] = "*"
			}
		}
		problems[i] = p.Type + " at " + strings.Join(loc, ".")
	}
	return clip.Text(strings.Join(problems, "; "), maxLogCause)
}

var fieldName = regexp.MustCompile(`^[a-z_]{1,40}$`) // matches names of the protocol's fields

func (e *Error) detail() string { return cmp.Or(e.Detail, e.Code.detail) }

func (e *Error) Unwrap() error { return e.Err }

// asError returns the Error for err. An error that it does not know is internal.
func asError(err error) *Error {
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	var problems protocol.Problems
	var refused *openai.Error
	var overflow *generation.OverflowError
	var full *generation.QueueFullError
	var busy *generation.BusyError
	var tooLarge *budget.TooLargeError
	var sessions *coaching.FullError
	var unreachable *coaching.UnreachableError
	var store *coaching.StoreError
	switch {
	case errors.As(err, &problems):
		return &Error{Code: CodeInvalid, Problems: problems}
	case errors.As(err, &refused) && refused.Answer:
		return &Error{Code: CodeInvalid, Detail: refused.Error(), Param: refused.Param}
	case errors.As(err, &refused):
		return &Error{Code: CodeUnsupported, Detail: refused.Error(), Param: refused.Param}
	case errors.As(err, &overflow):
		return &Error{Code: CodeUnsupported, Detail: overflow.Error()}
	case errors.Is(err, generation.ErrGrammar), errors.Is(err, generation.ErrRemote):
		return &Error{Code: CodeUnsupported, Detail: err.Error()}
	case errors.As(err, &full):
		return &Error{Code: CodeBusy, Detail: full.Error(), RetryAfter: full.RetryAfter}
	case errors.As(err, &busy):
		return &Error{Code: CodeBusy, Detail: busy.Reason, RetryAfter: busy.RetryAfter}
	case errors.Is(err, budget.ErrFull):
		return &Error{Code: CodeBusy, Detail: budget.ErrFull.Error()}
	case errors.As(err, &tooLarge):
		// What the model holds changes, and with it what requests may hold.
		return &Error{Code: CodeTooLarge, Detail: tooLarge.Error(), RetryAfter: retryDraining}
	case errors.Is(err, generation.ErrPaused):
		return &Error{Code: CodeBusy, Detail: err.Error()}
	case errors.Is(err, generation.ErrClosed):
		return &Error{Code: CodeDraining, Err: err}
	case errors.Is(err, coaching.ErrUnknown):
		return &Error{Code: CodeNoSession, Detail: err.Error()}
	case errors.Is(err, coaching.ErrConflict), errors.Is(err, coaching.ErrClosing):
		return &Error{Code: CodeConflict, Detail: err.Error()}
	case errors.As(err, &unreachable):
		return &Error{Code: CodeUnreachable, Detail: unreachable.Error()}
	case errors.As(err, &sessions):
		return &Error{Code: CodeBusy, Detail: sessions.What, RetryAfter: sessions.RetryAfter}
	case errors.As(err, &store):
		// The cause names the database, which is the operator's affair.
		return &Error{Code: CodeStoreDown, Err: err}
	case errors.Is(err, coaching.ErrShutdown):
		return &Error{Code: CodeDraining}
	}
	return &Error{Code: CodeInternal, Err: err}
}

// ended returns the Error for the end of a request's context: the server cancelled it, or the client left.
func ended(cause error) *Error {
	if e, ok := errors.AsType[*Error](cause); ok {
		return e
	}
	return &Error{Code: CodeClientGone}
}

// invalid returns the Error for an answer of ours that violates the protocol.
func invalid(err error) *Error {
	return &Error{Code: CodeInternal, Err: fmt.Errorf("response is invalid: %w", err)}
}

// otherAPI is the message for a body of OpenAI's Responses API, which has the same path.
const otherAPI = "this path is the agent server protocol, not OpenAI's Responses API: let the client use /v1/chat/completions, " +
	"as with client.chat.completions.create, set_default_openai_api(\"chat_completions\") or setOpenAIAPI(\"chat_completions\") of OpenAI Agents, .chat(model) of the AI SDK or rig, " +
	"use_responses_api=False or useResponsesApi: false of LangChain, OpenAIChatModel of pydantic-ai (docs/faq.md)"

// sayOtherAPI replaces the problems of a body of that API, since clients show a few lines only.
func sayOtherAPI(err error) error {
	problems, _ := errors.AsType[protocol.Problems](err)
	has := func(problem string) bool {
		return slices.ContainsFunc(problems, func(p protocol.Problem) bool { return p.Type+" "+p.Path() == problem })
	}
	if has(protocol.TypeExtraForbidden+" body.input") && has(protocol.TypeMissing+" body.inputs") {
		return protocol.Problems{{Type: protocol.TypeValue, Loc: []any{"body", "input"}, Msg: otherAPI}}
	}
	return err
}
