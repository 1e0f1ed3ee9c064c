package codeblock

import (
	"slices"
	"strings"
)

// A Block is one fenced code block.
type Block struct {
	// Language is the first word of the info string, as it is written. It is empty if
	// there is no info string.
	Language string
	// Info is the rest of the info string.
	Info string
	// Code is the content of the block. Each of its lines ends with a newline, whatever
	// ended it in the text.
	Code string
	// Unclosed says that the text, or the block quote or list item that the block is in,
	// ended before a closing fence came. If the answer was cut off, the code may not be
	// whole.
	Unclosed bool
}

// String returns the block as Markdown. Parse makes the same block of that text, if the
// block came from Parse.
func (b Block) String() string {
	info := strings.TrimRight(b.Language+" "+b.Info, " ")
	mark := "`"
	if strings.Contains(info, "`") {
		mark = "~"
	}
	run, longest := 0, 2
	for i := range len(b.Code) {
		if run++; b.Code[i] != mark[0] {
			run = 0
		}
		longest = max(longest, run)
	}
	fence := strings.Repeat(mark, longest+1)
	if strings.HasPrefix(info, mark) {
		info = " " + info
	}
	code := b.Code
	if code != "" && !strings.HasSuffix(code, "\n") {
		code += "\n"
	}
	if b.Unclosed {
		return fence + info + "\n" + code
	}
	return fence + info + "\n" + code + fence + "\n"
}

// Parse returns the fenced code blocks of a Markdown text, in their order. The package's
// documentation has the rules. Parse never fails, because every text is Markdown.
func Parse(text string) []Block {
	var p parser
	for text != "" {
		line := text
		end := strings.IndexAny(text, "\r\n")
		switch {
		case end < 0:
			text = ""
		case strings.HasPrefix(text[end:], "\r\n"):
			line, text = text[:end], text[end+2:]
		default:
			line, text = text[:end], text[end+1:]
		}
		p.add(line)
	}
	p.close(0)
	return p.blocks
}

// The kinds of parts that a text has, as far as they matter to where a fence is one: two
// that hold others, and those that hold lines. A heading or a thematic break ends with
// its line.
type kind int

const (
	quote kind = iota + 1
	item
	paragraph
	indented
	markup
	fence
)

// A part is one that the next line may continue.
type part struct {
	kind kind
	// indent is, of an item, the columns by which its content is indented, and of a fence
	// those of the fence itself.
	indent int
	empty  bool // item: it holds nothing yet
	markup *markupKind
	mark   string // fence: what it is made of
	block  Block
	code   strings.Builder
}

// maxDepth is how many block quotes and list items may be in one another. What begins
// inside of so many is text, or a line of nothing but their marks would take a time that
// grows with the square of its length.
const maxDepth = 100

type parser struct {
	blocks []Block
	open   []*part // each holds the next; only the last may hold lines

	line   string
	pos    int
	column int
	inTab  bool // pos is at a tab of which some columns are consumed
}

// close ends all but the first n open parts.
func (p *parser) close(n int) {
	if len(p.open) > n && p.open[len(p.open)-1].kind == fence {
		p.endFence(true)
	}
	p.open = p.open[:min(n, len(p.open))]
}

func (p *parser) endFence(unclosed bool) {
	f := p.open[len(p.open)-1]
	f.block.Code, f.block.Unclosed = f.code.String(), unclosed
	p.blocks = append(p.blocks, f.block)
	p.open = p.open[:len(p.open)-1]
}

// begin ends all but the first n open parts and begins one in the last of them; a kind of
// zero is one that ends with its line.
func (p *parser) begin(n int, new *part) {
	p.close(n)
	if n > 0 {
		p.open[n-1].empty = false
	}
	if new.kind != 0 {
		p.open = append(p.open, new)
	}
}

func (p *parser) last() kind {
	if len(p.open) == 0 {
		return 0
	}
	return p.open[len(p.open)-1].kind
}

// add takes the next line.
func (p *parser) add(line string) {
	p.line, p.pos, p.column, p.inTab = line, 0, 0, false
	n := 0 // parts that the line continues
	for n < len(p.open) && p.continues(p.open[n]) {
		n++
	}
	var in kind
	if n > 0 {
		in = p.open[n-1].kind
	}
	switch in {
	case fence:
		f := p.open[n-1]
		if p.closes(f) {
			p.endFence(false)
			return
		}
		p.advance(f.indent)
		p.appendRest(&f.code)
		return
	case markup:
		if p.open[n-1].markup.endsIn(p.rest()) {
			p.close(n - 1)
		}
		return
	case indented:
		return
	}
	lazy := n < len(p.open) && p.last() == paragraph
	for n < maxDepth {
		next, holds := p.starts(in, lazy)
		if next == nil {
			break
		}
		// A paragraph ends where something else begins in its place.
		if in == paragraph {
			n--
		}
		p.begin(n, next)
		if !holds {
			if next.kind == markup && next.markup.endsIn(p.rest()) {
				p.close(n)
			}
			return
		}
		n, in, lazy = n+1, next.kind, false
	}
	switch {
	case p.blank():
		p.close(n)
	case lazy, in == paragraph:
		// A line of text goes on with a paragraph, even where it lacks the marks of what
		// that is in.
	default:
		p.begin(n, &part{kind: paragraph})
	}
}

// continues reports whether the line continues a part, and consumes what shows it.
func (p *parser) continues(t *part) bool {
	switch t.kind {
	case quote:
		return p.quoteMark()
	case item:
		if p.blank() {
			p.pos, p.inTab = len(p.line), false
			return !t.empty
		}
		if p.indent() < t.indent {
			return false
		}
		p.advance(t.indent)
		return true
	case indented:
		return p.blank() || p.indent() >= 4
	case paragraph:
		return !p.blank()
	}
	return true
}

// starts consumes the mark of what begins here, inside of a part of kind in, and returns
// it, or nil if nothing but text does; holds says that more may begin inside of it on the
// same line. lazy says that the line could go on with a paragraph that it does not
// continue.
func (p *parser) starts(in kind, lazy bool) (new *part, holds bool) {
	if p.blank() {
		return nil, false
	}
	if p.indent() >= 4 {
		if in == paragraph || lazy {
			return nil, false
		}
		return &part{kind: indented}, false
	}
	if p.quoteMark() {
		return &part{kind: quote}, true
	}
	rest := p.rest()
	if f := p.fence(rest); f != nil {
		return f, false
	}
	if i := slices.IndexFunc(markups, func(m *markupKind) bool { return m.begins(rest) }); i >= 0 {
		return &part{kind: markup, markup: markups[i]}, false
	}
	if heading(rest) || in == paragraph && underline(rest) || thematic(rest) {
		return &part{}, false
	}
	if i := p.item(rest, in == paragraph); i != nil {
		return i, true
	}
	return nil, false
}

// quoteMark consumes the mark of a block quote, if there is one.
func (p *parser) quoteMark() bool {
	indent := p.indent()
	if indent > 3 || !strings.HasPrefix(p.rest(), ">") {
		return false
	}
	p.advance(indent)
	p.pos++
	p.column++
	p.advance(1)
	return true
}

// fence returns the fenced block that begins here.
func (p *parser) fence(rest string) *part {
	n := leading(rest, '`')
	if n < 3 {
		n = leading(rest, '~')
	}
	info := strings.Trim(rest[n:], " \t")
	if n < 3 || rest[0] == '`' && strings.Contains(info, "`") {
		return nil
	}
	f := &part{kind: fence, indent: p.indent(), mark: rest[:n]}
	f.block.Language = info
	if end := strings.IndexAny(info, " \t"); end >= 0 {
		f.block.Language, f.block.Info = info[:end], strings.TrimLeft(info[end:], " \t")
	}
	return f
}

// closes reports whether the line is the closing fence.
func (p *parser) closes(f *part) bool {
	rest := p.rest()
	n := leading(rest, f.mark[0])
	return p.indent() <= 3 && n >= len(f.mark) && strings.Trim(rest[n:], " \t") == ""
}

// item consumes the mark of a list item and returns it. What would interrupt a paragraph
// has to look more like one.
func (p *parser) item(rest string, interrupts bool) *part {
	width := 1
	if !strings.ContainsRune("*+-", rune(rest[0])) {
		digits := len(rest) - len(strings.TrimLeft(rest, "0123456789"))
		if digits == 0 || digits > 9 || digits == len(rest) || rest[digits] != '.' && rest[digits] != ')' {
			return nil
		}
		if interrupts && strings.TrimLeft(rest[:digits], "0") != "1" {
			return nil
		}
		width = digits + 1
	}
	after := strings.TrimLeft(rest[width:], " \t")
	if len(after) == len(rest)-width && after != "" || interrupts && after == "" {
		return nil
	}
	before := p.indent()
	p.advance(before)
	p.pos += width
	p.column += width
	spaces := p.indent()
	if after == "" || spaces > 4 {
		spaces = 1
	}
	p.advance(spaces)
	return &part{kind: item, indent: before + width + spaces, empty: true}
}

// A markupKind is HTML that goes on until something ends it, blank lines or not. Its
// texts are in lower case.
type markupKind struct {
	starts, ends []string
	names        bool // the starts must not be parts of longer names
}

var markups = []*markupKind{
	{[]string{"<script", "<pre", "<textarea", "<style"}, []string{"</script>", "</pre>", "</textarea>", "</style>"}, true},
	{[]string{"<!--"}, []string{"-->"}, false},
	{[]string{"<?"}, []string{"?>"}, false},
	{[]string{"<![cdata["}, []string{"]]>"}, false},
	{declarations(), []string{">"}, false},
}

// declarations returns how each declaration begins: with <! and a letter.
func declarations() (all []string) {
	for c := 'a'; c <= 'z'; c++ {
		all = append(all, "<!"+string(c))
	}
	return all
}

func (m *markupKind) begins(rest string) bool {
	rest = strings.ToLower(rest[:min(len(rest), len("<textarea>"))])
	return slices.ContainsFunc(m.starts, func(start string) bool {
		after, ok := strings.CutPrefix(rest, start)
		return ok && (!m.names || after == "" || strings.ContainsRune(" \t>", rune(after[0])))
	})
}

func (m *markupKind) endsIn(rest string) bool {
	rest = strings.ToLower(rest)
	return slices.ContainsFunc(m.ends, func(end string) bool { return strings.Contains(rest, end) })
}

func heading(rest string) bool {
	n := leading(rest, '#')
	return 1 <= n && n <= 6 && (n == len(rest) || rest[n] == ' ' || rest[n] == '\t')
}

// underline reports whether a line makes the paragraph above it a heading.
func underline(rest string) bool {
	n := leading(rest, rest[0])
	return (rest[0] == '=' || rest[0] == '-') && strings.Trim(rest[n:], " \t") == ""
}

func thematic(rest string) bool {
	c := rest[:1]
	return strings.Contains("*-_", c) && strings.Trim(rest, c+" \t") == "" && strings.Count(rest, c) >= 3
}

func leading(s string, c byte) int {
	n := 0
	for n < len(s) && s[n] == c {
		n++
	}
	return n
}

func (p *parser) blank() bool { return p.rest() == "" }

// rest returns the line from the next character that is no space or tab.
func (p *parser) rest() string { return strings.TrimLeft(p.line[p.pos:], " \t") }

// indent returns the columns to there. A tab goes to the next column that divides by
// four.
func (p *parser) indent() int {
	column := p.column
	for _, c := range []byte(p.line[p.pos:]) {
		switch c {
		case ' ':
			column++
		case '\t':
			column += 4 - column%4
		default:
			return column - p.column
		}
	}
	return column - p.column
}

// advance consumes spaces and tabs, at most so many columns of them.
func (p *parser) advance(columns int) {
	for ; columns > 0 && p.pos < len(p.line); columns-- {
		switch p.line[p.pos] {
		case ' ':
			p.pos++
			p.column++
		case '\t':
			p.column++
			if p.inTab = p.column%4 != 0; !p.inTab {
				p.pos++
			}
		default:
			return
		}
	}
}

// appendRest appends the line from where it is not consumed. What is left of a tab is
// spaces.
func (p *parser) appendRest(b *strings.Builder) {
	if p.inTab {
		p.pos++
		for ; p.column%4 != 0; p.column++ {
			b.WriteByte(' ')
		}
	}
	b.WriteString(p.line[p.pos:])
	b.WriteByte('\n')
}
