package execpolicy_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
)

// What tells a newcomer where things are must not name what is gone.
func TestOrientationNamesWhatIsThere(t *testing.T) {
	text, err := os.ReadFile("../.github/CONTRIBUTING.md")
	assert.NilError(t, err)
	_, section, ok := strings.Cut(string(text), "\n## Where things are\n")
	assert.Assert(t, ok)
	there := map[string]bool{} // a file, a declaration, type.method, or "." and a field or a constant
	declared := regexp.MustCompile(`(?m)^(?:func (?:\(\w+ \*?(\w+)\) )?|type |var |const |\t)(\w+)`)
	assert.NilError(t, filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		there[d.Name()] = true
		if filepath.Ext(path) != ".go" {
			return nil
		}
		source, err := os.ReadFile(path)
		for _, m := range declared.FindAllSubmatch(source, -1) {
			switch of, name := string(m[1]), string(m[2]); {
			case of != "":
				there[of+"."+name] = true
			case m[0][0] == '\t':
				there["."+name] = true
			default:
				there[name] = true
			}
		}
		return err
	}))
	names := regexp.MustCompile("`([A-Za-z]+)(\\.[A-Za-z]+)?`").FindAllStringSubmatch(section, -1)
	assert.Assert(t, len(names) > 50, "%d names", len(names))
	for _, name := range names {
		of, member := name[1], name[2]
		isConst := member == "" && there["."+of]
		assert.Check(t, there[of+member] || there[of] && there[member] || isConst, "%s is not declared", name[0])
	}
	for _, file := range regexp.MustCompile(`[a-z]+\.(go|sh)\b`).FindAllString(section, -1) {
		assert.Check(t, there[file], "there is no %s", file)
	}
}
