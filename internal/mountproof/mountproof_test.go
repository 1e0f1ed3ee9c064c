package mountproof_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/internal/mountproof"
	"github.com/seed-64a260eb/cofferdam/internal/policyerr"
)

// here runs a script on this machine, as a container does that shows all of it.
func here(script string, limit int) (said string, ok bool, err error) {
	out, err := exec.Command("sh", "-c", script).Output()
	return string(out[:min(len(out), limit)]), err == nil, nil
}

// apart is here for a container with a kernel of its own, whose table of mounts tells
// nothing.
func apart(script string, limit int) (said string, ok bool, err error) {
	if strings.Contains(script, "mountinfo") {
		return "another-boot\n", true, nil
	}
	return here(script, limit)
}

func TestProof(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	link := filepath.Join(t.TempDir(), "link")
	assert.NilError(t, os.Symlink(dir, link))
	for name, ask := range map[string]func(string, int) (string, bool, error){"kernel": here, "file": apart} {
		t.Run(name, func(t *testing.T) {
			assert.NilError(t, mountproof.At(dir, dir).Prove(ask))
			assert.NilError(t, mountproof.At(link, dir).Prove(ask))
			err := mountproof.At(dir, other).Prove(ask)
			assert.ErrorIs(t, err, policyerr.ErrNoMount)
			assert.ErrorContains(t, err, "another directory of that name")
		})
	}
	left, err := os.ReadDir(dir)
	assert.NilError(t, err)
	assert.Equal(t, len(left), 0)
}

// The kernel writes a blank in the name of a mount as an escape, which the shell's words
// must not undo.
func TestTableIsToldToTheByte(t *testing.T) {
	for _, shell := range []string{"sh", "dash", "bash", "busybox"} {
		path, err := exec.LookPath(shell)
		if err != nil {
			continue
		}
		table := filepath.Join(t.TempDir(), "mountinfo")
		line := `3 1 0:1 /a\040b /w rw - x y z` + "\n"
		assert.NilError(t, os.WriteFile(table, []byte(line), 0o600))
		cmd := exec.Command(path, "-c", strings.ReplaceAll(mountproof.TellMounts, "/proc/self/mountinfo", table))
		if shell == "busybox" {
			cmd.Args = append([]string{path, "sh"}, cmd.Args[1:]...)
		}
		out, err := cmd.Output()
		assert.NilError(t, err)
		assert.Assert(t, strings.HasSuffix(string(out), "\n"+line), "%s: %q", shell, out)
	}
}

// What nobody is to see needs no proof, and a shell that is gone proves nothing.
func TestNothingIsAsked(t *testing.T) {
	gone := errors.New("gone")
	ask := func(string, int) (string, bool, error) { return "", false, gone }
	assert.NilError(t, mountproof.Dir{}.Prove(ask))
	assert.Equal(t, mountproof.At(t.TempDir(), "/workspace").Prove(ask), gone)
}

func TestDirThatIsGone(t *testing.T) {
	err := mountproof.At(filepath.Join(t.TempDir(), "gone"), "/workspace").Prove(apart)
	assert.ErrorIs(t, err, policyerr.ErrNoMount)
	assert.ErrorIs(t, err, os.ErrNotExist)
}

func TestUnseen(t *testing.T) {
	dir := t.TempDir()
	d := mountproof.At(dir, "/workspace")
	for said, want := range map[string]bool{
		"bind source path does not exist: " + dir:       true,
		"statfs " + dir + ": no such file or directory": true,
		"bind source path does not exist: /other":       false,
		dir + ": permission denied":                     false,
		"":                                              false,
	} {
		assert.Equal(t, d.Unseen([]byte(said)), want, said)
	}
	assert.Assert(t, !mountproof.Dir{}.Unseen([]byte("bind source path does not exist: ")))
}
