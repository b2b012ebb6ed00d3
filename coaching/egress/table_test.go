package egress

import (
	"errors"
	"net"
	"testing"
)

// verdict is the expected outcome for an endpoint.
type verdict int

const (
	refused verdict = iota // whatever the operator lists
	listed                 // by default refused, but an operator can list it
	allowed                // by default
)

// endpoints are URLs, each with the address that a program which reads it
// carelessly, or resolves it, would connect to.
var endpoints = []struct {
	name   string
	url    string
	dial   string
	byURL  verdict
	byDial verdict
}{
	// Plain addresses and names.
	{name: "loopback", url: "http://127.0.0.1:11434", dial: "127.0.0.1:11434", byURL: allowed, byDial: allowed},
	{name: "loopback, not .1", url: "http://127.8.9.10/", dial: "127.8.9.10:80", byURL: allowed, byDial: allowed},
	{name: "loopback of IPv6", url: "http://[::1]:8000/v1", dial: "[::1]:8000", byURL: allowed, byDial: allowed},
	{name: "localhost", url: "http://localhost:11434/v1", dial: "127.0.0.1:11434", byURL: allowed, byDial: allowed},
	{name: "public IPv4", url: "https://8.8.8.8/v1", dial: "8.8.8.8:443", byURL: allowed, byDial: allowed},
	{name: "public IPv6", url: "https://[2606:4700::1111]/v1", dial: "[2606:4700::1111]:443", byURL: allowed, byDial: allowed},
	{name: "name", url: "https://api.example.org/v1?api-version=1", dial: "93.184.215.14:443", byURL: allowed, byDial: allowed},
	{name: "name with a dot at its end", url: "https://API.Example.org./v1", dial: "93.184.215.14:443", byURL: allowed, byDial: allowed},
	{name: "international name as xn--", url: "https://xn--bcher-kva.example/", dial: "93.184.215.14:443", byURL: allowed, byDial: allowed},
	{name: "name of a container", url: "http://my_ollama:11434", dial: "172.18.0.2:11434", byURL: allowed, byDial: listed},
	{name: "v4-mapped loopback", url: "http://[::ffff:127.0.0.1]/", dial: "[::ffff:127.0.0.1]:80", byURL: allowed, byDial: allowed},
	{name: "v4-mapped public", url: "http://[::ffff:8.8.8.8]/", dial: "[::ffff:808:808]:80", byURL: allowed, byDial: allowed},
	{name: "NAT64 of a public address", url: "http://[64:ff9b::8.8.8.8]/", dial: "[64:ff9b::808:808]:80", byURL: allowed, byDial: allowed},
	{name: "6to4 of a public address", url: "http://[2002:808:808::1]/", dial: "[2002:808:808::1]:80", byURL: allowed, byDial: allowed},

	// Private networks: an operator's to allow.
	{name: "10/8", url: "http://10.0.0.1/", dial: "10.0.0.1:80", byURL: listed, byDial: listed},
	{name: "10/8, its end", url: "http://10.255.255.255/", dial: "10.255.255.255:80", byURL: listed, byDial: listed},
	{name: "172.16/12", url: "http://172.16.0.1/", dial: "172.16.0.1:80", byURL: listed, byDial: listed},
	{name: "172.16/12, its end", url: "http://172.31.255.254/", dial: "172.31.255.254:80", byURL: listed, byDial: listed},
	{name: "after 172.16/12", url: "http://172.32.0.1/", dial: "172.32.0.1:80", byURL: allowed, byDial: allowed},
	{name: "192.168/16", url: "http://192.168.1.5:8080/", dial: "192.168.1.5:8080", byURL: listed, byDial: listed},
	{name: "carrier's network", url: "http://100.64.0.1/", dial: "100.64.0.1:80", byURL: listed, byDial: listed},
	{name: "benchmarks", url: "http://198.18.0.1/", dial: "198.18.0.1:80", byURL: listed, byDial: listed},
	{name: "unique local", url: "http://[fd12:3456::1]/", dial: "[fd12:3456::1]:80", byURL: listed, byDial: listed},
	{name: "unique local, fc00", url: "http://[fc00::1]/", dial: "[fc00::1]:80", byURL: listed, byDial: listed},
	{name: "v4-mapped private", url: "http://[::ffff:10.0.0.1]/", dial: "[::ffff:a00:1]:80", byURL: listed, byDial: listed},
	{name: "NAT64 of a private address", url: "http://[64:ff9b::a00:1]/", dial: "[64:ff9b::10.0.0.1]:80", byURL: listed, byDial: listed},
	{name: "6to4 of a private address", url: "http://[2002:a00:1::]/", dial: "[2002:a00:1::]:80", byURL: listed, byDial: listed},
	{name: "Teredo client with a private address", url: "http://[2001:0:808:808::f5ff:fffe]/", dial: "[2001:0:808:808::f5ff:fffe]:80", byURL: listed, byDial: listed},
	{name: "ISATAP of a private address", url: "http://[2606:4700::5efe:a00:1]/", dial: "[2606:4700::5efe:a00:1]:80", byURL: listed, byDial: listed},

	// Metadata and link-local.
	{name: "metadata", url: "http://169.254.169.254/latest/meta-data/", dial: "169.254.169.254:80"},
	{name: "metadata of containers", url: "http://169.254.170.2/v2/credentials", dial: "169.254.170.2:80"},
	{name: "link-local", url: "http://169.254.0.1/", dial: "169.254.0.1:80"},
	{name: "link-local, its end", url: "http://169.254.255.255/", dial: "169.254.255.255:80"},
	{name: "metadata of Alibaba", url: "http://100.100.100.200/", dial: "100.100.100.200:80"},
	{name: "metadata of Azure", url: "http://168.63.129.16/machine", dial: "168.63.129.16:80"},
	{name: "metadata of Oracle", url: "http://192.0.0.192/", dial: "192.0.0.192:80"},
	{name: "metadata of AWS over IPv6", url: "http://[fd00:ec2::254]/", dial: "[fd00:ec2::254]:80"},
	{name: "credentials of EKS over IPv6", url: "http://[fd00:ec2::23]/", dial: "[fd00:ec2::23]:80"},
	{name: "metadata of Google over IPv6", url: "http://[fd20:ce::254]/", dial: "[fd20:ce::254]:80"},
	{name: "link-local of IPv6", url: "http://[fe80::1]/", dial: "[fe80::1]:80"},
	{name: "link-local with a zone", url: "http://[fe80::1%25eth0]/", dial: "[fe80::1%eth0]:80"},
	{name: "any address with a zone", url: "http://[2606:4700::1%25eth0]/", dial: "[2606:4700::1%eth0]:80"},
	{name: "site-local", url: "http://[fec0::1]/", dial: "[fec0::1]:80"},
	{name: "v4-mapped metadata", url: "http://[::ffff:169.254.169.254]/", dial: "[::ffff:a9fe:a9fe]:80"},
	{name: "v4-mapped metadata in hex", url: "http://[0:0:0:0:0:ffff:a9fe:a9fe]/", dial: "[::ffff:169.254.169.254]:80"},
	{name: "v4-compatible metadata", url: "http://[::169.254.169.254]/", dial: "[::a9fe:a9fe]:80"},
	{name: "SIIT of metadata", url: "http://[::ffff:0:a9fe:a9fe]/", dial: "[::ffff:0:a9fe:a9fe]:80"},
	{name: "NAT64 of metadata", url: "http://[64:ff9b::169.254.169.254]/", dial: "[64:ff9b::a9fe:a9fe]:80"},
	{name: "NAT64 of loopback", url: "http://[64:ff9b::127.0.0.1]/", dial: "[64:ff9b::7f00:1]:80"},
	{name: "NAT64 of a local prefix", url: "http://[64:ff9b:1::a9fe:a9fe]/", dial: "[64:ff9b:1::a9fe:a9fe]:80"},
	{name: "6to4 of metadata", url: "http://[2002:a9fe:a9fe::1]/", dial: "[2002:a9fe:a9fe::1]:80"},
	{name: "6to4 of loopback", url: "http://[2002:7f00:1::1]/", dial: "[2002:7f00:1::1]:80"},
	{name: "Teredo server metadata", url: "http://[2001:0:a9fe:a9fe::]/", dial: "[2001:0:a9fe:a9fe::]:80"},
	{name: "Teredo client metadata", url: "http://[2001:0:808:808::5601:5601]/", dial: "[2001:0:808:808::5601:5601]:80"},
	{name: "ISATAP of metadata", url: "http://[2606:4700::200:5efe:a9fe:a9fe]/", dial: "[2606:4700::200:5efe:a9fe:a9fe]:80"},
	{name: "metadata by name", url: "http://metadata.google.internal/computeMetadata/v1/", dial: "169.254.169.254:80"},
	{name: "metadata by name, other case and dot", url: "http://Metadata.Google.Internal./", dial: "169.254.169.254:80"},
	{name: "metadata by short name", url: "http://metadata/", dial: "169.254.169.254:80"},

	// Unspecified, multicast, broadcast, reserved.
	{name: "unspecified", url: "http://0.0.0.0:8888/", dial: "0.0.0.0:8888"},
	{name: "this network", url: "http://0.1.2.3/", dial: "0.1.2.3:80"},
	{name: "unspecified of IPv6", url: "http://[::]:8888/", dial: "[::]:8888"},
	{name: "v4-mapped unspecified", url: "http://[::ffff:0.0.0.0]/", dial: "[::ffff:0:0]:80"},
	{name: "multicast", url: "http://224.0.0.1/", dial: "224.0.0.1:80"},
	{name: "multicast, SSDP", url: "http://239.255.255.250:1900/", dial: "239.255.255.250:1900"},
	{name: "multicast of IPv6", url: "http://[ff02::1]/", dial: "[ff02::1]:80"},
	{name: "broadcast", url: "http://255.255.255.255/", dial: "255.255.255.255:80"},
	{name: "reserved", url: "http://240.0.0.1/", dial: "240.0.0.1:80"},
	{name: "documentation", url: "http://192.0.2.1/", dial: "192.0.2.1:80"},
	{name: "6to4 relays", url: "http://192.88.99.1/", dial: "192.88.99.1:80"},
	{name: "documentation of IPv6", url: "http://[2001:db8::1]/", dial: "[2001:db8::1]:80"},
	{name: "discarded", url: "http://[100::1]/", dial: "[100::1]:80"},
	{name: "not given out", url: "http://[4000::1]/", dial: "[4000::1]:80"},

	// Numbers that inet_aton, browsers and some resolvers take for an address.
	{name: "decimal loopback", url: "http://2130706433/", dial: "127.0.0.1:80", byDial: allowed},
	{name: "decimal metadata", url: "http://2852039166/", dial: "169.254.169.254:80"},
	{name: "hexadecimal metadata", url: "http://0xA9FEA9FE/", dial: "169.254.169.254:80"},
	{name: "octal metadata", url: "http://025177524776/", dial: "169.254.169.254:80"},
	{name: "octal parts", url: "http://0251.0376.0251.0376/", dial: "169.254.169.254:80"},
	{name: "hexadecimal parts", url: "http://0xa9.0xfe.0xa9.0xfe/", dial: "169.254.169.254:80"},
	{name: "mixed parts", url: "http://169.0xfe.43518/", dial: "169.254.169.254:80"},
	{name: "three parts", url: "http://169.254.43518/", dial: "169.254.169.254:80"},
	{name: "two parts", url: "http://169.16689662/", dial: "169.254.169.254:80"},
	{name: "short loopback", url: "http://127.1/", dial: "127.0.0.1:80", byDial: allowed},
	{name: "leading zero", url: "http://0169.254.169.254/", dial: "169.254.169.254:80"},
	{name: "zero", url: "http://0/", dial: "0.0.0.0:80"},
	{name: "0x", url: "http://0x/", dial: "0.0.0.0:80"},
	{name: "beyond 32 bits", url: "http://7147006462/", dial: "169.254.169.254:80"},
	{name: "five parts", url: "http://1.2.3.4.5/", dial: "169.254.169.254:80"},
	{name: "address with a dot at its end", url: "http://169.254.169.254./", dial: "169.254.169.254:80"},
	{name: "full-width digits", url: "http://１６９.254.169.254/", dial: "169.254.169.254:80"},
	{name: "ideographic dots", url: "http://169。254。169。254/", dial: "169.254.169.254:80"},
	{name: "circled digits", url: "http://①⑥⑨.254.169.254/", dial: "169.254.169.254:80"},
	{name: "IPv4 in brackets", url: "http://[169.254.169.254]/", dial: "169.254.169.254:80"},
	{name: "IPv6 without brackets", url: "http://fe80::1/", dial: "[fe80::1]:80"},

	// URLs that two programs read in two ways.
	{name: "user", url: "http://api.example.org@169.254.169.254/", dial: "169.254.169.254:80"},
	{name: "user and password", url: "http://user:pass@127.0.0.1/", dial: "127.0.0.1:80", byDial: allowed},
	{name: "empty user", url: "http://@127.0.0.1/", dial: "127.0.0.1:80", byDial: allowed},
	{name: "two @", url: "http://a@b@169.254.169.254/", dial: "169.254.169.254:80"},
	{name: "backslash before @", url: `http://169.254.169.254\@api.example.org/`, dial: "169.254.169.254:80"},
	{name: "backslashes for slashes", url: `http:\\169.254.169.254\`, dial: "169.254.169.254:80"},
	{name: "backslash in the path", url: `http://127.0.0.1/a\b`, dial: "127.0.0.1:80", byDial: allowed},
	{name: "fragment before @", url: "http://169.254.169.254#@api.example.org/", dial: "169.254.169.254:80"},
	{name: "fragment", url: "http://127.0.0.1/#x", dial: "127.0.0.1:80", byDial: allowed},
	{name: "percent-encoded dot", url: "http://169%2e254.169.254/", dial: "169.254.169.254:80"},
	{name: "percent-encoded letters", url: "http://%6c%6f%63%61%6c%68%6f%73%74/", dial: "127.0.0.1:80", byDial: allowed},
	{name: "percent-encoded full-width digit", url: "http://%EF%BC%9169.254.169.254/", dial: "169.254.169.254:80"},
	{name: "international name", url: "http://bücher.example/", dial: "93.184.215.14:80", byDial: allowed},
	{name: "soft hyphen", url: "http://169.254.169.\u00ad254/", dial: "169.254.169.254:80"},
	{name: "tab", url: "http://169.254.\t169.254/", dial: "169.254.169.254:80"},
	{name: "line break", url: "http://127.0.0.1/\r\nX: y", dial: "127.0.0.1:80", byDial: allowed},
	{name: "NUL", url: "http://169.254.169.254\x00.example.org/", dial: "169.254.169.254:80"},
	{name: "space before", url: " http://127.0.0.1/", dial: "127.0.0.1:80", byDial: allowed},
	{name: "DEL", url: "http://127.0.0.1/\x7f", dial: "127.0.0.1:80", byDial: allowed},
	{name: "empty part", url: "http://api..example.org/", dial: "93.184.215.14:80", byDial: allowed},
	{name: "two dots at the end", url: "http://example.org../", dial: "93.184.215.14:80", byDial: allowed},
	{name: "no host", url: "http:///etc/passwd", dial: ":80"},
	{name: "no host but a port", url: "http://:80/", dial: ":80"},
	{name: "port 0", url: "http://127.0.0.1:0/", dial: "127.0.0.1:0"},
	{name: "port beyond 16 bits", url: "http://127.0.0.1:65616/", dial: "127.0.0.1:65616"},
	{name: "colon without port", url: "http://127.0.0.1:/", dial: "127.0.0.1:"},
	{name: "named port", url: "http://127.0.0.1:http/", dial: "127.0.0.1:http"},
	{name: "negative port", url: "http://127.0.0.1:-80/", dial: "127.0.0.1:-80"},
	{name: "two ports", url: "http://127.0.0.1:80:81/", dial: "127.0.0.1:80:81"},
	{name: "no scheme", url: "127.0.0.1:8080/v1", dial: "127.0.0.1:8080", byDial: allowed},
	{name: "no scheme, slashes", url: "//127.0.0.1/v1", dial: "127.0.0.1:80", byDial: allowed},
	{name: "scheme without slashes", url: "http:127.0.0.1/v1", dial: "127.0.0.1:80", byDial: allowed},
	{name: "file", url: "file:///etc/passwd", dial: "/etc/passwd"},
	{name: "gopher", url: "gopher://127.0.0.1:6379/_", dial: "127.0.0.1:6379", byDial: allowed},
	{name: "unix", url: "unix:///run/docker.sock", dial: "/run/docker.sock"},
	{name: "http over unix", url: "http+unix://%2Frun%2Fdocker.sock/v1", dial: "/run/docker.sock"},
	{name: "empty", url: "", dial: ""},
}

// Every endpoint is looked at twice: as a URL, and as the address that would be
// connected to. Nothing is connected to.
func TestEndpointsAreAllowedOrRefused(t *testing.T) {
	policies := []struct {
		name    string
		policy  *Policy
		vouched bool // the name was listed
		from    verdict
	}{
		{"default", mustPolicy(t), false, allowed},
		{"all addresses listed", mustPolicy(t, "0.0.0.0/0", "::/0"), false, listed},
		{"name listed", mustPolicy(t, "0.0.0.0/0", "::/0"), true, listed},
	}
	forbidden := 0
	for _, e := range endpoints {
		if e.byURL == refused || e.byDial == refused {
			forbidden++
		}
		for _, p := range policies {
			t.Run(e.name+"/"+p.name, func(t *testing.T) {
				check(t, "CheckURL("+e.url+")", p.policy.CheckURL(e.url), e.byURL >= p.from)
				check(t, "control("+e.dial+")", p.policy.control(p.vouched)(network(e.dial), e.dial, nil), e.byDial >= p.from)
			})
		}
	}
	if len(endpoints) < 60 || forbidden < 60 {
		t.Errorf("%d endpoints, %d forbidden: want 60 of each", len(endpoints), forbidden)
	}
}

// check wants an error to be nil or a *ForbiddenError.
func check(t *testing.T, what string, err error, allowed bool) {
	t.Helper()
	var f *ForbiddenError
	switch {
	case allowed && err != nil:
		t.Errorf("%s = %v, want it allowed", what, err)
	case !allowed && !errors.As(err, &f):
		t.Errorf("%s = %v, want a *ForbiddenError", what, err)
	case !allowed && (f.What == "" || f.Why == ""):
		t.Errorf("%s = %+v, says too little", what, f)
	}
}

// network is package net's name for the network of an address.
func network(address string) string {
	host, _, err := net.SplitHostPort(address)
	switch {
	case err != nil:
		return "unix"
	case net.ParseIP(host).To4() != nil:
		return "tcp4"
	}
	return "tcp6"
}
