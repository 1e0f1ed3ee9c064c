//go:build linux

package execpolicy_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/execpolicy"
)

// supervisors runs f in sessions whose supervisor is one shell after another. Programs
// are those of busybox on the engines, and of the machine, GNU's as a rule, on the fake
// one.
func supervisors(t *testing.T, f func(t *testing.T, p place, policy placePolicy)) {
	tmpfs := map[string]int64{"/tmp": 4 << 20, "/full": 64 << 10}
	everywhere(t, func(t *testing.T, p place) {
		if p.engine == clusterEngine {
			// Nothing can be put in the place of its sh.
			policy := p.policy()
			policy.Tmpfs = tmpfs
			f(t, p, policy)
			return
		}
		found := p.shells(t)
		for _, name := range slices.Sorted(maps.Keys(workersAt(t, p))) {
			t.Run(name, func(t *testing.T) {
				i := slices.IndexFunc(found, func(path string) bool { return filepath.Base(path) == workers[name][0] })
				assert.Assert(t, i >= 0, found)
				dir := filepath.Join(t.TempDir(), "shells")
				assert.NilError(t, os.Mkdir(dir, 0o755))
				assert.NilError(t, os.Symlink(found[i], filepath.Join(dir, "sh")))
				policy := p.policy()
				policy.Mounts = []dockercli.Mount{{Source: dir, Target: "/shells"}}
				policy.ExtraRunArgs = []string{"--env=PATH=/shells:/usr/local/bin:/usr/bin:/bin"}
				policy.AllowUnsafeArgs = []string{"env"}
				policy.Tmpfs = tmpfs
				f(t, p, policy)
			})
		}
	})
}

// situations are the names that stand in the documentation's tables, and what is there.
const situations = `rm -f /full/* && mkdir -p /tmp/t && cd /tmp/t && chmod -R u+rwx . && rm -rf ./* && mkdir closed blind ro dir && ln -s loop loop &&
>file && >unreadable && >closed/x && >blind/x && >ro/x && >dir/x && chmod 0 closed unreadable && chmod 333 blind && chmod 555 ro &&
>/full/x && ! cat /dev/zero 2>/dev/null >/full/filler`

var situated = map[string]string{
	"nothing of that name":         "missing",
	"no parent":                    "missing/x",
	"a file as its parent":         "file/x",
	"a parent one may not enter":   "closed/x",
	"links in a circle":            "loop",
	"a name that is too long":      strings.Repeat("n", 300),
	"a file":                       "file",
	"a directory with a file":      "dir",
	"a file one may not read":      "unreadable",
	"a directory one may not read": "blind",
	"a parent one may not change":  "ro/x",
	"a read-only file system":      "/bin",
	"a disk that is full":          "/full/x",
}

var methods = map[string]func(ctx context.Context, s session, name string) error{
	"ReadFile": func(ctx context.Context, s session, name string) error {
		_, err := s.ReadFile(ctx, name, 0)
		return err
	},
	"ReadDir":  func(ctx context.Context, s session, name string) error { _, err := s.ReadDir(ctx, name); return err },
	"Stat":     func(ctx context.Context, s session, name string) error { _, err := s.Stat(ctx, name); return err },
	"CopyOut":  func(ctx context.Context, s session, name string) error { return s.CopyOut(ctx, name, io.Discard) },
	"Remove":   func(ctx context.Context, s session, name string) error { return s.Remove(ctx, name) },
	"MkdirAll": func(ctx context.Context, s session, name string) error { return s.MkdirAll(ctx, name, 0o755) },
	"WriteFiles": func(ctx context.Context, s session, name string) error {
		return s.WriteFiles(ctx, name, map[string][]byte{"f": noise(100000)})
	},
	"CopyIn": func(ctx context.Context, s session, name string) error {
		return s.CopyFS(ctx, name, fstest.MapFS{"f": {Data: noise(100000)}})
	},
	"WriteFile": func(ctx context.Context, s session, name string) error {
		// Files go different ways by their sizes.
		err := s.WriteFile(ctx, name, noise(3), 0o644)
		large := s.WriteFile(ctx, name, noise(100000), 0o644)
		if fmt.Sprint(err) != fmt.Sprint(large) {
			return fmt.Errorf("%v, but of a large file %v", err, large)
		}
		return err
	},
}

// The package's documentation has tables of errors. They hold for both users, whoever the
// shell takes itself for.
func TestErrorsOfFiles(t *testing.T) {
	doc, err := os.ReadFile("doc.go")
	assert.NilError(t, err)
	supervisors(t, func(t *testing.T, p place, policy placePolicy) {
		users := []string{"", "0:0"}
		if p.engine == clusterEngine {
			users = users[:1] // its namespace admits no root
		}
		for _, policy.User = range users {
			spec := p.spec()
			s := open(t, policy, spec)
			var columns []string
			made := false
			rows := map[string]bool{}
			for line := range strings.Lines(string(doc)) {
				cells := strings.Fields(strings.TrimPrefix(line, "//"))
				if len(cells) > 0 && methods[cells[0]] != nil && strings.HasPrefix(line, "//\t") {
					columns = cells
					continue
				}
				var at string
				for what, name := range situated {
					if strings.HasPrefix(line, "//\t"+what+"  ") {
						at, cells = name, strings.Fields(line[len("//\t"+what):])
					}
				}
				if at == "" {
					continue
				}
				rows[at] = true
				assert.Equal(t, len(cells), len(columns), line)
				for i, cell := range cells {
					if cell == "-" {
						continue
					}
					if !made {
						s.ok(situations)
						made = true
					}
					name := at
					if name[0] != '/' {
						name = "/tmp/t/" + name
					}
					if columns[i] != "Remove" && slices.Contains([]string{"ro/x", "/bin", "/full/x"}, at) {
						name += "new"
					}
					err := methods[columns[i]](t.Context(), s, name)
					what := fmt.Sprintf("%q, %s of %s: %v", policy.User, columns[i], at, err)
					if cell == "done" {
						made = false
						assert.NilError(t, err, what)
						continue
					}
					assert.Assert(t, errnos[cell] != 0, cell)
					assert.ErrorIs(t, err, errnos[cell], what)
					var where *fs.PathError
					assert.Assert(t, errors.As(err, &where), what)
					assert.Assert(t, !errors.Is(err, execpolicy.ErrTransfer), what)
					assert.Assert(t, !strings.Contains(err.Error(), "sh:") && !strings.Contains(err.Error(), "eval"), what)
				}
				assert.Equal(t, s.ok("ls -A /tmp/t /tmp/t/dir /full | grep cofferdam; :"), "", line)
			}
			assert.Equal(t, len(rows), len(situated))
			assert.NilError(t, s.Close())
		}
	})
}

var errnos = map[string]syscall.Errno{
	"EACCES": syscall.EACCES, "EPERM": syscall.EPERM, "EEXIST": syscall.EEXIST, "EISDIR": syscall.EISDIR,
	"ELOOP":        syscall.ELOOP,
	"ENAMETOOLONG": syscall.ENAMETOOLONG, "ENOENT": syscall.ENOENT, "ENOSPC": syscall.ENOSPC, "ENOTDIR": syscall.ENOTDIR,
	"ENOTEMPTY": syscall.ENOTEMPTY, "EROFS": syscall.EROFS, "EDQUOT": syscall.EDQUOT, "ETXTBSY": syscall.ETXTBSY,
}
