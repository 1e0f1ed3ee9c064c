package egress

import (
	"net"
	"net/netip"
)

// A special network is one whose addresses are not those of a host on the Internet.
type special struct {
	network netip.Prefix
	why     string
}

// specials are IANA's registries of special-purpose addresses of version 4, and what
// clouds have put among the public ones.
var specials = []special{
	{netip.MustParsePrefix("0.0.0.0/8"), "is of this network"},
	{netip.MustParsePrefix("10.0.0.0/8"), "is private"},
	{netip.MustParsePrefix("100.64.0.0/10"), "is a provider's own"},
	{netip.MustParsePrefix("127.0.0.0/8"), "is a loopback"},
	{netip.MustParsePrefix("169.254.0.0/16"), "is link-local"},
	{netip.MustParsePrefix("172.16.0.0/12"), "is private"},
	{netip.MustParsePrefix("192.0.0.0/24"), "is reserved"},
	{netip.MustParsePrefix("192.0.2.0/24"), "is for documents"},
	{netip.MustParsePrefix("192.88.99.0/24"), "is a relay's"},
	{netip.MustParsePrefix("192.168.0.0/16"), "is private"},
	{netip.MustParsePrefix("198.18.0.0/15"), "is for measurements"},
	{netip.MustParsePrefix("198.51.100.0/24"), "is for documents"},
	{netip.MustParsePrefix("203.0.113.0/24"), "is for documents"},
	{netip.MustParsePrefix("224.0.0.0/4"), "is multicast"},
	{netip.MustParsePrefix("240.0.0.0/4"), "is reserved"},
	{netip.MustParsePrefix("168.63.129.16/32"), "is a cloud's own service"}, // Azure's
	// Of version 6 only 2000::/3 is public at all.
	{netip.MustParsePrefix("2001::/23"), "is reserved"}, // Teredo is in it
	{netip.MustParsePrefix("2001:db8::/32"), "is for documents"},
	{netip.MustParsePrefix("3fff::/20"), "is for documents"},
}

var (
	public6 = netip.MustParsePrefix("2000::/3")
	sixTo4  = netip.MustParsePrefix("2002::/16")
	nat64   = netip.MustParsePrefix("64:ff9b::/96")
)

// notPublic returns why an address is not that of a host on the Internet, or the empty
// text. An address of version 6 that a gateway turns into one of version 4 is judged as
// that.
func notPublic(addr netip.Addr) string {
	if addr.Zone() != "" {
		return "has a zone"
	}
	addr = addr.Unmap()
	for _, s := range specials {
		if s.network.Contains(addr) {
			return s.why
		}
	}
	if addr.Is4() {
		return ""
	}
	if inner := translated(addr); inner.IsValid() {
		return notPublic(inner)
	}
	if !public6.Contains(addr) {
		return "is not public"
	}
	return ""
}

// translated returns the address of version 4 that a gateway makes of one of version 6;
// the zero address if none does.
func translated(addr netip.Addr) netip.Addr {
	b := addr.As16()
	switch {
	case nat64.Contains(addr):
		return netip.AddrFrom4([4]byte(b[12:]))
	case sixTo4.Contains(addr):
		return netip.AddrFrom4([4]byte(b[2:6]))
	}
	return netip.Addr{}
}

// ownAddrs returns the addresses of this machine.
func ownAddrs() ([]netip.Addr, error) {
	networks, err := net.InterfaceAddrs()
	if err != nil {
		return nil, err
	}
	var own []netip.Addr
	for _, network := range networks {
		if prefix, err := netip.ParsePrefix(network.String()); err == nil {
			own = append(own, prefix.Addr().Unmap())
		}
	}
	return own, nil
}
