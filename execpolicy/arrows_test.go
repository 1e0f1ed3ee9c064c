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
	outside.go options.go spawn.go mounted.go lookup.go labels.go idle.go egress.go compat.go missing.go job.go
	host.go jobrun.go run.go sweep.go validate.go render.go mounts.go user.go files.go trees.go transfer.go
	presets.go stdin.go session.go transport.go engine.go worker.go auditor.go outcome.go seccomp.go docker.go
	conn.go policy.go approve.go imageid.go command.go secret.go event.go result.go usage.go errors.go doc.go`)

// maxUpward is how many of the uses, which are about 200, may run the other way.
const maxUpward = 26

// A file may use what another declares: its names and, where no other file has a method
// of that name, its methods. That runs in one direction, but for exceptions. Exported
// methods are left out, because types of other packages have the same names.
func TestFilesPointDownwards(t *testing.T) {
	names, err := filepath.Glob("*.go")
	assert.NilError(t, err)
	files, declared := map[string]*ast.File{}, map[string]string{}
	methods := map[string][]string{} // the files that declare one of that name
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
		for _, decl := range f.Decls {
			d, ok := decl.(*ast.FuncDecl)
			if ok && d.Recv != nil && !d.Name.IsExported() && !slices.Contains(methods[d.Name.Name], name) {
				methods[d.Name.Name] = append(methods[d.Name.Name], name)
			}
		}
	}
	var upward []string
	uses := 0
	for name, f := range files {
		assert.Assert(t, slices.Contains(fileOrder, name), "%s has no place in fileOrder", name)
		seen := map[string]bool{name: true, "": true}
		use := func(what, to string) {
			if seen[to] {
				return
			}
			seen[to] = true
			uses++
			if slices.Index(fileOrder, to) < slices.Index(fileOrder, name) {
				upward = append(upward, name+" uses "+what+" of "+to)
			}
		}
		for _, id := range f.Unresolved {
			use(id.Name, declared[id.Name])
		}
		ast.Inspect(f, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			selector, ok := call.Fun.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			if in := methods[selector.Sel.Name]; len(in) == 1 {
				use(selector.Sel.Name, in[0])
			}
			return true
		})
	}
	slices.Sort(upward)
	assert.Assert(t, len(upward) <= maxUpward, "%d of %d:\n%s", len(upward), uses, strings.Join(upward, "\n"))
}
