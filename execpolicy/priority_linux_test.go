package execpolicy_test

import (
	"os"
	"testing"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest/leftout"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest/leftover"
)

// niceness returns how many of the container's processes have each niceness, without
// process 1, and that of process 1.
func (v victim) niceness() (first string, others map[string]int) {
	others = map[string]int{}
	for _, pid := range v.left() {
		stat := leftover.StatOf(pid)
		switch {
		case len(stat) < 19:
		case pid == v.pid:
			first = stat[18]
		default:
			others[stat[18]]++
		}
	}
	return first, others
}

// Process 1 is preferred to all others inside, and nothing that it starts is:
// neither a shell, nor what writes its units, nor what evaluates a script for a file.
func TestFirstProcessIsFavored(t *testing.T) {
	if os.Geteuid() != 0 {
		leftout.Skip(t, "only root may raise a priority")
	}
	withEachShell(t, func(t *testing.T, p place, _ string) {
		for _, worker := range workers {
			spec := p.spec()
			spec.Command = worker
			s := open(t, p.policy(), spec)
			v := p.victim(t, s.Name())
			look := func(when string) {
				t.Helper()
				first, others := v.niceness()
				assert.Equal(t, first, "-10", when)
				assert.Assert(t, len(others) == 1 && others["0"] > 1, "%s: %v", when, others)
			}
			look("at first")
			assert.Equal(t, s.ok(`sleep 4850 & read -r l </proc/$$/stat; set -- ${l##*) }; echo ${17}`), "0")
			r, _ := s.Run(t.Context(), execpolicy.Command{Script: "exit 3"})
			assert.Equal(t, r.ExitCode, 3)
			s.ok("sleep 4851 &")
			look("with another shell")
			// What reads a file that goes in lives for as long as it comes.
			assert.NilError(t, s.WriteFile(t.Context(), "f", make([]byte, 1<<20), 0o600))
			look("after a file")
			// The library's filter keeps anybody inside from it.
			refused := `python3 -c '
import os
for call in (lambda: os.setpriority(os.PRIO_PROCESS, 1, 0), lambda: os.sched_setscheduler(1, os.SCHED_IDLE, os.sched_param(0)),
             lambda: os.setpriority(os.PRIO_PROCESS, 0, -1)):
    try: call()
    except OSError as e: print(e.errno, end=" ")'`
			assert.Equal(t, s.ok(refused), "1 1 1 ")
			look("after attempts to change it")
		}
	})
}

// Whoever may change priorities takes nothing from process 1 for himself.
func TestFavorIsNotInherited(t *testing.T) {
	if os.Geteuid() != 0 {
		leftout.Skip(t, "only root may raise a priority")
	}
	withEachShell(t, func(t *testing.T, p place, _ string) {
		for _, user := range []string{"", "0:0"} {
			policy := p.policy()
			policy.EngineSeccomp, policy.User = true, user
			s := open(t, policy, p.spec())
			v := p.victim(t, s.Name())
			// 0x40000000 is SCHED_RESET_ON_FORK, which nobody may take away.
			tried := s.ok(`python3 -c '
import os
os.setpriority(os.PRIO_PROCESS, 1, -10)
print(os.sched_getscheduler(1) & 0x40000000 > 0)
for call in (lambda: os.sched_setscheduler(1, os.SCHED_OTHER, os.sched_param(0)), lambda: os.setpriority(os.PRIO_PROCESS, 0, -1)):
    try: call()
    except OSError as e: print(e.errno)'`)
			assert.Equal(t, tried, "True\n1\n13")
			r, _ := s.Run(t.Context(), execpolicy.Command{Script: "exit 3"})
			assert.Equal(t, r.ExitCode, 3)
			s.ok("sleep 4852 &")
			_, others := v.niceness()
			assert.Assert(t, len(others) == 1 && others["0"] > 1, "%v", others)
		}
	})
}
