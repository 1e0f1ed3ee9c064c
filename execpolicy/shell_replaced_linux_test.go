package execpolicy_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest"
)

// A new shell that process 1 has given up before its first unit ran, as it does on a busy
// machine, is replaced once more: for its set-up, for a startup script, and for a
// command.
func TestShellIsReplacedAgain(t *testing.T) {
	enginetest.Check(t)
	dir := t.TempDir()
	// With a file 0 process 1 gives up the worker for which it has a unit, with a file 1
	// for the next one, and so on.
	giveUp := func(units ...string) {
		for _, unit := range units {
			assert.NilError(t, os.WriteFile(filepath.Join(dir, unit), nil, 0o600))
		}
	}
	p := &callersPolicy{scratch: t.TempDir(), argv: []string{"sh", "-c", `IFS= read -r line
eval "text=${line#eval }"
given_up() {
	[ $cf_gen -gt 1 ] && [ -n "$(ls '` + dir + `')" ] || return 1
	given=1
	for unit in 0 1 2 3 4 5; do
		[ -f '` + dir + `'/$unit ] || continue
		rm '` + dir + `'/$unit
		case $unit in 0) given=0 ;; *) : >'` + dir + `'/$((unit - 1)) ;; esac
	done
	[ $given = 0 ] || return 1
	read -r worker <$cf_watch/task/$cf_watch/children
	kill -KILL $cf_watch $worker
	wait $cf_watch
	try worker_ended unrun
}
eval "$(printf '%s\n' "$text" | sed 's/^hand() { /&! given_up || return 1; /')"`}}
	s := open(t, p, execpolicy.Spec{Env: sessionEnv, Startup: []string{"kept=5", "kept=$((kept + 1))"}})
	for _, unit := range []string{"0", "1", "2"} {
		s.script("exit")
		giveUp(unit)
		assert.Equal(t, s.ok("echo $kept"), "6")
		left, err := os.ReadDir(dir)
		assert.NilError(t, err)
		assert.Equal(t, len(left), 0)
	}
	// It has not learnt to give it up each time.
	s.script("exit")
	giveUp("0", "1")
	_, err := s.Run(t.Context(), execpolicy.Command{Script: ":"})
	assert.ErrorIs(t, err, execpolicy.ErrStart)
	assert.ErrorContains(t, err, "given up")
	assert.Equal(t, s.ok("echo $kept"), "6")
	assert.NilError(t, s.Close())
}

// A command whose shell is killed before it runs, by what an earlier one has left, runs in
// the next shell. None runs twice.
func TestShellIsKilledBeforeACommand(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		s := open(t, p.policy(), p.spec())
		s.ok(": >/tmp/ran")
		// Now and then its end is read before the command is sent, and that is no such case.
		const rounds, enough = 100, 10
		var exited []string
		replaced := 0
		for i := 0; i < rounds && replaced < enough; i++ {
			s.script(fmt.Sprintf("{ i=0; while [ $i -lt %d ]; do i=$((i + 1)); done; kill -9 $$; } >/dev/null 2>&1 &", i%40*50))
			r := s.script(fmt.Sprintf("echo %d >>/tmp/ran", i))
			if r.Outcome != execpolicy.OutcomeExited || r.ExitCode != 0 {
				assert.Assert(t, r.StateLost, "%v %d", r.Outcome, r.ExitCode)
				continue
			}
			exited = append(exited, fmt.Sprint(i))
			if r.StateLost {
				replaced++
			}
		}
		assert.Equal(t, replaced, enough)
		ran := strings.Fields(s.ok("cat /tmp/ran"))
		for _, command := range exited {
			assert.Assert(t, slices.Contains(ran, command), "%s of %v", command, ran)
		}
		assert.DeepEqual(t, ran, slices.Compact(slices.Clone(ran)))
	})
}
