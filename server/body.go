package server

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"errors"
	"io"
	"mime"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gin-gonic/gin"
)

// jsonBody refuses bodies that are declared to be something other than JSON,
// plain or gzipped.
func (s *Server) jsonBody(c *gin.Context) {
	if declared := c.GetHeader("Content-Type"); declared != "" {
		kind, _, err := mime.ParseMediaType(declared)
		if err != nil || kind != "application/json" {
			s.fail(c, &Error{Code: CodeMediaType})
			return
		}
	}
	switch strings.ToLower(c.GetHeader("Content-Encoding")) {
	case "", "identity", "gzip":
	default:
		c.Header("Accept-Encoding", "gzip")
		s.fail(c, &Error{Code: CodeMediaType, Detail: "send the body plain or with Content-Encoding: gzip"})
	}
}

// readBody reads the request body to its end, which is also what lets net/http
// notice a client that leaves later. The limit holds for the bytes on the wire
// and for the bytes they decompress to.
func (s *Server) readBody(c *gin.Context) ([]byte, error) {
	req := c.Request
	if req.ContentLength > maxBody {
		return nil, &Error{Code: CodeTooLarge}
	}
	control := http.NewResponseController(c.Writer)
	// Writers without deadlines (in tests) say so; there is nothing to do then.
	_ = control.SetReadDeadline(time.Now().Add(bodyTimeout))
	defer func() { _ = control.SetReadDeadline(time.Time{}) }()

	wire := http.MaxBytesReader(c.Writer, req.Body, maxBody)
	var source io.Reader = wire
	if strings.EqualFold(c.GetHeader("Content-Encoding"), "gzip") {
		unzip, err := gzip.NewReader(wire)
		if err != nil {
			return nil, bodyError(err, wire)
		}
		source = unzip
	}
	var body bytes.Buffer
	body.Grow(int(min(max(req.ContentLength, 0), bodyPrealloc)) + bytes.MinRead)
	if _, err := body.ReadFrom(io.LimitReader(source, maxBody+1)); err != nil {
		return nil, bodyError(err, wire)
	}
	if body.Len() > maxBody {
		return nil, &Error{Code: CodeTooLarge}
	}
	if _, err := io.Copy(io.Discard, wire); err != nil { // behind the gzip stream
		return nil, bodyError(err, wire)
	}
	return body.Bytes(), nil
}

// bodyError is the reason why a body could not be read from the wire, or not be
// decompressed.
func bodyError(err error, wire io.Reader) error {
	var tooLarge *http.MaxBytesError
	var corrupt flate.CorruptInputError
	switch {
	case errors.As(err, &tooLarge):
		return &Error{Code: CodeTooLarge}
	case errors.Is(err, os.ErrDeadlineExceeded):
		return &Error{Code: CodeSlowBody}
	case errors.Is(err, gzip.ErrHeader), errors.Is(err, gzip.ErrChecksum), errors.As(err, &corrupt):
		return errNotGzip
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		// Either the gzip stream is cut short in a whole body, or the body is.
		if _, err := io.Copy(io.Discard, wire); err == nil {
			return errNotGzip
		}
	}
	return &Error{Code: CodeClientGone, Err: err}
}

var errNotGzip = &Error{Code: CodeMediaType, Detail: "the body is not valid gzip"}

// linger reads on for a while behind an answer that came before the end of the
// body: a client that is still sending would find its connection reset, and would
// not see the answer.
func linger(c *gin.Context) {
	control := http.NewResponseController(c.Writer)
	_ = control.SetReadDeadline(time.Now().Add(lingerTime))
	if _, err := io.CopyN(io.Discard, c.Request.Body, lingerBytes); errors.Is(err, io.EOF) { // to its end
		_ = control.SetReadDeadline(time.Time{})
	}
}

// zippers keeps compressors, which are large, for reuse.
var zippers = sync.Pool{New: func() any {
	z, err := gzip.NewWriterLevel(io.Discard, gzip.BestSpeed)
	if err != nil {
		panic(err) // BestSpeed is a valid level
	}
	return z
}}

// writeJSON sends a complete JSON answer, gzipped when the client asks for it
// and it pays. All answers but /metrics go through here.
func (s *Server) writeJSON(c *gin.Context, status int, body []byte) {
	h := c.Writer.Header()
	h.Set("Content-Type", "application/json; charset=utf-8")
	h.Add("Vary", "Accept-Encoding")
	if len(body) >= gzipFrom && acceptsGzip(c.GetHeader("Accept-Encoding")) {
		body = compress(body)
		h.Set("Content-Encoding", "gzip")
	}
	h.Set("Content-Length", strconv.Itoa(len(body)))

	control := http.NewResponseController(c.Writer)
	_ = control.SetWriteDeadline(time.Now().Add(writeTimeout))
	c.Status(status)
	if _, err := c.Writer.Write(body); err != nil {
		s.log.Debug().Err(err).Str("request_id", c.GetString(keyRequestID)).Msg("the answer could not be sent")
		return
	}
	// Flushed here, while the deadline holds; the connection may be kept alive,
	// so the deadline must not outlive the answer.
	_ = control.Flush()
	_ = control.SetWriteDeadline(time.Time{})
}

func compress(body []byte) []byte {
	var out bytes.Buffer
	z := zippers.Get().(*gzip.Writer)
	defer zippers.Put(z)
	z.Reset(&out)
	// Writes to a bytes.Buffer do not fail.
	_, _ = z.Write(body)
	_ = z.Close()
	return out.Bytes()
}

// acceptsGzip reads an Accept-Encoding header: gzip or *, unless with q=0.
func acceptsGzip(header string) bool {
	accepted := false
	for part := range strings.SplitSeq(header, ",") {
		coding, params, _ := strings.Cut(part, ";")
		coding = strings.ToLower(strings.TrimSpace(coding))
		if coding != "gzip" && coding != "*" {
			continue
		}
		wanted := true
		if q, ok := strings.CutPrefix(strings.ReplaceAll(strings.ToLower(params), " ", ""), "q="); ok {
			weight, err := strconv.ParseFloat(q, 64)
			wanted = err == nil && weight > 0
		}
		if coding == "gzip" { // named outright: outranks *
			return wanted
		}
		accepted = wanted
	}
	return accepted
}
