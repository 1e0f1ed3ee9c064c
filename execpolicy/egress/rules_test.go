package egress

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/execpolicy"
)

func TestParse(t *testing.T) {
	for _, c := range []struct {
		text, want string
		err        error
	}{
		{"pypi.org:443", "pypi.org:443", nil},
		{"PyPI.org.:443", "pypi.org:443", nil},
		{"a_b.example:1", "a_b.example:1", nil},
		{"xn--bcher-kva.example:65535", "xn--bcher-kva.example:65535", nil},
		{"1password.com:443", "1password.com:443", nil},
		{"192.0.2.1:443", "192.0.2.1:443", nil},
		{"[2001:DB8:0::1]:443", "[2001:db8::1]:443", nil},

		{"", "", errForm},
		{"pypi.org", "", errForm},
		{":443", "", errName},
		{"pypi.org:", "", errPort},
		{"pypi.org:0", "", errPort},
		{"pypi.org:65536", "", errPort},
		{"pypi.org:0443", "", errPort},
		{"pypi.org:+443", "", errPort},
		{"pypi.org:-1", "", errPort},
		{"pypi.org:4 43", "", errPort},
		{"pypi.org:https", "", errPort},
		{"pypi.org:443/", "", errPort},
		{"pypi.org:443#a", "", errPort},
		{"pypi.org:443?a", "", errPort},
		{"pypi.org:٤٤٣", "", errPort},
		{"user@pypi.org:443", "", errName},
		{"pypi.org:443@evil.example:443", "", errName},
		{"pypi.org#.evil.example:443", "", errName},
		{"pypi.org\x00.evil.example:443", "", errName},
		{"pypi.org%00:443", "", errName},
		{"pypi%2eorg:443", "", errName},
		{"http://pypi.org:443", "", errName},
		{"pypi..org:443", "", errName},
		{"pypi.org..:443", "", errName},
		{".pypi.org:443", "", errName},
		{"-a.org:443", "", errName},
		{"pypi。org:443", "", errName},
		{"bücher.example:443", "", errName},
		{"\u212aelvin.org:443", "", errName},
		{strings.Repeat("a", 64) + ".org:443", "", errName},
		{strings.Repeat("a.", 130) + "org:443", "", errName},

		{"2130706433:443", "", errNumber},
		{"127.1:443", "", errNumber},
		{"0x7f000001:443", "", errNumber},
		{"0x7f.0.0.0x1:443", "", errNumber},
		{"0177.0.0.01:443", "", errNumber},
		{"127.0.0.1.:443", "", errNumber},
		{"a.0x:443", "", errNumber},
		{"a.5:443", "", errNumber},

		{"::1:443", "", errAddr},
		{"2001:db8::1:443", "", errAddr},
		{"[192.0.2.1]:443", "", errAddr},
		{"[::ffff:10.0.0.1]:443", "", errAddr},
		{"[::ffff:a00:1]:443", "", errAddr},
		{"[fe80::1%eth0]:443", "", errAddr},
		{"[2001:db8::1:443", "", errAddr},
		{"[pypi.org]:443", "", errAddr},
	} {
		d, err := parse(c.text)
		assert.Check(t, errors.Is(err, c.err), "%q: %v", c.text, err)
		if err == nil {
			assert.Check(t, d.String() == c.want, "%q: %v", c.text, d)
		} else {
			assert.Check(t, d == destination{} || d.name == "" && !d.addr.IsValid(), "%q: %v", c.text, d)
		}
	}
}

func TestNotPublic(t *testing.T) {
	for _, addr := range []string{
		"0.0.0.0", "10.0.0.1", "10.255.255.255", "100.64.0.1", "100.100.100.200", "127.0.0.1", "127.255.0.1",
		"169.254.169.254", "172.16.0.1", "172.31.255.255", "192.0.0.192", "192.0.2.1", "192.168.1.1", "198.18.0.1",
		"224.0.0.1", "239.1.1.1", "240.0.0.1", "255.255.255.255", "168.63.129.16",
		"::", "::1", "::ffff:127.0.0.1", "::ffff:169.254.169.254", "::127.0.0.1", "::8.8.8.8",
		"64:ff9b::10.0.0.1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::8.8.8.8", "2002:7f00:1::", "2002:a9fe:a9fe::1",
		"2002:a00:1::", "2001:0:4136:e378:8000:63bf:3fff:fdd2", "2001:db8::1", "3fff::1", "fc00::1", "fd00:ec2::254",
		"fe80::1", "fe80::1%eth0", "fec0::1", "ff02::1", "100::1", "5f00::1", "4000::1", "2606:4700::1%eth0",
	} {
		assert.Check(t, notPublic(netip.MustParseAddr(addr)) != "", addr)
	}
	for _, addr := range []string{
		"8.8.8.8", "100.63.255.255", "100.128.0.0", "172.15.255.255", "172.32.0.0", "151.101.0.223", "168.63.129.17",
		"2606:4700::1", "2a04:4e42::223", "2001:4860:4860::8888", "64:ff9b::8.8.8.8", "2002:808:808::1", "::ffff:8.8.8.8",
	} {
		assert.Check(t, notPublic(netip.MustParseAddr(addr)) == "", addr)
	}
}

func TestRefusesOwnAddresses(t *testing.T) {
	addr := netip.MustParseAddr("151.101.0.223")
	r := &rules{}
	assert.Equal(t, r.refuses(addr, nil), "")
	assert.Equal(t, r.refuses(addr, []netip.Addr{addr}), "is this machine's own")
	assert.Equal(t, r.refuses(netip.MustParseAddr("::ffff:151.101.0.223"), []netip.Addr{addr}), "is this machine's own")
	for _, way := range []string{"64:ff9b::151.101.0.223", "2002:9765:df::1"} {
		assert.Equal(t, r.refuses(netip.MustParseAddr(way), nil), "", way)
		assert.Equal(t, r.refuses(netip.MustParseAddr(way), []netip.Addr{addr}), "is this machine's own", way)
	}
	r.private = []netip.Prefix{netip.MustParsePrefix("151.101.0.0/16"), netip.MustParsePrefix("127.0.0.0/8")}
	assert.Equal(t, r.refuses(addr, []netip.Addr{addr}), "")
	assert.Equal(t, r.refuses(netip.MustParseAddr("::ffff:127.0.0.1"), nil), "")
	assert.Equal(t, r.refuses(netip.MustParseAddr("10.0.0.1"), nil), "is private")

	own, err := ownAddrs()
	assert.NilError(t, err)
	assert.Assert(t, len(own) > 0)
}

func TestCheckSaysAll(t *testing.T) {
	all, err := Allow("b.example:443", "A.example.:443", "a.example:443").Check()
	assert.NilError(t, err)
	assert.DeepEqual(t, all, []string{"a.example:443", "b.example:443"})

	_, err = List{}.Check()
	assert.ErrorContains(t, err, "Egress has 0 destinations")
	_, err = Allow(make([]string, 257)...).Check()
	assert.ErrorContains(t, err, "Egress has 257 destinations")

	_, err = List{
		Destinations: []string{"*.example.com:443", "pypi.org", "127.1:443"},
		AllowPrivate: []netip.Prefix{{}},
		MaxTunnels:   1025, IdleTimeout: -1, MaxBytes: -1,
	}.Check()
	assert.ErrorIs(t, err, execpolicy.ErrInvalid)
	for _, part := range []string{`"*.example.com:443": there are no patterns`, `"pypi.org": it is not like`, `"127.1:443": the host is a number`,
		"AllowPrivate has", "MaxTunnels is 1025", "IdleTimeout is -1ns", "MaxBytes is -1"} {
		assert.ErrorContains(t, err, part)
	}
}

func TestParseRequest(t *testing.T) {
	const good = "CONNECT pypi.org:443 HTTP/1.1\r\n"
	for _, c := range []struct {
		head   string
		status int // 0 if it is taken
	}{
		{good + "\r\n", 0},
		{"CONNECT pypi.org:443 HTTP/1.0\r\n\r\n", 0},
		{good + "Host: evil.example:443\r\nUser-Agent: é\tx\r\nContent-Length: 0\r\nEmpty:\r\n\r\n", 0},

		{"GET http://pypi.org/ HTTP/1.1\r\nHost: pypi.org\r\n\r\n", 405},
		{"GET / HTTP/1.1\r\n\r\n", 405},
		{"connect pypi.org:443 HTTP/1.1\r\n\r\n", 405},
		{"CONNECT http://pypi.org:443/ HTTP/1.1\r\n\r\n", 400},
		{"CONNECT /pypi.org:443 HTTP/1.1\r\n\r\n", 400},
		{"CONNECT pypi.org:443 HTTP/2.0\r\n\r\n", 505},
		{"PRI * HTTP/2.0\r\n\r\n", 505},
		{"CONNECT pypi.org:443 HTTP/1.1 HTTP/1.1\r\n\r\n", 400},
		{"CONNECT  pypi.org:443 HTTP/1.1\r\n\r\n", 400},
		{"CONNECT\tpypi.org:443\tHTTP/1.1\r\n\r\n", 400},
		{"CONNECT pypi.org:443\x00 HTTP/1.1\r\n\r\n", 400},
		{"CONNECT pypi.org:443\u00a0 HTTP/1.1\r\n\r\n", 400},
		{"CONNECT pypi.org:443\r\n\r\n", 400},
		{" " + good + "\r\n", 400},
		{"\r\n" + good + "\r\n", 400},
		{"CONNECT pypi.org:443 HTTP/1.1\n\n", 400},
		{"CONNECT pypi.org:443 HTTP/1.1\n\r\n", 400},
		{good + "A: b\nB: c\r\n\r\n", 400},
		{good + "A: b\rB: c\r\n\r\n", 400},
		{good + "A: b\x00\r\n\r\n", 400},
		{good + "A : b\r\n\r\n", 400},
		{good + "A: b\r\n folded\r\n\r\n", 400},
		{good + ": b\r\n\r\n", 400},
		{good + "A\r\n\r\n", 400},
		{good + "Content-Length: 1\r\n\r\n", 400},
		{good + "content-length: 0, 5\r\n\r\n", 400},
		{good + "Transfer-Encoding: chunked\r\n\r\n", 400},
		{good + "transfer-encoding:\tx\r\n\r\n", 400},
		{good, 400},
	} {
		d, _, refused := parseRequest([]byte(c.head))
		status := 0
		if refused != nil {
			status = refused.status
			assert.Check(t, reasons[status] != "", "%d has no words", status)
			assert.Check(t, !strings.ContainsAny(refused.why, "\r\n\x00"), "%q", refused.why)
		} else {
			assert.Check(t, d.String() == "pypi.org:443", "%q: %v", c.head, d)
		}
		assert.Check(t, status == c.status, "%q: %d, %v", c.head, status, refused)
	}
}

// FuzzRequest has no request that is read as a destination which is not in it word for
// word.
func FuzzRequest(f *testing.F) {
	for _, head := range []string{
		"CONNECT pypi.org:443 HTTP/1.1\r\nHost: pypi.org:443\r\n\r\nearly", "CONNECT PyPI.org.:443 HTTP/1.0\r\n\r\n",
		"CONNECT [2001:db8::1]:443 HTTP/1.1\r\nA: b\r\n\r\n", "GET http://pypi.org/ HTTP/1.1\n\n",
		"CONNECT 127.1:443 HTTP/1.1\r\n\r\n", "CONNECT a@pypi.org:443 HTTP/1.1\r\n\r\n",
	} {
		f.Add([]byte(head))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		end := headEnd(data)
		if end == 0 {
			return
		}
		head := data[:end]
		if headEnd(head[:end-1]) != 0 {
			t.Fatalf("a part of the head %q is whole", head)
		}
		d, asked, refused := parseRequest(head)
		if refused != nil {
			if answer := string(refused.response()); strings.Count(answer, "\r\n\r\n") != 1 || len(answer) > 2000 {
				t.Fatalf("%q is refused with %q", head, answer)
			}
			return
		}
		target, ok := strings.CutPrefix(string(head), "CONNECT ")
		target, _, found := strings.Cut(target, " HTTP/1.")
		if !ok || !found || asked != target {
			t.Fatalf("%q is taken for %q", head, asked)
		}
		if d.addr.IsValid() {
			if a, err := netip.ParseAddrPort(target); err != nil || a != netip.AddrPortFrom(d.addr, d.port) || d.addr.Is4In6() || d.addr.Zone() != "" {
				t.Fatalf("%q is %v", target, d)
			}
		} else if want := strings.ToLower(target); d.String() != want && d.String() != strings.Replace(want, ".:", ":", 1) {
			t.Fatalf("%q is %v", target, d)
		}
		again, err := parse(d.String())
		if err != nil || again != d {
			t.Fatalf("%v is read as %v: %v", d, again, err)
		}
	})
}
