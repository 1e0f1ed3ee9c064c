package execpolicy_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest/leftout"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest/leftover"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest/places"
)

// freeze freezes everything in the container, process 1 deep below the container's own
// control group and itself in another. Where it may not, it says so.
const freeze = `exec python3 -c '
import ctypes, os
libc = ctypes.CDLL(None)
NEWNS, NEWCGROUP, NEWUSER = 0x20000, 0x2000000, 0x10000000
os.makedirs("/tmp/f")
if libc.unshare(NEWUSER | NEWNS | NEWCGROUP) or libc.mount(b"none", b"/tmp/f", b"cgroup", 0, b"freezer"):
    raise SystemExit("refused")
def move(group, pids):
    for part in group.split("/"):
        os.makedirs(part)
        os.chdir(part)
    for pid in pids: open("cgroup.procs", "w").write(str(pid))
    return os.open(".", os.O_RDONLY)
os.chdir("/tmp/f")
deep = move("/".join(["0123456789abcdef" * 4] * 100), [p for p in os.listdir("/proc") if p.isdigit() and int(p) != os.getpid()])
os.chdir("/tmp/f")
move("self", [0])
print("begun", flush=True)
os.chdir(deep)
for group in ".", "/tmp/f": open(group + "/freezer.state", "w").write("FROZEN")
'`

// freezable is a policy under whose filter of system calls a program can freeze its
// container, if the filter is podman's.
func freezable(policy execpolicy.DockerPolicy) execpolicy.DockerPolicy {
	policy.EngineSeccomp, policy.User = true, "0:0"
	return policy
}

func init() {
	holdings["frozen"] = holding{sessions: 1, word: "begun", policy: freezable(execpolicy.DockerPolicy{}),
		scripts: []string{freeze}}
}

const freezers = "/sys/fs/cgroup/freezer"

// onFreezingEngines runs f on each engine whose own filter lets a program freeze its
// container, and sees that the others refuse it.
func onFreezingEngines(t *testing.T, f func(t *testing.T, p place)) {
	if _, err := os.Stat(freezers); err != nil || os.Geteuid() != 0 {
		leftout.Skip(t, "control groups freeze nothing here, or this user thaws nothing: %v", err)
	}
	places.OnAllEngines(t, hostLimits, func(t *testing.T, at places.Place) {
		p := placeOf(at)
		if p.engine.Kind == dockercli.Podman {
			f(t, p)
			return
		}
		r := open(t, freezable(p.policy().DockerPolicy), p.spec()).script(freeze)
		assert.Equal(t, string(r.Stderr), "refused\n")
	})
}

// awaitFrozen waits until process 1 is frozen. What is frozen when the test ends is
// thawed, so that it can be killed.
func (v victim) awaitFrozen(t *testing.T) {
	t.Helper()
	t.Cleanup(func() {
		filepath.WalkDir(freezers, func(name string, _ fs.DirEntry, err error) error {
			if err == nil && strings.Contains(name, v.id) && filepath.Base(name) == "freezer.state" {
				os.WriteFile(name, []byte("THAWED"), 0)
			}
			return nil
		})
	})
	wait(t, func() bool {
		stat := leftover.StatOf(v.pid)
		return len(stat) > 2 && stat[2] == "D"
	}, "process 1 is not frozen")
}

// What code inside has frozen is let run again, to die.
func TestFrozenContainer(t *testing.T) {
	onFreezingEngines(t, func(t *testing.T, p place) {
		t.Run("close", func(t *testing.T) {
			s := open(t, freezable(p.policy().DockerPolicy), p.spec())
			v := p.victim(t, s.Name())
			c := s.start(t.Context(), execpolicy.Command{Script: freeze, Timeout: ample})
			v.awaitFrozen(t)
			began := time.Now()
			assert.NilError(t, s.Close())
			t.Logf("closed after %v", time.Since(began).Round(time.Millisecond))
			<-c.done
			assert.Check(t, v.gone())
			v.awaitEnd(t)
		})
		t.Run("deadline", func(t *testing.T) {
			s := open(t, freezable(p.policy().DockerPolicy), p.spec())
			v := p.victim(t, s.Name())
			c := s.start(t.Context(), execpolicy.Command{Script: freeze, Timeout: latest})
			v.awaitFrozen(t)
			<-c.done
			v.check(t, c.result, c.err)
		})
	})
}

// The guard does that for a program that was killed.
func TestFrozenContainerOfAKilledProgram(t *testing.T) {
	onFreezingEngines(t, func(t *testing.T, p place) {
		label, kill := p.startHolder(t, "frozen")
		names := strings.Fields(p.cli(t, "ps", "--all", "--filter=label="+label, "--format={{.Names}}"))
		assert.Equal(t, len(names), 1)
		v := p.victim(t, names[0])
		v.awaitFrozen(t)
		kill()
		began := time.Now()
		v.awaitEnd(t)
		t.Logf("gone after %v", time.Since(began).Round(time.Millisecond))
	})
}
