package console

import (
	"fmt"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"agentd/internal/http/transfer"
)

// getEvents is a stream of Server-Sent Events: one at its start and one after every change. A
// page that reconnects thus fetches what it missed.
func (c *Console) getEvents(g *gin.Context) {
	stream, ok := c.tasks.hub.join()
	if !ok {
		c.fail(g, fail(http.StatusServiceUnavailable, "too many pages are open"))
		return
	}
	defer c.tasks.hub.leave(stream)

	send := transfer.Parts(g, "text/event-stream")
	change := func() string {
		return fmt.Sprintf("event: change\ndata: {\"version\":%d}\n\n", c.tasks.hub.current())
	}
	ping := time.NewTicker(pingEvery)
	defer ping.Stop()
	text := fmt.Sprintf("retry: %d\n", retryAfter.Milliseconds()) + change()
	for send([]byte(text)) == nil {
		select {
		case <-stream:
			text = change()
		case <-ping.C:
			text = ": still here\n\n"
		case <-g.Request.Context().Done():
			return
		case <-c.ended.Done():
			return
		}
	}
}
