// Mcp is a server of the Model Context Protocol. It gives any client of the protocol a
// shell, Python and files in a locked-down container: the tools of package
// execpolicy/tool. Run it in its directory:
//
//	go run . [flags]
//
// It talks to one client by its stdin and stdout or, with -http, to several by the
// protocol's streamable HTTP. Each client has a session of its own, which starts with its
// first call. When the client goes, by whatever way, the session ends and nothing of it
// is left.
//
// # Files
//
// Without -workspace or -roots a session begins with no files of this machine, and what
// is in it ends with it. Files that are put into the directory that -artifacts names are
// resources of the protocol, which the client can fetch. With -workspace all sessions
// have that directory of this machine, mounted or, where it can't be, copied in and at
// the end out. With -roots a session has a copy of the first root that the client names,
// whose changes are copied back when the client disconnects. They are lost if the session
// ends before that: by itself, when its -lifetime is over, or at a restart by the tool
// shell, which begins with a new copy. Roots are for a client on this machine, so -http
// has none. After its -lifetime a session is replaced by a new one with the next call.
//
// # HTTP
//
// With -http=localhost:8080 only this machine reaches the server. An address without a
// name, such as :8080, is reached from everywhere. On a loopback address a request whose
// Host header is not a loopback name is refused, so that no web page can get in by a name
// that it makes resolve to this machine. A request with an Origin header, as browsers
// send it, is refused unless the origin is the server itself, or -origin names it. If the
// environment has COFFERDAM_MCP_TOKEN, each request needs it as a bearer token. On an
// address that is not a loopback one it must be set, as everybody who reaches the server
// can run commands in it.
//
// # Approval
//
// With -approve the client's user is asked, by an elicitation of the protocol, about each
// command, snippet of Python, change of a file and input of a job. What is longer than 32
// KiB is refused without a question. If the client can't ask, nothing is allowed.
//
// # The protocol
//
// The server speaks the versions from 2024-11-05 to 2025-11-25. Versions without
// sessions, from 2026-07-28 on, have no place for the state of a shell.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/execpolicy/tool"
	"github.com/seed-64a260eb/cofferdam/execpolicy/workspace"
)

// tokenVar holds in the environment what clients of HTTP have to show.
const tokenVar = "COFFERDAM_MCP_TOKEN"

func main() {
	log.SetFlags(0)
	log.SetPrefix("mcp: ")
	// Before anything is started, so that a signal is never missed.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// A second one ends the program at once.
	context.AfterFunc(ctx, stop)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		log.Fatal(err)
	}
}

// run serves until ctx ends or, on stdin and stdout, until the client goes.
func run(ctx context.Context, args []string) error {
	o, err := parse(ctx, args)
	if err != nil {
		return err
	}
	if o.http == "" {
		return serveStdio(ctx, o)
	}
	return serveHTTP(ctx, o)
}

// Options are what the flags say.
type options struct {
	http      string
	token     string
	origins   list
	clients   int
	idle      time.Duration
	approve   bool
	roots     bool
	artifacts string

	policy execpolicy.DockerPolicy
	spec   execpolicy.Spec
	tool   tool.Options
}

// A list is a flag that may be given more than once.
type list []string

func (l *list) String() string     { return fmt.Sprint([]string(*l)) }
func (l *list) Set(s string) error { *l = append(*l, s); return nil }

// parse reads the command line, and checks what it says.
func parse(ctx context.Context, args []string) (*options, error) {
	o := &options{token: os.Getenv(tokenVar)}
	var engine string
	var exclude list
	f := flag.NewFlagSet("mcp", flag.ContinueOnError)
	f.StringVar(&o.http, "http", "", "`address` to listen on, such as localhost:8080; if empty, stdin and stdout are used")
	f.Var(&o.origins, "origin", "`origin` of web pages that may use -http, such as http://localhost:6274; may be repeated")
	f.IntVar(&o.clients, "clients", 8, "how many clients -http may have at once")
	f.DurationVar(&o.idle, "idle", 30*time.Minute, "how long a client of -http may send nothing before it is taken to be gone")
	f.BoolVar(&o.approve, "approve", false, "have the client's user approve each command and each change of a file")
	f.BoolVar(&o.roots, "roots", false, "copy the client's first root in, and the changes back at the end")
	f.StringVar(&o.artifacts, "artifacts", "artifacts", "`directory` inside whose files are resources; if empty, there are none")
	f.StringVar(&engine, "engine", "", "`command` line of the engine's client, such as podman; if empty, it is looked for")
	f.StringVar(&o.policy.Image, "image", execpolicy.DefaultImage, "`reference` of the image")
	f.StringVar(&o.spec.Workspace, "workspace", "", "`directory` of this machine to work in; if empty, a new one that is not kept")
	f.Var(&exclude, "exclude", "`pattern` of files that are not copied in or out, such as **/node_modules; may be repeated")
	f.BoolVar(&o.policy.NetworkEnabled, "network", false, "give the sessions the engine's network")
	f.DurationVar(&o.policy.CommandTimeout, "timeout", 2*time.Minute, "how long a command may run")
	f.DurationVar(&o.policy.Lifetime, "lifetime", 24*time.Hour, "how long a session may live")
	f.Int64Var(&o.policy.MemoryBytes, "memory", 512<<20, "how many `bytes` of memory a session may use")
	f.StringVar(&o.policy.CPUs, "cpus", "1", "how many processors a session may use")
	f.Int64Var(&o.policy.PidsLimit, "pids", 256, "how many processes a session may have at once")
	f.IntVar(&o.tool.Render.MaxBytes, "output", execpolicy.DefaultRenderBytes, "how many `bytes` a reply may have")
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	o.tool.Workspace.Exclude = exclude
	if o.roots {
		o.tool.Workspace.Mode = workspace.Copied
	}
	var errs []error
	refuse := func(is bool, text string) {
		if is {
			errs = append(errs, errors.New(text))
		}
	}
	refuse(f.NArg() > 0, "there are flags only, and no arguments")
	refuse(o.clients < 1, "-clients must be 1 or more")
	refuse(o.idle <= 0, "-idle must be more than 0")
	refuse(o.policy.CommandTimeout <= 0, "-timeout must be more than 0")
	refuse(o.policy.Lifetime <= 0, "-lifetime must be more than 0")
	refuse(o.tool.Render.MaxBytes < 1000, "-output must be 1000 or more")
	refuse(o.roots && o.http != "", "-roots are directories of the client's machine, and so can't be had with -http")
	refuse(o.roots && o.spec.Workspace != "", "-roots and -workspace can't be had together")
	refuse(len(exclude) > 0 && !o.roots && o.spec.Workspace == "", "-exclude needs -workspace or -roots")
	if engine != "" {
		e, err := dockercli.Lookup(ctx, engine)
		o.policy.Engine = e
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	o.policy.PullProgress = io.Writer(os.Stderr)
	return o, execpolicy.Check(ctx, o.policy, checked(o.spec))
}

// checked returns what of a spec can be checked at once: whether its workspace can be
// mounted or has to be copied is decided later.
func checked(spec execpolicy.Spec) execpolicy.Spec {
	spec.Workspace = ""
	return spec
}
