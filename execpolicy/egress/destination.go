package egress

import (
	"errors"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// A destination is a host and a port as they are compared: a name in small letters and
// without a dot at its end, or an address.
type destination struct {
	name string
	addr netip.Addr // valid if there is no name
	port uint16
}

// String returns the destination as "host:port".
func (d destination) String() string {
	if d.addr.IsValid() {
		return netip.AddrPortFrom(d.addr, d.port).String()
	}
	return d.name + ":" + strconv.Itoa(int(d.port))
}

var (
	errForm   = errors.New(`it is not like "example.com:443"`)
	errPort   = errors.New("the port has to be a number from 1 to 65535, without zeros before it")
	errName   = errors.New("the host has to be a name of ASCII letters, digits, hyphens and underscores (write an international name as xn--…)")
	errNumber = errors.New("the host is a number in a form that programs read in different ways")
	errAddr   = errors.New("the address has to be an ordinary one of version 4, or one of version 6 in brackets, without a zone and not a mapped one")
)

// parse reads a host and a port. It knows one way to write each, so that what is compared
// is what is meant: nothing is unescaped, completed or skipped.
func parse(text string) (destination, error) {
	var d destination
	i := strings.LastIndexByte(text, ':')
	if i < 0 {
		return d, errForm
	}
	host, port := text[:i], text[i+1:]
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 || strconv.FormatUint(n, 10) != port {
		return d, errPort
	}
	d.port = uint16(n)
	if inner, ok := strings.CutPrefix(host, "["); ok {
		inner, ok = strings.CutSuffix(inner, "]")
		addr, err := netip.ParseAddr(inner)
		if !ok || err != nil || !addr.Is6() || addr.Is4In6() || addr.Zone() != "" {
			return destination{}, errAddr
		}
		d.addr = addr
		return d, nil
	}
	if addr, err := netip.ParseAddr(host); err == nil {
		if !addr.Is4() {
			return destination{}, errAddr
		}
		d.addr = addr
		return d, nil
	}
	if d.name, err = canonical(host); err != nil {
		return destination{}, err
	}
	return d, nil
}

// canonical returns a name as it is compared.
func canonical(host string) (string, error) {
	host = strings.TrimSuffix(host, ".")
	// A letter from elsewhere may have a small form that is one of ASCII.
	if len(host) > 253 || strings.ContainsFunc(host, func(r rune) bool { return r > '~' }) {
		return "", errName
	}
	name := strings.ToLower(host)
	labels := strings.Split(name, ".")
	for _, label := range labels {
		if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' {
			return "", errName
		}
		for _, c := range []byte(label) {
			if !('a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '-' || c == '_') {
				return "", errName
			}
		}
	}
	// Resolvers take 127.1, 0x7f000001 and 2130706433 for addresses, and browsers all
	// that ends in such a number.
	last := labels[len(labels)-1]
	if digits := strings.TrimPrefix(last, "0x"); digits != last && strings.Trim(digits, "0123456789abcdef") == "" ||
		strings.Trim(last, "0123456789") == "" {
		return "", errNumber
	}
	return name, nil
}

// parseListed is parse for what stands in a list.
func parseListed(text string) (destination, error) {
	if strings.Contains(text, "*") {
		return destination{}, errors.New("there are no patterns: name each host")
	}
	return parse(text)
}

// rules say what may be reached.
type rules struct {
	destinations map[destination]bool
	private      []netip.Prefix
}

// texts returns the destinations in order.
func (r *rules) texts() []string {
	var all []string
	for d := range maps.Keys(r.destinations) {
		all = append(all, d.String())
	}
	slices.Sort(all)
	return all
}

// refuses returns why a name must not lead to an address, or the empty text. own are the
// addresses of this machine.
func (r *rules) refuses(addr netip.Addr, own []netip.Addr) string {
	addr = addr.Unmap()
	for _, network := range r.private {
		if network.Contains(addr) {
			return ""
		}
	}
	if why := notPublic(addr); why != "" {
		return why
	}
	if inner := translated(addr); slices.Contains(own, addr) || inner.IsValid() && slices.Contains(own, inner) {
		return "is this machine's own"
	}
	return ""
}
