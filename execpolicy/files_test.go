//go:build linux

package execpolicy_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest/leftout"
	"github.com/seed-64a260eb/cofferdam/internal/shellquote"
)

// noise returns bytes that repeat nothing a transfer could lose or double without being
// seen.
func noise(size int) []byte {
	b := make([]byte, size)
	x := uint32(size) + 1
	for i := range b {
		x ^= x << 13
		x ^= x >> 17
		x ^= x << 5
		b[i] = byte(x)
	}
	return b
}

func (s session) write(name string, data []byte, perm fs.FileMode) {
	s.t.Helper()
	assert.NilError(s.t, s.WriteFile(s.t.Context(), name, data, perm))
}

func (s session) read(name string) []byte {
	s.t.Helper()
	data, err := s.ReadFile(s.t.Context(), name, 100<<20)
	assert.NilError(s.t, err)
	return data
}

// empty checks that nothing of a transfer is left inside.
func (s session) empty() {
	s.t.Helper()
	r := s.run(execpolicy.Command{Script: `ls -A "$PWD" | grep '^.cofferdam-'; ls -A /.cofferdam 2>/dev/null | ` +
		`grep -vx -e script -e died; :`, Timeout: time.Minute})
	assert.Equal(s.t, r.Text(), "<no output>")
}

var awkwardNames = []string{"a b", "-rf", "two\nlines\n", "ünï", "it's", `"$HOME"`, "*", "`x`", `\`, "-",
	".x", "a'\nb", strings.Repeat("n", 200)}

var fileCases = []conformanceCase{
	{name: "sizes", do: func(t *testing.T, s session) {
		for _, size := range []int{0, 1, 4095, 4096, 65535, 65536, 65537, 64<<10 + 256<<10 + 1, 5<<20 + 3} {
			data := noise(size)
			s.write("file", data, 0o644)
			assert.Assert(t, bytes.Equal(s.read("file"), data), size)
			assert.Equal(t, strings.TrimSpace(s.ok("wc -c <file")), fmt.Sprint(size))
		}
		s.empty()
	}},
	{name: "all bytes, operations and what looks like marks", do: func(t *testing.T, s session) {
		var all []byte
		for i := range 256 {
			all = append(all, byte(i), '\n', 0xff, 0)
		}
		for _, data := range [][]byte{all, []byte("kKILL\nw\nh\n"), []byte(strings.Repeat("\x00", 70000)), oldMark(t, s)} {
			s.write("file", data, 0o644)
			assert.DeepEqual(t, s.read("file"), data)
		}
	}},
	{name: "names", do: func(t *testing.T, s session) {
		for _, name := range awkwardNames {
			s.write(name, []byte(name), 0o600)
			assert.Equal(t, string(s.read(name)), name)
			s.ok("mkdir sub; cd sub")
			s.write("sub/"+name, []byte("below"), 0o600)
			assert.Equal(t, string(s.read("./sub/../sub/"+name)), "below")
			assert.Equal(t, string(s.read(s.ok("pwd")+"/"+name)), "below")
			s.ok("cd ..; rm -rf sub")
			assert.Equal(t, s.ok("cat <"+shellquote.Quote("./"+name)), strings.TrimSuffix(name, "\n"))
		}
		s.ok("rm -f ./* ./.x")
	}},
	{name: "names that are none", do: func(t *testing.T, s session) {
		for _, name := range []string{"", ".", "..", "sub/", "sub/..", "/", "a\x00b", strings.Repeat("x", 5000)} {
			err := s.WriteFile(t.Context(), name, nil, 0o644)
			assert.ErrorIs(t, err, execpolicy.ErrInvalid, "%q", name)
		}
		assert.ErrorIs(t, s.WriteFile(t.Context(), "a", nil, 0o644|fs.ModeSetuid), execpolicy.ErrInvalid)
		_, err := s.ReadFile(t.Context(), "a", -1)
		assert.ErrorIs(t, err, execpolicy.ErrInvalid)
		var at *fs.PathError
		assert.Assert(t, errors.As(err, &at) && at.Path == "a")
	}},
	{name: "permissions", do: func(t *testing.T, s session) {
		s.ok("umask 027")
		for _, perm := range []fs.FileMode{0o644, 0o755, 0o400, 0o777, 0} {
			for _, size := range []int{0, 100000} {
				s.write("file", noise(size), perm)
				assert.Equal(t, s.ok("umask 027; ls -l file | cut -c1-10"), perm.String())
			}
		}
		s.ok("rm -f file; umask 022")
	}},
	{name: "nothing of the shell's state matters", do: func(t *testing.T, s session) {
		s.ok("dd() { :; }; mv() { :; }; rm() { :; }; alias chmod=false; p=$PATH; PATH=/nowhere; set -C; " +
			"IFS=0123456789; set -f; ulimit -f 1")
		s.write("small", noise(70), 0o755)
		assert.Assert(t, bytes.Equal(s.read("small"), noise(70)))
		s.write("file", noise(70000), 0o644)
		assert.Assert(t, bytes.Equal(s.read("file"), noise(70000)))
		s.ok("unset -f dd mv rm; \\unalias chmod; PATH=$p; set +Cf; unset IFS")
		assert.Equal(t, strings.TrimSpace(s.ok("wc -c <file")), "70000")
		s.script("exit") // what was limited stays so
	}},
	{name: "the shell's state is kept, and jobs run on", do: func(t *testing.T, s session) {
		s.ok(">ticks; kept=5; (while :; do sleep 0.01; echo x >>ticks; done) & job=$!")
		s.write("file", nil, 0o644)
		s.read("file")
		was := s.ok("wc -l <ticks")
		wait(t, func() bool { return s.ok("wc -l <ticks") != was }, "the job does not run on")
		assert.Equal(t, s.ok("echo $kept; kill $job; wait $job; rm -f ticks"), "5")
	}},
	{name: "what is there is replaced and not followed", do: func(t *testing.T, s session) {
		s.ok("echo other >other; mkdir dir; mkfifo fifo; ln -s other link; ln -s nowhere dangling; ln -s dir " +
			"dirlink; ln other hard; ln -s /dev/zero device; ln -s fifo fifolink")
		for _, name := range []string{"fifo", "link", "dangling", "dirlink", "hard", "device", "fifolink"} {
			s.write(name, []byte("new"), 0o644)
			assert.Equal(t, string(s.read(name)), "new")
			assert.Equal(t, s.ok("[ -f "+name+" ] && [ ! -L "+name+" ] && cat other; ls -A dir"), "other", name)
		}
		// Files go different ways by their sizes.
		for _, size := range []int{0, 3, 100000} {
			err := s.WriteFile(t.Context(), "dir", noise(size), 0o644)
			assert.ErrorIs(t, err, execpolicy.ErrNotRegular)
		}
		assert.Equal(t, s.ok("ls -A dir; rm -rf dir *link device hard dangling fifo other"), "")
		s.empty()
	}},
	{name: "what can't be written", do: func(t *testing.T, s session) {
		s.ok(">file")
		for name, want := range map[string]error{
			"no/such/dir": fs.ErrNotExist,
			"file/below":  syscall.ENOTDIR,
			"/proc/x":     fs.ErrNotExist,
		} {
			for _, size := range []int{0, 3, 100000} {
				err := s.WriteFile(t.Context(), name, noise(size), 0o644)
				assert.ErrorIs(t, err, want, name)
			}
		}
		s.empty()
	}},
	{name: "what can't be read", do: func(t *testing.T, s session) {
		s.ok("mkfifo fifo; mkdir dir; ln -s fifo link; ln -s nowhere dangling; echo 12345 >file; echo secret " +
			">secret; chmod 0 secret")
		for name, want := range map[string]error{
			"fifo":      execpolicy.ErrNotRegular,
			"link":      execpolicy.ErrNotRegular,
			"dir":       execpolicy.ErrNotRegular,
			"/dev/zero": execpolicy.ErrNotRegular,
			"nothing":   fs.ErrNotExist,
			"dangling":  fs.ErrNotExist,
			"no/such":   fs.ErrNotExist,
		} {
			_, err := s.ReadFile(t.Context(), name, 0)
			assert.ErrorIs(t, err, want, name)
		}
		if s.ok("id -u") != "0" {
			_, err := s.ReadFile(t.Context(), "secret", 0)
			assert.ErrorIs(t, err, fs.ErrPermission)
		}
		s.ok("rm -rf fifo dir link dangling secret")
	}},
	{name: "a limit", do: func(t *testing.T, s session) {
		for _, size := range []int{6, 65536, 200000} {
			s.write("file", noise(size), 0o644)
			data, err := s.ReadFile(t.Context(), "file", int64(size))
			assert.NilError(t, err)
			assert.Assert(t, bytes.Equal(data, noise(size)))
			_, err = s.ReadFile(t.Context(), "file", int64(size)-1)
			assert.ErrorIs(t, err, execpolicy.ErrTooLarge)
		}
		s.ok("dd if=/dev/zero of=file bs=65536 seek=100000 count=1")
		_, err := s.ReadFile(t.Context(), "file", 0)
		assert.ErrorIs(t, err, execpolicy.ErrTooLarge)
		s.ok("rm -f file")
	}},
	{name: "a link and a file of the kernel's are read", do: func(t *testing.T, s session) {
		s.ok("echo x >file; ln -s file link")
		assert.Equal(t, string(s.read("link")), "x\n")
		assert.Assert(t, strings.HasPrefix(string(s.read("/proc/version")), "Linux"))
	}},
	{name: "a shell that is lost loses no file", do: func(t *testing.T, s session) {
		s.script("kill -9 $$")
		s.write("file", []byte("x"), 0o644)
		s.script("exit 3")
		assert.Equal(t, string(s.read("file")), "x")
	}},
	{name: "a context that has ended", do: func(t *testing.T, s session) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		assert.ErrorIs(t, s.WriteFile(ctx, "never", nil, 0o644), context.Canceled)
		_, err := s.ReadFile(ctx, "never", 0)
		assert.ErrorIs(t, err, context.Canceled)
		assert.Equal(t, s.ok("ls never 2>/dev/null; :"), "")
	}},
	{name: "two at once", do: func(t *testing.T, s session) {
		done := make(chan error)
		for i := range 4 {
			go func() { done <- s.WriteFile(t.Context(), fmt.Sprint("file", i), noise(300000+i), 0o644) }()
		}
		for range 4 {
			assert.NilError(t, <-done)
		}
		for i := range 4 {
			assert.Assert(t, bytes.Equal(s.read(fmt.Sprint("file", i)), noise(300000+i)))
		}
		s.ok("rm -f file?")
	}},
}

// onlyInside are cases that need that everything else is stopped.
var onlyInside = []conformanceCase{
	{name: "a flood of background jobs on both streams", do: func(t *testing.T, s session) {
		s.ok("yes & yes >&2 & (while :; do echo x >noise; done) &")
		wait(t, func() bool { return s.script(":").BackgroundBytes > 0 }, "there is no flood")
		data := noise(3 << 20)
		s.write("file", data, 0o644)
		assert.Assert(t, bytes.Equal(s.read("file"), data))
		assert.Equal(t, string(s.read("/proc/self/comm"))[:2], "dd")
		s.ok("kill $(jobs -p); wait; rm -f file noise")
		wait(t, func() bool { return s.script(":").BackgroundBytes == 0 }, "the flood goes on")
	}},
	{name: "what jobs print beside a transfer is counted", do: func(t *testing.T, s session) {
		s.script(":")
		s.ok("(while [ ! -e go ]; do sleep 0.01; done; echo LATE; >printed) & :")
		s.write("go", nil, 0o644)
		wait(t, func() bool { _, err := s.ReadFile(t.Context(), "printed", 0); return err == nil }, "the job does not go on")
		assert.Equal(t, s.script(":").BackgroundBytes, int64(len("LATE\n")))
		assert.Equal(t, s.script("rm -f go printed").BackgroundBytes, int64(0))
	}},
	{name: "a directory that is made meanwhile", do: func(t *testing.T, s session) {
		data := noise(24 << 20)
		var err error
		wait(t, func() bool {
			s.ok("rm -rf made; (until [ -e made ] || ls -A | grep -q '^.cofferdam-'; do :; done; mkdir made) & :")
			err = s.WriteFile(t.Context(), "made", data, 0o644)
			return s.ok("wait; [ ! -d made ] || echo yes") == "yes"
		}, "the file is there before the directory")
		assert.ErrorIs(t, err, execpolicy.ErrNotRegular)
		assert.Equal(t, s.ok("ls -A made; rm -rf made"), "")
		s.empty()
	}},
	{name: "jobs that plant fifos, links and directories wherever they can", do: func(t *testing.T, s session) {
		s.ok(`>other; for dir in /.cofferdam "$PWD"; do (while :; do for f in "$dir"/i[A-Z2-7]* "$dir"/.cofferdam-*; do
			[ -f "$f" ] && rm -f "$f" && case $RANDOM in *[0-4]) mkfifo "$f" ;; *) ln -s "$PWD/other" "$f" ;; esac; done; done) & done`)
		for i := range 10 {
			data := noise(600000 + i)
			err := s.WriteFile(t.Context(), "file", data, 0o644)
			if err == nil {
				assert.Assert(t, bytes.Equal(s.read("file"), data))
			} else {
				assert.ErrorIs(t, err, execpolicy.ErrTransfer)
			}
		}
		// What lies there now the jobs have put there.
		s.ok(`kill $(jobs -p); wait; [ ! -s other ] && rm -rf file other "$PWD"/.cofferdam-* /.cofferdam/i*`)
	}},
}

func TestFiles(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		policy := p.policy()
		policy.CommandTimeout = 4 * patience
		runCases(t, policy, p.spec(), append(fileCases, onlyInside...))
	})
}

// More than the supervisor's own directory holds.
func TestLargeFile(t *testing.T) {
	data := noise(50<<20 + 1)
	everywhere(t, func(t *testing.T, p place) {
		policy := p.policy()
		policy.CommandTimeout = time.Minute
		s := open(t, policy, p.spec())
		s.write("file", data, 0o600)
		assert.Assert(t, bytes.Equal(s.read("file"), data))
		s.empty()
	})
}

// oldMark returns what a mark looks like.
func oldMark(t *testing.T, s session) []byte {
	t.Helper()
	s.ok("printf '%s' ABCDEFGHIJKLMNOPQRSTUVWXYZ >mark")
	return append(s.read("mark"), "eZYXWVUTSRQPON 0 /ABCDEFGHIJKLMNOPQRSTUVWXYZ\n"...)
}

// cutOff cuts a transfer off, looks at what is left, and checks that the session is what
// it was. A machine under load may answer so late that the shell is lost, which is right,
// or the container, which leaves on the host what was begun there, at names: then it is
// done again.
func (s session) cutOff(cut, look func(), names ...string) {
	s.t.Helper()
	for try := 1; ; try++ {
		cut()
		if s.over() && try < tries {
			for _, name := range names {
				found, err := filepath.Glob(name)
				assert.NilError(s.t, err)
				for _, file := range found {
					assert.NilError(s.t, os.RemoveAll(file))
				}
			}
			assert.NilError(s.t, s.Restart(s.t.Context()))
			continue
		}
		look()
		r := s.run(execpolicy.Command{Script: "echo on", Timeout: time.Minute})
		s.empty()
		if !r.StateLost {
			return
		}
		assert.Assert(s.t, try < tries, "the shell is lost")
	}
}

// Whatever cuts a write off, the old file stays, and nothing else.
func TestFilesCutOff(t *testing.T) {
	data := noise(48 << 20)
	// begun waits until the file's first piece is in place, and then does what cuts it
	// off.
	begun := func(t *testing.T, names string, cut func()) {
		t.Helper()
		wait(t, func() bool { found, _ := filepath.Glob(names); return len(found) > 0 }, "the transfer does not begin")
		cut()
	}
	everywhere(t, func(t *testing.T, p place) {
		if p.engine.Remote {
			leftout.Skip(t, mountsNothing)
		}
		dir := newWorkspace(t, "workspace")
		spec := p.spec()
		spec.Workspace = dir
		policy := p.policy()
		policy.CommandTimeout = time.Minute
		s := open(t, policy, spec)
		s.write("file", []byte("old"), 0o640)
		begunNames := filepath.Join(dir, ".cofferdam-*")
		clean := func(t *testing.T) {
			t.Helper()
			entries, err := os.ReadDir(dir)
			assert.NilError(t, err)
			assert.Equal(t, len(entries), 1, "%v", entries)
			text, err := os.ReadFile(filepath.Join(dir, "file"))
			assert.NilError(t, err)
			assert.Assert(t, string(text) == "old", "it has %d bytes", len(text))
		}
		run := func(ctx context.Context) chan error {
			done := make(chan error, 1)
			go func() { done <- s.WriteFile(ctx, "file", data, 0o644) }()
			return done
		}
		t.Run("cancel", func(t *testing.T) {
			s.t = t
			s.cutOff(func() {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				done := run(ctx)
				begun(t, begunNames, cancel)
				assert.ErrorIs(t, <-done, context.Canceled)
			}, func() { clean(t) }, begunNames)
		})
		t.Run("deadline", func(t *testing.T) {
			policy := policy
			policy.CommandTimeout = 20 * time.Millisecond
			s := open(t, policy, spec)
			s.cutOff(func() {
				assert.ErrorIs(t, s.WriteFile(t.Context(), "file", data, 0o644), execpolicy.ErrTimeout)
			}, func() { clean(t) }, begunNames)
		})
		t.Run("disk full", func(t *testing.T) {
			policy := p.policy()
			policy.Tmpfs = map[string]int64{"/workspace": 3 << 20}
			s := open(t, policy, p.spec())
			s.write("file", []byte("old"), 0o640)
			err := s.WriteFile(t.Context(), "file", data, 0o644)
			assert.ErrorIs(t, err, syscall.ENOSPC)
			assert.Equal(t, s.ok("cat file; ls -A"), "oldfile")
			// A small one goes another way.
			s.script("cat /dev/zero >filler")
			err = s.WriteFile(t.Context(), "file", data[:5000], 0o644)
			assert.ErrorIs(t, err, syscall.ENOSPC)
			assert.Equal(t, s.ok("cat file; rm filler; ls -A"), "oldfile")
			s.empty()
			s.write("file", data[:2<<20], 0o640)
		})
		t.Run("everything inside is killed", func(t *testing.T) {
			s.t = t
			s.ok("(while ! ls -A | grep -q '^.cofferdam-'; do :; done; kill -9 -1) &")
			err := s.WriteFile(t.Context(), "file", data, 0o644)
			if err != nil {
				assert.ErrorIs(t, err, execpolicy.ErrTransfer)
				text, err := os.ReadFile(filepath.Join(dir, "file"))
				assert.NilError(t, err)
				// What was killed may have done all, and not have said so.
				assert.Assert(t, string(text) == "old" || bytes.Equal(text, data), "it has %d bytes", len(text))
			}
			// The killer may find the name of this one first.
			wait(t, func() bool { return s.WriteFile(t.Context(), "file", []byte("old"), 0o644) == nil },
				"nothing can be written")
			clean(t)
			wait(t, func() bool { return s.script("echo on").Text() == "on\n" }, "the session is beyond use")
			s.empty()
		})
		t.Run("close", func(t *testing.T) {
			done := run(t.Context())
			begun(t, begunNames, func() { assert.NilError(t, s.Close()) })
			assert.ErrorIs(t, <-done, execpolicy.ErrClosed)
			clean(t)
			assert.ErrorIs(t, s.WriteFile(t.Context(), "file", nil, 0o644), execpolicy.ErrClosed)
		})
		t.Run("the container is removed", func(t *testing.T) {
			s := open(t, policy, spec)
			p.remove(t, s.Name())
			err := s.WriteFile(t.Context(), "file", data, 0o644)
			assert.ErrorIs(t, err, execpolicy.ErrEnded)
			_, err = s.ReadFile(t.Context(), "file", 0)
			assert.ErrorIs(t, err, execpolicy.ErrEnded)
			clean(t)
		})
	})
}

// At the process limit nothing can be started inside. A transfer fails in time, and one
// that comes when there is room again does not.
func TestFilesAtTheProcessLimit(t *testing.T) {
	onEngines(t, func(t *testing.T, p place) {
		policy := p.policy()
		policy.PidsLimit, policy.CommandTimeout = 16, time.Second
		s := open(t, policy, p.spec())
		r := s.run(execpolicy.Command{Script: "i=0; while [ $i -lt 11 ]; do sleep 4741 & i=$((i + 1)); done; : ready",
			Timeout: time.Minute})
		assert.Equal(t, r.ExitCode, 0, r.Text())
		s.run(execpolicy.Command{Script: "while :; do sleep 4742 & done 2>/dev/null", Timeout: short})
		enginetest.Within(t, 20*time.Second, "a write", func() {
			if err := s.WriteFile(t.Context(), "file", noise(100000), 0o644); err != nil {
				t.Log(err)
			}
		})
		wait(t, func() bool {
			r, err := s.Run(t.Context(),
				execpolicy.Command{Script: "for f in /proc/[0-9]*/stat; do read -r pid name rest <$f && [ \"$name\" = " +
					"'(sleep)' ] && kill -9 $pid; done; echo on"})
			return errors.Is(err, execpolicy.ErrEnded) || err == nil && strings.HasSuffix(string(r.Stdout), "on\n")
		}, "the session does not answer")
		// The dead count until they are gathered.
		wait(t, func() bool {
			err := s.WriteFile(t.Context(), "file", noise(100000), 0o644)
			if err == nil {
				var data []byte
				data, err = s.ReadFile(t.Context(), "file", 0)
				assert.Assert(t, err != nil || bytes.Equal(data, noise(100000)))
			}
			return err == nil || errors.Is(err, execpolicy.ErrEnded)
		}, "nothing can be written")
	})
}

// What is made in a workspace of the host's belongs to its owner.
func TestFilesBelongToTheUser(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		if p.engine.Remote {
			leftout.Skip(t, mountsNothing)
		}
		spec := p.spec()
		spec.Workspace = newWorkspace(t, "workspace")
		s := open(t, p.policy(), spec)
		s.write("file", []byte("hello"), 0o640)
		assert.NilError(t, s.CopyFS(t.Context(), "tree", os.DirFS(spec.Workspace)))
		want, wantGroup, err := ownerOf(spec.Workspace)
		assert.NilError(t, err)
		for _, name := range []string{"file", "tree", "tree/file"} {
			uid, gid, err := ownerOf(filepath.Join(spec.Workspace, name))
			assert.NilError(t, err)
			assert.Equal(t, uid, want, name)
			assert.Equal(t, gid, wantGroup, name)
		}
	})
}

// A read that is cut off costs nothing.
func TestReadFileCutOff(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		s := open(t, p.policy(), p.spec())
		for i := range 5 {
			s.cutOff(func() {
				s.ok("[ -e file ] || dd if=/dev/zero of=file bs=65536 count=512; kept=5")
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(1+5*i)*time.Millisecond)
				data, err := s.ReadFile(ctx, "file", 64<<20)
				cancel()
				if err != nil {
					assert.ErrorIs(t, err, context.DeadlineExceeded)
					assert.Assert(t, data == nil)
				} else {
					assert.Equal(t, len(data), 32<<20)
				}
			}, func() {})
			assert.Equal(t, s.ok("echo $kept"), "5")
		}
	})
}

// changed is a policy on whose processes' stdout a word is made another.
type changed struct {
	execpolicy.Policy
	from, to string
}

func (p changed) Spawn(ctx context.Context, spec execpolicy.Spec) (*execpolicy.Process, error) {
	proc, err := p.Policy.Spawn(ctx, spec)
	if err == nil {
		proc.Stdout = changer{proc.Stdout, p}
	}
	return proc, err
}

type changer struct {
	io.ReadCloser
	p changed
}

func (c changer) Read(b []byte) (int, error) {
	n, err := c.ReadCloser.Read(b[:len(b)/2])
	return copy(b, bytes.ReplaceAll(b[:n], []byte(c.p.from), []byte(c.p.to))), err
}

// What comes does not agree with what is told: one more byte, one less.
func TestReadFileTellsWhatDoesNotAgree(t *testing.T) {
	enginetest.Check(t)
	for _, to := range []string{"content", "contents.", ""} {
		s := open(t, changed{execpolicy.HostPolicy{Limits: hostLimits}, "contents", to}, execpolicy.Spec{})
		s.write("file", []byte("the contents of a file"), 0o600)
		_, err := s.ReadFile(t.Context(), "file", 0)
		assert.ErrorIs(t, err, execpolicy.ErrTransfer, to)
		assert.ErrorContains(t, err, "bytes came, and it said")
	}
}

func TestHostFiles(t *testing.T) {
	hostWorkers(t, func(t *testing.T, command []string) {
		bystander(t)
		runCases(t, execpolicy.HostPolicy{Limits: hostLimits}, execpolicy.Spec{Command: command}, fileCases)
	})
}
