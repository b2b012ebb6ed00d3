package workload

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"strings"
	"sync"
)

// tap is a request's body that keeps what is read from it, and gives it to the
// recorder at its end.
type tap struct {
	io.ReadCloser
	recorder *Recorder
	length   int64 // Content-Length; -1: unknown
	encoding string

	mu   sync.Mutex // the transport may still read when the handler has returned
	body bytes.Buffer
	done bool
}

// Read reads on. What it returns does not depend on the recording.
func (t *tap) Read(p []byte) (int, error) {
	n, err := t.ReadCloser.Read(p)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.done {
		return n, err
	}
	if t.recorder.held.Add(int64(n)) > heldBytes || t.body.Len()+n > t.recorder.most {
		t.recorder.held.Add(-int64(n))
		t.recorder.skip(SkippedLarge)
		t.end()
		return n, err
	}
	t.body.Write(p[:n])
	if errors.Is(err, io.EOF) || int64(t.body.Len()) == t.length {
		t.record()
		t.end()
	}
	return n, err
}

// record gives a whole body to the recorder.
func (t *tap) record() {
	if t.encoding != "" {
		// One after the other: what they unpack to is not counted as held.
		t.recorder.unpacking.Lock()
		defer t.recorder.unpacking.Unlock()
	}
	body, reason := unpack(t.body.Bytes(), t.encoding, t.recorder.most)
	if reason != "" {
		t.recorder.skip(reason)
		return
	}
	t.recorder.body(body)
}

// leave is called when the request is over, whether or not all of it was read.
func (t *tap) leave() {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.done:
		return
	case t.length == 0: // nobody reads it then
		t.recorder.skip(SkippedInvalid)
	default:
		t.recorder.skip(SkippedIncomplete)
	}
	t.end()
}

// end forgets the body. The caller holds the lock.
func (t *tap) end() {
	t.done = true
	t.recorder.held.Add(-int64(t.body.Len()))
	t.body = bytes.Buffer{}
}

// unpack is the JSON of a body, at most so many bytes, or why it is not recorded.
func unpack(body []byte, encoding string, most int) (plain []byte, reason string) {
	switch strings.ToLower(encoding) {
	case "", "identity":
		return body, ""
	case "gzip":
	default:
		return nil, SkippedInvalid
	}
	z, err := gzip.NewReader(bytes.NewReader(body))
	if err != nil {
		return nil, SkippedInvalid
	}
	plain, err = io.ReadAll(io.LimitReader(z, int64(most)+1))
	switch {
	case err != nil:
		return nil, SkippedInvalid
	case len(plain) > most:
		return nil, SkippedLarge
	}
	return plain, ""
}
