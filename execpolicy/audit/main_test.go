package audit_test

import (
	"os"
	"testing"
)

// programVar is the variable by which a test starts its binary as one of the programs.
const programVar = "COFFERDAM_TEST_PROGRAM"

var programs map[string]func()

func TestMain(m *testing.M) {
	if what := os.Getenv(programVar); what != "" {
		programs[what]()
		os.Exit(0)
	}
	os.Exit(m.Run())
}
