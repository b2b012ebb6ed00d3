package connection

import (
	"bytes"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/rs/zerolog"
)

// errorLog takes net/http's messages (TLS handshakes, accept failures). It logs them at debug level, since clients
// cause most of them, but a lack of file descriptors as an error.
type errorLog struct {
	log  zerolog.Logger
	now  func() time.Time
	next atomic.Int64 // the earliest time of the next line about a lack of descriptors, Unix time in ns
}

// tooMany has the texts of the errors for a process, and for a system, without free descriptors.
var tooMany = [][]byte{[]byte(syscall.EMFILE.Error()), []byte(syscall.ENFILE.Error())}

func (l *errorLog) Write(p []byte) (int, error) {
	event := l.log.Debug().Bytes("error", p)
	now, next := l.now(), l.next.Load()
	switch {
	case !bytes.Contains(p, tooMany[0]) && !bytes.Contains(p, tooMany[1]):
		event.Msg("http")
	case now.UnixNano() < next || !l.next.CompareAndSwap(next, now.Add(descriptorsEvery).UnixNano()):
		event.Msg("no connection can be accepted")
	default:
		l.log.Error().Bytes("error", p).Msg("no connection can be accepted, since no file descriptor is free; raise the limit with ulimit -n, or LimitNOFILE= of the systemd unit, or close idle connections")
	}
	return len(p), nil
}
