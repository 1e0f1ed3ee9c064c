package execpolicy_test

import (
	"strings"
	"testing"

	"gotest.tools/v3/assert"
)

// layers say how high the module's packages stand. A package is in the first row that has
// it; "/..." stands for what is below a path, and for the path itself. A new package
// under internal is one of those that execpolicy stands on, unless a row says otherwise.
var layers = []struct {
	height   int
	packages string
}{
	{1, "execpolicy"},
	{2, "execpolicy/... internal/scratch"},
	// Programs, and helpers of tests.
	{3, "internal/attest internal/bench/... internal/doctor internal/enginetest/... internal/fakeengine " +
		"internal/fakekubectl internal/fault internal/presets internal/programs/... internal/remote internal/runargs/samples " +
		"internal/tour testdata/..."},
	{0, "truncate dockercli internal/..."},
}

// heightOf returns the height of a package of the module.
func heightOf(t *testing.T, name string) int {
	t.Helper()
	for _, layer := range layers {
		for _, pattern := range strings.Fields(layer.packages) {
			dir, below := strings.CutSuffix(pattern, "/...")
			if name == dir || below && strings.HasPrefix(name, dir+"/") {
				return layer.height
			}
		}
	}
	t.Fatalf("%s is in no layer", name)
	return 0
}

// No package imports one that stands higher. So what execpolicy stands on knows nothing
// of execpolicy, also where no package that imports it would make that a cycle.
func TestNoPackageImportsAHigherOne(t *testing.T) {
	seen := 0
	for _, goos := range []string{"linux", "darwin", "windows"} {
		for _, line := range goList(t, goos, "-f", `{{.ImportPath}} {{join .Imports " "}}`, "./...") {
			words := strings.Fields(line)
			name := strings.TrimPrefix(words[0], module+"/")
			height := heightOf(t, name)
			for _, path := range words[1:] {
				if imported, ok := strings.CutPrefix(path, module+"/"); ok {
					assert.Check(t, heightOf(t, imported) <= height,
						"%s on %s imports %s, which is above it", name, goos, imported)
					seen++
				}
			}
		}
	}
	assert.Assert(t, seen > 0)
}
