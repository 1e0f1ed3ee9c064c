package places

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
)

// A recorder is a test whose errors are passed on.
type recorder struct {
	testing.TB
	errors chan string
}

func (t recorder) Errorf(format string, args ...any) { t.errors <- fmt.Sprintf(format, args...) }

// What a test waits for beyond all bounds is closed, and is told with the place.
func TestBound(t *testing.T) {
	errors, closed := make(chan string, 1), make(chan struct{})
	stop := bound(recorder{t, errors}, time.Millisecond, time.Hour, func() error {
		close(closed)
		return nil
	})
	defer stop()
	select {
	case <-closed:
		assert.Assert(t, strings.Contains(<-errors, "TestBound("))
	case <-time.After(Patience):
		t.Fatal("it waits on")
	}
}
