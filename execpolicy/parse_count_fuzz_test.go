package execpolicy_test

import (
	"fmt"
	"math/big"
	"regexp"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/execpolicy"
)

// What a supervisor tells can be forged: it is a count, or it is none.
func FuzzParseCount(f *testing.F) {
	for _, text := range []string{"", "-", "0", "12", " 7\n", "-2", "+3", "0x1", "1_0", "1 2",
		"99999999999999999999", "\xb2", "1e3"} {
		f.Add(text)
	}
	number := regexp.MustCompile(`\A[-+]?[0-9]+\z`)
	f.Fuzz(func(t *testing.T, text string) {
		got, want := execpolicy.ParseCount(text), -1
		if word := strings.TrimSpace(text); number.MatchString(word) {
			if n, ok := new(big.Int).SetString(word, 10); ok && n.Sign() >= 0 && n.IsInt64() {
				want = int(n.Int64())
			}
		}
		assert.Equal(t, got, want)
		if got >= 0 {
			assert.Equal(t, execpolicy.ParseCount(fmt.Sprintf(" %d\n", got)), got)
		}
	})
}
