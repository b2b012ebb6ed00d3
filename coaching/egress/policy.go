package egress

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"agentd/protocol"
)

// Policy decides which endpoints and headers of clients are acceptable. It never
// changes, so any number of goroutines may use it. The zero value is the policy of an empty list.
type Policy struct {
	option   string         // the name of the option with the list, for messages
	listed   bool           // the following entries replace the default
	hosts    []string       // "example.org", in lower case
	domains  []string       // ".example.org": all names below example.org
	prefixes []netip.Prefix // masked; an address is a range of one
}

// metadataNames are the names of metadata services of clouds. Most of their addresses are
// refused anyway, but not all.
var metadataNames = []string{
	"metadata", "metadata.goog", "metadata.google.internal", "metadata.azure.internal",
	"instance-data", "instance-data.ec2.internal", "metadata.tencentyun.com",
	"metadata.packet.net", "metadata.platformequinix.com",
}

// NewPolicy makes the policy of an operator's list. An empty list is the default, which
// allows public and loopback addresses. Otherwise only the entries are allowed:
//
//   - a host name, such as api.example.org: whatever it resolves to
//   - *.example.org: the same for the names below example.org
//   - an IP address or a range, such as 192.168.1.5 or 10.0.0.0/8: a name that
//     is not an entry itself is allowed when it resolves to addresses of such entries
//
// No list allows addresses that are harmful everywhere: link-local, metadata,
// unspecified, multicast, broadcast and reserved ones, and IPv6 addresses that embed one
// of these. An entry within one of their ranges is an error.
func NewPolicy(allow []string) (*Policy, error) {
	p := &Policy{listed: len(allow) > 0}
	for _, entry := range allow {
		if err := p.add(entry); err != nil {
			return nil, fmt.Errorf("%q %w", entry, err)
		}
	}
	return p, nil
}

// Named returns the same policy with the name of the option that has the list, for messages.
func (p *Policy) Named(option string) *Policy {
	named := *p
	named.option = option
	return &named
}

// PolicyFor returns the policy for an endpoint that the operator chose. It allows only that
// host, with any address, also a private one. The error is about the endpoint.
func PolicyFor(endpoint string) (*Policy, error) {
	u, err := url.Parse(endpoint)
	if err != nil || u.Hostname() == "" || u.User != nil {
		// CheckURL finds what is wrong and does not repeat keys.
		return nil, (&Policy{}).CheckURL(endpoint)
	}
	p, err := NewPolicy([]string{u.Hostname()})
	if err != nil {
		return nil, fmt.Errorf("the host %w", err)
	}
	return p, p.CheckURL(endpoint)
}

func (p *Policy) add(entry string) error {
	if strings.Contains(entry, "/") {
		r, err := netip.ParsePrefix(entry)
		if err != nil {
			return errors.New("is not a range; write one such as 10.0.0.0/8, or a host name without scheme, port and path")
		}
		return p.addRange(r)
	}
	if a, err := netip.ParseAddr(entry); err == nil {
		if a.Zone() != "" {
			return errors.New("has a zone; only link-local addresses do, and they are never allowed")
		}
		return p.addRange(netip.PrefixFrom(a, a.BitLen()))
	}
	return p.addName(entry)
}

func (p *Policy) addRange(r netip.Prefix) error {
	if r.Addr().Is4In6() {
		if r.Bits() < 96 {
			return errors.New("holds addresses of IPv4 in the form of IPv6; write them in their own form")
		}
		r = netip.PrefixFrom(r.Addr().Unmap(), r.Bits()-96)
	}
	if what, ok := neverWithin(r.Masked()); ok {
		return fmt.Errorf("is %s, which is never allowed", what)
	}
	p.prefixes = append(p.prefixes, r.Masked())
	return nil
}

func (p *Policy) addName(entry string) error {
	name, wildcard := strings.CutPrefix(entry, "*.")
	name = canonical(name)
	if why := badName(name); why != "" {
		return fmt.Errorf("%s; write a host name, *.domain, an IP address or a range such as 10.0.0.0/8", why)
	}
	switch {
	case slices.Contains(metadataNames, name):
		return errors.New("names a metadata service, which is never allowed")
	case wildcard:
		p.domains = append(p.domains, "."+name)
	default:
		p.hosts = append(p.hosts, name)
	}
	return nil
}

// vouches reports whether an entry allows a canonical name itself.
func (p *Policy) vouches(name string) bool {
	return slices.Contains(p.hosts, name) ||
		slices.ContainsFunc(p.domains, func(d string) bool { return strings.HasSuffix(name, d) })
}

// allowWith returns how to allow a host or an address, for messages.
func (p *Policy) allowWith(entry string) string {
	return "(" + cmp.Or(p.option, "allow") + " " + entry + ")"
}

// refuse returns the reason why an address is not allowed, "" if it is. entry is the entry
// with which an operator would allow it.
func (p *Policy) refuse(a netip.Addr, vouched bool, entry string) string {
	switch c, what := classify(a); {
	case c == never:
		return what + ", which is never allowed"
	case vouched:
		return ""
	case p.listed && !p.lists(a.Unmap()):
		return "an address that the server's operator does not allow " + p.allowWith(entry)
	case !p.listed && c == private:
		return what + ", which only the server's operator can allow " + p.allowWith(entry)
	}
	return ""
}

// lists reports whether an entry contains an address. An address that embeds a private
// IPv4 address needs an entry for that, too.
func (p *Policy) lists(a netip.Addr) bool {
	if !p.holds(a) {
		return false
	}
	for _, v4 := range embedded(a) {
		if c, _ := lookup(v4); c != public && !p.holds(v4) {
			return false
		}
	}
	return true
}

func (p *Policy) holds(a netip.Addr) bool {
	return slices.ContainsFunc(p.prefixes, func(r netip.Prefix) bool { return r.Contains(a) })
}

// hopByHop are headers for one connection. They could make two programs disagree about
// where a request ends.
var hopByHop = []string{
	"connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade", "http2-settings", "expect",
}

// ownHeaders are set by this server. With Host a client could address another host of
// the same endpoint.
var ownHeaders = []string{"host", "content-length", "content-encoding", "accept-encoding"}

// metadataHeaders are required by metadata services. Their addresses are refused already;
// these headers are refused as well.
var metadataHeaders = []string{"metadata", "metadata-flavor", "x-google-metadata-request"}

// CheckHeader returns a *ForbiddenError if a client must not set a header. Clients may set cookies and the User-Agent.
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

// folded returns a header's name in lower case with hyphens: some gateways treat underscores as hyphens.
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

// isList reports whether the names of backends are 0, 1, …, as in a list. An object with
// these names looks the same.
func isList(backends []protocol.CoachingBackend) bool {
	for i := range backends {
		if backends[i].Name != strconv.Itoa(i) {
			return false
		}
	}
	return true
}
