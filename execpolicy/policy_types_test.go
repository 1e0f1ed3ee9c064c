package execpolicy_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
)

// A source is a parsed file, and the import path of its package.
type source struct {
	pkg  string
	file *ast.File
}

// nameOf returns the type that an expression names, as "import path.Name", or "" for one
// that names none. A pointer is to the type that it names.
func (s source) nameOf(expr ast.Expr) string {
	switch e := expr.(type) {
	case *ast.ParenExpr:
		return s.nameOf(e.X)
	case *ast.StarExpr:
		return s.nameOf(e.X)
	case *ast.Ident:
		return s.pkg + "." + e.Name
	case *ast.SelectorExpr:
		x, _ := e.X.(*ast.Ident)
		for _, spec := range s.file.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil || x == nil {
				continue
			}
			name := path.Base(imported)
			if spec.Name != nil {
				name = spec.Name.Name
			}
			if x.Name == name {
				return imported + "." + e.Sel.Name
			}
		}
	}
	return ""
}

// policiesIn returns the concrete policies: the types that have a method Spawn which
// returns a *Process, those that embed a policy, and what else those are called.
func policiesIn(sources []source) map[string]bool {
	const pkg = module + "/execpolicy"
	found := map[string]bool{}
	isPolicy := func(name string) bool { return found[name] || name == pkg+".Policy" }
	for more := true; more; {
		before := len(found)
		for _, s := range sources {
			for _, decl := range s.file.Decls {
				switch d := decl.(type) {
				case *ast.FuncDecl:
					results := d.Type.Results
					if d.Recv != nil && d.Name.Name == "Spawn" && results != nil &&
						s.nameOf(results.List[0].Type) == pkg+".Process" {
						found[s.nameOf(d.Recv.List[0].Type)] = true
					}
				case *ast.GenDecl:
					for _, spec := range d.Specs {
						t, ok := spec.(*ast.TypeSpec)
						if !ok {
							continue
						}
						policy := t.Assign.IsValid() && found[s.nameOf(t.Type)]
						if str, ok := t.Type.(*ast.StructType); ok {
							policy = slices.ContainsFunc(str.Fields.List, func(f *ast.Field) bool {
								return f.Names == nil && isPolicy(s.nameOf(f.Type))
							})
						}
						if policy {
							found[s.pkg+"."+t.Name.Name] = true
						}
					}
				}
			}
		}
		more = len(found) > before
	}
	return found
}

// asserted returns where a source asks whether a value is one of the policies, outside of
// the package that defines that one.
func (s source) asserted(fset *token.FileSet, policies map[string]bool) []string {
	var found []string
	look := func(expr ast.Expr) {
		name := s.nameOf(expr)
		if expr != nil && policies[name] && !strings.HasPrefix(name, s.pkg+".") {
			found = append(found, fmt.Sprintf("%v: %s", fset.Position(expr.Pos()), name))
		}
	}
	ast.Inspect(s.file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.TypeAssertExpr:
			look(n.Type)
		case *ast.TypeSwitchStmt:
			for _, clause := range n.Body.List {
				for _, expr := range clause.(*ast.CaseClause).List {
					look(expr)
				}
			}
		}
		return true
	})
	return found
}

// A policy that wraps another has its methods and another type. So no package may ask
// whether a policy is a DockerPolicy: what it wants of one is an interface, such as
// WorkspacePolicy.
func TestNoPackageAsksForTheTypeOfAPolicy(t *testing.T) {
	fset := token.NewFileSet()
	var sources []source
	err := filepath.WalkDir("..", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(fset, name, nil, parser.SkipObjectResolution)
		dir := strings.TrimPrefix(filepath.ToSlash(filepath.Dir(name)), "../")
		sources = append(sources, source{module + "/" + dir, file})
		return err
	})
	assert.NilError(t, err)
	policies := policiesIn(sources)
	var exported []string
	for name := range policies {
		if _, name, _ = strings.Cut(path.Base(name), "."); ast.IsExported(name) {
			exported = append(exported, name)
		}
	}
	slices.Sort(exported)
	assert.DeepEqual(t, exported, []string{"DockerPolicy", "HostPolicy", "Policy"}) // TestWrappedPolicyRefuses tries these
	for _, s := range sources {
		for _, place := range s.asserted(fset, policies) {
			t.Errorf("%s is asked for outside of its package", place)
		}
	}
}

// What TestNoPackageAsksForTheTypeOfAPolicy looks for is found, however it is written.
func TestAskingForTheTypeOfAPolicyIsFound(t *testing.T) {
	const (
		policy = `package execpolicy
			type Policy interface { Spawn() (*Process, error) }
			type Process struct{}
			type Docker struct{}
			func (p Docker) Spawn() (*Process, error) { _ = any(p).(Docker); return nil, nil }`
		others = `package others
			import "` + module + `/execpolicy"
			type Alias = execpolicy.Docker
			type Wraps struct { execpolicy.Policy }
			type Embeds struct { *Alias }
			type Holds struct { p execpolicy.Policy }
			type Auditor struct{}
			func (Auditor) Spawn() error { return nil }`
		asks = `package asks
			import "` + module + `/execpolicy"
			import named "` + module + `/execpolicy"
			import "` + module + `/others"
			func _(p any) { %s }`
	)
	fset := token.NewFileSet()
	parsed := func(pkg, text string) source {
		file, err := parser.ParseFile(fset, pkg, text, parser.SkipObjectResolution)
		assert.NilError(t, err, text)
		return source{module + "/" + pkg, file}
	}
	sources := []source{parsed("others", others), parsed("execpolicy", policy)}
	policies := policiesIn(sources)
	for _, s := range sources {
		assert.Equal(t, len(s.asserted(fset, policies)), 0)
	}
	for statement, found := range map[string]bool{
		"_ = p.(execpolicy.Docker)":                            true,
		"_, ok := p.(*execpolicy.Docker); _ = ok":              true,
		"_ = p.(named.Docker)":                                 true,
		"switch p.(type) { case int, others.Alias: }":          true,
		"switch q := p.(type) { case (*others.Wraps): _ = q }": true,
		"if f(p.(others.Embeds)) { return }":                   true,
		"_ = p.(execpolicy.Policy)":                            false,
		"_ = p.(others.Holds)":                                 false,
		"_ = p.(others.Auditor)":                               false,
		"var d execpolicy.Docker; _, _ = d, p.(int)":           false,
		"switch p.(type) { case nil, error: default: }":        false,
	} {
		s := parsed("asks", fmt.Sprintf(asks, statement))
		assert.Check(t, len(s.asserted(fset, policies)) > 0 == found, statement)
	}
}
