package kubeplug_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/internal/enginetest/kubeplug"
)

func ExampleOrder() {
	o, err := kubeplug.Parse("kill kubelet-1")
	fmt.Printf("%q %q %v\n", o.Verb, o.Part, err)
	_, err = kubeplug.Parse("cut kubelet-1")
	fmt.Println(err)
	// Output:
	// "kill" "kubelet-1" <nil>
	// cut "kubelet-1": it is none of node-1, node-2
}

func TestParse(t *testing.T) {
	for line, wrong := range map[string]string{
		"start node-2":    "",
		"mend node-1":     "",
		"resume etcd":     "",
		"":                `"" is not an order`,
		"kill":            `kill ""`,
		"kill kubelet-3":  `kill "kubelet-3"`,
		"cut kubelet-1":   "it is none of node-1, node-2",
		"kill  etcd":      `kill " etcd"`,
		"kill etcd etcd":  `kill "etcd etcd"`,
		"destroy etcd":    "is not an order",
		"resume\tnode-12": "is not an order",
	} {
		t.Run(line, func(t *testing.T) {
			o, err := kubeplug.Parse(line)
			if wrong != "" {
				assert.ErrorContains(t, err, wrong)
				return
			}
			assert.NilError(t, err)
			assert.Equal(t, o.String(), line)
		})
	}
}

func FuzzParse(f *testing.F) {
	f.Add("kill kubelet-1")
	f.Add("cut node-2")
	f.Add("pause node-1\n")
	f.Fuzz(func(t *testing.T, line string) {
		o, err := kubeplug.Parse(line)
		if err == nil && o.String() != line {
			t.Errorf("%q became %q", line, o)
		}
		if err != nil && o != (kubeplug.Order{}) {
			t.Errorf("%q is wrong, and became %q", line, o)
		}
	})
}

// answer answers every order on a cluster's socket.
func answer(t *testing.T, with string) {
	t.Helper()
	dir := t.TempDir()
	t.Setenv(kubeplug.DirVar, dir)
	listener, err := net.Listen("unix", filepath.Join(dir, kubeplug.Socket))
	assert.NilError(t, err)
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			line, _ := bufio.NewReader(conn).ReadString('\n')
			fmt.Fprint(conn, strings.ReplaceAll(with, "ORDER", strings.TrimSpace(line)))
			conn.Close()
		}
	}()
}

func TestOrders(t *testing.T) {
	orders := map[string]func(context.Context, string) error{
		"kill": kubeplug.Kill, "start": kubeplug.Start, "pause": kubeplug.Pause,
		"resume": kubeplug.Resume, "cut": kubeplug.Cut, "mend": kubeplug.Mend,
	}
	for verb, order := range orders {
		part := "etcd"
		if verb == "cut" || verb == "mend" {
			part = "node-1"
		}
		t.Run(verb, func(t *testing.T) {
			t.Setenv(kubeplug.DirVar, "")
			assert.ErrorContains(t, order(t.Context(), part), "names no cluster")
			t.Setenv(kubeplug.DirVar, t.TempDir())
			assert.ErrorContains(t, order(t.Context(), part), "no such file")
			assert.ErrorContains(t, order(t.Context(), "sink"), "it is none of")

			answer(t, "done\n")
			assert.NilError(t, order(t.Context(), part))
			answer(t, "got ORDER\n")
			said := fmt.Sprintf("%s %s: got %[1]s %[2]s", verb, part)
			assert.Error(t, order(t.Context(), part), said)
			// The cluster has ended meanwhile.
			answer(t, "")
			assert.ErrorContains(t, order(t.Context(), part), verb+" "+part)
			answer(t, "do")
			assert.ErrorContains(t, order(t.Context(), part), verb+" "+part)
		})
	}
}

func TestOrderEndsWithItsContext(t *testing.T) {
	dir := t.TempDir()
	t.Setenv(kubeplug.DirVar, dir)
	listener, err := net.Listen("unix", filepath.Join(dir, kubeplug.Socket))
	assert.NilError(t, err)
	defer listener.Close()
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() {
		if conn, err := listener.Accept(); err == nil {
			defer conn.Close()
			_, _ = bufio.NewReader(conn).ReadString('\n')
			cancel(fmt.Errorf("the test is over"))
			<-t.Context().Done()
		}
	}()
	assert.ErrorContains(t, kubeplug.Kill(ctx, "etcd"), "the test is over")
}
