package shellwire_test

import (
	"math/big"
	"regexp"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/internal/shellwire"
)

// A usage is what ParseCounts returns.
type usage struct {
	cpu           time.Duration
	before, after int64
}

var unknown = usage{-1, -1, -1}

func parsed(counts string) usage {
	cpu, before, after := shellwire.ParseCounts(counts)
	return usage{cpu, before, after}
}

func TestParseCounts(t *testing.T) {
	for counts, want := range map[string]usage{
		"":                                     unknown,
		"- - - -":                              unknown,
		"22339183 10018816 322339183 77127680": {cpu: 300 * time.Millisecond, before: 10018816, after: 77127680},
		"0 0 0 0":                              {},
		// Linux before 5.19 has no peak.
		"22339000 - 22340000 -": {cpu: time.Microsecond, before: -1, after: -1},
		"- 4096 - 8192":         {cpu: -1, before: 4096, after: 8192},
		"- 4096 5 -":            {cpu: -1, before: 4096, after: -1},
		"5 - - 8192":            {cpu: -1, before: -1, after: 8192},
		// What falls is not what the kernel has counted since.
		"5 8192 4 4096": unknown,
		"1 2 3":         unknown,
		"1 2 3 4 5":     unknown,
	} {
		assert.Equal(t, parsed(counts), want, counts)
	}
}

// What a supervisor tells can be forged: each value is one that can be, or is not known.
func FuzzParseCounts(f *testing.F) {
	for _, counts := range []string{"", "- - - -", "1 2 3 4", "0 0 0 0", "-1 -2 -3 -4", "1\n2\t3  4", "1 2 3",
		"5 6 4 3", "9223372036854775807 9223372036854775808 +1 0x1", "1_0 1e3 \xb2 ٣"} {
		f.Add(counts)
	}
	number := regexp.MustCompile(`\A[-+]?[0-9]+\z`)
	f.Fuzz(func(t *testing.T, counts string) {
		got, want := parsed(counts), unknown
		if words := strings.Fields(counts); len(words) == 4 {
			var n [4]int64
			for i, word := range words {
				n[i] = -1
				if b, ok := new(big.Int).SetString(word, 10); ok && number.MatchString(word) && b.Sign() >= 0 && b.IsInt64() {
					n[i] = b.Int64()
				}
			}
			if n[0] >= 0 && n[2] >= n[0] {
				want.cpu = time.Duration(n[2] - n[0])
			}
			if n[1] < 0 || n[3] < 0 || n[1] <= n[3] {
				want.before, want.after = n[1], n[3]
			}
		}
		assert.Equal(t, got, want)
		assert.Assert(t, got.cpu >= -1 && got.before >= -1 && got.after >= -1)
	})
}
