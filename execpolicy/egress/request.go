package egress

import (
	"bytes"
	"fmt"
	"strings"
)

// A refusal is an answer that is no tunnel.
type refusal struct {
	status int
	why    string
	cause  error // for the record alone; may be nil
}

func (r *refusal) Error() string {
	if r.cause == nil {
		return r.why
	}
	return fmt.Sprintf("%s: %v", r.why, r.cause)
}

// because adds what the programs inside are not to learn, such as the address of a name
// server.
func (r *refusal) because(cause error) *refusal {
	r.cause = cause
	return r
}

// refuse returns a refusal. What it quotes of a request has to be whole: a secret that is
// cut would not be found.
func refuse(status int, format string, args ...any) *refusal {
	return &refusal{status: status, why: fmt.Sprintf(format, args...)}
}

// reasons are the words for statuses.
var reasons = map[int]string{
	400: "Bad Request",
	403: "Forbidden",
	405: "Method Not Allowed",
	408: "Request Timeout",
	431: "Request Header Fields Too Large",
	502: "Bad Gateway",
	505: "HTTP Version Not Supported",
}

// response returns the refusal as the proxy sends it.
func (r *refusal) response() []byte {
	body := "cofferdam: " + r.why + "\n"
	allow := ""
	if r.status == 405 {
		allow = "Allow: CONNECT\r\n"
	}
	return fmt.Appendf(nil, "HTTP/1.1 %d %s\r\n%sContent-Type: text/plain; charset=utf-8\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s",
		r.status, reasons[r.status], allow, len(body), body)
}

// headEnd returns how long the head is that data begins with, or 0 if it is not whole. A
// head with bare newlines, which parseRequest refuses, is whole too: nobody is to wait
// for it.
func headEnd(data []byte) int {
	end := 0
	for _, mark := range []string{"\n\r\n", "\n\n"} {
		if i := bytes.Index(data, []byte(mark)); i >= 0 && (end == 0 || i+len(mark) < end) {
			end = i + len(mark)
		}
	}
	return end
}

// parseRequest reads the head of a request for a tunnel, whose last line is empty. What
// the fields say means nothing to the proxy, and none is passed on. They are looked at so
// that a request which could be read in two ways is refused.
//
// Target is the destination as the request has it: a secret would not be found in it in
// small letters.
func parseRequest(head []byte) (d destination, target string, refused *refusal) {
	text, ok := strings.CutSuffix(string(head), "\r\n\r\n")
	if !ok {
		return d, "", refuse(400, "the request has a line that does not end as lines of HTTP do")
	}
	lines := strings.Split(text, "\r\n")
	words := strings.Split(lines[0], " ")
	if len(words) != 3 || strings.ContainsFunc(lines[0], notGraphic) {
		return d, "", refuse(400, "the request %q is not HTTP", lines[0])
	}
	method, target, version := words[0], words[1], words[2]
	switch {
	case version != "HTTP/1.1" && version != "HTTP/1.0":
		return d, "", refuse(505, "the request is of another version than HTTP/1.1: %q", lines[0])
	case method != "CONNECT":
		return d, "", refuse(405, "this way out has only CONNECT, which https uses; %q is plain http", lines[0])
	}
	for _, line := range lines[1:] {
		name, value, ok := strings.Cut(line, ":")
		if !ok || name == "" || strings.ContainsFunc(name, notToken) || strings.ContainsFunc(value, notFieldText) {
			return d, "", refuse(400, "the request has %q for a field", line)
		}
		switch strings.ToLower(name) {
		case "content-length":
			if strings.TrimSpace(value) == "0" {
				continue
			}
			fallthrough
		case "transfer-encoding":
			return d, "", refuse(400, "a request for a tunnel has no content")
		}
	}
	d, err := parse(target)
	if err != nil {
		return destination{}, "", refuse(400, "the destination %q: %v", target, err)
	}
	return d, target, nil
}

// notGraphic reports whether a rune is neither a space nor one that is seen in ASCII.
func notGraphic(r rune) bool { return r < ' ' || r > '~' }

// notFieldText reports whether a rune can't stand in the value of a field.
func notFieldText(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }

// notToken reports whether a rune can't stand in the name of a field.
func notToken(r rune) bool {
	return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("!#$%&'*+-.^_`|~", r))
}
