package leftover

import (
	"testing"
	"testing/synctest"
	"time"

	"gotest.tools/v3/assert"
)

// Neither many looks nor a long time is enough to give up.
func TestPatienceTakesBothTimeAndLooks(t *testing.T) {
	looks := 0
	// A machine that stands still would have no time for a second look.
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		assert.Assert(t, !Patience{50 * time.Millisecond, 1}.Until(func() bool { looks++; return false }))
		assert.Assert(t, time.Since(began) >= 50*time.Millisecond && looks > 1)
	})
	looks = 0
	assert.Assert(t, Patience{0, 5}.Until(func() bool { looks++; return looks == 5 }))
	looks = 0
	assert.Assert(t, !Patience{0, 5}.Until(func() bool { looks++; return looks == 6 }))
}

func TestWhatStaysIsLeft(t *testing.T) {
	const file, one, other = "file x", helper + " 1", helper + " 2"
	for name, c := range map[string]struct {
		looks [][]string // the last one comes again and again
		left  int
	}{
		"nothing":                          {[][]string{{}}, 0},
		"what goes":                        {[][]string{{file}, {file}, {}}, 0},
		"what stays":                       {[][]string{{file}}, 1},
		"a helper that goes":               {[][]string{{one}, {}}, 0},
		"a helper that stays":              {[][]string{{one}}, 1},
		"one helper after another":         {[][]string{{one}, {other}}, 0},
		"helpers of which one stays":       {[][]string{{one}, {one, other}}, 2},
		"a helper whose container is gone": {[][]string{{file}, {one}}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			left := Patience{0, 5}.Settle(map[string]string{"before": ""}, func() map[string]string {
				seen := map[string]string{"before": "before"}
				for _, text := range c.looks[0] {
					seen[text] = text
				}
				if len(c.looks) > 1 {
					c.looks = c.looks[1:]
				}
				return seen
			})
			assert.Equal(t, len(left), c.left, "%q", left)
		})
	}
}
