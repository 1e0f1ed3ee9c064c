//go:build linux

package shellwire

import (
	"bufio"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"gotest.tools/v3/assert"
)

// Only what the engine has started becomes a keeper, whatever number a mark has told.
func TestAdopt(t *testing.T) {
	alone(t, func(t *testing.T, shell string) {
		w := start(t, shell, shell)
		_, _, out := w.run("sleep 1000 & echo $! $$")
		keeper := exec.Command("nsenter", "--target", strconv.Itoa(w.pid), "--pid", "--mount", "sh", "-c", "echo $$; exec sleep 1000")
		keeper.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		stdout, err := keeper.StdoutPipe()
		assert.NilError(t, err)
		assert.NilError(t, keeper.Start())
		late := time.AfterFunc(patience, func() { keeper.Process.Kill() })
		defer late.Stop()
		lines := bufio.NewScanner(stdout)
		assert.Assert(t, lines.Scan(), lines.Err())
		number, err := strconv.Atoi(lines.Text())
		assert.NilError(t, err)

		forged := []int{1, 30000}
		for _, word := range strings.Fields(out[0]) {
			pid, err := strconv.Atoi(word)
			assert.NilError(t, err)
			forged = append(forged, pid)
		}
		for i, pid := range forged {
			name := "F" + strconv.Itoa(i)
			w.send(AdoptJob(name, pid, "forged") + EndJob(name))
		}
		// Each answer is a process of its own, so two have no order.
		for _, mark := range []struct {
			pid   int
			nonce string
		}{{number, "true"}, {forged[2], "again"}} {
			w.send(AdoptJob("J", mark.pid, mark.nonce))
			assert.Assert(t, lines.Scan(), lines.Err())
			assert.Assert(t, strings.HasPrefix(lines.Text(), testPrefix+"j"+mark.nonce+" 0 "), "%q", lines.Text())
		}
		status, died, out := w.run("kill -0 $!")
		assert.Assert(t, status == 0 && !died, "%d %v %q", status, died, out)

		w.send(EndJob("J"))
		assert.Assert(t, !lines.Scan(), "%q", lines.Text())
		assert.Assert(t, keeper.Wait() != nil)
	})
}
