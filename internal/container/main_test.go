package container

import (
	"os"
	"testing"
	"time"

	"gotest.tools/v3/poll"

	"github.com/seed-64a260eb/cofferdam/internal/fakeengine"
)

// lookVar names what the test binary looks at when a test starts it as another program.
const lookVar = "COFFERDAM_TEST_LOOK"

// looks are the main functions of such programs.
var looks = map[string]func(){}

func TestMain(m *testing.M) {
	fakeengine.Main()
	if look := looks[os.Getenv(lookVar)]; look != nil {
		look()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

const (
	// prompt bounds what has nothing to wait for, on a busy machine too.
	prompt = 20 * time.Second
	// patience is how long a test waits for what has to come.
	patience = time.Minute
)

func wait(t *testing.T, met func() bool, format string, args ...any) {
	t.Helper()
	poll.WaitOn(t, func(poll.LogT) poll.Result {
		if met() {
			return poll.Success()
		}
		return poll.Continue(format, args...)
	}, poll.WithTimeout(patience), poll.WithDelay(10*time.Millisecond))
}
