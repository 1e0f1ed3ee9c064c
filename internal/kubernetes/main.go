//go:build linux

// Command kubernetes runs tests beside a real Kubernetes cluster of two nodes, which it
// brings up on this machine and takes down afterwards. Its arguments are those of
// go test, which runs in the main module. Without one, all
// tests that want a cluster are run:
//
//	go -C internal/kubernetes run . [-keep | -exec] [-- ARGUMENTS]
//
// With -exec the arguments are a command, which is run in place of go test. With -keep
// nothing is run: the cluster stays until a SIGINT or a SIGTERM, and what a shell needs
// to use it is printed. Package kubeplug names the variables of the environment by which
// tests know the cluster.
//
// It takes Linux, root, and Debian's apt-get. Kubernetes is built from its Go module, and
// etcd, containerd, runc and the CNI plugins are taken from the distribution's packages
// without installing them. All of it is kept in the user's cache.
//
// Nothing of the machine is changed but for cgroups of the cluster's own. Everything runs
// in namespaces whose process 1 ends with this program, however it ends, and the kernel
// then ends the rest. What is left of a program that was killed, which is a directory in
// the cache and cgroups without a process, is removed by the next run.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/seed-64a260eb/cofferdam/internal/shellquote"
)

// module is the main module.
const module = "github.com/seed-64a260eb/cofferdam"

func main() {
	var err error
	switch filepath.Base(os.Args[0]) {
	case machineName:
		err = runMachine(cluster{os.Args[1], os.Args[2]})
	case nodeName:
		n, _ := nodeOf(os.Args[3])
		err = runNode(cluster{os.Args[1], os.Args[2]}, n)
	case policyName:
		err = runPolicy(os.Stdin, os.Stdout)
	default:
		err = run()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() (err error) {
	keep := flag.Bool("keep", false, "run nothing, and keep the cluster until a signal")
	command := flag.Bool("exec", false, "the arguments are a command")
	flag.Parse()
	words := flag.Args()
	switch {
	case *keep && (*command || len(words) > 0):
		return errors.New("with -keep nothing is run")
	case *command && len(words) == 0:
		return errors.New("-exec needs a command")
	case !*command && len(words) == 0:
		// One package at a time: some pull plugs.
		words = []string{"-p=1", "-timeout=80m", "-run=^(TestCluster|TestPlug|Example_cluster$)",
			"./execpolicy", "./execpolicy/kube"}
	}
	if !*command {
		words = slices.Concat([]string{"go", "test", "-count=1"}, words)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	begin := time.Now()
	h, err := up(ctx, os.Stderr)
	if h != nil {
		defer func() { err = errors.Join(err, h.down()) }()
	}
	if err != nil {
		return err
	}
	took := time.Since(begin).Round(100 * time.Millisecond)
	fmt.Fprintf(os.Stderr, "the cluster is up after %v\n", took)
	if *keep {
		h.export(os.Stdout)
		<-ctx.Done()
		return nil
	}
	return h.run(ctx, words)
}

// export prints the environment for a shell.
func (h *harness) export(w io.Writer) {
	for _, variable := range h.environ() {
		fmt.Fprintf(w, "export %s\n", shellquote.Quote(variable))
	}
}
