package shellwire

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
)

type end struct {
	out, err bytes.Buffer
	marks    chan Mark
	errMarks chan Mark
	in       io.WriteCloser
	cmd      *exec.Cmd
	n        int
	prefix   string
}

func boot(t testing.TB, shell, worker string) *end {
	dir := t.TempDir()
	prefix := "PFX0123456789ABCDEFGHIJK"
	e := &end{marks: make(chan Mark, 100), errMarks: make(chan Mark, 100), prefix: prefix}
	argv := append([]string{"--pid", "--fork", "--mount-proc"}, shell)
	argv = append(argv, Boot()[1:]...)
	cmd := exec.Command("unshare", argv...)
	in, _ := cmd.StdinPipe()
	out, _ := cmd.StdoutPipe()
	errp, _ := cmd.StderrPipe()
	assert.NilError(t, cmd.Start())
	e.in, e.cmd = in, cmd
	go pump(out, &Parser{Prefix: prefix, Stdout: true, Output: func(b []byte) { e.out.Write(b) }, Mark: func(m Mark) { e.marks <- m }})
	go pump(errp, &Parser{Prefix: prefix, Output: func(b []byte) { e.err.Write(b) }, Mark: func(m Mark) { e.errMarks <- m }})
	in.Write(Setup{Prefix: prefix, Dir: dir, Namespace: true, Worker: []string{worker}}.Lines())
	t.Cleanup(func() { in.Close(); cmd.Wait() })
	return e
}

func pump(r io.Reader, p *Parser) {
	buf := make([]byte, 64<<10)
	held := 0
	for {
		n, err := r.Read(buf[held:])
		h := p.Parse(buf[:held+n])
		copy(buf, buf[held+n-h:held+n])
		held = h
		if err != nil {
			p.Flush(buf[:held])
			close2(p)
			return
		}
	}
}
func close2(p *Parser) {}

func (e *end) run(t testing.TB, u Unit, timeout time.Duration) (Mark, string, string) {
	e.n++
	tag := fmt.Sprintf("TAG%d", e.n)
	e.out.Reset()
	e.err.Reset()
	e.in.Write(append(Next(tag), u.Ops(e.prefix, tag)...))
	var m Mark
	tm := time.After(timeout)
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	gotO, gotE := false, false
	for !gotO || !gotE {
		select {
		case x := <-e.marks:
			if x.Kind == End && x.Tag == tag || x.Kind == Death {
				m, gotO = x, true
			}
		case x := <-e.errMarks:
			if x.Kind == End && x.Tag == tag || x.Kind == Death {
				gotE = true
			}
		case <-tick.C:
			io.WriteString(e.in, Tick)
		case <-tm:
			t.Logf("timeout: %q out=%q err=%q gotO %v gotE %v", u.Script, e.out.String(), e.err.String(), gotO, gotE)
			return Mark{Status: -2}, e.out.String(), e.err.String()
		}
	}
	if m.Kind == Death {
		io.WriteString(e.in, StartWorker)
	}
	return m, e.out.String(), e.err.String()
}

func shells(t *testing.T, f func(t *testing.T, shell, worker string)) {
	dir := t.TempDir()
	os.Symlink("/bin/busybox", filepath.Join(dir, "sh"))
	os.Symlink("/bin/busybox", filepath.Join(dir, "ash"))
	for _, sup := range []string{filepath.Join(dir, "sh"), "/bin/dash", "/bin/bash"} {
		for _, w := range []string{filepath.Join(dir, "ash"), "/bin/dash", "/bin/bash"} {
			t.Run(filepath.Base(sup)+"-"+filepath.Base(w), func(t *testing.T) { f(t, sup, w) })
		}
	}
}

func TestSupervisor(t *testing.T) {
	shells(t, func(t *testing.T, shell, worker string) {
		e := boot(t, shell, worker)
		all := ""
		for i := 1; i < 256; i++ {
			if i != '\n' {
				all += string([]byte{byte(i)})
			}
		}
		cases := []struct {
			script, out, err string
			status           int
		}{
			{"echo hi", "hi\n", "", 0},
			{"printf hi; printf err >&2; (exit 3)", "hi", "err", 3},
			{"return 3", "", "", 3},
			{"exit 3", "", "", 3},
			{"cat", "", "", 0},
			{"read x", "", "", 1},
			{"exec >/dev/null; echo no", "", "", 0},
			{"echo back", "back\n", "", 0},
			{"x=5; cd /tmp; f() { echo $x; }", "", "", 0},
			{"f; pwd", "5\n/tmp\n", "", 0},
			{"set -e; false", "", "", 1},
			{"kill -9 $$", "", "", 137},
			{"echo again", "again\n", "", 0},
			{"set -x", "", "", 0},
			{"set +x", "", "*", 0},
			{"set -v", "", "", 0},
			{"echo verb", "verb\n", "*", 0},
			{"set +v", "", "*", 0},
			{"alias command=false eval=false printf=false", "", "", 0},
			{"echo al", "al\n", "", 0},
			{"unalias -a; IFS=0123456789; set -u", "", "", 0},
			{"echo al; printf() { :; }; read() { :; }", "al\n", "", 0},
			{"echo $undefined_x", "", "*", -1},
			{"exit 9", "", "", 9},
			{"printf '%s' '" + strings.ReplaceAll(all, "'", "") + "'", strings.ReplaceAll(all, "'", ""), "", 0},
			{"printf '%s' 'a\nb\n\n c \n\n'", "a\nb\n\n c \n\n", "", 0},
			{"kill -9 $PPID; echo x", "x\n", "", 0},
			{"sleep 1; exit 4", "", "", -1},
			{"echo y", "y\n", "", 0},
			{"cat <<E\nhello\nE", "hello\n", "", 0},
			{"break; continue; echo z", "z\n", "*", 0},
			{"for x in 1 2; do echo $x; break; done", "1\n", "", 0},
			{"[ -z \"$BASH_VERSION$(readlink /proc/$$/exe | grep dash)\" ] || ulimit -n 3; echo q", "q\n", "*", -1},
			{"echo r", "r\n", "", 0},
			{"set -n", "", "*", -1},
			{"echo r", "r\n", "", 0},
			{"exec 4>&- 5>&- 3>&- 6>&-; echo s", "s\n", "", 0},
			{"echo r", "r\n", "", 0},
			{"exec sleep 0.1", "", "", 0},
			{"echo r", "r\n", "", 0},
			{"if", "", "*", -1},
			{"echo 'abc", "", "*", -1},
			{"trap 'echo bye' EXIT; exit 7", "*", "*", 7},
			{"unset PWD; set -u; echo p", "p\n", "", 0},
			{"kill -9 -1", "*", "*", -1},
			{"echo fin", "fin\n", "", 0},
			{"cat <<E; sleep 0", "*", "*", -1},
			{"printf '%s' '" + strings.Repeat("0123456789", 20000) + "' | wc -c", "200000\n", "", 0},
			{strings.Repeat("x='aé\u0081'\n", 5000) + "printf %s $x", "aé\u0081", "", 0},
			{"sleep 1 & sleep 0.01; echo end; exit 5", "end\n", "*", -1},
			{"echo fin2", "fin2\n", "", 0},
		}
		for _, c := range cases {
			m, out, errs := e.run(t, Unit{Script: c.script}, 4*time.Second)
			name := c.script
			if len(name) > 60 {
				name = name[:60]
			}
			if m.Status != c.status && c.status != -1 || out != c.out && c.out != "*" || errs != c.err && c.err != "*" || m.Status == -2 {
				if len(out) > 600 {
					out = out[:600]
				}
				t.Errorf("%q: status %d out %q err %q (mark %+v)", name, m.Status, out, errs, m)
			} else if c.status == -1 || c.out == "*" || c.err == "*" {
				t.Logf("%q: status %d out %q err %q kind %d", name, m.Status, out, errs, m.Kind)
			}
			if m.Status == -2 {
				break
			}
		}
	})
}

func BenchmarkRoundTrip(b *testing.B) {
	dir := b.TempDir()
	os.Symlink("/bin/busybox", filepath.Join(dir, "sh"))
	for _, s := range []string{filepath.Join(dir, "sh"), "/bin/dash", "/bin/bash"} {
		b.Run(filepath.Base(s), func(b *testing.B) {
			e := boot(b, s, s)
			e.run(&testing.T{}, Unit{Script: ":"}, 4*time.Second)
			for b.Loop() {
				e.run(&testing.T{}, Unit{Script: ":"}, 4*time.Second)
			}
		})
	}
}
