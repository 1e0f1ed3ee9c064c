package deps_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/execpolicy/deps"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest/leftout"
)

// pip takes the place of the real one, which would need an index: it installs the modules
// that it is told of.
const pip = `import os, sys
args = sys.argv[1:]
assert args[0] == "install", args
target = args[args.index("--target") + 1]
shelf = {"beans": "def count(): return 3\n", "functions": "taken = 1\n"}
for name in args[args.index("--target") + 2:]:
    if name not in shelf:
        sys.exit("ERROR: No matching distribution found for " + name)
    open(os.path.join(target, name + ".py"), "w").write(shelf[name])
`

// withPip gives the place's set-ups a pip.
func (p place) withPip() place {
	dir := p.t.TempDir()
	assert.NilError(p.t, os.Mkdir(filepath.Join(dir, "pip"), 0o755))
	for _, d := range []string{filepath.Dir(dir), dir} {
		assert.NilError(p.t, os.Chmod(d, 0o755))
	}
	assert.NilError(p.t, os.WriteFile(filepath.Join(dir, "pip", "__main__.py"), []byte(pip), 0o644))
	p.policy.Mounts = []dockercli.Mount{{Source: dir, Target: "/shelf"}}
	return p
}

func (p place) functions(f deps.Functions) (*deps.Layer, error) {
	p.t.Helper()
	r, err := f.Recipe()
	assert.NilError(p.t, err)
	if len(p.policy.Mounts) > 0 {
		r.Env = map[string]string{"PYTHONPATH": "/shelf:" + deps.Target}
	}
	return p.build(p.t.Context(), r)
}

const source = `"""What beans can do."""
import beans

def total(price: float, *, pieces: int = 1) -> float:
    """Tell what all of it costs.

    It's "cheap" \ 100 %.
    """
    return price * pieces * beans.count()

@staticmethod
def _hidden(): pass

async def later(ä='ü'): return ä
`

func TestFunctions(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		l, err := p.withPip().functions(deps.Functions{Source: source, Requirements: []string{"beans"}})
		assert.NilError(t, err)
		r := p.run(l, "python3 -c 'from functions import total; print(total(2, pieces=2))'")
		assert.Equal(t, r.Text(), "12\n")
		data, err := os.ReadFile(filepath.Join(l.Mount.Source, "functions.py"))
		assert.NilError(t, err)
		assert.Equal(t, string(data), source)
		// What is wrong with a call is its program's failure.
		r = p.run(l, `python3 -c 'import functions; functions.total("x", pieces="y")'`)
		assert.Equal(t, r.ExitCode, 1)
		assert.Assert(t, len(r.Stderr) > 0)
	})
}

func TestFunctionsThatDoNotWorkAreNoLayer(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		for _, c := range []struct {
			f     deps.Functions
			words string
		}{
			{deps.Functions{Source: source, Requirements: []string{"beans", "peas>=1"}},
				"No matching distribution found for peas>=1"},
			{deps.Functions{Source: source}, "ModuleNotFoundError: No module named 'beans'"},
			{deps.Functions{Module: "tools", Source: "def f(:\n"}, "SyntaxError"},
			{deps.Functions{Source: "1 / 0"}, "ZeroDivisionError"},
			{deps.Functions{Source: "", Requirements: []string{"functions"}},
				"a requirement has the name of the module functions"},
		} {
			t.Run(c.words, func(t *testing.T) {
				t.Parallel()
				p := p
				p.t, p.cache = t, t.TempDir()
				_, err := p.withPip().functions(c.f)
				assert.ErrorIs(t, err, deps.ErrBuild)
				assert.ErrorContains(t, err, c.words)
				p.empty()
			})
		}
	})
}

// A module of a name that Python has for its own would never be imported.
func TestFunctionsOfPythonsName(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		for _, name := range []string{"sys", "os", "__main__"} {
			_, err := p.functions(deps.Functions{Module: name, Source: "def total(): return 5"})
			assert.ErrorIs(t, err, deps.ErrBuild, name)
			assert.ErrorContains(t, err, name)
		}
	})
}

func TestFunctionsWithoutPip(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		if p.run(p.layer(scripts(":")), "python3 -c 'import pip'").ExitCode == 0 {
			leftout.Skip(t, "the image has pip")
		}
		_, err := p.functions(deps.Functions{Requirements: []string{"beans"}})
		assert.ErrorIs(t, err, deps.ErrBuild)
		assert.ErrorContains(t, err, "No module named pip")
	})
}

func TestFunctionsNames(t *testing.T) {
	for _, name := range []string{"a", "_", "a1_B", "functions", "match"} {
		_, err := deps.Functions{Module: name}.Recipe()
		assert.NilError(t, err)
	}
	for _, name := range []string{"1a", "a-b", "a.b", "a b", "ä", "class", "None", "a\n", "../a", "-c", "a;id", "$(id)"} {
		_, err := deps.Functions{Module: name}.Recipe()
		assert.ErrorIs(t, err, execpolicy.ErrInvalid, name)
	}
	for _, req := range []string{"", " ", "-e .", "--index-url=x", " -r x", "a\nb", "a\x00"} {
		_, err := deps.Functions{Requirements: []string{req}}.Recipe()
		assert.ErrorIs(t, err, execpolicy.ErrInvalid, req)
	}
	_, err := deps.Functions{Module: "a b", Source: "\x00", Requirements: []string{"-"}}.Recipe()
	for _, words := range []string{"identifier", "NUL", "requirement"} {
		assert.ErrorContains(t, err, words)
	}
}

// What is too long for a script is refused before a requirement is installed.
func TestFunctionsLength(t *testing.T) {
	_, err := deps.Functions{Source: strings.Repeat("'", execpolicy.MaxText/4)}.Recipe()
	assert.ErrorIs(t, err, execpolicy.ErrInvalid)
	assert.ErrorContains(t, err, "the source has 4194304 bytes, where each single quote counts four, and may have 419")
	var may int
	_, rest, _ := strings.Cut(err.Error(), "may have ")
	_, scanErr := fmt.Sscanf(rest, "%d", &may)
	assert.NilError(t, scanErr)
	_, err = deps.Functions{Source: strings.Repeat("x", may+1)}.Recipe()
	assert.ErrorIs(t, err, execpolicy.ErrInvalid)
	r, err := deps.Functions{Source: strings.Repeat("x", may)}.Recipe()
	assert.NilError(t, err)
	for _, script := range r.Scripts {
		assert.NilError(t, execpolicy.Command{Script: script, Dir: deps.Target}.Check())
	}
}

func TestStubs(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		s, err := execpolicy.Start(t.Context(), p.policy, execpolicy.Spec{Labels: maps.Clone(p.labels)})
		assert.NilError(t, err)
		defer s.Close()
		text, err := deps.Functions{Source: source}.Stubs(t.Context(), s)
		assert.NilError(t, err)
		assert.Equal(t, text, `def total(price: float, *, pieces: int=1) -> float:
    """Tell what all of it costs.

    It's "cheap" \\ 100 %.
    """
    ...

async def later(ä='ü'):
    ...

`)
		_, err = deps.Functions{Source: "def f(:"}.Stubs(t.Context(), s)
		assert.ErrorIs(t, err, deps.ErrBuild)
		assert.ErrorContains(t, err, "SyntaxError")
	})
}
