package places

import (
	"testing"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest"
)

// An Example is one of a package's examples that need an engine, and what it prints.
type Example struct {
	Name string
	Run  func()
	Want string
	// Late says that on a busy machine it may print something else, and has more tries:
	// see [Eventually].
	Late bool
}

// Examples sees that each example prints what it says, on each real engine. They use the
// sandbox as their policy. Prepare is called before each, if it is not nil.
func Examples(t *testing.T, sandbox *execpolicy.DockerPolicy, prepare func(t *testing.T), examples []Example) {
	enginetest.Run(t, func(t *testing.T, e enginetest.Engine) {
		old := *sandbox
		defer func() { *sandbox = old }()
		sandbox.Engine, sandbox.Image, sandbox.TerminationTimeout = e.Engine, e.Image, Patience
		sandbox.Transport, sandbox.AllowMissingLimits = Transport(e.Engine), len(e.MissingLimits) > 0
		for _, c := range examples {
			t.Run(c.Name, func(t *testing.T) {
				if prepare != nil {
					prepare(t)
				}
				Eventually(t, func() string {
					got := enginetest.Printed(t, c.Run)
					if got != c.Want && c.Late {
						return got
					}
					assert.Equal(t, got, c.Want)
					return ""
				})
			})
		}
	})
}
