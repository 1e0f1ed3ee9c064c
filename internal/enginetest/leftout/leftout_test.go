package leftout

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"gotest.tools/v3/assert"
)

// tb is a test of which only what is said of it is kept.
type tb struct {
	testing.TB
	log     []any
	skipped bool
}

func (*tb) Helper()           {}
func (*tb) Name() string      { return "TestAll/of/it" }
func (t *tb) Log(args ...any) { t.log = append(t.log, args...) }
func (t *tb) SkipNow()        { t.skipped = true }

func TestWhatIsLeftOutIsTold(t *testing.T) {
	file := filepath.Join(t.TempDir(), "notes")
	t.Setenv(File, file)
	fake := &tb{TB: t}
	Note(fake, "no %s:\n\t%s", "engine", "not found")
	assert.Assert(t, !fake.skipped)
	Skip(fake, "it is late")
	assert.Assert(t, fake.skipped)
	assert.DeepEqual(t, fake.log, []any{"left out: no engine: not found", "left out: it is late"})
	said, err := os.ReadFile(file)
	assert.NilError(t, err)
	assert.Equal(t, string(said), "no engine: not found\tTestAll\nit is late\tTestAll\n")
}

func TestNothingIsWrittenUnasked(t *testing.T) {
	t.Setenv(File, "")
	t.Chdir(t.TempDir())
	fake := &tb{TB: t}
	Skip(fake, "it is late")
	assert.Assert(t, fake.skipped)
	made, err := os.ReadDir(".")
	assert.NilError(t, err)
	assert.Equal(t, len(made), 0)
}

func TestTestsOfAClusterAreLeftOut(t *testing.T) {
	skip := flag.Lookup("test.skip").Value
	before := skip.String()
	defer skip.Set(before)
	file := filepath.Join(t.TempDir(), "notes")
	t.Setenv(File, file)
	t.Setenv(Kubernetes, "/cluster")
	Tests("^TestCluster", "no cluster")
	assert.Equal(t, skip.String(), before)
	t.Setenv(Kubernetes, "")
	assert.NilError(t, skip.Set("TestSlow"))
	Tests("^TestCluster", "no cluster")
	assert.Equal(t, skip.String(), "TestSlow|^TestCluster")
	said, err := os.ReadFile(file)
	assert.NilError(t, err)
	assert.Equal(t, string(said), "no cluster\tall of ^TestCluster\n")
}
