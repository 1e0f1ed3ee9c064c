package transfer

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"testing"

	"gotest.tools/v3/assert"
)

// failure returns the error of a script that failed with these words.
func failure(words string, tree bool) error {
	t := Transfer{opts: Options{Scratch: "/.cofferdam"}, tree: tree}
	return t.failure(1, words)
}

// The words are those of dash, of bash, of busybox, and of GNU's programs, with a C
// library's reason at their ends: glibc's, and of some musl's.
func TestWordsOfFailures(t *testing.T) {
	recorded, err := os.ReadFile("testdata/words/recorded")
	assert.NilError(t, err)
	for line := range strings.Lines(string(recorded)) {
		want, words, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		assert.Assert(t, ok, line)
		words = strings.ReplaceAll(words, `\n`, "\n")
		err := failure(words, false)
		inTree := failure(words, true)
		assert.Assert(t, !strings.Contains(fmt.Sprint(err, inTree), "sh:") &&
			!strings.Contains(fmt.Sprint(err, inTree), "eval"), "%v", inTree)
		switch errno, known := errnos[want]; {
		case known:
			assert.Equal(t, err, error(errno), line)
			assert.ErrorIs(t, inTree, errno, line)
			assert.Assert(t, len(inTree.Error()) > len(err.Error()), line)
		case want == "-":
			assert.ErrorIs(t, err, ErrTransfer, line)
			var none syscall.Errno
			assert.Assert(t, !errors.As(err, &none), line)
		default:
			assert.ErrorIs(t, err, ErrTransfer, line)
			assert.ErrorContains(t, err, fmt.Sprintf("the image has no program %q", want))
		}
	}
}

var errnos = map[string]syscall.Errno{
	"EACCES": syscall.EACCES, "EPERM": syscall.EPERM, "EEXIST": syscall.EEXIST, "EISDIR": syscall.EISDIR,
	"ELOOP":        syscall.ELOOP,
	"ENAMETOOLONG": syscall.ENAMETOOLONG, "ENOENT": syscall.ENOENT, "ENOSPC": syscall.ENOSPC, "ENOTDIR": syscall.ENOTDIR,
	"ENOTEMPTY": syscall.ENOTEMPTY, "EROFS": syscall.EROFS, "EDQUOT": syscall.EDQUOT, "ETXTBSY": syscall.ETXTBSY,
}

// Whatever a program prints as it fails, there is one error, with no more than its words.
func FuzzWordsOfFailures(f *testing.F) {
	recorded, err := os.ReadFile("testdata/words/recorded")
	assert.NilError(f, err)
	for line := range bytes.Lines(recorded) {
		_, words, _ := strings.Cut(string(line), "\t")
		f.Add(words)
	}
	f.Fuzz(func(t *testing.T, words string) {
		for _, tree := range []bool{false, true} {
			err := failure(words, tree)
			var errno syscall.Errno
			if errors.Is(err, ErrTransfer) == errors.As(err, &errno) {
				t.Fatalf("%q: %v", words, err)
			}
		}
	})
}

// A listing that is taken holds nothing but single names, each once and in order, and
// comes out of what was put in for them.
func FuzzParseListing(f *testing.F) {
	for _, text := range []string{
		"", "81a4 3 1700000000 ./a\n", "41ed 4096 -5 ./b\n81a4 0 0 ./a\n", "81a4 3 1 ./a\nb\n81a4 3 1 .\n81a4 3 1 ./c\n",
		"81a4 3 1 ./a", "81a4 3 1 ./..\n", "81a4 3 1 ./a\n81a4 3 1 ./a\n", "ffffffff 1 1 ./a\n", "81a4 3 1 ./a/b\n",
		"81a4 3 1 a\n", " ./\n", "c1ff 0 0 ./\xff\n",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		entries, err := parseListing(text)
		if err != nil {
			assert.ErrorIs(t, err, ErrTransfer)
			assert.Equal(t, len(entries), 0)
			return
		}
		for i, e := range entries {
			assert.Assert(t, fs.ValidPath(strings.ToValidUTF8(e.Name, "?")) && e.Name != "." &&
				!strings.Contains(e.Name, "/"), "%q", e.Name)
			assert.Assert(t, i == 0 || entries[i-1].Name < e.Name)
			assert.Assert(t, strings.Contains(text, " ./"+e.Name+"\n"))
			assert.Assert(t, e.Size >= 0 && (e.Size == 0 || e.Mode.IsRegular()))
			assert.Equal(t, e.Mode&^(fs.ModeType|fs.ModePerm), fs.FileMode(0))
		}
		assert.Equal(t, len(entries), strings.Count(text, "/"))
	})
}
