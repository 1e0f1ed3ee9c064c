package tarball

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"gotest.tools/v3/assert"
)

var then = time.Unix(1700000000, 0)

// read reads an archive whole, and returns its entries and the content of all of them.
func read(data []byte, limits Limits) (all []Header, content string, err error) {
	return readBy(data, Checker{Limits: limits})
}

func readBy(data []byte, c Checker) (all []Header, content string, err error) {
	r := Reader{R: bytes.NewReader(data), Checker: c}
	for {
		h, err := r.Next()
		if err == io.EOF {
			return all, content, nil
		}
		if err != nil {
			return all, content, err
		}
		text, err := io.ReadAll(&r)
		if err != nil {
			return all, content, err
		}
		all = append(all, h)
		content += string(text)
	}
}

// archive makes one as archive/tar does.
func archive(t testing.TB, headers ...tar.Header) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range headers {
		assert.NilError(t, w.WriteHeader(&h))
		_, err := w.Write(make([]byte, h.Size))
		assert.NilError(t, err)
	}
	assert.NilError(t, w.Close())
	return b.Bytes()
}

var none = Limits{-1, -1}

func TestReadsAllFormats(t *testing.T) {
	long := strings.Repeat("long/", 60) + "name"
	for _, format := range []tar.Format{tar.FormatUSTAR, tar.FormatGNU, tar.FormatPAX} {
		names := []string{"a", "d/e", "d/ü", "s p", "new\nline", "-rf", strings.Repeat("d", 120) + "/" +
			strings.Repeat("x", 90)}
		if format != tar.FormatUSTAR {
			names = append(names, long)
		}
		for _, name := range names {
			if format == tar.FormatUSTAR && name == "d/ü" {
				continue
			}
			all, content, err := read(archive(t, tar.Header{Typeflag: tar.TypeReg, Name: name, Size: 700, Mode: 0o4751,
				ModTime: then, Format: format}), none)
			assert.NilError(t, err, name)
			assert.DeepEqual(t, all, []Header{{Name: name, Perm: 0o751, Size: 700, ModTime: then}})
			assert.Equal(t, len(content), 700)
		}
		all, _, err := read(archive(t,
			tar.Header{Typeflag: tar.TypeDir, Name: "./", Mode: 0o700, ModTime: then, Format: format},
			tar.Header{Typeflag: tar.TypeDir, Name: "./d/", Mode: 0o755, ModTime: then, Format: format},
			tar.Header{Typeflag: tar.TypeReg, Name: "./d/f", ModTime: then, Format: format},
		), Limits{Entries: 2})
		assert.NilError(t, err)
		assert.DeepEqual(t, all, []Header{{Name: ".", Dir: true, Perm: 0o700, ModTime: then},
			{Name: "d", Dir: true, Perm: 0o755, ModTime: then}, {Name: "d/f", ModTime: then}})
	}
}

func TestRefuses(t *testing.T) {
	reg := func(name string, size int64) tar.Header {
		return tar.Header{Typeflag: tar.TypeReg, Name: name, Size: size, ModTime: then}
	}
	link := func(kind byte) tar.Header {
		return tar.Header{Typeflag: kind, Name: "x", Linkname: "/etc/passwd", ModTime: then}
	}
	dirOf := func(name string) tar.Header { return tar.Header{Typeflag: tar.TypeDir, Name: name, ModTime: then} }
	few := Limits{Entries: 3, Bytes: 1000}
	for _, c := range []struct {
		name string
		want error
		data []byte
	}{
		{"dots", ErrName, archive(t, reg("../x", 0))},
		{"dots within", ErrName, archive(t, reg("a/../../x", 0))},
		{"dots at the end", ErrName, archive(t, dirOf("a/.."))},
		{"absolute", ErrName, archive(t, reg("/etc/x", 0))},
		{"absolute behind a dot", ErrName, archive(t, reg(".//../x", 0))},
		{"empty", ErrName, reseal(archive(t, reg("a", 0)), func(b []byte) { b[0] = 0 })},
		{"the tree as a file", ErrName, archive(t, reg(".", 0))},
		{"no UTF-8", ErrName, archive(t, reg("\xff", 0))},
		{"a long element", ErrName, archive(t, reg(strings.Repeat("x", 256), 0))},
		{"a long name", ErrName, archive(t, reg(strings.Repeat("x/", 2048)+"x", 0))},
		{"symlink", ErrType, archive(t, link(tar.TypeSymlink))},
		{"hard link", ErrType, archive(t, link(tar.TypeLink))},
		{"character device", ErrType, archive(t, link(tar.TypeChar))},
		{"block device", ErrType, archive(t, link(tar.TypeBlock))},
		{"fifo", ErrType, archive(t, link(tar.TypeFifo))},
		{"sparse", ErrType, pax(t, "GNU.sparse.major", "1")},
		{"old sparse", ErrType, reseal(archive(t, reg("x", 0)), func(b []byte) { b[156] = 'S' })},
		{"unknown", ErrType, reseal(archive(t, reg("x", 0)), func(b []byte) { b[156] = 'V' })},
		{"twice", ErrDuplicate, archive(t, reg("a", 0), reg("./a", 0))},
		{"a directory twice", ErrDuplicate, archive(t, dirOf("a"), dirOf("a/"))},
		{"a directory and a file", ErrDuplicate, archive(t, dirOf("a"), reg("a", 0))},
		{"in a file", ErrDuplicate, archive(t, reg("a", 0), reg("a/b", 0))},
		{"a file that others are in", ErrDuplicate, archive(t, reg("a/b", 0), reg("a", 0))},
		{"too many", ErrLimit, archive(t, reg("a", 0), reg("b", 0), reg("c", 0), reg("d", 0))},
		{"too many directories in a name", ErrLimit, archive(t, reg("a/b/c/d", 0))},
		{"too much", ErrLimit, archive(t, reg("a", 600), reg("b", 401))},
		{"far too much", ErrLimit, reseal(archive(t, reg("a", 1)), func(b []byte) { copy(b[124:], "77777777777\x00") })},
		{"a negative size", ErrFormat,
			reseal(archive(t, reg("a", 1)), func(b []byte) { copy(b[124:], bytes.Repeat([]byte{0xff}, 12)) })},
		{"the largest size", ErrFormat,
			reseal(archive(t, reg("a", 1)),
				func(b []byte) { copy(b[124:], "\x80\x00\x00\x00\xff\xff\xff\xff\xff\xff\xff\xff") })},
		{"too many in the tree", ErrLimit, archive(t, dirOf("."), reg("a", 0), reg("b", 0), reg("c", 0), reg("d", 0))},
		{"a wrong sum", ErrFormat, append([]byte("b"), archive(t, reg("a", 0))[1:]...)},
		{"no archive", ErrFormat, []byte("hello")},
		{"nothing", ErrFormat, nil},
		{"no end", ErrFormat, archive(t, reg("a", 0))[:512]},
		{"cut off", ErrFormat, archive(t, reg("a", 600))[:1024]},
		{"a directory with content", ErrFormat, reseal(archive(t, reg("a", 1)), func(b []byte) { b[156] = '5' })},
		{"one name for all", ErrFormat, reseal(pax(t, "path", "other"), func(b []byte) { b[156] = 'g' })},
		{"a large header", ErrFormat, archive(t, reg(strings.Repeat("x/", 40000)+"x", 0))},
		{"no end of headers", ErrFormat,
			append(bytes.Repeat(archive(t,
				tar.Header{Typeflag: tar.TypeXGlobalHeader, PAXRecords: map[string]string{"comment": "x"}})[:1024], 10),
				archive(t, reg("a", 0))...)},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, _, err := read(c.data, few)
			assert.ErrorIs(t, err, c.want)
		})
	}
}

// What a tree can hold is let through on demand, and nothing else.
func TestAll(t *testing.T) {
	link := func(kind byte, name string) tar.Header {
		return tar.Header{Typeflag: kind, Name: name, Linkname: strings.Repeat("/long", 50), ModTime: then}
	}
	all, content, err := readBy(archive(t, link(tar.TypeSymlink, "d/symlink"), link(tar.TypeLink, "link"),
		tar.Header{Typeflag: tar.TypeChar, Name: "char", ModTime: then},
		tar.Header{Typeflag: tar.TypeBlock, Name: "block", ModTime: then},
		tar.Header{Typeflag: tar.TypeFifo, Name: "./fifo", Mode: 0o640, ModTime: then},
		tar.Header{Typeflag: tar.TypeReg, Name: "\xffn\xfe", Size: 3, ModTime: then, Format: tar.FormatGNU}),
		Checker{Limits: none, All: true})
	assert.NilError(t, err)
	assert.Equal(t, content, "\x00\x00\x00")
	assert.DeepEqual(t, all, []Header{
		{Name: "d/symlink", Other: fs.ModeSymlink, ModTime: then},
		{Name: "link", Other: fs.ModeIrregular, ModTime: then},
		{Name: "char", Other: fs.ModeDevice | fs.ModeCharDevice, ModTime: then},
		{Name: "block", Other: fs.ModeDevice, ModTime: then},
		{Name: "fifo", Other: fs.ModeNamedPipe, Perm: 0o640, ModTime: then},
		{Name: "\xffn\xfe", Size: 3, ModTime: then},
	})
	file := tar.Header{Typeflag: tar.TypeReg, Name: "a", ModTime: then}
	for _, c := range []struct {
		want error
		data []byte
	}{
		{ErrName, archive(t, link(tar.TypeSymlink, "../x"))},
		{ErrName, archive(t, link(tar.TypeSymlink, "/x"))},
		{ErrName, archive(t, tar.Header{Typeflag: tar.TypeReg, Name: "\xff/../x", Format: tar.FormatGNU})},
		{ErrName, archive(t, link(tar.TypeSymlink, "."))},
		{ErrDuplicate, archive(t, file, link(tar.TypeSymlink, "a"))},
		{ErrDuplicate, archive(t, link(tar.TypeSymlink, "a"), file)},
		{ErrDuplicate, archive(t, link(tar.TypeSymlink, "a"), tar.Header{Typeflag: tar.TypeReg, Name: "a/b"})},
		{ErrFormat, reseal(archive(t, tar.Header{Typeflag: tar.TypeReg, Name: "a", Size: 1}),
			func(b []byte) { b[156] = '1' })},
		{ErrType, reseal(archive(t, file), func(b []byte) { b[156] = 'S' })},
		{ErrType, reseal(archive(t, file), func(b []byte) { b[156] = 'V' })},
		{ErrLimit, archive(t, link(tar.TypeSymlink, "a"), link(tar.TypeSymlink, "b"), link(tar.TypeSymlink, "c"),
			link(tar.TypeSymlink, "d"))},
	} {
		_, _, err := readBy(c.data, Checker{Limits: Limits{Entries: 3, Bytes: 100}, All: true})
		assert.ErrorIs(t, err, c.want)
	}
}

// pax makes an archive of one file with a record of that key.
func pax(t *testing.T, key, value string) []byte {
	record := " " + key + "=" + value + "\n"
	record = string(rune('0'+(len(record)+2)/10)) + string(rune('0'+(len(record)+2)%10)) + record
	data := appendBlock(nil, "x", 'x', 0, int64(len(record)), 0)
	data = append(append(data, record...), Pad(int64(len(record)))...)
	return append(data, archive(t, tar.Header{Typeflag: tar.TypeReg, Name: "x", ModTime: then})...)
}

// reseal changes an archive's first header and corrects its sum.
func reseal(data []byte, change func([]byte)) []byte {
	change(data)
	copy(data[148:156], "        ")
	var sum int64
	for _, c := range data[:512] {
		sum += int64(c)
	}
	octal(data[148:155], sum)
	return data
}

func TestWrites(t *testing.T) {
	var data []byte
	headers := []Header{
		{Name: "d", Dir: true, Perm: 0o750, ModTime: then},
		{Name: "d/ü", Perm: 0o640, Size: 513, ModTime: then},
		{Name: strings.Repeat("é/", 700) + "x", Perm: 0o600, ModTime: then},
		{Name: strings.Repeat("y", 99), Dir: true, ModTime: then},
		{Name: strings.Repeat("y", 100), ModTime: time.Unix(0, 0)},
	}
	for _, h := range headers {
		data = append(Append(data, h), make([]byte, h.Size)...)
		data = append(data, Pad(h.Size)...)
	}
	data = append(data, End()...)
	all, _, err := read(data, none)
	assert.NilError(t, err)
	assert.DeepEqual(t, all, headers)
	r := tar.NewReader(bytes.NewReader(data))
	for _, h := range headers {
		got, err := r.Next()
		assert.NilError(t, err)
		assert.Equal(t, strings.TrimSuffix(got.Name, "/"), h.Name)
		assert.Equal(t, got.FileInfo().Mode().Perm(), h.Perm)
		assert.Assert(t, got.ModTime.Equal(h.ModTime))
	}
	_, err = r.Next()
	assert.Equal(t, err, io.EOF)
	big := Append(nil, Header{Name: "x", Size: 1 << 40})
	got, err := tar.NewReader(bytes.NewReader(big)).Next()
	assert.NilError(t, err)
	assert.Equal(t, got.Size, int64(1<<40))
}

// Whatever comes, what is let through is safe, and archive/tar sees the same in it.
func FuzzReader(f *testing.F) {
	f.Add(archive(f, tar.Header{Typeflag: tar.TypeReg, Name: "a/b", Size: 3, ModTime: then},
		tar.Header{Typeflag: tar.TypeDir, Name: "./d/", ModTime: then}))
	f.Add(archive(f, tar.Header{Typeflag: tar.TypeReg, Name: strings.Repeat("ü/", 100) + "b", Size: 600,
		ModTime: then, Format: tar.FormatPAX}))
	f.Add(archive(f, tar.Header{Typeflag: tar.TypeReg, Name: strings.Repeat("l/", 100) + "b", Size: 600,
		ModTime: then, Format: tar.FormatGNU}))
	f.Add(archive(f, tar.Header{Typeflag: tar.TypeSymlink, Name: "x", Linkname: "/etc", ModTime: then}))
	f.Add(archive(f, tar.Header{Typeflag: tar.TypeReg, Name: "../x", ModTime: then}))
	f.Fuzz(func(t *testing.T, data []byte) {
		data = bytes.Clone(data)
		// What looks like a header has the right sum, or nothing else would ever be
		// tried.
		for b := data; len(b) >= 512; b = b[512:] {
			if string(b[257:262]) == "ustar" {
				reseal(b, func([]byte) {})
			}
		}
		limits := Limits{Entries: 20, Bytes: 10000}
		all, content, err := read(data, limits)
		known := err == nil
		for _, want := range []error{ErrFormat, ErrName, ErrType, ErrDuplicate, ErrLimit} {
			known = known || errors.Is(err, want)
		}
		assert.Assert(t, known, "%v", err)
		assert.Assert(t, len(all) <= 20+1 && len(content) <= 10000) // 1 is the tree itself
		seen := map[string]bool{}
		for _, h := range all {
			assert.Assert(t, fs.ValidPath(h.Name) && !seen[h.Name] && h.Perm&^0o777 == 0 && h.Size >= 0)
			seen[h.Name] = true
		}
		// What else a tree can hold leads nowhere either.
		others, _, errAll := readBy(data, Checker{Limits: limits, All: true})
		assert.Assert(t, len(others) >= len(all) && (err != nil || errAll == nil))
		for i, h := range others {
			assert.Assert(t, i < len(all) == (h.Other == 0 && utf8.ValidString(h.Name)) || i > len(all))
			assert.Assert(t, fs.ValidPath(strings.ToValidUTF8(h.Name, "?")) && (h.Other == 0 || h.Size == 0 && !h.Dir))
		}
		if err != nil {
			return
		}
		r := tar.NewReader(bytes.NewReader(data))
		for i := 0; ; {
			h, err := r.Next()
			if err != nil {
				// It knows more formats, in which it may find something wrong.
				return
			}
			if h.Typeflag == tar.TypeXGlobalHeader {
				continue
			}
			assert.Assert(t, i < len(all), "%q is left out", h.Name)
			assert.Equal(t, all[i].Size, h.Size)
			i++
		}
	})
}

// Not all that is checked comes from an archive, which has no negative sizes.
func TestNegativeSize(t *testing.T) {
	for _, limits := range []Limits{none, {Entries: 3, Bytes: 100}} {
		c := Checker{Limits: limits}
		assert.ErrorIs(t, c.Check(&Header{Name: "a", Size: -1}), ErrFormat)
	}
}

// Names have to be kept, and so they are bounded where nothing else is.
func TestNamesAreBounded(t *testing.T) {
	c := Checker{Limits: none}
	long := strings.Repeat("long/", 700)
	for i := range 10 * maxNames / len(long) {
		if err := c.Check(&Header{Name: fmt.Sprint(long, i)}); err != nil {
			assert.ErrorIs(t, err, ErrLimit)
			return
		}
	}
	t.Fatal("all names were taken")
}
