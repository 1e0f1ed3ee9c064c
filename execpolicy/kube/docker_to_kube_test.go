package kube

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
)

// A program moves to a cluster by changing at most twelve lines.
func TestMoveTakesTwelveLines(t *testing.T) {
	text, err := os.ReadFile("example_test.go")
	assert.NilError(t, err)
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, "example_test.go", text, 0)
	assert.NilError(t, err)
	bodies := map[string][]string{}
	for _, decl := range file.Decls {
		if f, ok := decl.(*ast.FuncDecl); ok {
			body := string(
				text[fset.Position(f.Body.Lbrace).Offset:fset.Position(f.Body.Rbrace).Offset])
			bodies[f.Name.Name] = strings.Split(body, "\n")
		}
	}
	before, after := map[string]int{}, 0
	for _, line := range bodies["Example_oneMachine"] {
		before[strings.Join(strings.Fields(line), " ")]++
	}
	for _, line := range bodies["Example_cluster"] {
		line = strings.Join(strings.Fields(line), " ")
		if strings.HasPrefix(line, "// Output") {
			continue
		}
		if before[line]--; before[line] < 0 {
			after++
		}
	}
	t.Log(after, "lines differ")
	assert.Assert(t, after > 0 && after <= 12)
}
