package console

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"mime"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"agentd/protocol"

	"github.com/gin-gonic/gin"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// jsonBody refuses bodies that are declared to be something other than JSON.
func (c *Console) jsonBody(g *gin.Context) {
	declared := g.GetHeader("Content-Type")
	if declared == "" {
		return
	}
	if kind, _, err := mime.ParseMediaType(declared); err != nil || kind != "application/json" {
		c.fail(g, errMediaType)
	}
}

// readBody reads a body to its end, which also lets net/http notice a client
// that leaves later.
func (c *Console) readBody(g *gin.Context, limit int64) ([]byte, error) {
	if g.Request.ContentLength > limit {
		return nil, errTooLarge
	}
	control := http.NewResponseController(g.Writer)
	// Writers without deadlines (in tests) say so; there is nothing to do then.
	_ = control.SetReadDeadline(time.Now().Add(bodyTimeout))
	defer func() { _ = control.SetReadDeadline(time.Time{}) }()

	body, err := io.ReadAll(http.MaxBytesReader(g.Writer, g.Request.Body, limit))
	var tooLarge *http.MaxBytesError
	switch {
	case err == nil:
		return body, nil
	case errors.As(err, &tooLarge):
		return nil, errTooLarge
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, errSlowBody
	}
	return nil, errClientGone
}

// body is a body of the people's API: it knows what is wrong with itself.
type body interface{ check() error }

// read reads a body of the people's API into b. It answers the request itself
// when it is invalid.
func (c *Console) read(g *gin.Context, b body) bool {
	raw, err := c.readBody(g, maxPeopleBody)
	if err == nil {
		err = decode(raw, b)
	}
	if err != nil {
		c.fail(g, err)
		return false
	}
	return true
}

// decode reads JSON as strictly as the protocol does.
func decode(raw []byte, b body) error {
	err := json.Unmarshal(raw, b, json.RejectUnknownMembers(true))
	if err == nil {
		return b.check()
	}
	var semantic *json.SemanticError
	if !errors.As(err, &semantic) {
		return invalid(protocol.NewProblem(protocol.TypeJSONInvalid, err.Error()))
	}
	var loc []any
	for name := range semantic.JSONPointer.Tokens() {
		loc = append(loc, name)
	}
	if errors.Is(err, json.ErrUnknownName) {
		return invalid(protocol.NewProblem(protocol.TypeExtraForbidden, "unknown field; remove it", loc...))
	}
	return invalid(protocol.NewProblem(protocol.TypeValue, "a JSON "+semantic.JSONKind.String()+" is not allowed here", loc...))
}

// writeJSON sends a complete answer.
func (c *Console) writeJSON(g *gin.Context, status int, v any) {
	// What came from agents was checked; what is from elsewhere (a panic's text)
	// need not be UTF-8.
	body, err := json.Marshal(v, jsontext.AllowInvalidUTF8(true))
	if err != nil {
		c.fail(g, err)
		return
	}
	c.writeBytes(g, status, body)
}

// writeBytes sends JSON, gzipped when the client takes it and it pays.
func (c *Console) writeBytes(g *gin.Context, status int, body []byte) {
	h := g.Writer.Header()
	h.Set("Content-Type", "application/json; charset=utf-8")
	h.Add("Vary", "Accept-Encoding")
	if len(body) >= gzipFrom && acceptsGzip(g.Request) {
		body = compress(body)
		h.Set("Content-Encoding", "gzip")
	}
	h.Set("Content-Length", strconv.Itoa(len(body)))
	control := http.NewResponseController(g.Writer)
	_ = control.SetWriteDeadline(time.Now().Add(writeTimeout))
	g.Status(status)
	if _, err := g.Writer.Write(body); err != nil {
		c.log.Debug().Err(err).Str("request_id", g.GetString(keyRequestID)).Msg("the answer could not be sent")
		return
	}
	_ = control.Flush() // while the deadline holds, which the connection must not keep
	_ = control.SetWriteDeadline(time.Time{})
}

// acceptsGzip reads what browsers send; a client with weights gets plain JSON.
func acceptsGzip(r *http.Request) bool {
	for coding := range strings.SplitSeq(r.Header.Get("Accept-Encoding"), ",") {
		if strings.EqualFold(strings.TrimSpace(coding), "gzip") {
			return true
		}
	}
	return false
}

func compress(body []byte) []byte {
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	// Writes to a bytes.Buffer do not fail.
	_, _ = z.Write(body)
	_ = z.Close()
	return out.Bytes()
}

// empty answers that it is done and there is nothing to say.
func (c *Console) empty(g *gin.Context) {
	g.Status(http.StatusNoContent)
	g.Writer.WriteHeaderNow()
}

// fail answers the request with the reason in err and ends its handling.
func (c *Console) fail(g *gin.Context, err error) {
	f := asFailure(err)
	g.Abort()
	switch f.status {
	case http.StatusInternalServerError:
		c.log.Error().Err(err).Str("request_id", g.GetString(keyRequestID)).Msg("request failed")
	case http.StatusServiceUnavailable:
		g.Header("Retry-After", strconv.Itoa(int(retryAfter.Seconds())))
	case http.StatusRequestEntityTooLarge, http.StatusRequestTimeout:
		g.Header("Connection", "close") // the rest of the body is not worth reading
	}
	// Without it net/http gives up on a body when the answer begins.
	_ = http.NewResponseController(g.Writer).EnableFullDuplex()
	body := protocol.AppendErrorBody(nil, f.detail)
	if len(f.problems) > 0 {
		body = f.problems.AppendBody(nil)
	}
	c.writeBytes(g, f.status, body)
	if f != errSlowBody && f != errClientGone {
		linger(g)
	}
}

// linger reads on for a while behind an answer that came before the end of the
// body: a client that is still sending would find its connection reset, not see
// the answer, and send all of it again.
func linger(g *gin.Context) {
	control := http.NewResponseController(g.Writer)
	_ = control.SetReadDeadline(time.Now().Add(lingerTime))
	if _, err := io.CopyN(io.Discard, g.Request.Body, lingerBytes); errors.Is(err, io.EOF) { // to its end
		_ = control.SetReadDeadline(time.Time{})
	}
}
