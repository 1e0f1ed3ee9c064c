package container

import (
	"os"
	"testing"
	"time"

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
