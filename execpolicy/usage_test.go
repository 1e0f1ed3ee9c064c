package execpolicy_test

import (
	"context"
	"fmt"
	"math/big"
	"regexp"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/execpolicy"
)

// unknown is the usage of which nothing is known.
var unknown = execpolicy.Usage{CPU: -1, PeakBefore: -1, PeakAfter: -1}

func ExampleUsage() {
	ctx := context.Background()
	s, err := execpolicy.Start(ctx, execpolicy.DockerPolicy{}, execpolicy.Spec{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()
	r, err := s.Run(ctx, execpolicy.Command{Argv: []string{"./solution"}, Timeout: 10 * time.Second, Usage: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	switch u := r.Usage; {
	case u.CPU < 0 || u.PeakAfter < 0:
		fmt.Println("not known")
	case u.PeakAfter > u.PeakBefore:
		fmt.Println("it took", u.CPU, "and", u.PeakAfter, "bytes")
	default:
		fmt.Println("it took", u.CPU, "and at most", u.PeakAfter, "bytes")
	}
}

func TestParseUsage(t *testing.T) {
	for counts, want := range map[string]execpolicy.Usage{
		"":                                     unknown,
		"- - - -":                              unknown,
		"22339183 10018816 322339183 77127680": {CPU: 300 * time.Millisecond, PeakBefore: 10018816, PeakAfter: 77127680},
		"0 0 0 0":                              {},
		// Linux before 5.19 has no peak.
		"22339000 - 22340000 -": {CPU: time.Microsecond, PeakBefore: -1, PeakAfter: -1},
		"- 4096 - 8192":         {CPU: -1, PeakBefore: 4096, PeakAfter: 8192},
		"- 4096 5 -":            {CPU: -1, PeakBefore: 4096, PeakAfter: -1},
		"5 - - 8192":            {CPU: -1, PeakBefore: -1, PeakAfter: 8192},
		// What falls is not what the kernel has counted since.
		"5 8192 4 4096": unknown,
		"1 2 3":         unknown,
		"1 2 3 4 5":     unknown,
	} {
		assert.Equal(t, *execpolicy.ParseUsage(counts), want, counts)
	}
}

// What a supervisor tells can be forged: each value is one that can be, or is not known.
func FuzzParseUsage(f *testing.F) {
	for _, counts := range []string{"", "- - - -", "1 2 3 4", "0 0 0 0", "-1 -2 -3 -4", "1\n2\t3  4", "1 2 3",
		"5 6 4 3", "9223372036854775807 9223372036854775808 +1 0x1", "1_0 1e3 \xb2 ٣"} {
		f.Add(counts)
	}
	number := regexp.MustCompile(`\A[-+]?[0-9]+\z`)
	f.Fuzz(func(t *testing.T, counts string) {
		got, want := *execpolicy.ParseUsage(counts), unknown
		if words := strings.Fields(counts); len(words) == 4 {
			var n [4]int64
			for i, word := range words {
				n[i] = -1
				if b, ok := new(big.Int).SetString(word, 10); ok && number.MatchString(word) && b.Sign() >= 0 && b.IsInt64() {
					n[i] = b.Int64()
				}
			}
			if n[0] >= 0 && n[2] >= n[0] {
				want.CPU = time.Duration(n[2] - n[0])
			}
			if n[1] < 0 || n[3] < 0 || n[1] <= n[3] {
				want.PeakBefore, want.PeakAfter = n[1], n[3]
			}
		}
		assert.Equal(t, got, want)
		assert.Assert(t, got.CPU >= -1 && got.PeakBefore >= -1 && got.PeakAfter >= -1)
	})
}
