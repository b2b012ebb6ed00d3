package egress

import (
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// CheckURL checks an endpoint before its name is resolved. The error is a *ForbiddenError. It rejects URLs that two
// programs could parse in different ways, so that the checked host is the host of the connection.
func (p *Policy) CheckURL(raw string) error {
	forbid := func(format string, args ...any) error {
		return &ForbiddenError{What: SafeURL(raw), Why: fmt.Sprintf(format, args...)}
	}
	if len(raw) > MaxURL {
		return forbid("is longer than %d bytes", MaxURL)
	}
	if i := strings.IndexFunc(raw, func(r rune) bool { return r <= ' ' || r == 0x7f || r == '\\' }); i >= 0 {
		return forbid("has a space, a control character or a backslash at byte %d; percent-encode it", i)
	}
	if strings.Contains(raw, "#") {
		return forbid("has a fragment (#), which is never sent; leave it out")
	}
	u, err := url.Parse(raw)
	if err != nil { // not err itself: it repeats the URL, with the password
		return forbid("cannot be read as a URL; write https://host/path")
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Opaque != "" || u.Host == "" {
		return forbid("must be an http or https URL with a host")
	}
	if u.User != nil {
		return forbid("has a user name before the @; send credentials in headers")
	}
	if why := p.checkAuthority(raw, u); why != "" {
		return forbid("%s", why)
	}
	return nil
}

// checkAuthority returns the reason why host and port are invalid, "" if they are valid.
func (p *Policy) checkAuthority(raw string, u *url.URL) string {
	_, written, _ := strings.Cut(raw, "://")
	if i := strings.IndexAny(written, "/?"); i >= 0 {
		written = written[:i]
	}
	if written != u.Host {
		return "has a host with % in it; write it plainly, an international name as xn--" // decoded by url.Parse
	}
	host, port := u.Hostname(), u.Port()
	if strings.HasSuffix(u.Host, ":") {
		return "has no port after the colon"
	}
	if n, err := strconv.Atoi(port); port != "" && (err != nil || n < 1 || n > 65535) {
		return "has a port that is not between 1 and 65535"
	}
	_, why := p.checkHost(host)
	return why
}

// checkHost returns the reason why a host is invalid, "" if it is valid, and its IP address if it is one.
func (p *Policy) checkHost(host string) (addr netip.Addr, why string) {
	if addr, err := netip.ParseAddr(host); err == nil {
		if why := p.refuse(addr, false, addr.Unmap().String()); why != "" {
			return addr, "names " + why
		}
		return addr, ""
	}
	name := canonical(host)
	if why := badName(name); why != "" {
		return addr, "has a host that " + why
	}
	if slices.Contains(metadataNames, name) {
		return addr, "names a metadata service, which is never allowed"
	}
	if p.listed && len(p.prefixes) == 0 && !p.vouches(name) {
		return addr, "names a host that the server's operator does not allow " + p.allowWith(name)
	}
	return addr, ""
}

// canonical returns a host name in lower case without a final dot, the form of entries.
func canonical(host string) string { return strings.ToLower(strings.TrimSuffix(host, ".")) }

// badName returns why a text is not a host name, "" if it is one. It rejects names that
// are numbers to some programs (2130706433, 0x7f.1, 127.1) and characters that some map
// to others (full-width digits).
func badName(name string) string {
	if name == "" || len(name) > 253 {
		return "is empty or longer than 253 characters"
	}
	labels := strings.Split(name, ".")
	for _, label := range labels {
		switch {
		case label == "":
			return "has an empty part between its dots"
		case len(label) > 63:
			return "has a part of more than 63 characters"
		case strings.HasPrefix(label, "-"), strings.HasSuffix(label, "-"):
			return "has a part that begins or ends with a hyphen"
		case strings.ContainsFunc(label, notInName):
			return "has other characters than letters, digits, hyphens and dots (an international name is written as xn--)"
		}
	}
	if isNumber(labels[len(labels)-1]) {
		return "is a number in another form than four decimal parts; write the address as 192.0.2.1 or a name"
	}
	return ""
}

// notInName also allows the underscore, which container names often have.
func notInName(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_'
}

// isNumber reports whether the last part makes a host a number to inet_aton or a browser.
// No domain ends so.
func isNumber(label string) bool {
	if hex, ok := strings.CutPrefix(strings.ToLower(label), "0x"); ok {
		return strings.Trim(hex, "0123456789abcdef") == ""
	}
	return strings.Trim(label, "0123456789") == ""
}

// SafeURL returns a URL for logs and reasons, without user, password and query, which may contain
// keys. If a password with an @ or a slash may have become a part of host or path, it shows nothing.
func SafeURL(raw string) string {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" {
		return "(not a URL)"
	}
	_, rest, _ := strings.Cut(raw, "://")
	if i := strings.IndexAny(rest, "/?#"); i >= 0 && strings.Contains(rest[i:], "@") &&
		(u.User != nil || u.Port() != "" || !strings.Contains(u.Host, ".")) {
		return u.Scheme + "://(hidden)"
	}
	shown := u.Scheme + "://" + u.Host + u.EscapedPath()
	shown = strings.Map(func(r rune) rune {
		if r == unicode.ReplacementChar || !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, shown)
	if len(shown) > maxShown {
		shown = strings.ToValidUTF8(shown[:maxShown], "") + "…"
	}
	return shown
}
