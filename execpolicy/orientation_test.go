package execpolicy_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
)

// declaredIn returns the names that a file declares: those of the package, and, behind
// the name of a type and a dot, those of its methods and fields. What is in a function is
// not among them.
func declaredIn(file *ast.File) []string {
	var names []string
	add := func(of string, idents ...*ast.Ident) {
		for _, id := range idents {
			names = append(names, of+id.Name)
		}
	}
	for _, decl := range file.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			of := ""
			if d.Recv != nil {
				of = nameOfType(d.Recv.List[0].Type) + "."
			}
			add(of, d.Name)
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch s := spec.(type) {
				case *ast.ValueSpec:
					add("", s.Names...)
				case *ast.TypeSpec:
					add("", s.Name)
					for _, field := range fieldsOf(s.Type) {
						add(s.Name.Name+".", field.Names...)
					}
				}
			}
		}
	}
	return names
}

// nameOfType returns the name of a receiver's type.
func nameOfType(expr ast.Expr) string {
	switch e := expr.(type) {
	case *ast.StarExpr:
		return nameOfType(e.X)
	case *ast.IndexExpr:
		return nameOfType(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}

// fieldsOf returns the fields of a struct, and the methods of an interface.
func fieldsOf(expr ast.Expr) []*ast.Field {
	switch e := expr.(type) {
	case *ast.StructType:
		return e.Fields.List
	case *ast.InterfaceType:
		return e.Methods.List
	}
	return nil
}

// What tells a newcomer where things are must not name what is gone, nor say that it is
// in a file in which it is not.
func TestOrientationNamesWhatIsThere(t *testing.T) {
	text, err := os.ReadFile("../.github/CONTRIBUTING.md")
	assert.NilError(t, err)
	_, section, ok := strings.Cut(string(text), "\n## Where things are\n")
	assert.Assert(t, ok)
	section = strings.Join(strings.Fields(section), " ")

	files := map[string]bool{}
	places := map[string][]string{} // the files that declare a name
	fset := token.NewFileSet()
	assert.NilError(t, filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		files[d.Name()] = true
		if filepath.Ext(path) != ".go" {
			return nil
		}
		file, err := parser.ParseFile(fset, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, name := range declaredIn(file) {
			for _, called := range []string{name, file.Name.Name + "." + name} {
				places[called] = append(places[called], d.Name())
			}
		}
		return nil
	}))
	const quoted = "`([A-Za-z]+(?:\\.[A-Za-z]+)?)`"
	names := regexp.MustCompile(quoted).FindAllStringSubmatch(section, -1)
	assert.Assert(t, len(names) > 50, "%d names", len(names))
	for _, name := range names {
		assert.Check(t, places[name[1]] != nil, "%s is not declared", name[1])
	}
	for _, file := range regexp.MustCompile(`[A-Za-z_]+\.(go|sh|md)\b`).FindAllString(section, -1) {
		assert.Check(t, files[file], "there is no %s", file)
	}

	seen := 0
	declares := func(file, list string) {
		for _, name := range regexp.MustCompile(quoted).FindAllStringSubmatch(list, -1) {
			seen++
			assert.Check(t, slices.Contains(places[name[1]], file), "%s is not in %s", name[1], file)
		}
	}
	// "`A`, the list of `B` and `C`, all in f.go", "`A` in f.go" and "f.go (`A`, `B`)".
	for _, m := range regexp.MustCompile(`([^;:]*), all in ([a-z_]+\.go)`).FindAllStringSubmatch(section, -1) {
		declares(m[2], m[1])
	}
	for _, m := range regexp.MustCompile("("+quoted+"),? in ([a-z_]+\\.go)").FindAllStringSubmatch(section, -1) {
		declares(m[3], m[1])
	}
	for _, m := range regexp.MustCompile("([a-z_]+\\.go) \\((`[^)]*)\\)").FindAllStringSubmatch(section, -1) {
		declares(m[1], m[2])
	}
	assert.Assert(t, seen > 10, "%d names in files", seen)
}
