package shellwire

import (
	"bytes"
	"strconv"
	"strings"
)

const (
	// noDir stands for the status of a unit whose directory could not be entered.
	noDir = "nodir"
	// noFile stands for the status of a job whose files could not be made.
	noFile = "nofile"
	// unrun stands for the status of a worker that was found to be lost as a unit came.
	unrun = "unrun"
	// killedBy stands before the status of a unit whose program was killed by a signal,
	// of which maxSignal is the last.
	killedBy  = "s"
	maxSignal = 64
)

// Kind tells what a mark says.
type Kind int

const (
	Begin   Kind = iota + 1 // a unit's output begins
	End                     // a unit has ended
	Death                   // the worker has ended
	Answer                  // process 1 has obeyed an operation for a job
	Beating                 // process 1 has read a [Beat]
)

// A Mark is what the other end says between the output of commands. Whatever runs inside
// can forge one: it is advice.
type Mark struct {
	Kind Kind
	// Tag is that of the unit, of Begin and End, or the nonce of an operation, of Answer.
	Tag string
	// Generation counts the workers from 1, of Death.
	Generation int
	// Status is the exit status from 0 to 255, of End and Death on stdout; -1 if it is
	// not known.
	Status int
	// Signal is the number of the signal that killed the unit's program, of End on
	// stdout; then Status is 128 more. It is 0 if the program ended by itself, or if that
	// is not known.
	Signal int
	// NoDir says that the unit never ran because its directory could not be entered.
	NoDir bool
	// NoFile says that the job never ran because its files could not be made.
	NoFile bool
	// NotRun says that the worker was gone before the unit came, of Death.
	NotRun bool
	// Dir is the worker's directory after the unit, of End on stdout. It is empty if it
	// has almost 1,000 characters or more: in bash these may have four bytes each, and
	// the kernel keeps 4,096 bytes of one write together.
	Dir string
	// Reached says that there was something to signal, of Answer, and OOMKills is how
	// many processes the kernel has killed for memory, -1 if that is not known.
	Reached  bool
	OOMKills int
}

// maxMark bounds a mark, which holds a path, and maxTag one that holds none: more than
// that is never held back.
const (
	maxMark = 16 << 10
	maxTag  = 256
)

// A Parser takes a stream apart into output and marks. However the stream is cut, the
// result is the same.
type Parser struct {
	// Prefix begins every mark.
	Prefix string
	// Stdout says which of the two streams this is: only there marks carry a status.
	Stdout bool
	// Job says that this is a job's stream: on its stdout there are answers.
	Job bool
	// Output takes output, which is only valid during the call, and Mark takes marks, in
	// the order of the stream.
	Output func([]byte)
	Mark   func(Mark)
	// Size is how many bytes the mark has that Mark is called with.
	Size int
	// Tag is the likely one of a mark: that is not copied.
	Tag string

	dir    string // of the last mark that had one, for the same reason
	prefix []byte
	// searched is how much behind the prefix that is held back is known to begin no
	// other.
	searched int
}

// Parse consumes data and returns how many bytes of its end it holds back, at most a
// mark's length: they must come again in front of what follows.
func (p *Parser) Parse(data []byte) (held int) {
	if p.prefix == nil {
		p.prefix = []byte(p.Prefix)
	}
	searched := p.searched
	p.searched = 0
	none := 0 // no mark begins before it
	for {
		i := bytes.Index(data[none:], p.prefix)
		if i < 0 {
			held = p.partial(data[none:])
			p.output(data[:len(data)-held])
			return held
		}
		i += none
		mark, n := p.mark(data[i:], searched)
		searched = 0
		if n < 0 {
			none = i + 1
			continue
		}
		p.output(data[:i])
		data = data[i:]
		if n == 0 {
			return len(data)
		}
		p.Size = n
		p.Mark(mark)
		data = data[n:]
		none = 0
	}
}

// Flush takes what was held back as output, at the end of the stream.
func (p *Parser) Flush(data []byte) {
	p.searched = 0
	p.output(data)
}

func (p *Parser) output(b []byte) {
	if len(b) > 0 {
		p.Output(b)
	}
}

// partial returns the length of the longest end of data that could begin the prefix.
func (p *Parser) partial(data []byte) int {
	n := min(len(data), len(p.prefix)-1)
	tail := data[len(data)-n:]
	for len(tail) > 0 {
		i := bytes.IndexByte(tail, p.prefix[0])
		if i < 0 {
			return 0
		}
		tail = tail[i:]
		if bytes.HasPrefix(p.prefix, tail) {
			return len(tail)
		}
		tail = tail[1:]
	}
	return 0
}

// mark reads the mark at the start of data, of which the first searched bytes after the
// prefix are known to begin no prefix. n is the mark's length, 0 if more data is needed,
// negative if it is no mark.
func (p *Parser) mark(data []byte, searched int) (m Mark, n int) {
	body := data[len(p.prefix):]
	if len(body) == 0 {
		return m, 0
	}
	if m.Kind = p.kind(body[0]); m.Kind == 0 {
		return m, -1
	}
	limit, withDir := maxTag, m.Kind == End && p.Stdout
	if withDir {
		limit = maxMark
	}
	// The next prefix is the mark's end, or begins another: then this is none. So each
	// byte is searched once.
	within := body[:min(len(body), limit-len(p.prefix))]
	end, next := -1, len(within)
	if i := bytes.Index(within[searched:], p.prefix); i >= 0 {
		next = searched + i
	}
	n = len(p.prefix)
	switch after := next + len(p.prefix); {
	case !withDir:
		end = bytes.IndexByte(within[:next], '\n')
		n += end + 1
		if end < 0 && next < len(within) {
			return m, -1
		}
	case after < len(within) && within[after] != '\n':
		return m, -1
	case after < len(within):
		end = next
		n += after + 1
	}
	if end < 0 {
		if len(data) < limit {
			p.searched = max(0, min(next, len(within)-len(p.prefix)))
			return m, 0
		}
		return m, -1
	}
	if !p.read(&m, body[1:end]) {
		return m, -1
	}
	return m, n
}

// kind returns the kind of the marks that begin with that letter, or 0 if the stream has
// none.
func (p *Parser) kind(letter byte) Kind {
	switch {
	case letter == 'b':
		return Begin
	case letter == 'e':
		return End
	case letter == 'x':
		return Death
	case letter == 'j' && p.Stdout:
		return Answer
	case letter == 'i' && !p.Stdout: // it could tear a longer mark on stdout
		return Beating
	}
	return 0
}

// read reads the text of a mark, which is what follows its letter, and reports whether
// that is one of its kind.
func (p *Parser) read(m *Mark, text []byte) bool {
	m.Status = -1
	switch {
	case m.Kind == Begin, m.Kind == End && !p.Stdout:
		m.Tag = known(text, p.Tag)
	case m.Kind == End:
		tag, rest, _ := bytes.Cut(text, space)
		word, dir, ok := bytes.Cut(rest, space)
		status, killed := strings.CutPrefix(string(word), killedBy)
		m.Tag, m.Dir = known(tag, p.Tag), known(dir, p.dir)
		m.NoDir, m.NoFile = status == noDir, p.Job && status == noFile
		m.Status = parseStatus(status)
		if killed {
			m.Signal = m.Status - 128
		}
		if !ok || m.Status < 0 && !m.NoDir && !m.NoFile || killed && (m.Signal < 1 || m.Signal > maxSignal) {
			return false
		}
		p.dir = m.Dir
	case m.Kind == Death:
		gen, status, _ := strings.Cut(string(text), " ")
		g, err := strconv.Atoi(gen)
		if err != nil || g < 1 {
			return false
		}
		m.Generation, m.Status, m.NotRun = g, parseStatus(status), status == unrun
	case m.Kind == Beating:
		return len(text) == 0
	case m.Kind == Answer:
		nonce, rest, _ := strings.Cut(string(text), " ")
		reached, kills, ok := strings.Cut(rest, " ")
		if !ok || reached != "0" && reached != "1" {
			return false
		}
		m.Tag, m.Reached, m.OOMKills = nonce, reached == "1", ParseCount(kills)
	}
	return true
}

var space = []byte(" ")

// known returns text as a string, which is likely the same as that one.
func known(text []byte, as string) string {
	if string(text) == as {
		return as
	}
	return string(text)
}

// ParseCount parses a count that a supervisor printed. It returns -1 if text is not one.
func ParseCount(text string) int {
	n, err := strconv.Atoi(strings.TrimSpace(text))
	if err != nil || n < 0 {
		return -1
	}
	return n
}

// parseStatus returns a status from 0 to 255, or -1.
func parseStatus(s string) int {
	if len(s) < 1 || len(s) > 3 {
		return -1
	}
	n, err := strconv.ParseUint(s, 10, 8)
	if err != nil || s[0] == '+' {
		return -1
	}
	return int(n)
}
