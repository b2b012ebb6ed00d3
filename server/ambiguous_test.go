package server

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// TestBodyWithTwoLengthsEndsTheConnection and is read as chunked (RFC 9112, 6.3).
func TestBodyWithTwoLengthsEndsTheConnection(t *testing.T) {
	chunks := fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(validBody), validBody)
	head := func(version, headers string) string {
		return "POST /v1/responses HTTP/" + version + "\r\nHost: localhost\r\nConnection: keep-alive\r\n" + headers + "\r\n"
	}
	plain := fmt.Sprintf("Content-Length: %d\r\n", len(validBody))
	both := "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n"
	for name, test := range map[string]struct {
		request string
		closes  bool
	}{
		"both":                                {head("1.1", both) + chunks, true},
		"both, in other letters and order":    {head("1.1", "tRANSFER-eNCODING:  Chunked\r\ncontent-LENGTH:5\r\n") + chunks, true},
		"chunked":                             {head("1.1", "Transfer-Encoding: chunked\r\n") + chunks, false},
		"a length":                            {head("1.1", plain) + validBody, false},
		"a length, and chunked in HTTP/1.0":   {head("1.0", plain+"Transfer-Encoding: chunked\r\n") + validBody, true},
		"a length in HTTP/1.0":                {head("1.0", plain) + validBody, false},
		"both names in other headers' values": {head("1.1", "Transfer-Encoding: chunked\r\nX: content-length: 5\r\n") + chunks, false},
	} {
		for _, ls := range []*listening{listen(t), listenTLS(t)} {
			ls.Ready(inferenceFunc(echo))
			t.Run(name, func(t *testing.T) {
				conn := ls.dial(t)
				from := bufio.NewReader(conn)
				io.WriteString(conn, test.request)
				res, body, _ := answer(t, from, http.MethodPost)
				if res.StatusCode != http.StatusOK || res.Close != test.closes {
					t.Errorf("got %s %.200s, closing: %t", res.Status, body, res.Close)
				}
				if test.closes {
					if _, err := from.ReadByte(); err != io.EOF {
						t.Errorf("behind it: %v", err)
					}
					return
				}
				io.WriteString(conn, head("1.1", both)+chunks) // the next request on the connection
				if res, _, _ := answer(t, from, http.MethodPost); !res.Close {
					t.Error("the second one does not end the connection")
				}
			})
		}
	}
}

func TestPipelinedBodyWithTwoLengthsEndsTheConnection(t *testing.T) {
	ls := listen(t)
	ls.Ready(inferenceFunc(echo))
	conn := ls.dial(t)
	from := bufio.NewReader(conn)
	chunks := fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(validBody), validBody)
	io.WriteString(conn, raw("")+"POST /v1/responses HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n"+chunks+strings.Repeat(raw(""), 2))
	if res, _, _ := answer(t, from, http.MethodPost); res.Close {
		t.Error("the first answer ends the connection")
	}
	if res, _, _ := answer(t, from, http.MethodPost); !res.Close {
		t.Error("the second answer does not end the connection")
	}
	if _, err := from.ReadByte(); err != io.EOF {
		t.Errorf("behind it: %v", err)
	}
}
