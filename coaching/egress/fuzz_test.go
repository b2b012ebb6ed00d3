package egress

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"testing"
)

// Whatever CheckURL accepts, no reading of it names a literal address that is
// forbidden: not package net/url's, not the dialer's, not inet_aton's.
func FuzzAcceptedURLsNameNoForbiddenAddress(f *testing.F) {
	for _, e := range endpoints {
		f.Add(e.url)
	}
	byDefault, all := mustPolicy(f), mustPolicy(f, "0.0.0.0/0", "::/0")
	f.Fuzz(func(t *testing.T, raw string) {
		for _, p := range []*Policy{byDefault, all} {
			if p.CheckURL(raw) == nil {
				checkAccepted(t, p, raw)
			}
		}
	})
}

func checkAccepted(t *testing.T, p *Policy, raw string) {
	t.Helper()
	u, err := url.Parse(raw)
	if err != nil {
		t.Fatalf("%q is accepted, but no URL: %v", raw, err)
	}
	if u.User != nil || u.Fragment != "" || u.Opaque != "" || strings.ContainsAny(raw, "\\\r\n\t ") {
		t.Errorf("%q is accepted, but can be read in two ways", raw)
	}
	for _, r := range u.Host {
		if r <= ' ' || r >= 0x7f || strings.ContainsRune("@%\\/?#", r) {
			t.Errorf("%q is accepted with %q in its host", raw, r)
		}
	}
	// A request for it goes to that host and no other.
	req, err := http.NewRequest(http.MethodPost, raw, http.NoBody)
	if err != nil {
		t.Fatalf("%q is accepted, but no request: %v", raw, err)
	}
	if req.Host != u.Host {
		t.Errorf("%q: request to %q", raw, req.Host)
	}
	port := u.Port()
	if port == "" {
		port = "80"
	}
	host := strings.TrimSuffix(u.Hostname(), ".")
	for _, a := range readings(host) {
		if isHarmful(a) {
			t.Errorf("%q is accepted, but can be read as %v", raw, a)
		}
		dialed := net.JoinHostPort(a.Unmap().String(), port)
		if err := p.control(false)(network(dialed), dialed, nil); err != nil {
			t.Errorf("%q is accepted, but the dialer says: %v", raw, err)
		}
	}
}

// readings are the addresses that programs take a host for.
func readings(host string) (all []netip.Addr) {
	if a, err := netip.ParseAddr(host); err == nil {
		all = append(all, a)
	}
	if ip := net.ParseIP(host); ip != nil {
		a, _ := netip.AddrFromSlice(ip)
		all = append(all, a)
	}
	if a, ok := inetAton(host); ok {
		all = append(all, a)
	}
	return all
}

// inetAton reads an address as the C library does: one to four parts, each
// decimal, octal or hexadecimal, the last one as large as there is room.
func inetAton(s string) (netip.Addr, bool) {
	parts := strings.Split(s, ".")
	if len(parts) > 4 {
		return netip.Addr{}, false
	}
	var value uint64
	for i, part := range parts {
		base, digits := 10, part
		if hex, ok := strings.CutPrefix(strings.ToLower(part), "0x"); ok {
			base, digits = 16, hex
		} else if len(part) > 1 && part[0] == '0' {
			base, digits = 8, part[1:]
		}
		n, err := strconv.ParseUint(digits, base, 64)
		if err != nil && digits == "" && base == 16 {
			n, err = 0, nil // browsers
		}
		last := i == len(parts)-1
		if err != nil || !last && n > 255 || last && n >= 1<<(8*(4-i)) {
			return netip.Addr{}, false
		}
		if last {
			value += n
		} else {
			value += n << (8 * (3 - i))
		}
	}
	return netip.AddrFrom4([4]byte{byte(value >> 24), byte(value >> 16), byte(value >> 8), byte(value)}), true
}

// isHarmful checks an address without the tables of the package.
func isHarmful(a netip.Addr) bool {
	a = a.Unmap()
	return a.IsLinkLocalUnicast() || a.IsMulticast() || a.IsUnspecified() || a.Zone() != "" ||
		a.Is4() && (a.As4()[0] == 0 || a.As4()[0] >= 224) ||
		strings.HasSuffix(a.StringExpanded(), ":a9fe:a9fe") && strings.HasPrefix(a.StringExpanded(), "0064:ff9b:") ||
		a == netip.MustParseAddr("100.100.100.200") || a == netip.MustParseAddr("168.63.129.16") ||
		a == netip.MustParseAddr("fd00:ec2::254") || a == netip.MustParseAddr("192.0.0.192")
}

func TestInetAtonMatchesTheTable(t *testing.T) {
	for host, want := range map[string]string{
		"2852039166": "169.254.169.254", "0xA9FEA9FE": "169.254.169.254", "025177524776": "169.254.169.254", "127.1": "127.0.0.1",
		"169.254.43518": "169.254.169.254", "0251.0376.0251.0376": "169.254.169.254", "0": "0.0.0.0",
	} {
		if got, ok := inetAton(host); !ok || got.String() != want {
			t.Errorf("inetAton(%q) = %v, want %s", host, got, want)
		}
	}
}

// No entry of an operator allows an address that is always refused.
func FuzzNoEntryAllowsForbiddenAddresses(f *testing.F) {
	for _, entry := range []string{"10.0.0.0/8", "::/0", "0.0.0.0/0", "*.internal", "metadata", "64:ff9b::/96", "::ffff:0:0/96", "2002::/16"} {
		f.Add(entry)
	}
	f.Fuzz(func(t *testing.T, entry string) {
		p, err := NewPolicy([]string{entry})
		if err != nil {
			return
		}
		for _, e := range endpoints {
			if e.byURL == refused && p.CheckURL(e.url) == nil {
				t.Errorf("%q allows %s", entry, e.url)
			}
			if e.byDial == refused && (p.control(false)(network(e.dial), e.dial, nil) == nil || p.control(true)(network(e.dial), e.dial, nil) == nil) {
				t.Errorf("%q allows to connect to %s", entry, e.dial)
			}
		}
	})
}
