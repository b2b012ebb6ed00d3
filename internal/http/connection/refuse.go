package connection

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"agentd/protocol"
)

// meaning parses an answer that net/http wrote. ok is false if it is not an error.
func (c *Conn) meaning(answer []byte) (status int, detail string, ok bool) {
	res, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(answer)), nil)
	if err != nil {
		return 0, "", false
	}
	defer res.Body.Close()
	if res.StatusCode < http.StatusBadRequest {
		return 0, "", false
	}
	switch res.StatusCode {
	case http.StatusBadRequest:
		detail = "the request is not valid HTTP"
		if _, why, found := strings.Cut(res.Status, ": "); found {
			detail += ": " + why
		}
	case http.StatusExpectationFailed:
		detail = "the only expectation that is met is Expect: 100-continue; leave the header out"
	case http.StatusRequestHeaderFieldsTooLarge:
		detail = fmt.Sprintf("the request line and the headers are larger than %d bytes together; send fewer or shorter ones", c.listener.maxHeader)
	case http.StatusNotImplemented:
		detail = "this Transfer-Encoding is not supported; send the body chunked or with a Content-Length"
	case http.StatusHTTPVersionNotSupported:
		detail = "this version of HTTP is not supported; send HTTP/1.1"
	default:
		detail = http.StatusText(res.StatusCode)
	}
	return res.StatusCode, detail, true
}

// refuse answers a request without a handler and ends the connection.
func (c *Conn) refuse(to net.Conn, status int, detail string) error {
	c.listener.refused(status, detail)
	body := protocol.AppendErrorBody(nil, detail)
	answer := fmt.Appendf(nil, "HTTP/1.1 %d %s\r\nContent-Type: application/json; charset=utf-8\r\nContent-Length: %d\r\n"+
		"Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n%s",
		status, http.StatusText(status), len(body), body)
	_ = to.SetWriteDeadline(time.Now().Add(writeTimeout))
	if _, err := to.Write(answer); err != nil {
		return err
	}
	c.drain(to)
	return nil
}

// isPlainHTTP reports whether a TLS handshake failed because the client speaks HTTP.
func isPlainHTTP(err error) bool {
	var record tls.RecordHeaderError
	if !errors.As(err, &record) || record.Conn == nil {
		return false
	}
	switch string(record.RecordHeader[:]) {
	case "GET /", "HEAD ", "POST ", "PUT /", "DELET", "PATCH", "OPTIO":
		return true
	}
	return false
}
