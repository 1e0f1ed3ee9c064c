// Package tarball reads and writes tar archives of which nothing but directories and
// regular files is wanted, and takes none of an archive's words on trust. Package
// archive/tar can do more, needs package os/user, and leaves the vetting to its callers.
package tarball

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

var (
	// ErrFormat says that the data are no tar archive, or end before the archive does.
	ErrFormat = errors.New("malformed archive")
	// ErrName says that a name is absolute, leaves the tree, or is not UTF-8.
	ErrName = errors.New("unsafe name")
	// ErrType says that an entry is neither a directory nor a regular file that stands in
	// the archive byte by byte.
	ErrType = errors.New("neither a regular file nor a directory")
	// ErrDuplicate says that two entries have one name, or that one is in the other,
	// which is a file.
	ErrDuplicate = errors.New("duplicate name")
	// ErrLimit says that the archive holds more than it may.
	ErrLimit = errors.New("larger than the limit")
)

// A Header is a directory or a regular file, or what a Checker with All lets through.
type Header struct {
	// Name is a path that [fs.ValidPath] accepts; "." is the tree itself.
	Name string
	Dir  bool
	// Other is the type of what is neither a directory nor a regular file;
	// [fs.ModeIrregular] is that of another name of a file.
	Other fs.FileMode
	Perm  fs.FileMode // permissions only
	// Size is that of the content which follows; 0 of a directory.
	Size    int64
	ModTime time.Time // in seconds
}

const (
	blockSize = 512
	// maxName is the most that a system call takes, and maxElement the most that a file
	// system takes between two slashes.
	maxName    = 4096
	maxElement = 255
	// maxExtended bounds the headers that say more of the one after them, each and in a
	// row.
	maxExtended = 64 << 10
	maxInARow   = 8
	// maxTime is the last moment that the format has digits for.
	maxTime = 1<<33 - 1
	// maxNames bounds the memory that names take.
	maxNames = 32 << 20
)

// Limits bound a tree; negative means none. What is not in the archive byte by byte is
// refused, so a tree takes as many bytes as its archive: no other ratio can be had.
type Limits struct {
	// Entries counts files, and directories, also those that only show in others' names.
	// The tree itself does not count.
	Entries int64
	Bytes   int64 // of content
}

// A Checker sees to it that a tree has neither unsafe nor duplicate names, and keeps
// within its limits.
type Checker struct {
	Limits Limits
	// All lets links and special files through, none of which has any content, and names
	// that would be in order if they were UTF-8.
	All bool

	seen    map[string]kind
	names   int64 // bytes
	content int64
}

type kind int8

const (
	file     kind = iota + 1
	dir           // named by an entry
	implicit      // only shows in the names of others
)

// Quoted returns a name for an error, whole or not at all: a part of one could be a part
// of a secret, which nobody would find in it any more.
func Quoted(name string) string {
	if len(name) > 200 {
		return fmt.Sprintf("a name of %d bytes", len(name))
	}
	return strconv.Quote(name)
}

// Check reports what is wrong with the next entry of a tree. It makes h.Name a path for
// [fs.ValidPath], and h.ModTime one that the format has.
func (c *Checker) Check(h *Header) error {
	name := c.clean(h)
	if name == "" {
		return fmt.Errorf("%w: %s", ErrName, Quoted(h.Name))
	}
	h.Name = name
	h.ModTime = time.Unix(min(max(h.ModTime.Unix(), 0), maxTime), 0)
	if err := c.enter(h); err != nil {
		return err
	}
	if c.names += int64(len(name)); c.names > maxNames {
		return fmt.Errorf("%w: the names alone have more than %d bytes", ErrLimit, maxNames)
	}
	if h.Size < 0 {
		return fmt.Errorf("%w: %s has a negative size", ErrFormat, Quoted(name))
	}
	if n := c.Limits.Bytes; n >= 0 && h.Size > n-c.content {
		return fmt.Errorf("%w of %d bytes", ErrLimit, n)
	}
	c.content += h.Size
	return nil
}

// clean returns an entry's name as a path for [fs.ValidPath], or "" if it is none.
func (c *Checker) clean(h *Header) string {
	name := h.Name
	for strings.HasPrefix(name, "./") {
		name = strings.TrimLeft(name[1:], "/")
	}
	if h.Dir {
		name = strings.TrimRight(name, "/")
		if name == "" && h.Name != "" && h.Name[0] == '.' {
			name = "."
		}
	}
	valid := name
	if c.All {
		valid = strings.ToValidUTF8(name, "?")
	}
	if len(name) > maxName || !fs.ValidPath(valid) || strings.ContainsRune(name, 0) || name == "." && !h.Dir {
		return ""
	}
	return name
}

// enter adds an entry, and the directories that its name shows, to what was seen.
func (c *Checker) enter(h *Header) error {
	name := h.Name
	if c.seen == nil {
		c.seen = map[string]kind{}
	}
	for i := 0; i < len(name); {
		element := strings.IndexByte(name[i:], '/')
		last := element < 0
		if last {
			element = len(name) - i
		}
		if element > maxElement {
			return fmt.Errorf("%w: %s", ErrName, Quoted(name))
		}
		end := i + element
		i = end + 1
		is := c.seen[name[:end]]
		switch {
		case !last && is == file, last && is != 0 && !(h.Dir && is == implicit):
			return fmt.Errorf("%w: %s", ErrDuplicate, Quoted(name))
		case last && h.Dir:
			c.seen[name] = dir
		case last:
			c.seen[name] = file
		case is == 0:
			c.seen[name[:end]] = implicit
		}
		entries := len(c.seen)
		if c.seen["."] != 0 {
			entries--
		}
		if n := c.Limits.Entries; n >= 0 && int64(entries) > n {
			return fmt.Errorf("%w of %d entries", ErrLimit, n)
		}
	}
	return nil
}

// A Reader reads an archive. Like Checker's, its errors are final.
type Reader struct {
	R io.Reader
	Checker

	left, pad int64 // of the content of the current entry
	block     [blockSize]byte
}

// Next goes to the next entry. It returns io.EOF after the last.
func (r *Reader) Next() (h Header, err error) {
	if _, err := io.CopyN(io.Discard, r.R, r.left+r.pad); err != nil {
		return h, early(err)
	}
	r.left, r.pad = 0, 0
	var long extended
	for range maxInARow {
		b := &r.block
		if _, err := io.ReadFull(r.R, b[:]); err != nil {
			return h, early(err)
		}
		if *b == [blockSize]byte{} {
			// What comes after it is padding.
			return h, io.EOF
		}
		size, err := r.check()
		if err != nil {
			return h, err
		}
		switch kind := b[156]; kind {
		case 'L', 'K', 'x', 'g':
			if err := r.extend(&long, kind, size); err != nil {
				return h, err
			}
			continue
		case '0', 0, '7', '5':
			return r.entry(long, kind, size)
		default:
			if r.All && others[kind] != 0 {
				return r.entry(long, kind, size)
			}
			return h, fmt.Errorf("%w: %s has type %q", ErrType, Quoted(r.name(long)), kind)
		}
	}
	return h, fmt.Errorf("%w: too many headers for one entry", ErrFormat)
}

// others are the types of what is neither a directory nor a regular file.
var others = [...]fs.FileMode{
	'1': fs.ModeIrregular,
	'2': fs.ModeSymlink,
	'3': fs.ModeDevice | fs.ModeCharDevice,
	'4': fs.ModeDevice,
	'6': fs.ModeNamedPipe,
	255: 0,
}

// early returns the error of data that end before the archive does.
func early(err error) error {
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return fmt.Errorf("%w: it ends early", ErrFormat)
	}
	return err
}

// extended is what headers say of the entry after them.
type extended struct {
	name    string
	size    int64
	hasSize bool
	modTime time.Time
}

// check checks the block's sum, and returns the size in it.
func (r *Reader) check() (size int64, err error) {
	var unsigned, signed int64
	for i, c := range r.block {
		if 148 <= i && i < 156 {
			c = ' '
		}
		unsigned += int64(c)
		signed += int64(int8(c))
	}
	sum, ok := number(r.block[148:156])
	// Some old programs count with signs.
	if !ok || sum != unsigned && sum != signed {
		return 0, fmt.Errorf("%w: a header's sum is wrong", ErrFormat)
	}
	if size, ok = number(r.block[124:136]); !ok || size < 0 {
		return 0, fmt.Errorf("%w: invalid size", ErrFormat)
	}
	return size, nil
}

// number reads a field: octal digits between spaces and NULs, or, with the first bit set,
// a number in base 256.
func number(b []byte) (int64, bool) {
	if b[0]&0x80 != 0 {
		negative := b[0]&0x40 != 0
		n := int64(b[0] & 0x3f)
		if negative {
			n |= ^0x3f
		}
		for _, c := range b[1:] {
			if n > 1<<54 || n < -1<<54 {
				return 0, false
			}
			n = n<<8 | int64(c)
		}
		return n, true
	}
	text := strings.Trim(string(b), " \x00")
	if text == "" {
		return 0, true
	}
	n, err := strconv.ParseUint(text, 8, 63)
	return int64(n), err == nil
}

// text returns a field up to its first NUL.
func text(b []byte) string {
	s, _, _ := strings.Cut(string(b), "\x00")
	return s
}

// name returns the name in the block, unless a header before it has said another.
func (r *Reader) name(long extended) string {
	if long.name != "" {
		return long.name
	}
	name := text(r.block[:100])
	// Other formats have other things in that place.
	if string(r.block[257:265]) == "ustar\x0000" {
		if prefix := text(r.block[345:500]); prefix != "" {
			name = prefix + "/" + name
		}
	}
	return name
}

// extend reads a header that says more of the entry after it.
func (r *Reader) extend(long *extended, kind byte, size int64) error {
	if size > maxExtended {
		return fmt.Errorf("%w: a header of %d bytes", ErrFormat, size)
	}
	data := make([]byte, (size+blockSize-1)/blockSize*blockSize)
	if _, err := io.ReadFull(r.R, data); err != nil {
		return early(err)
	}
	data = data[:size]
	switch kind {
	case 'L':
		long.name = text(data)
		return nil
	case 'K':
		return nil // that of a link, which is refused
	}
	for rest := string(data); rest != ""; {
		digits, _, _ := strings.Cut(rest, " ")
		n, err := strconv.ParseUint(digits, 10, 31)
		if err != nil || int(n) > len(rest) || int(n) < len(digits)+3 || rest[n-1] != '\n' {
			return fmt.Errorf("%w: an invalid record", ErrFormat)
		}
		key, value, ok := strings.Cut(rest[len(digits)+1:n-1], "=")
		rest = rest[n:]
		switch {
		case !ok:
			return fmt.Errorf("%w: an invalid record", ErrFormat)
		case kind == 'g' && (key == "path" || key == "size"):
			return fmt.Errorf("%w: one %s for all", ErrFormat, key)
		case kind == 'g':
		case key == "path":
			long.name = value
		case key == "size":
			n, err := strconv.ParseUint(value, 10, 63)
			if err != nil {
				return fmt.Errorf("%w: invalid size", ErrFormat)
			}
			long.size, long.hasSize = int64(n), true
		case key == "mtime":
			seconds, _, _ := strings.Cut(value, ".")
			n, err := strconv.ParseInt(seconds, 10, 63)
			if err != nil {
				return fmt.Errorf("%w: an invalid time", ErrFormat)
			}
			long.modTime = time.Unix(n, 0)
		case strings.HasPrefix(key, "GNU.sparse."):
			return fmt.Errorf("%w: %s has holes", ErrType, Quoted(long.name))
		}
	}
	return nil
}

// entry returns the entry that the block begins.
func (r *Reader) entry(long extended, kind byte, size int64) (Header, error) {
	b := &r.block
	h := Header{Name: r.name(long), Dir: kind == '5', Other: others[kind], Size: size, ModTime: long.modTime}
	// In the oldest format.
	h.Dir = h.Dir || kind == 0 && strings.HasSuffix(h.Name, "/")
	if long.hasSize {
		h.Size = long.size
	}
	mode, ok := number(b[100:108])
	seconds, ok2 := number(b[136:148])
	if !ok || !ok2 {
		return h, fmt.Errorf("%w: %s has an invalid mode or time", ErrFormat, Quoted(h.Name))
	}
	h.Perm = fs.FileMode(mode) & fs.ModePerm
	if h.ModTime.IsZero() {
		h.ModTime = time.Unix(seconds, 0)
	}
	if (h.Dir || h.Other != 0) && h.Size != 0 || h.Size > 1<<60 {
		return h, fmt.Errorf("%w: %s can't have %d bytes of content", ErrFormat, Quoted(h.Name), h.Size)
	}
	if err := r.Check(&h); err != nil {
		return h, err
	}
	r.left = h.Size
	// No multiple of the block size is near the end of the numbers.
	r.pad = -h.Size & (blockSize - 1)
	return h, nil
}

// Read reads the content of the current entry.
func (r *Reader) Read(p []byte) (int, error) {
	if r.left == 0 {
		return 0, io.EOF
	}
	n, err := r.R.Read(p[:min(int64(len(p)), r.left)])
	r.left -= int64(n)
	if r.left > 0 || n == 0 {
		err = earlyOrNil(err)
	} else {
		err = nil
	}
	return n, err
}

func earlyOrNil(err error) error {
	if err == nil {
		return nil
	}
	return early(err)
}

// Append appends the header of an entry to b, in the form that GNU's and busybox's tar
// both read. h.Size bytes of content must follow, and [Pad] of them.
func Append(b []byte, h Header) []byte {
	name := h.Name
	kind := byte('0')
	if h.Dir {
		name += "/"
		kind = '5'
	}
	if len(name) > 100 {
		b = appendBlock(b, "././@LongLink", 'L', 0, int64(len(name)+1), 0)
		b = append(append(b, name...), 0)
		b = append(b, Pad(int64(len(name)+1))...)
		// As much of it as there is room for, in whole characters.
		name = name[:100]
		for !utf8.ValidString(name) {
			name = name[:len(name)-1]
		}
	}
	return appendBlock(b, name, kind, h.Perm, h.Size, h.ModTime.Unix())
}

func appendBlock(b []byte, name string, kind byte, perm fs.FileMode, size, seconds int64) []byte {
	var block [blockSize]byte
	copy(block[:100], name)
	octal(block[100:108], int64(perm&fs.ModePerm))
	octal(block[108:116], 0)
	octal(block[116:124], 0)
	octal(block[124:136], size)
	octal(block[136:148], max(seconds, 0))
	block[156] = kind
	copy(block[257:], "ustar  \x00")
	sum := int64(8 * ' ')
	for _, c := range block {
		sum += int64(c)
	}
	octal(block[148:155], sum)
	block[155] = ' '
	return append(b, block[:]...)
}

// octal writes a number and a NUL after it, or the number in base 256 if it is longer.
func octal(b []byte, n int64) {
	digits := strconv.FormatInt(n, 8)
	if len(digits) >= len(b) {
		for i := len(b) - 1; i > 0; i-- {
			b[i] = byte(n)
			n >>= 8
		}
		b[0] = 0x80
		return
	}
	for i := range len(b) - 1 {
		b[i] = '0'
	}
	copy(b[len(b)-1-len(digits):], digits)
}

var zeros [2 * blockSize]byte

// Pad returns what must follow content of that size.
func Pad(size int64) []byte { return zeros[:-size&(blockSize-1)] }

// End returns what must follow the last entry.
func End() []byte { return zeros[:] }
