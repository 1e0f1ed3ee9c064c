package truncate

import (
	"bytes"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
)

// chunks cuts s into pieces whose lengths seed decides, empty ones among them.
func chunks(s string, seed uint64) []string {
	random := rand.New(rand.NewPCG(seed, 0))
	longest := 1 + random.IntN(len(s)+2)
	var pieces []string
	for len(s) > 0 {
		n := min(len(s), random.IntN(longest+1))
		pieces = append(pieces, s[:n])
		s = s[n:]
	}
	return pieces
}

// sample returns n bytes of text in lines of 80.
func sample(n int) []byte {
	line := strings.Repeat("x", 79) + "\n"
	return []byte(strings.Repeat(line, n/len(line)+1)[:n])
}

func noAllocs(t *testing.T, write func()) {
	t.Helper()
	if n := testing.AllocsPerRun(1000, write); n != 0 {
		t.Errorf("%v allocations a write, want none", n)
	}
}

// takesLittleMore tests how much memory is taken on the way to what is held when the
// limit is reached.
func takesLittleMore(t *testing.T, write func(p []byte, limit int)) {
	t.Helper()
	const limit = 1 << 20
	for _, size := range []int{1 << 10, 4 << 10, 32 << 10, 64 << 10} {
		p := bytes.Repeat([]byte("x"), size)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		write(p, limit)
		runtime.ReadMemStats(&after)
		taken := after.TotalAlloc - before.TotalAlloc
		assert.Assert(t, taken > limit/2 && taken < limit*8/5, "%d bytes taken for %d, %d at a time", taken, limit, size)
	}
}
