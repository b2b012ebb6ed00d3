// Package transfer moves whole JSON bodies: requests in, under limits of size
// and time, and answers out, compressed where that pays. The agent server and
// the console speak HTTP through it.
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
	// lingerBytes and lingerTime are how much of the rest of a refused body is
	// read so that its client gets to see the answer.
	lingerBytes = protocol.MaxBodyBytes
	lingerTime  = 5 * time.Second
	// bodyTimeout is how long a client may take to send its body.
	bodyTimeout = 2 * time.Minute
	// WriteTimeout is how long a client may take to read each writeChunk bytes of its
	// answer. It starts when the answer is ready, so that it never cuts a long generation.
	WriteTimeout = 2 * time.Minute
	writeChunk   = 1 << 20
	// gzipFrom is the size in bytes below which compressing costs more than it saves.
	gzipFrom = 1 << 10
	// bodyPrealloc caps what a Content-Length alone can make us allocate.
	bodyPrealloc = 1 << 20
)

// Reasons why a body could not be read.
var (
	ErrTooLarge  = errors.New("the body is too large")
	ErrSlow      = errors.New("the body did not arrive in time")
	ErrNotGzip   = errors.New("the body is not valid gzip")
	ErrGone      = errors.New("the client closed the connection before the end of the body")
	ErrBroken    = errors.New("the body is not valid HTTP")
	ErrMediaType = errors.New("the body is declared to be something other than JSON")
	ErrEncoding  = errors.New("the body is encoded otherwise than by gzip")
	ErrNoRoom    = errors.New("the bodies of the requests that are in work are too large together")
)

// Room is the memory for bodies that are in work: each alone is within its limit, and a
// short gzip stream can become a long one.
type Room struct {
	most int64
	used atomic.Int64
}

// NewRoom is room for so many bytes.
func NewRoom(most int64) *Room { return &Room{most: most} }

// held is what one body takes of a Room while it is read.
type held struct {
	io.Reader
	room *Room
	n    int64
}

func (h *held) Read(p []byte) (int, error) {
	n, err := h.Reader.Read(p)
	h.n += int64(n)
	if h.room.used.Add(int64(n)) > h.room.most {
		return n, ErrNoRoom
	}
	return n, err
}

func (h *held) release() {
	h.room.used.Add(-h.n)
	h.n = 0
}

// Declared looks at what a body is declared to be: JSON, plain or gzipped. The
// error is ErrMediaType or ErrEncoding.
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

// ReadBody reads a request's body to its end, which is also what lets net/http
// notice a client that leaves later. The limit, in bytes, holds for the bytes on
// the wire and for those they decompress to. What is read is held in room until release
// is called, which it may be more than once. The error is one of this package's.
func ReadBody(c *gin.Context, limit int64, room *Room) (read []byte, release func(), err error) {
	h := &held{room: room}
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
	// Writers without deadlines (in tests) say so; there is nothing to do then.
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

// bodyError is the reason why a body could not be read from the wire, or not be
// decompressed.
func bodyError(err error, wire io.Reader) error {
	var tooLarge *http.MaxBytesError
	var corrupt flate.CorruptInputError
	switch {
	case errors.Is(err, ErrNoRoom):
		return ErrNoRoom
	case errors.As(err, &tooLarge):
		return ErrTooLarge
	case errors.Is(err, os.ErrDeadlineExceeded):
		return ErrSlow
	case errors.Is(err, gzip.ErrHeader), errors.Is(err, gzip.ErrChecksum), errors.As(err, &corrupt):
		return ErrNotGzip
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		// Either the gzip stream is cut short in a whole body, or the body is.
		if _, err := io.Copy(io.Discard, wire); err == nil {
			return ErrNotGzip
		}
		return fmt.Errorf("%w: it ends before its declared end", ErrBroken)
	}
	// Errors in the chunks of a body have no type; those of the connection have.
	if failure := net.Error(nil); errors.As(err, &failure) {
		return fmt.Errorf("%w: %w", ErrGone, err)
	}
	return fmt.Errorf("%w: %w", ErrBroken, err)
}

// Linger reads on for a while behind an answer that came before the end of the
// body: a client that is still sending would find its connection reset, and would
// not see the answer.
func Linger(c *gin.Context) {
	control := http.NewResponseController(c.Writer)
	_ = control.SetReadDeadline(time.Now().Add(lingerTime))
	if _, err := io.CopyN(io.Discard, c.Request.Body, lingerBytes); errors.Is(err, io.EOF) { // to its end
		_ = control.SetReadDeadline(time.Time{})
	}
}

// SendJSON sends a complete JSON answer, gzipped when the client asks for it and
// it pays. The error is that of a client who does not read it.
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
	// Flushed here, while the deadline holds; the connection may be kept alive,
	// so the deadline must not outlive the answer.
	_ = control.Flush()
	_ = control.SetWriteDeadline(time.Time{})
	return nil
}

// zippers keeps compressors, which are large, for reuse.
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

// AcceptsGzip reads an Accept-Encoding header: gzip or *, unless with q=0.
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
		if coding == "gzip" { // named outright: outranks *
			return wanted
		}
		accepted = wanted
	}
	return accepted
}
