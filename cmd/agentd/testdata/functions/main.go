// Command functions answers a request and writes which functions ran for it: coverage data in a directory. Its
// arguments are a model and the directory, its standard input is the body. Build it with -cover -covermode=atomic.
package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime/coverage"

	"agentd/cmd/agentd/serve"
)

func main() {
	if err := run(context.Background(), os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, model, dir string) (err error) {
	c := serve.DefaultConfig()
	c.Inference.Path = model
	c.Inference.Threads = 2 // a number that the load of the machine does not change
	local, err := serve.StartLocal(ctx, *c, os.Stderr)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, local.Stop()) }()
	if err := exchange(ctx, http.MethodGet, local.URL+"/health", http.NoBody); err != nil {
		return err
	}
	if err := coverage.ClearCounters(); err != nil { // of all that came before the request
		return err
	}
	if err := exchange(ctx, http.MethodPost, local.URL+"/v1/responses", os.Stdin); err != nil {
		return err
	}
	return errors.Join(coverage.WriteMetaDir(dir), coverage.WriteCountersDir(dir))
}

// exchange makes a request and returns when the server has closed its connection: nothing runs for it any more.
func exchange(ctx context.Context, method, url string, body io.Reader) error {
	request, err := http.NewRequestWithContext(ctx, method, url, body)
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Close = true
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", request.URL.Host)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := request.Write(conn); err != nil {
		return err
	}
	text, err := io.ReadAll(conn)
	if err != nil {
		return err
	}
	res, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(text)), request)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK || bytes.Contains(answer, []byte(`"status":"error"`)) {
		return fmt.Errorf("%s: %s, %w", res.Status, answer, err)
	}
	return nil
}
