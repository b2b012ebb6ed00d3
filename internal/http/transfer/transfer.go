// Package transfer reads JSON bodies of requests with limits of size and time, and sends JSON
// answers and errors. The agent server and the console share it.
package transfer

import (
	"bufio"
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
	"time"

	"github.com/gin-gonic/gin"

	"agentd/internal/base/budget"
	"agentd/protocol"
)

const (
	lingerBytes = protocol.MaxBodyBytes // how much of a refused body's rest is read
	lingerTime  = 5 * time.Second       // how long it is read
	bodyTimeout = 2 * time.Minute       // for a client to send its body

	// WriteTimeout is the time that a client has to read each writeChunk bytes of a streamed answer. Only the time of
	// writes counts, so it does not limit a long generation. In all, a client must read writeRate bytes a second: one
	// that reads a little now and then would otherwise hold its answer for hours.
	WriteTimeout = 2 * time.Minute
	writeChunk   = 1 << 20
	writeRate    = 256 << 10

	writeBuffer  = 64 << 10 // bytes; joins short parts of an answer
	gzipFrom     = 1 << 10  // bytes; shorter answers are not compressed
	bodyPrealloc = 1 << 20  // the most bytes that are allocated because of a Content-Length
	usualRatio   = 4        // usual ratio of a body's size to its gzipped size
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
)

// ReadBody reads a request's JSON body, plain or gzipped, to its end: only after that, net/http detects a client that
// leaves. limit, in bytes, applies before and after decompression. The body's memory is added to share while it is
// read. The error is one of this package's, or share's.
func ReadBody(c *gin.Context, limit int64, share *budget.Share) ([]byte, error) {
	req := c.Request
	if declared := c.GetHeader("Content-Type"); declared != "" {
		if kind, _, err := mime.ParseMediaType(declared); err != nil || kind != "application/json" {
			return nil, ErrMediaType
		}
	}
	if req.ContentLength > limit {
		return nil, ErrTooLarge
	}
	control := http.NewResponseController(c.Writer)
	// Writers of tests have no deadlines.
	_ = control.SetReadDeadline(time.Now().Add(bodyTimeout))
	defer func() { _ = control.SetReadDeadline(time.Time{}) }()

	wire := http.MaxBytesReader(c.Writer, req.Body, limit)
	most := limit + 1 // one byte more shows that a body is too large
	start := min(max(req.ContentLength, 0)*usualRatio+bytes.MinRead, bodyPrealloc)
	var source io.Reader = wire
	switch strings.ToLower(c.GetHeader("Content-Encoding")) {
	case "gzip":
		unzip, err := gzip.NewReader(wire)
		if err != nil {
			return nil, bodyError(err, wire)
		}
		source = unzip
	case "", "identity":
		if req.ContentLength >= 0 {
			most = req.ContentLength + 1 // which finds the end
			start = min(most, bodyPrealloc)
		}
	default:
		c.Header("Accept-Encoding", "gzip")
		return nil, ErrEncoding
	}
	body, err := readAll(source, start, most, share)
	if err != nil {
		return nil, bodyError(err, wire)
	}
	if int64(len(body)) > limit {
		return nil, ErrTooLarge
	}
	if _, err := io.Copy(io.Discard, wire); err != nil { // after the gzip stream
		return nil, bodyError(err, wire)
	}
	return body, nil
}

// readAll reads at most most bytes into a buffer, which begins with start bytes and grows with the data. share
// includes the buffer, and its copy while it grows.
func readAll(from io.Reader, start, most int64, share *budget.Share) ([]byte, error) {
	rest := share.Held()
	move := func(body []byte, size int64) ([]byte, error) {
		if err := share.Hold(rest + int64(cap(body)) + size); err != nil {
			return nil, err
		}
		body = append(make([]byte, 0, size), body...)
		return body, share.Hold(rest + size) // it shrinks
	}
	body, err := move(nil, start)
	for err == nil && int64(len(body)) < most {
		if len(body) == cap(body) {
			if body, err = move(body, min(most, 2*int64(cap(body)))); err != nil {
				return nil, err
			}
		}
		var n int
		n, err = from.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if len(body) < cap(body)/2 { // what is decoded refers to it
		if short, err := move(body, int64(len(body))); err == nil {
			return short, nil
		}
	}
	return body, nil
}

// bodyError returns this package's error for an error of reading or decompressing a body.
func bodyError(err error, wire io.Reader) error {
	switch {
	case errors.Is(err, budget.ErrFull), errors.As(err, new(*budget.TooLargeError)):
		return err
	case errors.As(err, new(*http.MaxBytesError)):
		return ErrTooLarge
	case errors.Is(err, os.ErrDeadlineExceeded):
		return ErrSlow
	case errors.Is(err, gzip.ErrHeader), errors.Is(err, gzip.ErrChecksum), errors.As(err, new(flate.CorruptInputError)):
		return ErrNotGzip
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		// Either the gzip stream ends early in a complete body, or the body itself ends early.
		if _, err := io.Copy(io.Discard, wire); err == nil {
			return ErrNotGzip
		}
		return fmt.Errorf("%w: it ends before its declared end", ErrBroken)
	case errors.As(err, new(net.Error)): // of a connection; errors in the chunks of a body have no type
		return fmt.Errorf("%w: %w", ErrGone, err)
	}
	return fmt.Errorf("%w: %w", ErrBroken, err)
}

// Linger continues to read for a while after an answer that was sent before the end of the body. Without
// that, a client that is still sending would get a reset instead of the answer.
func Linger(c *gin.Context) {
	control := http.NewResponseController(c.Writer)
	_ = control.SetReadDeadline(time.Now().Add(lingerTime))
	if _, err := io.CopyN(io.Discard, c.Request.Body, lingerBytes); errors.Is(err, io.EOF) { // to its end
		_ = control.SetReadDeadline(time.Time{})
	}
}

const jsonType = "application/json; charset=utf-8"

// SendJSON sends a complete JSON answer, gzipped if the client accepts that and the answer is long enough. The client
// has WriteTimeout plus a second for each writeRate bytes to read it; otherwise there is an error.
func SendJSON(c *gin.Context, status int, body []byte) error {
	if len(body) >= gzipFrom && AcceptsGzip(c.GetHeader("Accept-Encoding")) {
		var packed bytes.Buffer // whose writes do not fail
		z := zippers.Get().(*gzip.Writer)
		z.Reset(&packed)
		_, _ = z.Write(body)
		_ = z.Close()
		zippers.Put(z) // not after the client has read
		body = packed.Bytes()
		c.Header("Content-Encoding", "gzip")
	}
	c.Header("Content-Type", jsonType)
	c.Header("Content-Length", strconv.Itoa(len(body)))
	c.Writer.Header().Add("Vary", "Accept-Encoding")
	c.Status(status)
	control := http.NewResponseController(c.Writer)
	_ = control.SetWriteDeadline(time.Now().Add(WriteTimeout + time.Duration(len(body))*time.Second/writeRate))
	if _, err := c.Writer.Write(body); err != nil {
		return err
	}
	kept(control)
	return nil
}

// StreamJSON is SendJSON for a long answer, which write writes in parts. It is never in memory as a
// whole, and has no Content-Length.
func StreamJSON(c *gin.Context, status int, write func(io.Writer) error) error {
	c.Header("Content-Type", jsonType)
	c.Writer.Header().Add("Vary", "Accept-Encoding")
	c.Status(status)
	buffered := bufio.NewWriterSize(newPatientWriter(c, c.Writer), writeBuffer)
	var err error
	if AcceptsGzip(c.GetHeader("Accept-Encoding")) {
		c.Header("Content-Encoding", "gzip")
		z := zippers.Get().(*gzip.Writer)
		defer zippers.Put(z)
		z.Reset(buffered)
		err = errors.Join(write(z), z.Close())
	} else {
		err = write(buffered)
	}
	if err = errors.Join(err, buffered.Flush()); err != nil {
		return err
	}
	kept(http.NewResponseController(c.Writer))
	return nil
}

// kept removes the write deadline after an answer, since the connection may be kept alive.
func kept(control *http.ResponseController) {
	_ = control.Flush()
	_ = control.SetWriteDeadline(time.Time{})
}

// Parts returns a function that sends the parts of a stream immediately, and the headers with the first
// part, which may be empty. Its error is that of a client that does not read.
func Parts(c *gin.Context, contentType string) (send func(part []byte) error) {
	patient := newPatientWriter(c, flushed{c.Writer})
	return func(part []byte) error {
		if !c.Writer.Written() {
			c.Header("Content-Type", contentType)
			c.Header("X-Accel-Buffering", "no") // nginx would buffer them
		}
		_, err := patient.Write(part)
		_ = patient.deadline(time.Time{}) // the connection may be kept alive
		return err
	}
}

// flushed is a writer that flushes after each write.
type flushed struct{ to http.ResponseWriter }

func (f flushed) Write(p []byte) (int, error) {
	n, err := f.to.Write(p)
	if err == nil {
		err = http.NewResponseController(f.to).Flush()
	}
	return n, err
}

// patientWriter sets write deadlines for each part of an answer, see WriteTimeout. The time between two writes
// does not count.
type patientWriter struct {
	to       io.Writer
	deadline func(time.Time) error // sets the deadline of the next write
	now      func() time.Time
	left     time.Duration // the client's time for the next part
}

func newPatientWriter(c *gin.Context, to io.Writer) *patientWriter {
	return &patientWriter{to: to, deadline: http.NewResponseController(c.Writer).SetWriteDeadline, now: time.Now, left: WriteTimeout}
}

func (w *patientWriter) Write(p []byte) (written int, err error) {
	for rest := p; ; {
		part := rest[:min(len(rest), writeChunk)]
		began := w.now()
		_ = w.deadline(began.Add(min(WriteTimeout, w.left))) // writers of tests have none
		n, err := w.to.Write(part)
		written += n
		w.left += time.Duration(n)*time.Second/writeRate - w.now().Sub(began)
		if rest = rest[len(part):]; err != nil || len(rest) == 0 {
			return written, err
		}
	}
}

// zippers reuses compressors, which are large.
var zippers = sync.Pool{New: func() any {
	z, err := gzip.NewWriterLevel(io.Discard, gzip.BestSpeed)
	if err != nil {
		panic(err) // BestSpeed is a valid level
	}
	return z
}}

// AcceptsGzip reports whether an Accept-Encoding header admits gzip: it has gzip or *, without q=0.
func AcceptsGzip(header string) bool { return accepts(header, "gzip", "*") }

// AcceptsLines reports whether an Accept header has NDJSON, without q=0.
func AcceptsLines(header string) bool { return accepts(header, NDJSON, NDJSON) }

// NDJSON is the media type of newline-delimited JSON.
const NDJSON = "application/x-ndjson"

// accepts reports whether a header admits value: by value itself, or without it, by wild.
func accepts(header, value, wild string) bool {
	accepted := false
	for part := range strings.SplitSeq(header, ",") {
		coding, params, _ := strings.Cut(part, ";")
		coding = strings.ToLower(strings.TrimSpace(coding))
		if coding != value && coding != wild {
			continue
		}
		wanted := true
		if q, ok := strings.CutPrefix(strings.ReplaceAll(strings.ToLower(params), " ", ""), "q="); ok {
			weight, err := strconv.ParseFloat(q, 64)
			wanted = err == nil && weight > 0
		}
		if coding == value {
			return wanted
		}
		accepted = wanted
	}
	return accepted
}
