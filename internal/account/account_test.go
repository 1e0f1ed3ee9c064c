package account

import (
	"strings"
	"testing"

	"gotest.tools/v3/assert"
)

func FuzzParsePrinted(f *testing.F) {
	for _, text := range []string{"Uid:1\nGid:2\n", "Uid:1\n", "Gid:-1\nUid:x\n", "",
		"Uid:1\nGid:2\nUid:99999999999999999999\n", "\x00\n:\n"} {
		f.Add(text)
	}
	a, ok := parsePrinted("Uid:1234\nGid:1235\n")
	assert.Assert(f, ok && a == Account{1234, 1235})
	f.Fuzz(func(t *testing.T, text string) {
		a, ok := parsePrinted(text)
		if ok != (a.UID >= 0 && a.GID >= 0) {
			t.Errorf("%q: %v %v", text, a, ok)
		}
		if !ok {
			return
		}
		uid, gid, _ := strings.Cut(a.String(), ":")
		if again, ok := parsePrinted("Uid:" + uid + "\nGid:" + gid + "\n"); !ok || again != a {
			t.Errorf("%v is read as %v", a, again)
		}
	})
}

// A file that has gone since it was found has no owner that is known.
func TestOwnerOfNothing(t *testing.T) {
	_, ok := OwnerOf(nil)
	assert.Assert(t, !ok)
}
