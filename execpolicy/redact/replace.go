package redact

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"unicode/utf8"
)

// appendReplacement appends what takes a match's place.
func (r *Rule) appendReplacement(out, match []byte) []byte {
	switch r.Strategy {
	case Mask:
		return appendMask(out, r.Type, match)
	case Hash:
		sum := sha256.Sum256(match)
		out = append(append(append(out, '<'), r.Type...), "_hash:"...)
		return append(hex.AppendEncode(out, sum[:4]), '>')
	}
	return append(append(append(out, "[REDACTED_"...), strings.ToUpper(r.Type)...), ']')
}

// appendMask appends what LangChain shows of a match of that type.
func appendMask(out []byte, kind string, match []byte) []byte {
	const hidden = "****"
	switch kind {
	case "email":
		user, domain, _ := bytes.Cut(match, []byte("@"))
		if bytes.Count(match, []byte("@")) != 1 {
			return append(out, hidden...)
		}
		out = append(append(append(out, user...), '@'), hidden...)
		if dot := bytes.LastIndexByte(domain, '.'); dot >= 0 {
			out = append(out, domain[dot:]...)
		}
		return out
	case "credit_card", "payment_card":
		separator := ""
		for _, s := range []string{" ", "-"} {
			if bytes.Contains(match, []byte(s)) {
				separator = s
			}
		}
		for range 3 {
			out = append(append(out, hidden...), separator...)
		}
		// The last group may be shorter than what is shown.
		var digits []byte
		for _, c := range match {
			if isDigit(c) {
				digits = append(digits, c)
			}
		}
		return append(out, digits[max(0, len(digits)-4):]...)
	case "ip":
		if bytes.Count(match, []byte(".")) != 3 {
			return append(out, hidden...)
		}
		return append(append(out, "*.*.*"...), match[bytes.LastIndexByte(match, '.'):]...)
	case "mac_address":
		separator := byte('-')
		if bytes.IndexByte(match, ':') >= 0 {
			separator = ':'
		}
		for range 5 {
			out = append(out, '*', '*', separator)
		}
		return append(out, match[max(0, len(match)-2):]...)
	case "url":
		return append(out, "[MASKED_URL]"...)
	}
	out = append(out, hidden...)
	if utf8.RuneCount(match) <= 4 {
		return out
	}
	at := len(match)
	for range 4 {
		_, n := utf8.DecodeLastRune(match[:at])
		at -= n
	}
	return append(out, match[at:]...)
}
