package deps

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/internal/problems"
	"github.com/seed-64a260eb/cofferdam/internal/shellquote"
)

// Functions is a Python module that later sessions can import, with the packages that it
// needs.
type Functions struct {
	// Module is the name of the module: an identifier of ASCII letters, digits and
	// underscores that is not a keyword. If empty, it is "functions".
	Module string
	// Source is the text of the module. It may have somewhat fewer bytes than
	// [execpolicy.MaxText], and each single quote counts as four.
	Source string
	// Requirements are the packages that pip installs, such as "numpy>=2". If empty, pip
	// is not needed. A requirement must not begin with "-". To name an index, set
	// PIP_INDEX_URL in the recipe's Env.
	Requirements []string
}

// store writes a module. A link that a package has left in its place is not written
// through, and a package of its name would hide it.
const store = `if [ -e %[1]s ] || [ -L %[1]s ] || [ -e %[1]s.py ] || [ -L %[1]s.py ]; then
	echo 'a requirement has the name of the module %[1]s' >&2
	false
else
	printf %%s %[2]s >%[1]s.py
fi`

// tryImport imports a module. One of Python's own, such as sys or os, comes before what
// is in a directory.
const tryImport = `python3 -c 'import os
ours = os.path.abspath("%[1]s.py")
import %[1]s as module
if getattr(module, "__file__", None) != ours:
    raise SystemExit("Python has another module %[1]s, which comes first")'`

// Recipe returns the recipe that installs the requirements, stores the module, and
// imports it once. So [Build] fails, and quotes Python, if a package can't be installed,
// if the module needs one that is not among the requirements, if it has a syntax error,
// or if Python has a module of that name that comes first. The image needs python3, and
// pip if there are requirements. pip unpacks in /tmp, which must be large enough: see
// [execpolicy.DockerPolicy.Tmpfs].
//
// An error wraps [execpolicy.ErrInvalid].
func (f Functions) Recipe() (Recipe, error) {
	if f.Module == "" {
		f.Module = "functions"
	}
	var errs []error
	refuse := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if !shellquote.IsName(f.Module) {
		refuse("the module's name %q is not an identifier", f.Module)
	} else if slices.Contains(keywords, f.Module) {
		refuse("the module's name %q is a keyword of Python", f.Module)
	}
	if strings.Contains(f.Source, "\x00") {
		refuse("the source holds a NUL byte")
	}
	source := shellquote.Quote(f.Source)
	write := fmt.Sprintf(store, f.Module, source)
	if excess := len(write) - maxScript; excess > 0 {
		refuse("the source has %d bytes, where each single quote counts four, and may have %d: make two modules of it", len(source)-2, len(source)-2-excess)
	}
	install := "python3 -m pip install --no-input --no-cache-dir --disable-pip-version-check --target ."
	for _, r := range f.Requirements {
		if strings.TrimSpace(r) == "" || strings.HasPrefix(strings.TrimSpace(r), "-") || strings.ContainsAny(r, "\x00\r\n") {
			refuse("%q is not a requirement", r)
		}
		install += " " + shellquote.Quote(r)
	}
	if err := problems.Join(errs...); err != nil {
		return Recipe{}, err
	}
	var r Recipe
	if len(f.Requirements) > 0 {
		r.Scripts = append(r.Scripts, install)
	}
	r.Scripts = append(r.Scripts, write, fmt.Sprintf(tryImport, f.Module))
	return r, nil
}

// keywords are those of Python 3.14.
var keywords = strings.Fields(`False None True and as assert async await break class continue def del elif else except finally for from
	global if import in is lambda nonlocal not or pass raise return try while with yield`)

// stubs prints the head and the docstring of each public function of a module.
const stubs = `import ast, sys
for f in ast.parse(sys.stdin.buffer.read()).body:
    if isinstance(f, (ast.FunctionDef, ast.AsyncFunctionDef)) and not f.name.startswith("_"):
        f.body = f.body[:ast.get_docstring(f) is not None] + [ast.Expr(ast.Constant(...))]
        f.decorator_list = []
        print(ast.unparse(f), end="\n\n")
`

// Stubs returns the signature and the docstring of each public function of the module,
// with an ellipsis for its body, as text for a prompt. The session's python3, of version
// 3.9 or later, parses the source and does not run it. Use a new session, because what
// ran in it before could make it lie. The error wraps [ErrBuild] if the source is not
// valid Python, if python3 is missing, too old or takes too long, or if the text has more
// than [execpolicy.Limits.MaxOutputBytes]. Any other error is that of
// [execpolicy.Session.Run].
func (f Functions) Stubs(ctx context.Context, s *execpolicy.Session) (string, error) {
	r, err := s.Run(ctx, execpolicy.Command{Argv: []string{"python3", "-I", "-c", stubs}, Stdin: strings.NewReader(f.Source)})
	if err != nil {
		return "", err
	}
	if r.Outcome != execpolicy.OutcomeExited || r.ExitCode != 0 || r.StdoutInfo.DroppedBytes > 0 {
		return "", fmt.Errorf("%w: the stubs: %v, exit code %d: %s", ErrBuild, r.Outcome, r.ExitCode, output(r))
	}
	return string(r.Stdout), nil
}
