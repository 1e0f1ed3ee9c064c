package execpolicy_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest"
	"github.com/seed-64a260eb/cofferdam/internal/shellwire"
)

// running returns the container's processes that have a word in their command line.
func (v victim) running(word string) (pids []int) {
	for _, pid := range v.left() {
		line, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
		if strings.Contains(strings.ReplaceAll(string(line), "\x00", " "), word) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// A process whose first thread has ended looks dead in /proc, and its other threads run.
func TestProcessWithoutItsFirstThreadIsKilled(t *testing.T) {
	withEachShell(t, func(t *testing.T, p place, _ string) {
		s := open(t, p.policy(), p.spec())
		r, _ := s.Run(t.Context(), execpolicy.Command{Timeout: 3 * time.Second, Script: `python3 -c '
import ctypes, os, signal, threading, time
for s in 1, 15: signal.signal(s, signal.SIG_IGN)
os.setsid()
def live():
    while True:
        open("/tmp/beat", "w").write(str(time.monotonic()))
        time.sleep(0.01)
threading.Thread(target=live, daemon=True).start()
time.sleep(0.3)
ctypes.CDLL(None).syscall({"x86_64": 60}.get(os.uname().machine, 93), 0)' &
sleep 1000`})
		assert.Equal(t, r.Outcome, execpolicy.OutcomeTimedOut)
		if r.Gone && !r.StateLost {
			assert.Equal(t, s.ok("read -r a </tmp/beat; sleep 0.5; read -r b </tmp/beat; [ $a = $b ] && echo dead"), "dead")
		}
	})
}

// The shell may be any program by then, and make another child of its own parent, which
// is no part of what keeps the session.
func TestSiblingOfTheShellIsKilled(t *testing.T) {
	withEachShell(t, func(t *testing.T, p place, _ string) {
		s := open(t, p.policy(), p.spec())
		v := p.victim(t, s.Name())
		r, _ := s.Run(t.Context(), execpolicy.Command{Timeout: 3 * time.Second, Script: `python3 -c '
import os, re
parent = os.getppid()
for n in os.listdir("/proc/%d/fd" % parent):
    path = "/proc/%d/fd/%s" % (parent, n)
    try:
        if "/.cofferdam/s" not in os.readlink(path): continue
        found = re.search(rb"([A-Z2-7]{26})e%s", open(path, "rb").read())
    except OSError: continue
    if found: open("/tmp/prefix", "wb").write(found[1])
'
exec python3 -c '
import ctypes, os, re, time
prefix = open("/tmp/prefix").read()
tag = re.search("cf_tag=([A-Z2-7]{13})", open("/.cofferdam/script").read())[1]
CLONE_PARENT, SIGCHLD = 0x8000, 17
if ctypes.CDLL(None).syscall({"x86_64": 56}.get(os.uname().machine, 220), CLONE_PARENT | SIGCHLD, 0, 0, 0, 0) == 0:
    os.setsid()
    os.execvp("sleep", ["sleep", "4713"])
child = os.fork()
if child == 0: time.sleep(1000)
os.waitpid(child, 0) # it ends with the first step
os.write(1, ("%se%s 0 /tmp%s\n" % (prefix, tag, prefix)).encode())
os.write(2, ("%se%s\n" % (prefix, tag)).encode())
time.sleep(1000)'`})
		assert.Equal(t, r.Outcome, execpolicy.OutcomeTimedOut)
		assert.Check(t, !r.Gone || len(v.running("sleep 4713")) == 0, "%v", r)
	})
}

// What the kernel counts is read from the kernel's own files. A program that is root can
// make others beside them where the engine has a tmpfs for the first version of cgroups.
func TestFilesOfCountsAreTheKernels(t *testing.T) {
	withEachShell(t, func(t *testing.T, p place, _ string) {
		// What sets no limit has no such files.
		enginetest.NeedLimits(t, p.engine, dockercli.LimitMemory, dockercli.LimitProcessors)
		policy := p.policy()
		policy.User = "0:0"
		for _, forge := range []string{"mkfifo $f", "echo oom_kill 4714 >$f"} {
			s := open(t, policy, p.spec())
			s.script("cd /sys/fs/cgroup; chmod 755 .; for f in memory.events cpu.stat memory.peak; do [ -e $f ] || " +
				forge + "; done; kept=5")
			r := s.measured(execpolicy.Command{Script: "sh -c 'kill -9 $$'"})
			assert.Equal(t, r.Outcome, execpolicy.OutcomeExited)
			assert.Equal(t, r.OOMAfter, 0)
			assert.Assert(t, r.Usage.CPU > 0 && r.Usage.PeakAfter > 0, "%+v", r.Usage)
			assert.Equal(t, s.ok("echo $kept"), "5")
		}
	})
}

// What a directory's default access list allows is not what the caller asked for.
func TestPermissionsUnderAnAccessList(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		s := open(t, p.policy(), p.spec())
		assert.Equal(t, s.ok(`mkdir d; python3 -c '
import os, struct
entries = [(1, 7), (4, 7), (0x20, 7)]
os.setxattr("d", "system.posix_acl_default", struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *e, 0xffffffff) for e in entries))
print("set")'`), "set")
		for _, perm := range []fs.FileMode{0o600, 0o640, 0o400, 0o700} {
			assert.NilError(t, s.WriteFile(t.Context(), "d/f", []byte("x"), perm))
			info, err := s.Stat(t.Context(), "d/f")
			assert.NilError(t, err)
			assert.Equal(t, info.Mode, perm)
		}
	})
}

// A job that is not known has no number. A program that is root could make a FIFO of the
// name that is left of "/proc/PID/stat" then, and process 1 would wait for it.
func TestUnknownJobIsNotLookedAt(t *testing.T) {
	withEachShell(t, func(t *testing.T, p place, _ string) {
		policy := p.policy()
		policy.User, policy.WritableRootfs = "0:0", true
		w := p.startRaw(t, policy)
		w.run("made", "chmod 755 / && mkfifo /stat && echo made")
		w.expect("made")
		w.send(shellwire.TendJob("unknown") + shellwire.EndJob("unknown") + shellwire.SignalJob("unknown", "KILL", "nonce"))
		w.in.Close()
		w.ends("process 1 does not end")
	})
}

// The engine's client that carries a job's streams may be killed. Then nobody could see
// or end the job any more.
func TestJobEndsWithItsClient(t *testing.T) {
	onEngines(t, func(t *testing.T, p place) {
		s := open(t, p.attached(), p.spec())
		j := s.job(execpolicy.Command{Script: "trap '' HUP TERM PIPE; echo begun; sleep 1000; sleep 1000"})
		s.prints(j, "begun")
		killed := false
		children, err := filepath.Glob("/proc/self/task/*/children")
		assert.NilError(t, err)
		for _, file := range children {
			pids, _ := os.ReadFile(file)
			for _, pid := range strings.Fields(string(pids)) {
				cmdline, _ := os.ReadFile("/proc/" + pid + "/cmdline")
				words := string(cmdline)
				if strings.Contains(words, "\x00exec\x00") && strings.Contains(words, "\x00"+s.Name()+"\x00") {
					number, err := strconv.Atoi(pid)
					assert.NilError(t, err)
					assert.NilError(t, syscall.Kill(number, syscall.SIGKILL)) // a child of ours
					killed = true
				}
			}
		}
		assert.Assert(t, killed)
		r, err := s.result(j)
		assert.NilError(t, err)
		assert.Equal(t, r.Outcome, execpolicy.OutcomeSignaled)
		s.gone("sleep 1000")
	})
}
