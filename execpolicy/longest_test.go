package execpolicy_test

import (
	"fmt"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/execpolicy"
)

// The longest text runs with the longest stdin, beside a background process: what writes
// the text may take its time.
func TestLongest(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		s := open(t, p.policy(), p.spec())
		s.ok("sleep 1000 >/dev/null 2>&1 &")
		const begin, end = ": <<'end'\n", "\nend\nwc -c"
		line := strings.Repeat("'", 4095) + "\n"
		text := strings.Repeat(line, execpolicy.MaxText/len(line))[:execpolicy.MaxText-len(begin+end)]
		r := s.run(execpolicy.Command{Script: begin + text + end, Timeout: -1,
			Stdin: strings.NewReader(strings.Repeat("x", execpolicy.MaxStdin))})
		assert.Equal(t, string(r.Stdout), fmt.Sprintln(execpolicy.MaxStdin), "%+v", r)
		assert.Equal(t, s.ok("echo whole"), "whole")
	})
}
