package egress

import (
	"net/netip"
	"slices"
)

// class is the kind of an address, for the policy.
type class int

const (
	never    class = iota // always refused
	private               // allowed if listed
	loopback              // this machine; allowed if listed, or without a list
	public                // allowed if listed, or without a list
)

// special is a range of addresses with its own class.
type special struct {
	prefix netip.Prefix
	class  class
	what   string
}

func ranges(c class, what string, prefixes ...string) []special {
	list := make([]special, len(prefixes))
	for i, p := range prefixes {
		list[i] = special{netip.MustParsePrefix(p), c, what}
	}
	return list
}

// specials are the ranges of IANA's special-purpose registries and the metadata addresses
// of clouds. The first match counts, so single addresses come before their ranges.
var specials = slices.Concat(
	ranges(never, "a metadata address",
		"169.254.169.254/32",  // most clouds
		"169.254.170.0/24",    // AWS containers
		"100.100.100.200/32",  // Alibaba
		"168.63.129.16/32",    // Azure
		"192.0.0.192/32",      // Oracle
		"fd00:ec2::/32",       // AWS
		"fd20:ce::/32",        // Google
		"fd00:c1::/32",        // Oracle
		"fd00:42::42/128",     // Scaleway
		"fd00:a9fe:a9fe::/48", // Linode
	),
	ranges(never, "a link-local address", "169.254.0.0/16", "fe80::/10", "fec0::/10"),
	ranges(never, "an unspecified address, which is this machine", "0.0.0.0/8", "::/128"),
	ranges(never, "a multicast address", "224.0.0.0/4", "ff00::/8"),
	ranges(never, "the broadcast address", "255.255.255.255/32"),
	ranges(never, "a reserved address",
		"192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "198.51.100.0/24", "203.0.113.0/24", "240.0.0.0/4"),
	ranges(loopback, "a loopback address", "127.0.0.0/8", "::1/128"),
	ranges(private, "a private address", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7"),
	ranges(private, "an address of a carrier's own network", "100.64.0.0/10"),
	ranges(private, "an address for benchmarks", "198.18.0.0/15"),
	ranges(public, "", "0.0.0.0/0"),

	// Only 2000::/3 of IPv6 is allocated. Two ranges that embed IPv4 addresses are
	// otherwise reserved. The embedded addresses are checked as well.
	ranges(public, "", nat64.String(), teredo.String()),
	ranges(never, "a reserved address", "2001:db8::/32", "3fff::/20", "2001::/23"),
	ranges(public, "", "2000::/3"),
	ranges(never, "a reserved address", "::/0"),
)

// IPv6 ranges that embed an IPv4 address, to which a gateway connects. ISATAP addresses
// are in any network. Older forms, such as ::1.2.3.4, are reserved.
var (
	nat64     = netip.MustParsePrefix("64:ff9b::/96")
	sixToFour = netip.MustParsePrefix("2002::/16")
	teredo    = netip.MustParsePrefix("2001::/32")
)

// embedded returns the IPv4 addresses in an IPv6 address.
func embedded(a netip.Addr) []netip.Addr {
	if !a.Is6() {
		return nil
	}
	b := a.As16()
	at := func(i int) netip.Addr { return netip.AddrFrom4([4]byte(b[i : i+4])) }
	switch {
	case nat64.Contains(a):
		return []netip.Addr{at(12)}
	case sixToFour.Contains(a):
		return []netip.Addr{at(2)}
	case teredo.Contains(a): // the server, and the client with its bits inverted
		client := [4]byte{^b[12], ^b[13], ^b[14], ^b[15]}
		return []netip.Addr{at(4), netip.AddrFrom4(client)}
	case b[8]&^2 == 0 && b[9] == 0 && b[10] == 0x5e && b[11] == 0xfe: // ISATAP
		return []netip.Addr{at(12)}
	}
	return nil
}

// classify returns the class of an address, and what kind of address it is unless it is public.
func classify(a netip.Addr) (class, string) {
	if a.Zone() != "" {
		return never, "a link-local address" // no other needs a zone
	}
	a = a.Unmap()
	c, what := lookup(a)
	for _, v4 := range embedded(a) {
		switch inner, innerWhat := lookup(v4); {
		case c == never:
		case inner == never, inner == loopback: // loopback of the gateway, not ours
			c, what = never, standsFor+innerWhat
		case inner == private:
			c, what = private, standsFor+innerWhat
		}
	}
	return c, what
}

const standsFor = "an address that stands for "

func lookup(a netip.Addr) (class, string) {
	for _, s := range specials {
		if s.prefix.Contains(a) {
			return s.class, s.what
		}
	}
	return never, "not an address" // of the zero Addr
}

// neverWithin returns the reason why no address of a range can be allowed. ok is false if some can.
func neverWithin(p netip.Prefix) (what string, ok bool) {
	if p.IsSingleIP() {
		c, what := classify(p.Addr())
		return what, c == never
	}
	for _, s := range specials {
		if s.prefix.Overlaps(p) && (s.class != never || s.prefix.Bits() <= p.Bits()) {
			return s.what, s.class == never
		}
	}
	return "", false
}
