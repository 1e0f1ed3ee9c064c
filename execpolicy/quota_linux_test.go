package execpolicy_test

import (
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/internal/container"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest/leftout"
)

// The control group that bounds a container's use of the processors is found, and is the
// container's own.
func TestQuotaOfContainer(t *testing.T) {
	onEngines(t, func(t *testing.T, p place) {
		s := open(t, p.policy(), p.spec())
		defer s.Close()
		first := container.FindFirst(s.Name(), 0)
		if first.PID == 0 || len(p.engine.MissingLimits) > 0 {
			leftout.Note(t, "process 1 is not to be seen here, or the engine bounds nothing")
			return
		}
		id := strings.TrimSpace(p.cli(t, "inspect", "--type=container", "--format={{.Id}}", s.Name()))
		assert.Assert(t, strings.Contains(first.Quota, id), "%q", first.Quota)
	})
}
