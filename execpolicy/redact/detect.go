package redact

import (
	"bytes"
	"unicode"
	"unicode/utf8"
)

// The detectors find what LangChain's do. A byte that is not ASCII ends a word: theirs
// that do not say so are blind beside such text.

func isDigit(c byte) bool  { return '0' <= c && c <= '9' }
func isLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }
func isAlnum(c byte) bool  { return isDigit(c) || isLetter(c) }
func isWord(c byte) bool   { return isAlnum(c) || c == '_' }
func isHex(c byte) bool    { return isDigit(c) || 'a' <= c|0x20 && c|0x20 <= 'f' }

// bounded reports whether no word goes on before or after line[start:end].
func bounded(line []byte, start, end int) bool {
	return (start == 0 || !isWord(line[start-1])) && (end == len(line) || !isWord(line[end]))
}

// findEmails finds a user of letters, digits and "._%+-", and a domain that ends with a
// dot and two letters or more.
func findEmails(line []byte) (spans [][]int) {
	user := func(c byte) bool {
		return isAlnum(c) || c == '.' || c == '_' || c == '%' || c == '+' || c == '-'
	}
	floor := 0 // the end of the last one
	for at := 0; ; {
		n := bytes.IndexByte(line[at:], '@')
		if n < 0 {
			return spans
		}
		at += n
		start := at
		for start > floor && user(line[start-1]) {
			start--
		}
		at++
		if start == at-1 {
			continue
		}
		if end := domainEnd(line, at); end > 0 {
			spans = append(spans, []int{start, end})
			floor, at = end, end
		}
	}
}

// domainEnd returns where the longest domain that begins there ends, or 0.
func domainEnd(line []byte, start int) (end int) {
	dot := -1 // the last one, after which there are only letters
	for i := start; ; i++ {
		if dot >= 0 && i-dot > 2 && (i == len(line) || !isWord(line[i])) {
			end = i
		}
		switch {
		case i == len(line):
			return end
		case line[i] == '.':
			dot = -1
			if i > start {
				dot = i
			}
		case isLetter(line[i]):
		case isDigit(line[i]) || line[i] == '-':
			dot = -1
		default:
			return end
		}
	}
}

// findCreditCards finds 16 digits with Luhn's check digit, which may have a white space
// or a dash after each four. Where numbers in a row are not a card, the next look begins
// after them, as LangChain's does.
func findCreditCards(line []byte) (spans [][]int) {
	for i := 0; i < len(line); {
		if !isDigit(line[i]) {
			i++
			continue
		}
		end, valid := creditCardEnd(line, i)
		if valid {
			spans = append(spans, []int{i, end})
		}
		// A number has no other beginning.
		for i = max(i, end); i < len(line) && isDigit(line[i]); i++ {
		}
	}
	return spans
}

// creditCardEnd returns where the 16 digits that begin there end, or 0, and whether the
// check digit is right.
func creditCardEnd(line []byte, start int) (end int, valid bool) {
	var digits [16]byte
	i := start
	for n := range digits {
		if n > 0 && n%4 == 0 && i < len(line) {
			if line[i] == '-' {
				i++
			} else {
				i += space(line, i)
			}
		}
		if i == len(line) || !isDigit(line[i]) {
			return 0, false
		}
		digits[n] = line[i] - '0'
		i++
	}
	if !bounded(line, start, i) {
		return 0, false
	}
	return i, luhn(digits[:])
}

// The digits of a payment card.
const (
	minCard = 13
	maxCard = 19
)

// findPaymentCards finds 13 to 19 digits with Luhn's check digit, in one group or, with
// spaces, tabs or dashes between them, in groups of at least four but for the last.
func findPaymentCards(line []byte) (spans [][]int) {
	for i := 0; i < len(line); {
		if !isDigit(line[i]) {
			i++
			continue
		}
		if end := cardEnd(line, i); end > 0 {
			// Numbers in a row can be read in more than one way, and what overlaps is
			// taken for one.
			if n := len(spans) - 1; n >= 0 && i < spans[n][1] {
				spans[n][1] = max(spans[n][1], end)
			} else {
				spans = append(spans, []int{i, end})
			}
		}
		for i < len(line) && isDigit(line[i]) {
			i++
		}
	}
	return spans
}

// cardEnd returns where the longest card number that begins there ends, or 0.
func cardEnd(line []byte, start int) (end int) {
	var digits [maxCard]byte
	n, group := 0, 0
	for i := start; ; i++ {
		if i < len(line) && isDigit(line[i]) {
			if n == maxCard {
				return end
			}
			digits[n] = line[i] - '0'
			n++
			group++
			continue
		}
		if n >= minCard && bounded(line, start, i) && luhn(digits[:n]) {
			end = i
		}
		between := i+1 < len(line) && (line[i] == ' ' || line[i] == '-' || line[i] == '\t') && isDigit(line[i+1])
		if !between || group < 4 {
			return end
		}
		group = 0
	}
}

func luhn(digits []byte) bool {
	sum := 0
	for i, d := range digits {
		v := int(d)
		if (len(digits)-i)%2 == 0 {
			if v *= 2; v > 9 {
				v -= 9
			}
		}
		sum += v
	}
	return sum%10 == 0
}

// findIPs finds IPv4 addresses: four numbers up to 255, without zeros before them.
// LangChain finds no IPv6 either.
func findIPs(line []byte) (spans [][]int) {
	for at := 0; ; {
		n := bytes.IndexByte(line[at:], '.')
		if n < 0 {
			return spans
		}
		// The first number stands before the first dot.
		dot := at + n
		start := dot
		for start > at && isDigit(line[start-1]) {
			start--
		}
		at = dot + 1
		if end, valid := ipEnd(line, start); end > 0 {
			if valid {
				spans = append(spans, []int{start, end})
			}
			at = end
		}
	}
}

// ipEnd returns where the four numbers that begin there end, or 0, and whether they are
// an address.
func ipEnd(line []byte, start int) (end int, valid bool) {
	i := start
	valid = true
	for part := range 4 {
		if part > 0 {
			if i == len(line) || line[i] != '.' {
				return 0, false
			}
			i++
		}
		first, value := i, 0
		for ; i < len(line) && isDigit(line[i]) && i-first < 3; i++ {
			value = 10*value + int(line[i]-'0')
		}
		if i == first {
			return 0, false
		}
		valid = valid && value <= 255 && (line[first] != '0' || i-first == 1)
	}
	if !bounded(line, start, i) {
		return 0, false
	}
	return i, valid
}

// macLen is the length of a MAC address.
const macLen = len("00:00:00:00:00:00")

// findMACs finds six pairs of hexadecimal digits with ":" or "-" between them.
func findMACs(line []byte) (spans [][]int) {
	for i := 0; i+macLen <= len(line); {
		// The byte that would be the last separator says how far to go on.
		last := line[i+macLen-3]
		switch {
		case !isHex(last) && last != ':' && last != '-':
			i += macLen - 2
		case isMAC(line[i:i+macLen]) && bounded(line, i, i+macLen):
			spans = append(spans, []int{i, i + macLen})
			i += macLen
		default:
			i++
		}
	}
	return spans
}

func isMAC(b []byte) bool {
	for i, c := range b {
		if i%3 == 2 {
			if c != ':' && c != '-' {
				return false
			}
		} else if !isHex(c) {
			return false
		}
	}
	return true
}

// findURLs finds what begins with http:// or https://, and hosts that have a path or
// begin with www. They may overlap.
func findURLs(line []byte) (spans [][]int) {
	spans = schemeURLs(line)
	known := spans
	floor := 0 // the end of the last one without a scheme
	for i := 0; i < len(line); i++ {
		start, end := i, 0
		switch line[i] {
		case '/':
			if start = hostStart(line, i, floor); start < i {
				end = pathEnd(line, i)
			}
		case 'w':
			end = wwwEnd(line, i, floor)
		}
		if end == 0 {
			continue
		}
		// What begins or ends in one that is known is that one's.
		for len(known) > 0 && known[0][1] <= start {
			known = known[1:]
		}
		in := len(known) > 0 && known[0][0] <= start
		for len(known) > 0 && known[0][1] < end {
			known = known[1:]
		}
		if !in && (len(known) == 0 || known[0][0] >= end) {
			spans = append(spans, []int{start, end})
		}
		floor = end
		i = end - 1
	}
	return spans
}

// schemeURLs finds what begins with http:// or https:// in any case of letters.
func schemeURLs(line []byte) (spans [][]int) {
	const http, https = "http:", "https:"
	floor := 0 // the end of the last one
	for at := 0; ; {
		n := bytes.Index(line[at:], []byte("//"))
		if n < 0 {
			return spans
		}
		start := at + n
		host := start + len("//")
		at = start + 1
		switch before := line[floor:start]; {
		case len(before) >= len(https) && bytes.EqualFold(before[len(before)-len(https):], []byte(https)):
			start -= len(https)
		case len(before) >= len(http) && bytes.EqualFold(before[len(before)-len(http):], []byte(http)):
			start -= len(http)
		default:
			continue
		}
		end := textEnd(line, host, `<>"{}|\^`+"`[]")
		if end > host && bytes.IndexByte([]byte("/?#"), line[host]) < 0 {
			spans = append(spans, []int{start, end})
		}
		floor, at = end, end
	}
}

// pathEnd returns where a path without a scheme ends.
func pathEnd(line []byte, start int) int { return textEnd(line, start, "") }

// textEnd returns where white space comes, or a byte of stop.
func textEnd(line []byte, i int, stop string) int {
	for i < len(line) {
		c := line[i]
		if space(line, i) > 0 || c < utf8.RuneSelf && bytes.IndexByte([]byte(stop), c) >= 0 {
			return i
		}
		i++
	}
	return i
}

// space returns how many bytes the white space that begins there has, or 0.
func space(line []byte, i int) int {
	c := line[i]
	if c < utf8.RuneSelf {
		// Python takes the four ASCII separators for space too.
		if c == ' ' || '\t' <= c && c <= '\r' || 0x1c <= c && c <= 0x1f {
			return 1
		}
		return 0
	}
	r, n := utf8.DecodeRune(line[i:])
	if !unicode.IsSpace(r) {
		return 0
	}
	return n
}

// hostStart returns where the host of two labels or more that ends there begins; if there
// is none, the end.
func hostStart(line []byte, end, floor int) int {
	start, labels := end, 0
	for i := end; ; {
		label, begin := labelStart(line, i, floor)
		if begin == i {
			return start
		}
		if labels++; labels > 1 {
			start = begin
		}
		if begin > label || label == floor || line[label-1] != '.' {
			return start
		}
		i = label - 1
	}
}

// labelStart returns where the label that ends there begins, and where a host can begin
// in it; if there is none, the end.
func labelStart(line []byte, end, floor int) (label, begin int) {
	label = end
	for label > floor && (isAlnum(line[label-1]) || line[label-1] == '-') {
		label--
	}
	if label == end || line[end-1] == '-' {
		return label, end
	}
	// A host begins with a word: not in the midst of one, but also after a dash.
	begin = label
	for begin < end && (end-begin > maxLabel || !isAlnum(line[begin]) || begin > 0 && isWord(line[begin-1])) {
		begin++
	}
	return label, begin
}

// maxLabel is the longest part of a host's name.
const maxLabel = 63

// wwwEnd returns where the host that begins there with www. ends, with its path, or 0.
func wwwEnd(line []byte, start, floor int) int {
	const www = "www."
	if !bytes.HasPrefix(line[start:], []byte(www)) || !bounded(line, start, start+len(www)-1) {
		return 0
	}
	// A host that begins before it does not begin with it.
	if _, begin := labelStart(line, start+len(www)-1, floor); begin < start {
		return 0
	}
	if start > floor && line[start-1] == '.' {
		if _, begin := labelStart(line, start-1, floor); begin < start-1 {
			return 0
		}
	}
	end := 0
	for i := start + len(www); ; i++ {
		label := i
		for i < len(line) && i-label < maxLabel && (isAlnum(line[i]) || line[i] == '-') {
			i++
		}
		next := i
		for i > label && line[i-1] == '-' {
			i--
		}
		if i == label || line[label] == '-' {
			break
		}
		if end = i; i < next || i == len(line) || line[i] != '.' {
			break
		}
	}
	if end > 0 && end < len(line) && line[end] == '/' {
		return pathEnd(line, end)
	}
	return end
}
