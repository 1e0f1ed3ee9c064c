//go:build linux

package shellwire

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/internal/enginetest/leftout"
	"github.com/seed-64a260eb/cofferdam/internal/shellquote"
)

// cell runs a command as process 1 of namespaces of its own, as a user that nobody else
// is, in a root that holds this machine's programs, which it can't write to, and a small
// directory /d, which it can. What it runs may be any shell text at all: nothing of the
// host is in reach of it, and it ends with process 1.
const cell = `set -e
mount -t tmpfs -o size=4m,mode=755 tmpfs "$1"
cd "$1"
mkdir proc dev d
for dir in bin sbin lib lib64 usr; do
	if [ -L /$dir ]; then cp -P /$dir $dir; elif [ -d /$dir ]; then mkdir $dir; mount --bind /$dir $dir; mount -o remount,bind,ro,nosuid,nodev $dir; fi
done
mount -t proc -o nosuid,nodev,noexec proc proc
: >dev/null; mount --bind /dev/null dev/null
mount -t tmpfs -o size=4m,mode=700,uid=61234,gid=61234,nosuid,nodev tmpfs d
mount -o remount,ro,nosuid,nodev .
shift
exec prlimit --nproc=256 --cpu=20 --core=0 chroot --userspec=61234:61234 . "$@"`

// swallows tells whether operations may take what follows them for data.
var swallows = regexp.MustCompile(`(?m)^[dp]`)

// Whatever arrives, the supervisor never hangs: it answers the next unit, or it has
// ended; and it ends with its stdin.
func FuzzSupervisor(f *testing.F) {
	if os.Geteuid() != 0 {
		leftout.Skip(f, "no process namespace can be made here: it takes root")
	}
	for _, ops := range []string{
		"", "\x00\xff\n\n", "t\nt\nkTERM\nkKILL\nk\nk1 2\n", "nT\neecho hi\n", "nT\ne'echo hi'\n", "nT\ne'\n",
		"nT\nb\n+if\n-x\ng;;\n", "g\n", "m\nm\nnX\nm\ne:\n",
		"z'\nz;;esac\n", "nT\ne'while :; do :; done'\n", "nT\ne'kill -9 $PPID'\nt\n", "nT\ne'kill -STOP -1'\n",
		"nT\ne'exit 3'\ns\n", "s\ns\nw\nw\ns\n",
		"fsleep 1000\n", "fwhile :; do :; done\n", "rkill -STOP $$\n", "fcf_result=1; exit 9\nh\nh\n", "r(\n",
		"o\no\nh\n", "u\nnT\nu\ne:\nuu\no\n", "d\n", "di 0 0\nh\n", "di 0 5\nabcdeh\n",
		"di 99 99\nshort", "di x y\n", "d../x 0 1\n.", "p\n", "p3 26 END '/d/f'\nabc\nEND\nfput '/d/g' '/d/f'\nh\n",
		"p9 0 E /nowhere/f\nkKILL\nE\nh\n", "p1 0 E\n",
		"nT\ne'rm -rf /d; mkdir /d/a'\n", "nT\ne'exec 8>&- 9>&- 6>&-; kill -9 $$'\n",
		"nT\ne'dd if=/dev/zero of=/d/fill bs=65536'\n", "e\ne\ne\n", "x\ny\nQ\n",
		"nT\na'true'\n", "nT\na'sh' '-c' 'kill -9 $$'\n", "nT\na'\n",
		"nT\ny{ cf_status=+nodir; \\return; }\nz:\nc\n-A=1 \\comm\n+and exec <&7 'echo' 'a\ngb'\n", "c\nb\ng\n",
		"nT\nrrm -f /d/script /d/died\nh\na'true'\n",
	} {
		for shell := range 3 {
			f.Add(uint8(shell), []byte(ops))
		}
	}
	// The same with a keep-alive.
	for shell := range 3 {
		for _, ops := range []string{
			"i\ni\ni\n", "nT\ni\ne'kill -KILL -1'\ni\n", "i\np3 26 END '/d/f'\nabc\nEND\nfput '/d/g' '/d/f'\nh\ni\n",
			"nT\nb\ni\n+:\ni\ng\n", "x",
		} {
			f.Add(uint8(shell+3), []byte(ops))
		}
	}
	f.Fuzz(func(t *testing.T, which uint8, ops []byte) {
		shell := []string{"busybox", "dash", "bash"}[int(which)%3]
		path, err := exec.LookPath(shell)
		if err == nil {
			path, err = filepath.EvalSymlinks(path)
		}
		if err != nil {
			leftout.Skip(t, "%v", err)
		}
		if len(ops) > 1<<12 {
			return
		}
		// The word of a small file is the host's own, and process 1 evaluates it.
		for _, line := range regexp.MustCompile(`(?m)^p.*$`).FindAll(ops, -1) {
			for i, c := range line {
				if strings.IndexByte("$`;&|<>()", c) >= 0 {
					line[i] = '_'
				}
			}
		}
		boot := append([]string{path}, Boot()[1:]...)
		if shell == "busybox" {
			boot = append([]string{path, "sh"}, Boot()[1:]...)
		}
		cmd := exec.Command("/bin/sh", append([]string{"-c", cell, "sh", t.TempDir()}, boot...)...)
		cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}
		cmd.SysProcAttr = &syscall.SysProcAttr{
			Cloneflags:   syscall.CLONE_NEWPID | syscall.CLONE_NEWNS | syscall.CLONE_NEWNET | syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS,
			Unshareflags: syscall.CLONE_NEWNS, Setpgid: true,
		}
		// A fuzzing process has a pipe as descriptor 3, from which a block would be read.
		nothing, err := os.Open(os.DevNull)
		assert.NilError(t, err)
		defer nothing.Close()
		cmd.ExtraFiles = []*os.File{nothing}
		in, err := cmd.StdinPipe()
		assert.NilError(t, err)
		// It is a session's host that listens on both.
		ends := make(chan string, 1<<10)
		var output [2]bytes.Buffer
		var streams sync.WaitGroup
		var files []io.Closer
		for i := range output {
			r, w, err := os.Pipe()
			assert.NilError(t, err)
			// The worker opens them anew, as who it is.
			assert.NilError(t, w.Chown(61234, 61234))
			files = append(files, w)
			if i == 0 {
				cmd.Stdout = w
			} else {
				cmd.Stderr = w
			}
			streams.Go(func() {
				defer r.Close()
				listen(r, i == 0, &output[i], ends)
			})
		}
		err = cmd.Start()
		for _, w := range files {
			w.Close()
		}
		if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EACCES) {
			streams.Wait()
			leftout.Skip(t, "no process namespace can be made here: %v", err)
		}
		assert.NilError(t, err)
		over := make(chan struct{})
		go func() {
			streams.Wait()
			cmd.Wait()
			close(over)
		}()
		late := time.AfterFunc(patience, func() { cmd.Process.Kill() })
		defer func() {
			in.Close()
			<-over
			said := output[1].String()
			assert.Check(t, late.Stop(), "it hangs: %q", said)
			code := cmd.ProcessState.ExitCode()
			assert.Check(t, code == 0 || code == 97, "it ended with %d: %.300q", code, said)
		}()

		// answered waits for the end of a unit, or that of process 1.
		answered := func(tag string) bool {
			tick := time.NewTicker(100 * time.Millisecond)
			defer tick.Stop()
			for {
				select {
				case end := <-ends:
					if end == tag {
						return true
					}
				case <-over:
					return false
				case <-tick.C:
					io.WriteString(in, Tick)
				}
			}
		}
		setup := Setup{Prefix: testPrefix, Dir: "/d", Namespace: true, Worker: boot[:len(boot)-2],
			KeepAlive: time.Duration(which/3%2) * 1000 * time.Second}
		io.WriteString(in, string(setup.Text())+string(Next("first"))+string(Unit{Script: "echo begun"}.Ops()))
		assert.Assert(t, answered("first"), "%s", output[1].String())
		in.Write(ops)
		if swallows.Match(ops) {
			return
		}
		io.WriteString(in, "\n"+Thaw+Kill+KillWorker+StartWorker+string(Next("last"))+string(Unit{Script: "echo on"}.Ops()))
		answered("last")
	})
}

// listen keeps the output of a stream, as much as may be of use, and passes on the tags
// of the units that have ended on stdout.
func listen(r io.Reader, stdout bool, output *bytes.Buffer, ends chan<- string) {
	p := Parser{
		Prefix: testPrefix, Stdout: stdout,
		Output: func(b []byte) { output.Write(b[:min(len(b), max(0, 4<<10-output.Len()))]) },
		Mark: func(m Mark) {
			if stdout && m.Kind == End {
				select {
				case ends <- m.Tag:
				default: // nobody listens any more
				}
			}
		},
	}
	p.parseAll(r)
}

// Whatever data and names a host hands over, each comes out as it went in, and nothing is
// made but what was asked for.
func FuzzSession(f *testing.F) {
	if os.Geteuid() != 0 {
		leftout.Skip(f, "no process namespace can be made here: it takes root")
	}
	f.Add(uint8(0), "u data", "a'b\n", "f")
	f.Add(uint8(1), "\x00\xff", "kKILL\nw\n", "a file\n'")
	f.Add(uint8(2), strings.Repeat("é\n'", 2000), "", "-f")
	f.Add(uint8(0), "two\n\nlines", "", "f")
	f.Fuzz(func(t *testing.T, which uint8, data, value, name string) {
		path, err := exec.LookPath([]string{"dash", "bash"}[int(which)%2])
		if err != nil {
			leftout.Skip(t, "%v", err)
		}
		if data == "" || name == "" || len(data)+len(value) > 1<<16 || len(name) > 200 {
			return
		}
		if strings.ContainsAny(name, "/\x00") || strings.Contains(value, "\x00") || strings.Contains(data+value, testPrefix) {
			return // no name of a file, no text of a shell, and nothing that a host could not tell from a mark
		}
		w := start(t, path, path)
		file := filepath.Join(w.dir, "F"+name)
		status, _, _ := w.help(append(Put(Word(file+".new"), "END123", []byte(data), 0o644),
			Help("put "+Word(file)+" "+Word(file+".new")+" 644")...))
		assert.Equal(t, status, 0)
		got, err := os.ReadFile(file)
		assert.NilError(t, err)
		assert.Equal(t, string(got), data)

		w.send(string(Upload("i", int64(len(data)))) + data + Thaw + Tick)
		status, died, out := w.run("printf %s " + shellquote.Quote(value) + "; cat " + shellquote.Quote(w.dir+"/i") + "; rm " + shellquote.Quote(w.dir+"/i"))
		assert.Equal(t, status, 0)
		assert.Assert(t, !died)
		assert.DeepEqual(t, out, [2]string{value + data, ""})

		entries, err := os.ReadDir(w.dir)
		assert.NilError(t, err)
		// Beside it are the script, and what the worker says of programs.
		assert.Equal(t, len(entries), 3, "%v", entries)
		entries, err = os.ReadDir(filepath.Dir(w.dir))
		assert.NilError(t, err)
		assert.Equal(t, len(entries), 1, "%v", entries)
	})
}
