package console

import "sync"

// hub notifies open pages of changes. A notification has no content, so that a page fetches once after
// any number of changes.
type hub struct {
	mu      sync.Mutex
	version int64
	streams map[chan struct{}]struct{}
}

func newHub() *hub { return &hub{version: 1, streams: map[chan struct{}]struct{}{}} }

// changed wakes every stream.
func (h *hub) changed() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.version++
	for stream := range h.streams {
		select {
		case stream <- struct{}{}:
		default: // the last notification is still unread
		}
	}
}

// current returns the number of the latest change.
func (h *hub) current() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.version
}

// join adds a stream until leave is called. ok is false if there are maxStreams already.
func (h *hub) join() (stream chan struct{}, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.streams) >= maxStreams {
		return nil, false
	}
	stream = make(chan struct{}, 1)
	h.streams[stream] = struct{}{}
	return stream, true
}

func (h *hub) leave(stream chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.streams, stream)
}
