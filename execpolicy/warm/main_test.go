package warm_test

import (
	"os"
	"testing"

	"github.com/seed-64a260eb/cofferdam/internal/fakeengine"
)

func TestMain(m *testing.M) {
	fakeengine.Main()
	runProgram()
	os.Exit(m.Run())
}
