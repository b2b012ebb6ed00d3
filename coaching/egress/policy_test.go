package egress

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agentd/protocol"
)

func TestOperatorEntriesReplaceTheDefault(t *testing.T) {
	tests := []struct {
		name    string
		allow   []string
		accepts []string
		refuses []string
	}{
		{
			name:    "a host name is itself only, in any case and with a dot at its end",
			allow:   []string{"API.example.org."},
			accepts: []string{"https://api.example.org/v1", "https://API.EXAMPLE.ORG./", "https://api.example.org:8443"},
			refuses: []string{"https://example.org", "https://x.api.example.org", "https://api.example.org.evil.example",
				"https://evilapi.example.org", "http://127.0.0.1", "http://8.8.8.8", "http://localhost"},
		},
		{
			name:    "a wildcard is every name below",
			allow:   []string{"*.example.org"},
			accepts: []string{"https://a.example.org", "https://a.b.Example.org."},
			refuses: []string{"https://example.org", "https://evilexample.org", "https://a.example.org.evil.example"},
		},
		{
			name:    "an address is itself only",
			allow:   []string{"192.168.1.5", "fd12::5"},
			accepts: []string{"http://192.168.1.5:8080", "http://[::ffff:192.168.1.5]", "http://[fd12::5]"},
			refuses: []string{"http://192.168.1.6", "http://127.0.0.1", "http://8.8.8.8", "http://[fd12::6]"},
		},
		{
			name:    "a range is its addresses, and any name may turn out to be in it",
			allow:   []string{"10.0.0.0/8"},
			accepts: []string{"http://10.1.2.3", "http://ollama.internal"},
			refuses: []string{"http://11.0.0.1", "http://127.0.0.1", "http://[64:ff9b::a00:1]"},
		},
		{
			name:    "a range around forbidden addresses does not allow these",
			allow:   []string{"0.0.0.0/0", "169.254.0.0/15"},
			accepts: []string{"http://10.1.2.3", "http://127.0.0.1", "http://169.255.0.1"},
			refuses: []string{"http://169.254.169.254", "http://0.0.0.0", "http://[::1]"},
		},
		{
			name:    "an address that stands for a private one needs both",
			allow:   []string{"64:ff9b::/96"},
			accepts: []string{"http://[64:ff9b::808:808]"},
			refuses: []string{"http://[64:ff9b::a00:1]", "http://[64:ff9b::a9fe:a9fe]"},
		},
		{
			name:    "an address that stands for a listed private one is allowed",
			allow:   []string{"64:ff9b::/96", "10.0.0.0/8"},
			accepts: []string{"http://[64:ff9b::a00:1]"},
			refuses: []string{"http://[64:ff9b::c0a8:1]"},
		},
		{
			name:    "a v4-mapped range is one of IPv4",
			allow:   []string{"::ffff:10.0.0.0/104"},
			accepts: []string{"http://10.1.2.3"},
			refuses: []string{"http://11.1.2.3"},
		},
		{
			name:    "a wildcard around a metadata service does not allow it",
			allow:   []string{"*.google.internal", "*.internal"},
			accepts: []string{"http://llm.google.internal"},
			refuses: []string{"http://metadata.google.internal"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := mustPolicy(t, tt.allow...)
			for _, u := range tt.accepts {
				check(t, u, p.CheckURL(u), true)
			}
			for _, u := range tt.refuses {
				check(t, u, p.CheckURL(u), false)
			}
		})
	}
}

func TestInvalidEntriesAreNamedInErrors(t *testing.T) {
	for _, entry := range []string{
		// Never allowed.
		"169.254.169.254", "169.254.0.0/16", "169.254.128.0/17", "0.0.0.0", "0.0.0.0/8", "224.0.0.0/4", "240.0.0.0/4",
		"255.255.255.255", "100.100.100.200", "168.63.129.16/32", "192.0.0.192", "fe80::/10", "fe80::1",
		"ff00::/8", "::", "fd00:ec2::254", "fd00:ec2::/48", "::ffff:169.254.0.0/112", "::ffff:169.254.169.254",
		"2001:db8::/32", "4000::/2",
		"2001:0:808:808::5601:5601", "metadata.google.internal", "METADATA.google.internal.", "*.metadata.goog",
		// No address, range or name.
		"", " ", "*", "*.", "*.*.org", "a.*.org", "http://example.org", "example.org:443", "example.org/v1", "10.0.0.0/33",
		"10.0.0/8", "10.0.0.1/", "[::1]", "fe80::1%eth0", "fe80::%eth0/64", "::ffff:0:0/80", "2130706433", "0x7f.1", "127.1",
		"-a.org", "a..org", "bücher.example", "a b.org", strings.Repeat("a", 64) + ".org",
	} {
		_, err := NewPolicy([]string{"example.org", entry})
		if err == nil {
			t.Errorf("NewPolicy(%q): no error", entry)
		} else if !strings.HasPrefix(err.Error(), `"`+entry+`" `) {
			t.Errorf("NewPolicy(%q): %v: does not name entry and option", entry, err)
		}
	}
}

func TestPartlyAllowedRangesAreValid(t *testing.T) {
	for _, entry := range []string{
		"0.0.0.0/0", "::/0", "168.63.129.0/24", "169.254.0.0/15", "100.64.0.0/10", "fd00::/8", "64:ff9b::/96", "2002::/16",
		"2001::/32", "127.0.0.1", "::1", "10.0.0.0/8", "fc00::/7", "::ffff:10.0.0.1", "64:ff9b::a00:0/104", "10.1.2.3/8",
	} {
		if _, err := NewPolicy([]string{entry}); err != nil {
			t.Error(err)
		}
	}
}

func TestServerHeadersAreRefusedToClients(t *testing.T) {
	p := mustPolicy(t)
	for _, name := range []string{
		"Authorization", "x-api-key", "X-Api-Key", "Cookie", "User-Agent", "Accept", "anthropic-version", "OpenAI-Organization",
		"X-Forwarded-For", "HTTP-Referer", "Hosts", "Proxyish", "Range", "X-Host",
	} {
		check(t, name, p.CheckHeader(name), true)
	}
	for _, name := range []string{
		"Host", "host", "HOST", "Connection", "Keep-Alive", "TE", "te", "Trailer", "Transfer-Encoding", "transfer_encoding",
		"Upgrade", "HTTP2-Settings", "Proxy-Authorization", "Proxy-Connection", "proxy-authenticate", "Proxy_Connection",
		"Content-Length", "Content_Length", "Content-Type", "Content-Encoding", "Accept-Encoding", "Expect",
		"Metadata", "Metadata-Flavor", "X-Google-Metadata-Request", "X-aws-ec2-metadata-token", "X-aws-ec2-metadata-token-ttl-seconds",
		"", " Host", "Host ", "Host:", "X\r\nHost", ":authority", "Höst",
	} {
		check(t, name, p.CheckHeader(name), false)
	}
}

func TestConfigProblemsAreLocated(t *testing.T) {
	p := mustPolicy(t)
	tests := []struct {
		name string
		body string
		want []string
	}{
		{"nothing to object to", `{"backends":{"a":{"type":"openai","endpoint":"https://api.example.org/v1","model":"m","headers":{"Authorization":"Bearer key"}},
			"l":{"type":"local","model":"m"}}}`, nil},
		{"human", `{"provider":"human","endpoint":"http://127.0.0.1:8890"}`, nil},
		{"endpoint of a person", `{"provider":"human","endpoint":"http://169.254.169.254"}`, []string{"body.endpoint"}},
		{"each endpoint and header by the backend's name", `{"backends":{
			"a":{"type":"openai","endpoint":"http://10.0.0.1/v1","model":"m","headers":{"Host":"x","Authorization":"k"}},
			"b":{"type":"ollama","endpoint":"http://u:p@127.0.0.1","model":"m","headers":{"te":"x"}}}}`,
			[]string{"body.backends.a.endpoint", "body.backends.a.headers.Host", "body.backends.b.endpoint", "body.backends.b.headers.te"}},
		{"in a list by its index", `{"backends":[{"type":"openai","endpoint":"http://127.0.0.1","model":"m"},
			{"type":"openai","endpoint":"http://[fe80::1]","model":"m"}]}`, []string{"body.backends[1].endpoint"}},
		{"one header in two cases", `{"backends":{"a":{"type":"openai","endpoint":"http://127.0.0.1","model":"m",
			"headers":{"X-Key":"1","x-key":"2"}}}}`, []string{"body.backends.a.headers.x-key"}},
		{"headers of the local model too", `{"backends":{"l":{"type":"local","model":"m","headers":{"Connection":"close"}}}}`,
			[]string{"body.backends.l.headers.Connection"}},
		{"a header's value that no server takes", `{"backends":{"l":{"type":"local","model":"m","headers":{"X-Key":"` + strings.Repeat("k", maxHeaderValue+1) + `"}}}}`,
			[]string{"body.backends.l.headers.X-Key"}},
		{"headers that are too long together", `{"backends":[` + strings.TrimSuffix(strings.Repeat(
			`{"type":"local","model":"m","headers":{"X-Key":"`+strings.Repeat("k", maxHeaderValue)+`"}},`, MaxHeaders/maxHeaderValue), ",") + `]}`,
			[]string{"body.backends"}},
		{"too many backends", `{"backends":[` + strings.TrimSuffix(strings.Repeat(`{"type":"local","model":"m"},`, MaxBackends+1), ",") + `]}`,
			[]string{"body.backends"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cfg, err := protocol.DecodeCoachingSessionConfig([]byte(tt.body))
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			if err := p.CheckConfig(cfg); err != nil {
				var ps protocol.Problems
				if !errors.As(err, &ps) {
					t.Fatalf("%T, want protocol.Problems", err)
				}
				for _, problem := range ps {
					got = append(got, strings.TrimSuffix(protocol.Problem{Loc: problem.Loc}.String(), ": "))
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("locations (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSafeURLHasNoSecrets(t *testing.T) {
	for raw, want := range map[string]string{
		"https://user:secret@api.example.org:8443/v1/chat?key=secret#secret": "https://api.example.org:8443/v1/chat",
		"http://127.0.0.1":             "http://127.0.0.1",
		"http://[::1]:80/":             "http://[::1]:80/",
		"http://a/b c\u202e":           "http://a/b%20c%E2%80%AE",
		"http://a%E2%80%AEb/":          "http://a?b/",
		"http://user:se\ncret@host/":   "(not a URL)",
		"http://user:secret@ho st/":    "(not a URL)",
		"user:secret@host":             "(not a URL)",
		"":                             "(not a URL)",
		"http://a/" + longPath:         "http://a/" + longPath[:maxShown-9] + "…",
		"javascript:alert('secret')//": "(not a URL)",

		"http://u:secret@secret/secret@host/v1": "http://(hidden)",
		"http://u:123/secret@host/v1":           "http://(hidden)",
		"http://u:123?secret@host/v1":           "http://(hidden)",
		"http://u:123#secret@host/v1":           "http://(hidden)",
		"http://secret/secret@host/v1":          "http://(hidden)",
		"http://u:secret@secret@host/v1":        "http://host/v1",
		"https://api.example.org/model@2025":    "https://api.example.org/model@2025",
	} {
		if got := SafeURL(raw); got != want {
			t.Errorf("SafeURL(%q) = %q, want %q", raw, got, want)
		}
	}
}

var longPath = strings.Repeat("x", 300)

func TestURLErrorsHaveNoSecrets(t *testing.T) {
	p := mustPolicy(t)
	for _, raw := range []string{
		"http://user:secret@127.0.0.1/", "http://user:secret@ho st/", "http://user:secret@%zz/", "ht tp://user:secret@host",
		"http://169.254.169.254/?key=secret", "http://10.0.0.1/#secret", "user:secret@host", "http://u:secret@[::1/",
		"http://u:secret@h:port/", "http://host:secret/", "http://u:secret@secret/secret@host/v1", "http://u:se@secret!/secret@host", "http://" + strings.Repeat("x", MaxURL) + "?secret",
	} {
		err := p.CheckURL(raw)
		check(t, raw, err, false)
		if strings.Contains(err.Error(), "secret") {
			t.Errorf("CheckURL(%q) = %v", raw, err)
		}
	}
}

func TestRefusalsNameTheFix(t *testing.T) {
	p := mustPolicy(t)
	for raw, want := range map[string]string{
		"http://user:pass@127.0.0.1/":       "send credentials in headers",
		"http://@127.0.0.1/":                "send credentials in headers",
		"http://169%E3%80%82254/":           "write it plainly",
		"http://[fe80::1%25eth0]/":          "write it plainly",
		"http://bücher.example/":            "xn--",
		"http://2130706433/":                "four decimal parts",
		"http://10.0.0.1/":                  "only the server's operator can allow (allow 10.0.0.1)",
		"http://169.254.169.254/":           "a metadata address, which is never allowed",
		"http://127.0.0.1/ ":                "at byte 17",
		"http://127.0.0.1/#x":               "leave it out",
		"ftp://127.0.0.1/":                  "http or https",
		"http://127.0.0.1:0/":               "between 1 and 65535",
		"http://" + longPath[:64] + ".org/": "63 characters",
	} {
		if err := p.CheckURL(raw); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("CheckURL(%q) = %v, want %q", raw, err, want)
		}
	}
}

func FuzzForbiddenRangeHasNoAllowedAddress(f *testing.F) {
	for _, s := range specials {
		f.Add(s.prefix.Addr().AsSlice(), uint8(s.prefix.Bits()), []byte{1, 2, 3, 4})
	}
	f.Fuzz(func(t *testing.T, raw []byte, bits uint8, host []byte) {
		a, ok := netip.AddrFromSlice(raw)
		if !ok || a.Is4In6() {
			return
		}
		r, err := a.Prefix(int(bits) % (a.BitLen() + 1))
		if err != nil {
			t.Fatal(err)
		}
		_, all := neverWithin(r)
		// One address of the range: its first bits, and then the bits of host.
		b := r.Addr().AsSlice()
		for i := r.Bits(); i < r.Addr().BitLen() && i/8 < len(host); i++ {
			b[i/8] |= host[i/8] & (0x80 >> (i % 8))
		}
		one, _ := netip.AddrFromSlice(b)
		c, what := classify(one)
		if all && c != never || r.IsSingleIP() && !all && c == never {
			t.Errorf("%v: refused as a whole is %t, but %v is class %d %q", r, all, one, c, what)
		}
	})
}
