package execpolicy_test

import (
	"os"
	"testing"

	"github.com/seed-64a260eb/cofferdam/internal/enginetest/leftout"
	"github.com/seed-64a260eb/cofferdam/internal/fakeengine"
)

func TestMain(m *testing.M) {
	fakeengine.Main()
	if os.Getenv(holderVar) != "" {
		hold()
	}
	runProgram()
	leftout.Tests("^"+clusterTest, "no Kubernetes cluster: make test-kubernetes has one")
	os.Exit(m.Run())
}
