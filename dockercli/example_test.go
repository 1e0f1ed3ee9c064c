package dockercli_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/seed-64a260eb/cofferdam/dockercli"
)

func ExampleFind() {
	ctx := context.Background()
	engine, err := dockercli.Find(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(engine) // such as "docker 28.2.2 (/usr/bin/docker)"
}

func ExampleLookup() {
	_, err := dockercli.Lookup(context.Background(), "docker --context 'ci")
	fmt.Println(errors.Is(err, dockercli.ErrArgument))
	// Output: true
}

// A client with an environment of its own.
func ExampleEngine_Probe() {
	client := &dockercli.Engine{Path: "podman", Env: append(os.Environ(), "CONTAINERS_CONF=/etc/ci.conf")}
	engine, err := client.Probe(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(engine.ServerVersion)
}

func ExampleParse() {
	_, err := dockercli.Parse("nosuchclient --context ci")
	fmt.Println(errors.Is(err, dockercli.ErrNoEngine))
	// Output: true
}

func ExampleContext() {
	contexts, err := new(dockercli.Engine).Contexts(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, c := range contexts {
		fmt.Println(c.Name, c.Endpoint) // such as "default unix:///var/run/docker.sock"
	}
}

func ExampleKind() {
	fmt.Println(dockercli.Docker, dockercli.Podman, dockercli.Nerdctl)
	// Output: docker podman nerdctl
}

func ExampleEngine_RunArgs() {
	engine := &dockercli.Engine{Kind: dockercli.Podman, Global: []string{"--remote"}}
	argv, err := engine.RunArgs(dockercli.RunOptions{
		Remove:  true,
		Network: "none",
		Tmpfs:   []dockercli.Tmpfs{{Target: "/tmp", SizeBytes: 64 << 20}},
		Image:   "docker.io/library/alpine:3.19",
		Command: []string{"echo", "hello world"},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, word := range argv {
		fmt.Println(word)
	}
	// Output:
	// podman
	// --remote
	// run
	// --detach-keys=
	// --read-only-tmpfs=false
	// --systemd=false
	// --pid=private
	// --sdnotify=ignore
	// --no-hosts
	// --http-proxy=false
	// --rm
	// --network=none
	// --tmpfs=/tmp:rw,nosuid,nodev,noexec,size=67108864,mode=1777,notmpcopyup
	// --entrypoint=
	// --
	// docker.io/library/alpine:3.19
	// echo
	// hello world
}

func ExampleRunOptions() {
	// Everything that is wrong is told at once.
	_, err := new(dockercli.Engine).RunArgs(dockercli.RunOptions{Image: "--privileged", Env: []string{"TOKEN=secret"}})
	fmt.Println(err)
	// Output:
	// 2 errors occurred:
	// 	* an argument was refused: environment variable "TOKEN": its value belongs into the client's environment
	// 	* an argument was refused: image reference "--privileged": it has to be like registry/name:tag
}

func ExampleMount() {
	argv, err := new(dockercli.Engine).RunArgs(dockercli.RunOptions{
		HTTPProxy: true,
		Mounts:    []dockercli.Mount{{Source: "/data/a,b", Target: "/data"}},
		Image:     "alpine",
	})
	fmt.Println(dockercli.Explain(argv), err)
	// Output: docker run '--mount=type=bind,"source=/data/a,b",target=/data,readonly' --entrypoint= -- alpine <nil>
}

// A volume that is mounted must exist.
func ExampleVolume() {
	ctx := context.Background()
	engine, err := dockercli.Find(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	labels := map[string]string{"com.example.cache": "1"}
	volume, err := engine.CreateVolume(ctx, "example-cache", labels)
	if err != nil {
		fmt.Println(err)
		return
	}
	if len(volume.Options) > 0 || volume.Labels["com.example.cache"] != "1" {
		fmt.Println("somebody else's:", volume.Name)
		return
	}
	_, err = engine.RunArgs(dockercli.RunOptions{
		Mounts: []dockercli.Mount{{Volume: volume.Name, Target: "/cache"}},
		Image:  "alpine",
	})
	fmt.Println(err)
}

func ExampleTmpfs() {
	argv, err := new(dockercli.Engine).RunArgs(dockercli.RunOptions{
		HTTPProxy: true,
		Tmpfs:     []dockercli.Tmpfs{{Target: "/build", SizeBytes: 1 << 30, Exec: true}},
		Image:     "alpine",
	})
	fmt.Println(dockercli.Explain(argv), err)
	// Output: docker run --tmpfs=/build:rw,nosuid,nodev,exec,size=1073741824,mode=1777 --entrypoint= -- alpine <nil>
}

func ExampleExecOptions() {
	argv, err := new(dockercli.Engine).ExecArgs(dockercli.ExecOptions{
		Container: "sandbox-1",
		User:      "0:0",
		Command:   []string{"kill", "-9", "-1"},
	})
	fmt.Println(dockercli.Explain(argv), err)
	// Output: docker exec --user=0:0 -- sandbox-1 kill -9 -1 <nil>
}

func ExamplePullOptions() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	err := new(dockercli.Engine).Pull(ctx, dockercli.PullOptions{Image: "alpine:3.19", Progress: os.Stderr})
	if errors.Is(err, dockercli.ErrPull) {
		fmt.Println("is there a network?")
	}
}

func ExampleDevice() {
	argv, err := new(dockercli.Engine).RunArgs(dockercli.RunOptions{
		Devices: []dockercli.Device{{Source: "/dev/ttyUSB0", Target: "/dev/modem", Permissions: "r"}},
		Image:   "alpine",
	})
	fmt.Println(slices.Contains(argv, "--device=/dev/ttyUSB0:/dev/modem:r"), err)
	// Output: true <nil>
}

func ExampleContainer() {
	container, err := new(dockercli.Engine).Inspect(context.Background(), "sandbox-1")
	switch {
	case errors.Is(err, dockercli.ErrNoContainer):
		fmt.Println("gone")
	case err != nil:
		fmt.Println(err)
	case !container.Started:
		fmt.Println("never started:", container.Error)
	default:
		fmt.Println(container.Status, container.ExitCode)
	}
}

func ExampleImage() {
	image, err := new(dockercli.Engine).InspectImage(context.Background(), "alpine:3.19")
	if errors.Is(err, dockercli.ErrImageMissing) {
		fmt.Println("it has to be pulled")
		return
	}
	fmt.Println(image.Entrypoint, image.Command, err)
}

func ExampleInfo() {
	info, err := new(dockercli.Engine).Info(context.Background())
	if err == nil && !info.MemoryLimit {
		fmt.Println("this engine can't limit memory")
	}
}

func ExampleSettings() {
	ctx := context.Background()
	engine := &dockercli.Engine{}
	s, err := engine.InspectSettings(ctx, "cofferdam-example")
	if err != nil {
		fmt.Println(err)
		return
	}
	if s.Privileged || s.Network != "none" || s.Memory == 0 {
		fmt.Println("this container is not isolated")
	}
}

func ExampleMountPoint() {
	m := dockercli.MountPoint{Type: "bind", Source: "/srv/data", Target: "/workspace"}
	fmt.Println(m.Target, m.Writable)
	// Output: /workspace false
}

func ExampleComponent() {
	engine := &dockercli.Engine{Kind: dockercli.Podman}
	parts, err := engine.Components(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, c := range parts {
		fmt.Println(c.Name, c.Version) // such as "runc 1.1.5+ds1"
	}
}

func ExampleError() {
	argv := []string{"docker", "run", "--env=TOKEN=secret", "--", "alpine:none"}
	err := dockercli.NewRunError(argv, 125,
		[]byte("docker: Error response from daemon: No such image: alpine:none\n"), nil)
	fmt.Println(errors.Is(err, dockercli.ErrImageMissing))
	fmt.Println(err)
	fmt.Println(err.Command)
	// Output:
	// true
	// run: the image is missing: No such image: alpine:none (pull or import the image, and check its name)
	// docker run '--env=TOKEN=***' -- alpine:none
}

func ExampleExplain() {
	fmt.Println(dockercli.Explain([]string{"docker", "run", "--label=note=it's a test", "--", "alpine"}))
	// Output: docker run '--label=note=it'\''s a test' -- alpine
}

func ExampleRedact() {
	argv := []string{"docker", "run", "-e", "TOKEN=secret", "-e", "NAME", "--", "alpine"}
	fmt.Println(dockercli.Explain(dockercli.Redact(argv)))
	// Output: docker run -e 'TOKEN=***' -e NAME -- alpine
}

// A program pulls its image when it starts, so that no container waits for it later.
func ExampleEngine_EnsureImage() {
	ctx := context.Background()
	engine, err := dockercli.Find(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	image, err := engine.EnsureImage(ctx, dockercli.PullMissing, dockercli.PullOptions{
		Image:    "alpine:3.19",
		Platform: "linux/amd64",
		Progress: os.Stderr,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(image.ID, image.Platform)
}

func ExamplePullPolicy() {
	fmt.Println(dockercli.PullMissing, dockercli.PullAlways, dockercli.PullNever)
	// Output: missing always never
}
