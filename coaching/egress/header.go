package egress

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"agentd/protocol"
)

// hopByHop are headers for one connection. They could make two programs disagree about
// where a request ends.
var hopByHop = []string{
	"connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade", "http2-settings", "expect",
}

// ownHeaders are set by this server. With Host a client could address another host of
// the same endpoint.
var ownHeaders = []string{"host", "content-length", "content-encoding", "accept-encoding"}

// metadataHeaders are required by metadata services. Their addresses are refused already;
// this is a second lock.
var metadataHeaders = []string{"metadata", "metadata-flavor", "x-google-metadata-request"}

// CheckHeader returns why a client must not set a header. The error is a
// *ForbiddenError. Clients may set cookies and the User-Agent.
func (p *Policy) CheckHeader(name string) error {
	n := folded(name)
	switch {
	case !protocol.IsHeaderName(name):
		return &ForbiddenError{What: "header", Why: "must have a name of letters, digits and !#$%&'*+-.^_`|~"}
	case n == "content-type":
		return &ForbiddenError{What: "header " + name, Why: "is application/json, which the server sends itself; leave it out"}
	case isHopByHop(name), slices.Contains(ownHeaders, n):
		return &ForbiddenError{What: "header " + name, Why: "is set by the server itself; leave it out"}
	case slices.Contains(metadataHeaders, n), strings.HasPrefix(n, "x-aws-ec2-metadata-"):
		return &ForbiddenError{What: "header " + name, Why: "is for metadata services, which are never allowed; leave it out"}
	}
	return nil
}

// folded is a header's name in lower case with hyphens. Some gateways treat underscores
// as hyphens.
func folded(name string) string { return strings.ReplaceAll(strings.ToLower(name), "_", "-") }

func isHopByHop(name string) bool {
	n := folded(name)
	return slices.Contains(hopByHop, n) || strings.HasPrefix(n, "proxy-")
}

// CheckConfig checks the endpoints and headers of a session and their numbers. The error
// is protocol.Problems, located as by the configuration's decoder.
func (p *Policy) CheckConfig(cfg *protocol.CoachingSessionConfig) error {
	var ps protocol.Problems
	report := func(err error, loc ...any) {
		if err != nil {
			ps.Add(protocol.NewProblem(protocol.TypeValue, err.Error(), loc...))
		}
	}
	if cfg.Endpoint != "" {
		report(p.CheckURL(cfg.Endpoint), "endpoint")
	}
	if n := len(cfg.Backends); n > MaxBackends {
		return protocol.Problems{protocol.NewProblem(protocol.TypeTooLong,
			fmt.Sprintf("has %d backends; a session may have at most %d", n, MaxBackends), "backends")}
	}
	size, list := 0, isList(cfg.Backends)
	for i, b := range cfg.Backends {
		var at any = b.Name
		if list {
			at = i
		}
		if b.Endpoint != "" {
			report(p.CheckURL(b.Endpoint), "backends", at, "endpoint")
		}
		seen := make(map[string]bool, len(b.Headers))
		for _, name := range slices.Sorted(maps.Keys(b.Headers)) {
			header := func(err error) { report(err, "backends", at, "headers", name) }
			header(p.CheckHeader(name))
			value := len(b.Headers[name])
			if size += len(name) + value; value > maxHeaderValue {
				header(&ForbiddenError{"header " + name, fmt.Sprintf("has a value of %d bytes; at most %d are allowed", value, maxHeaderValue)})
			}
			if seen[strings.ToLower(name)] {
				header(&ForbiddenError{"header " + name, "is there twice, in different case; send one of them"})
			}
			seen[strings.ToLower(name)] = true
		}
	}
	if size > MaxHeaders {
		ps.Add(protocol.NewProblem(protocol.TypeTooLong,
			fmt.Sprintf("have headers of %d bytes together; at most %d are allowed", size, MaxHeaders), "backends"))
	}
	if len(ps) == 0 {
		return nil
	}
	return ps
}

// isList reports whether backends came as a list, whose elements are named by index. An
// object looks the same only if its names are 0, 1, …
func isList(backends []protocol.CoachingBackend) bool {
	for i := range backends {
		if backends[i].Name != strconv.Itoa(i) {
			return false
		}
	}
	return true
}
