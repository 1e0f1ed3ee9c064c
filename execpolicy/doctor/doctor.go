package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/execpolicy/attest"
)

const (
	// defaultTimeout is for a machine under load: an engine takes some seconds.
	defaultTimeout = time.Minute
	// contextsTimeout is for a client that reads its files only.
	contextsTimeout = 5 * time.Second
	// maxEngines bounds how many engines are looked at, and maxAtOnce how many at a time.
	maxEngines = 16
	maxAtOnce  = 4
	// maxImages bounds how many images are tried where the default one is not there.
	maxImages = 3
)

// Options say what is looked at.
type Options struct {
	// Engines are the clients to look at. Only their Path, Global and Env are used, and
	// their Kind if Path is empty. If empty, they are those that the machine has, up to
	// 16. The engines behind podman's connections are then asked without CONTAINER_HOST
	// and CONTAINER_CONNECTION, which podman's client heeds before its flags.
	Engines []*dockercli.Engine
	// Image is the image to try. If empty, it is [execpolicy.DefaultImage] or, if an
	// engine does not have that, the first of three others in which a session starts.
	Image string
	// Timeout is how long one engine is looked at. If zero, it is a minute. It must not
	// be negative. The removal of what was started may take 25 s more.
	Timeout time.Duration
}

// Examine looks at the machine's engines, some at the same time. An engine that does not
// work is not an error: the report says so. The error wraps [execpolicy.ErrInvalid] if an
// option is at fault, and the cause of ctx if that ends. Then the report says what was
// found until then, and which container may be left.
func Examine(ctx context.Context, o Options) (*Report, error) {
	if o.Timeout < 0 {
		return nil, fmt.Errorf("%w: Timeout: %v is negative", execpolicy.ErrInvalid, o.Timeout)
	}
	if o.Timeout == 0 {
		o.Timeout = defaultTimeout
	}
	return (&examiner{o, thisMachine(), try, transport}).examine(ctx)
}

// An examiner is an examination that is under way.
type examiner struct {
	Options
	machine machine
	// These depend on more than what a client answers.
	try       func(ctx context.Context, e *dockercli.Engine, image string) ([]Step, error)
	transport func(ctx context.Context, e *dockercli.Engine) (name, why string)
}

func (x *examiner) examine(ctx context.Context) (*Report, error) {
	r := &Report{Engines: []Engine{}}
	found, err := dockercli.Find(ctx)
	if err != nil {
		r.FindError = err.Error()
	} else {
		r.Found = found.String()
	}
	clients := x.Engines
	if len(clients) == 0 {
		clients = x.clients(ctx, r)
	}
	r.Engines = make([]Engine, len(clients))
	var wg sync.WaitGroup
	turns := make(chan struct{}, maxAtOnce)
	for i, client := range clients {
		wg.Go(func() {
			turns <- struct{}{}
			defer func() { <-turns }()
			own, cancel := context.WithTimeoutCause(ctx, x.Timeout,
				fmt.Errorf("not done within %v: %w", x.Timeout, context.DeadlineExceeded))
			defer cancel()
			e := &r.Engines[i]
			probed := x.engine(own, client, e)
			slices.SortStableFunc(e.Problems, blockingFirst)
			e.Chosen = found != nil && probed != nil && found.Path == probed.Path && slices.Equal(found.Global, probed.Global)
		})
	}
	wg.Wait()
	if ctx.Err() != nil {
		return r, context.Cause(ctx)
	}
	if len(clients) == 0 {
		r.Problems = append(r.Problems, x.machine.noClient())
	}
	return r, nil
}

func blockingFirst(a, b Problem) int {
	switch {
	case a.Blocks == b.Blocks:
		return 0
	case a.Blocks:
		return -1
	}
	return 1
}

// clients returns the clients that the machine has.
func (x *examiner) clients(ctx context.Context, r *Report) []*dockercli.Engine {
	var clients []*dockercli.Engine
	var manage []string
	add := func(e *dockercli.Engine) {
		resolved, err := e.Resolve()
		if err != nil {
			return
		}
		if !slices.ContainsFunc(clients, func(c *dockercli.Engine) bool {
			return c.Path == resolved.Path && slices.Equal(c.Global, resolved.Global)
		}) {
			clients = append(clients, resolved)
		}
	}
	if spec := os.Getenv(dockercli.EngineVar); spec != "" {
		e, err := dockercli.Parse(spec)
		if err != nil {
			r.Problems = append(r.Problems, Problem{
				Missing: "the client that " + dockercli.EngineVar + " names", Blocks: true,
				Means: err.Error(), Fix: "unset " + dockercli.EngineVar,
			})
		} else {
			add(e)
		}
	}
	for _, names := range []names{
		{dockercli.Docker, "--context", "docker context ls", "docker context rm NAME", "ls -l ~/.docker/contexts/meta"},
		{dockercli.Podman, "--connection", "podman system connection list", "podman system connection remove NAME", "ls -l ~/.config/containers"},
	} {
		e := &dockercli.Engine{Kind: names.kind}
		add(e)
		if _, err := e.Resolve(); err == nil {
			for _, name := range x.contexts(ctx, e, names, r) {
				add(&dockercli.Engine{Kind: names.kind, Global: []string{names.flag, name}, Env: envOf(names.kind)})
			}
			manage = append(manage, names.list, names.remove)
		}
	}
	add(&dockercli.Engine{Kind: dockercli.Nerdctl})
	if len(clients) > maxEngines {
		r.Problems = append(r.Problems, Problem{
			Missing: fmt.Sprintf("a look at %d more contexts or connections", len(clients)-maxEngines),
			Means:   fmt.Sprintf("No more than %d engines are looked at.", maxEngines),
			Fix:     strings.Join(manage, "\n"),
		})
		clients = clients[:maxEngines]
	}
	return clients
}

// names says how a client names engines, and what commands list, remove and show them.
type names struct {
	kind                     dockercli.Kind
	flag, list, remove, file string
}

// contexts returns the engines that a client has names for but for the one that it uses
// anyway.
func (x *examiner) contexts(ctx context.Context, client *dockercli.Engine, by names, r *Report) (found []string) {
	own, cancel := context.WithTimeoutCause(ctx, contextsTimeout,
		fmt.Errorf("no answer within %v: %w", contextsTimeout, context.DeadlineExceeded))
	defer cancel()
	contexts, err := client.Contexts(own)
	switch {
	case err == nil, errors.Is(err, errors.ErrUnsupported):
	case strings.Contains(err.Error(), "unrecognized command"):
		// A podman under the name docker has no contexts, and answers so.
	case ctx.Err() == nil, errors.Is(err, context.DeadlineExceeded):
		r.Problems = append(r.Problems, Problem{
			Missing: "an answer to " + by.list,
			Means: fmt.Sprintf("The engines that %s's client has names for are not known, and were not looked at. "+
				"The client asks no engine for them, so the fault is in it or its files: %v", by.kind, err),
			Fix: by.list + "\n" + by.file,
		})
	}
	for _, c := range contexts {
		if !x.machine.uses(by.kind, c) {
			found = append(found, c.Name)
		}
	}
	return found
}

// uses reports whether a client without flags uses a context.
func (m machine) uses(kind dockercli.Kind, c dockercli.Context) bool {
	if kind != dockercli.Podman {
		return c.Current
	}
	if _, set := os.LookupEnv("CONTAINER_HOST"); set {
		return false
	}
	if name := os.Getenv("CONTAINER_CONNECTION"); name != "" {
		return c.Name == name
	}
	return c.Current && m.goos != "linux"
}

// envOf returns the environment of a client that has a flag for its engine; nil is this
// process's. Podman's client heeds two variables before the flag.
func envOf(kind dockercli.Kind) []string {
	if kind != dockercli.Podman {
		return nil
	}
	// An image can read what is in Env.
	all := (&dockercli.Engine{Kind: kind}).RunEnv()
	env := slices.DeleteFunc(slices.Clone(all), func(entry string) bool {
		return strings.HasPrefix(entry, "CONTAINER_HOST=") || strings.HasPrefix(entry, "CONTAINER_CONNECTION=")
	})
	if len(env) == len(all) {
		return nil
	}
	return env
}

// engine looks at one engine, and returns it with what it says of itself, or nil if it
// does not answer.
func (x *examiner) engine(ctx context.Context, client *dockercli.Engine, r *Engine) *dockercli.Engine {
	r.Name, r.Client = flags(client), client.Client()
	start := time.Now()
	e, err := client.Resolve()
	if err == nil {
		e, err = e.Probe(ctx)
	}
	if !r.step(StepAnswer, start, err) {
		r.Problems = append(r.Problems, x.machine.noAnswer(client, err))
		return nil
	}
	r.Name, r.Kind = name(e), e.Kind.String()
	r.ServerVersion, r.ClientVersion = e.ServerVersion, e.ClientVersion
	r.Rootless, r.Remote, r.PodmanService = e.Rootless, e.Remote, e.PodmanService

	start = time.Now()
	r.Info, err = e.Info(ctx)
	if err == nil {
		r.Versions, err = e.Components(ctx)
	}
	if r.step(StepInfo, start, err) {
		r.Problems = append(r.Problems, x.machine.missing(e, r.Info, attest.Weaknesses(r.Versions))...)
	} else {
		r.Problems = append(r.Problems, x.machine.noAnswer(client, err))
		return e
	}
	r.Transport, r.TransportWhy = x.transport(ctx, e)

	start = time.Now()
	images, err := x.images(ctx, e)
	if !r.step(StepImage, start, err) {
		r.Problems = append(r.Problems, x.machine.noImage(e, x.image(), err))
		return e
	}
	before := len(r.Steps)
	for i, image := range images {
		steps, tryErr := x.try(ctx, e, image)
		if i > 0 && tryErr != nil && ctx.Err() != nil {
			break // that the time is over says less than what failed before
		}
		err = tryErr
		r.Image, r.Steps = image, append(r.Steps[:before], steps...)
		// What may be left of a start must not go unmentioned.
		last := len(steps) - 1
		unstarted := last >= 0 && steps[last].Name == StepStart && steps[last].Error != ""
		if !unstarted || i == len(images)-1 || ctx.Err() != nil || errors.Is(err, execpolicy.ErrStillThere) {
			break
		}
	}
	if err != nil {
		r.Problems = append(r.Problems, x.machine.failed(e, r.Steps, err))
	}
	return e
}

func (x *examiner) image() string {
	if x.Image == "" {
		return execpolicy.DefaultImage
	}
	return x.Image
}

// images returns the images to try, of which there is at least one without an error.
func (x *examiner) images(ctx context.Context, e *dockercli.Engine) ([]string, error) {
	_, err := e.InspectImage(ctx, x.image())
	if err == nil {
		return []string{x.image()}, nil
	}
	if x.Image != "" || !errors.Is(err, dockercli.ErrImageMissing) {
		return nil, err
	}
	names, listed := e.Images(ctx)
	if listed != nil {
		return nil, listed
	}
	if len(names) == 0 {
		return nil, err
	}
	return names[:min(maxImages, len(names))], nil
}

func transport(ctx context.Context, e *dockercli.Engine) (name, why string) {
	// An error is that of a policy that names one.
	t, why, _ := execpolicy.DockerPolicy{Engine: e}.FindTransport(ctx)
	return t.String(), why
}

// name is what the engine is called in the report.
func name(e *dockercli.Engine) string {
	name := e.Kind.String()
	switch {
	case e.PodmanService:
		name = "podman's service"
	case e.Kind == dockercli.Nerdctl:
		name = "containerd"
	}
	name = strings.TrimSpace(name + " " + e.ServerVersion)
	if len(e.Global) > 0 {
		name += " (" + flags(e) + ")"
	}
	return name
}

// flags is the client's command line without the program's directory.
func flags(e *dockercli.Engine) string {
	path := cmp.Or(e.Path, e.Kind.String())
	return (&dockercli.Engine{Path: strings.TrimSuffix(filepath.Base(path), ".exe"), Global: e.Global}).Client()
}

// thisMachine looks what machine this is.
func thisMachine() machine {
	m := machine{goos: runtime.GOOS, root: os.Getuid() == 0}
	if m.goos == "linux" {
		if f, err := os.Open("/etc/os-release"); err == nil {
			defer f.Close()
			// It is some hundred bytes.
			text, _ := io.ReadAll(io.LimitReader(f, 64<<10))
			m.release = string(text)
		}
		_, err := exec.LookPath("systemctl")
		m.systemd = err == nil
	}
	return m
}
