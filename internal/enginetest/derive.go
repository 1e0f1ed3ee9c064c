package enginetest

import (
	"fmt"
	"os"
	"testing"
	"time"
)

// Derive returns the name of an image made of Image by a script that root runs in it,
// with changes such as "WORKDIR /data". It is removed with the test.
func (e Engine) Derive(t testing.TB, script string, changes ...string) string {
	t.Helper()
	name := fmt.Sprintf("cofferdam-derived-%d-%d", os.Getpid(), time.Now().UnixNano())
	image := "localhost/" + name + ":1"
	run := []string{"run", "--network=none", "--pull=never", "--user=0:0", "--name=" + name}
	for k, v := range e.Labels {
		run = append(run, "--label="+k+"="+v)
	}
	commit := []string{"commit"}
	for _, change := range append(changes, `CMD ["sh"]`) {
		commit = append(commit, "--change="+change)
	}
	l := e.labeled()
	l.List(append(run, "--", e.Image, "sh", "-c", script)...)
	l.List(append(commit, name, image)...)
	l.List("rm", "--force", name)
	t.Cleanup(func() { l.List("rmi", "--force", image) })
	return image
}
