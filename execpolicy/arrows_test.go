package execpolicy_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
)

// fileOrder has the files of this package from those that use others to those that others
// use.
var fileOrder = strings.Fields(`
	engine.go outside.go options.go mounted.go missing.go spawn.go lookup.go labels.go idle.go egress.go compat.go
	job.go run.go host.go imageid.go jobrun.go outcome.go sweep.go validate.go render.go worker.go mounts.go
	transfer.go user.go files.go trees.go presets.go stdin.go session.go auditor.go seccomp.go docker.go conn.go
	policy.go approve.go secret.go event.go transport.go result.go usage.go errors.go command.go doc.go`)

// maxUpward is how many of the uses, which are about 170, may run the other way.
const maxUpward = 15

// A file may use what another declares outside of its types. That runs in one direction,
// but for exceptions.
func TestFilesPointDownwards(t *testing.T) {
	names, err := filepath.Glob("*.go")
	assert.NilError(t, err)
	files, declared := map[string]*ast.File{}, map[string]string{}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		assert.NilError(t, err)
		files[name] = f
		for what := range f.Scope.Objects {
			declared[what] = name
		}
	}
	var upward []string
	uses := 0
	for name, f := range files {
		assert.Assert(t, slices.Contains(fileOrder, name), "%s has no place in fileOrder", name)
		seen := map[string]bool{name: true, "": true}
		for _, id := range f.Unresolved {
			to := declared[id.Name]
			if seen[to] {
				continue
			}
			seen[to] = true
			uses++
			if slices.Index(fileOrder, to) < slices.Index(fileOrder, name) {
				upward = append(upward, name+" uses "+id.Name+" of "+to)
			}
		}
	}
	slices.Sort(upward)
	assert.Assert(t, len(upward) <= maxUpward, "%d of %d:\n%s", len(upward), uses, strings.Join(upward, "\n"))
}
