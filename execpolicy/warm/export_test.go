package warm

import (
	"testing"
	"time"
)

// Lull makes the pause before an idle session is replaced last so long during a test.
func Lull(t *testing.T, d time.Duration) {
	was := lull
	lull = d
	t.Cleanup(func() { lull = was })
}
