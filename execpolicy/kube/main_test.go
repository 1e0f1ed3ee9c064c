package kube

import (
	"os"
	"testing"

	"github.com/seed-64a260eb/cofferdam/internal/enginetest/leftout"
	"github.com/seed-64a260eb/cofferdam/internal/fakekubectl"
)

func TestMain(m *testing.M) {
	fakekubectl.Main()
	leftout.Tests("^(TestCluster|TestPlug|Example_cluster$)",
		"no Kubernetes cluster: make test-kubernetes has one")
	os.Exit(m.Run())
}
