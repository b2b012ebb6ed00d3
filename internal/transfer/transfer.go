// Package transfer reads JSON bodies of requests under limits of size and time, and sends JSON
// answers and errors. The agent server and the console share it.
package transfer

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"agentd/protocol"

	"github.com/gin-gonic/gin"
)

const (
	// lingerBytes and lingerTime bound how much of the rest of a refused body is read.
	lingerBytes = protocol.MaxBodyBytes
	lingerTime  = 5 * time.Second
	// bodyTimeout bounds the time in which a client sends its body.
	bodyTimeout = 2 * time.Minute
	// WriteTimeout bounds the time in which a client reads each writeChunk bytes of its
	// answer. It starts when the answer is ready, so it never cuts a long generation.
	WriteTimeout = 2 * time.Minute
	writeChunk   = 1 << 20
	// gzipFrom is the smallest answer in bytes for which compression saves time.
	gzipFrom = 1 << 10
	// bodyPrealloc bounds the memory that a Content-Length alone makes us allocate.
	bodyPrealloc = 1 << 20
)

// Reasons why a body could not be read.
var (
	ErrTooLarge  = errors.New("the body is too large")
	ErrSlow      = errors.New("the body did not arrive in time")
	ErrNotGzip   = errors.New("the body is not valid gzip")
	ErrGone      = errors.New("the client closed the connection before the end of the body")
	ErrBroken    = errors.New("the body is not valid HTTP")
	ErrMediaType = errors.New("the body's Content-Type is not JSON")
	ErrEncoding  = errors.New("the body's Content-Encoding is not gzip")
	ErrNoMemory  = errors.New("the bodies of all requests in work are too large together")
)

// Budget bounds the bytes of all bodies that are held at the same time. Each body alone is
// within its own limit, but a short gzip stream can decompress to a long one.
type Budget struct {
	limit int64
	used  atomic.Int64
}

// NewBudget makes a budget of so many bytes.
func NewBudget(limit int64) *Budget { return &Budget{limit: limit} }

// held counts the bytes of one body in a budget while it is read.
type held struct {
	io.Reader
	budget *Budget
	n      int64
}

func (h *held) Read(p []byte) (int, error) {
	n, err := h.Reader.Read(p)
	h.n += int64(n)
	if h.budget.used.Add(int64(n)) > h.budget.limit {
		return n, ErrNoMemory
	}
	return n, err
}

func (h *held) release() {
	h.budget.used.Add(-h.n)
	h.n = 0
}

// Declared checks the headers of a body, which must be JSON, plain or gzipped. The error is
// ErrMediaType or ErrEncoding.
func Declared(r *http.Request) error {
	if declared := r.Header.Get("Content-Type"); declared != "" {
		kind, _, err := mime.ParseMediaType(declared)
		if err != nil || kind != "application/json" {
			return ErrMediaType
		}
	}
	switch strings.ToLower(r.Header.Get("Content-Encoding")) {
	case "", "identity", "gzip":
		return nil
	}
	return ErrEncoding
}

// ReadBody reads a request's body to its end. Only then does net/http notice a client that
// leaves. The limit, in bytes, holds for the bytes on the wire and for the decompressed ones.
// The body counts in the budget until release is called; further calls do nothing. The error
// is one of this package's.
func ReadBody(c *gin.Context, limit int64, budget *Budget) (read []byte, release func(), err error) {
	h := &held{budget: budget}
	defer func() {
		if err != nil {
			h.release()
		}
	}()
	read, err = readBody(c, limit, h)
	return read, h.release, err
}

func readBody(c *gin.Context, limit int64, h *held) ([]byte, error) {
	req := c.Request
	if req.ContentLength > limit {
		return nil, ErrTooLarge
	}
	control := http.NewResponseController(c.Writer)
	// Writers of tests have no deadlines.
	_ = control.SetReadDeadline(time.Now().Add(bodyTimeout))
	defer func() { _ = control.SetReadDeadline(time.Time{}) }()

	wire := http.MaxBytesReader(c.Writer, req.Body, limit)
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
	h.Reader = io.LimitReader(source, limit+1)
	if _, err := body.ReadFrom(h); err != nil {
		return nil, bodyError(err, wire)
	}
	if int64(body.Len()) > limit {
		return nil, ErrTooLarge
	}
	if _, err := io.Copy(io.Discard, wire); err != nil { // behind the gzip stream
		return nil, bodyError(err, wire)
	}
	return body.Bytes(), nil
}

// bodyError is the reason why a body could not be read or decompressed.
func bodyError(err error, wire io.Reader) error {
	var tooLarge *http.MaxBytesError
	var corrupt flate.CorruptInputError
	switch {
	case errors.Is(err, ErrNoMemory):
		return ErrNoMemory
	case errors.As(err, &tooLarge):
		return ErrTooLarge
	case errors.Is(err, os.ErrDeadlineExceeded):
		return ErrSlow
	case errors.Is(err, gzip.ErrHeader), errors.Is(err, gzip.ErrChecksum), errors.As(err, &corrupt):
		return ErrNotGzip
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		// Either the gzip stream ends early in a complete body, or the body itself ends early.
		if _, err := io.Copy(io.Discard, wire); err == nil {
			return ErrNotGzip
		}
		return fmt.Errorf("%w: it ends before its declared end", ErrBroken)
	}
	// Errors of a connection have a type; errors in the chunks of a body have none.
	if failure := net.Error(nil); errors.As(err, &failure) {
		return fmt.Errorf("%w: %w", ErrGone, err)
	}
	return fmt.Errorf("%w: %w", ErrBroken, err)
}

// Linger reads on for a while after an answer that was sent before the end of the body. Without
// it, a client that is still sending would see its connection reset instead of the answer.
func Linger(c *gin.Context) {
	control := http.NewResponseController(c.Writer)
	_ = control.SetReadDeadline(time.Now().Add(lingerTime))
	if _, err := io.CopyN(io.Discard, c.Request.Body, lingerBytes); errors.Is(err, io.EOF) { // to its end
		_ = control.SetReadDeadline(time.Time{})
	}
}

// SendJSON sends a complete JSON answer, gzipped if the client accepts that and the answer is
// long enough. It returns the error of a client that does not read the answer.
func SendJSON(c *gin.Context, status int, body []byte) error {
	h := c.Writer.Header()
	h.Set("Content-Type", "application/json; charset=utf-8")
	h.Add("Vary", "Accept-Encoding")
	if len(body) >= gzipFrom && AcceptsGzip(c.GetHeader("Accept-Encoding")) {
		body = Compress(body)
		h.Set("Content-Encoding", "gzip")
	}
	h.Set("Content-Length", strconv.Itoa(len(body)))

	control := http.NewResponseController(c.Writer)
	c.Status(status)
	for rest := body; ; {
		_ = control.SetWriteDeadline(time.Now().Add(WriteTimeout))
		n := min(len(rest), writeChunk)
		if _, err := c.Writer.Write(rest[:n]); err != nil {
			return err
		}
		if rest = rest[n:]; len(rest) == 0 {
			break
		}
	}
	// The connection may be kept alive, so the deadline must end with the answer. The flush
	// must happen before that.
	_ = control.Flush()
	_ = control.SetWriteDeadline(time.Time{})
	return nil
}

// zippers reuses compressors, which are large.
var zippers = sync.Pool{New: func() any {
	z, err := gzip.NewWriterLevel(io.Discard, gzip.BestSpeed)
	if err != nil {
		panic(err) // BestSpeed is a valid level
	}
	return z
}}

// Compress gzips a body, for speed rather than size.
func Compress(body []byte) []byte {
	var out bytes.Buffer
	z := zippers.Get().(*gzip.Writer)
	defer zippers.Put(z)
	z.Reset(&out)
	// Writes to a bytes.Buffer do not fail.
	_, _ = z.Write(body)
	_ = z.Close()
	return out.Bytes()
}

// AcceptsGzip reports whether an Accept-Encoding header admits gzip: it has gzip or *, without q=0.
func AcceptsGzip(header string) bool {
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
		if coding == "gzip" { // outranks *
			return wanted
		}
		accepted = wanted
	}
	return accepted
}
