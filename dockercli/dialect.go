package dockercli

import (
	"os"
	"slices"
	"strings"
)

// A dialect is what one engine's command line does differently. Where the engines differ,
// podman's flags bring it to what docker does, or both are told to do the same.
type dialect struct {
	name string

	// run are flags that every run gets.
	run []string
	// detachKeys says that some bytes in stdin detach the client of a run or an exec,
	// even without a terminal.
	detachKeys bool
	// noHosts are flags of a run that names no extra hosts; the engines refuse the two
	// together.
	noHosts []string
	// noProxy are flags that keep the client's proxy settings, and the credentials in
	// them, out of the container.
	noProxy []string
	// noCopyUp are tmpfs options that let it start out empty.
	noCopyUp []string
	// tmpfsIsRoots says that nobody else can own a tmpfs but the container's user.
	tmpfsIsRoots bool
	// remove are flags of a removal.
	remove []string
	// runtimeIsGlobal says that the runtime is named before the verb.
	runtimeIsGlobal bool
	// filterIsCSV says that the value of --filter is a record of comma-separated values.
	filterIsCSV bool
	// volumeFields are fields of a mount of a volume.
	volumeFields []string
	// relabelsByVolume says that only --volume changes SELinux labels.
	relabelsByVolume bool
	// removesByLabel says that a volume is removed by its labels, because the engine
	// takes the beginning of a name for the whole.
	removesByLabel bool
	// gpusAreDevices says that GPUs are named as devices.
	gpusAreDevices bool
	// dnsNeedsNetwork says that name servers are refused where there is no network, and
	// none is told to the container then.
	dnsNeedsNetwork bool
	// oomEvent says that the engine reports an OOM as an event.
	oomEvent bool
	// exitEvent is the event of a container's end, and exitFormat shows its exit status.
	exitEvent, exitFormat string
	// eventsWithoutEnd says that past events are asked for without an end.
	eventsWithoutEnd bool
	// runEnv are the variables of this process that a run's client may have, by their
	// names or, with "_" at the end, how these begin. If empty, it may have all.
	runEnv []string
	// info is the template of what the engine says of itself.
	info string
	// noHealthchecks says that there are none, and no flag against them.
	noHealthchecks bool
	// noLogs says that a container whose client stays has no log, and that no log driver
	// is one that has none.
	noLogs bool
	// detachKeeps says that a container can't be both detached and removed at its end.
	detachKeeps bool
	// noUserNS says that no user namespace can be asked for.
	noUserNS bool
	// noColons says that no path with a colon can be mounted.
	noColons bool
	// execTells begins the words by which the client tells the exit code of a command
	// that an exec has run. If empty, it exits with that code.
	execTells string
	// contexts is what lists the engines that the client has names for; nil if it has
	// none.
	contexts []string
	// container is the template of its inspection.
	container string
}

var dialects = [...]dialect{
	Docker: {
		name: "docker",
		// Proxies of the client's configuration reach every container that does not set
		// them itself. An empty value means no proxy.
		noProxy: []string{
			"--env=HTTP_PROXY=", "--env=http_proxy=", "--env=HTTPS_PROXY=", "--env=https_proxy=", "--env=FTP_PROXY=", "--env=ftp_proxy=",
			"--env=ALL_PROXY=", "--env=all_proxy=", "--env=NO_PROXY=", "--env=no_proxy=",
		},
		// What the image has in its place would be copied into an empty volume.
		volumeFields:     []string{"volume-nocopy"},
		relabelsByVolume: true,

		oomEvent:   true,
		exitEvent:  "die",
		exitFormat: "{{.Actor.Attributes.exitCode}}",
		info:       dockerInfoTemplate,
		contexts:   []string{"context", "ls", "--format=context {{json .Name}} {{json .Current}} {{json .DockerEndpoint}}"},
		container:  containerTemplate,
	},
	Podman: {
		name:       "podman",
		detachKeys: true,
		run: []string{
			// A read-only root gets writable /tmp, /run and /var/tmp of any size
			// otherwise.
			"--read-only-tmpfs=false",
			// A command called systemd or init would get a different set of mounts.
			"--systemd=false",
			// Podman's configuration may put every container into the host's PID
			// namespace.
			"--pid=private",
			// A supervising service's notification socket must not reach the container.
			"--sdnotify=ignore",
		},
		// The host's own /etc/hosts is copied into the container otherwise.
		noHosts:      []string{"--no-hosts"},
		noProxy:      []string{"--http-proxy=false"},
		noCopyUp:     []string{"notmpcopyup"},
		tmpfsIsRoots: true,
		// Without it a removal waits 10 s for the container to obey TERM.
		remove:          []string{"--time=0"},
		runtimeIsGlobal: true,
		filterIsCSV:     true,
		removesByLabel:  true,
		dnsNeedsNetwork: true,
		gpusAreDevices:  true,
		exitEvent:       "died",
		exitFormat:      "{{.ContainerExitCode}}",

		eventsWithoutEnd: true,
		// An image's environment may name a variable without a value, or a pattern: then
		// podman's client puts in its own.
		runEnv: []string{
			"PATH", "HOME", "USER", "LOGNAME", "TMPDIR", "LD_LIBRARY_PATH", "DBUS_SESSION_BUS_ADDRESS", "SSH_AUTH_SOCK", "XDG_", "STORAGE_", "PODMAN_",
			"CONTAINERS_", "_CONTAINERS_", "CONTAINER_HOST", "CONTAINER_CONNECTION", "CONTAINER_SSHKEY",
		},
		info:      podmanInfoTemplate,
		contexts:  []string{"system", "connection", "list", "--format=context {{json .Name}} {{json .Default}} {{json .URI}}"},
		container: containerTemplate,
	},
	Nerdctl: {
		name:           "nerdctl",
		noHealthchecks: true,
		noLogs:         true,
		detachKeeps:    true,
		noUserNS:       true,
		filterIsCSV:    true,
		noColons:       true,
		execTells:      "exec failed with exit code ",
		info:           nerdctlInfoTemplate,
		container:      nerdctlContainerTemplate,
	},
}

func (k Kind) dialect() *dialect {
	if k < 0 || int(k) >= len(dialects) {
		k = Docker
	}
	return &dialects[k]
}

// RunEnv returns the environment for the client of a run: Env or, if that is nil, as much
// of this process's as it may have.
func (e *Engine) RunEnv() []string {
	if e.Env != nil {
		return e.Env
	}
	needs := e.Kind.dialect().runEnv
	return slices.DeleteFunc(os.Environ(), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		return needs != nil && !slices.ContainsFunc(needs, func(n string) bool {
			return name == n || strings.HasSuffix(n, "_") && strings.HasPrefix(name, n)
		})
	})
}

// noDetach returns the flag that keeps what is written to stdin from detaching the
// client.
func (e *Engine) noDetach() []string {
	switch {
	case !e.Kind.dialect().detachKeys:
		return nil
	case e.Remote:
		// A remote client refuses to have none. These would have to come one by one.
		return []string{"--detach-keys=ctrl-@,ctrl-^,ctrl-@,ctrl-^,ctrl-@,ctrl-^,ctrl-@,ctrl-^"}
	}
	return []string{"--detach-keys="}
}
