package runargs

import (
	"strconv"
	"strings"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/internal/container"
)

// A Flag is a flag of an engine's run.
type Flag struct {
	*flagGroup
	Name       string // the long name, without dashes
	TakesValue bool
}

// Harmless reports whether the flag is harmless with any value.
func (f Flag) Harmless() bool { return f.verdict == harmless }

// Flags returns the flags of the engine's run by each of their spellings, dashes
// included.
func Flags(kind dockercli.Kind) map[string]Flag {
	known := map[string]Flag{}
	for i := range flagGroups {
		group := &flagGroups[i]
		words := group.flags + " " + group.docker
		if kind == dockercli.Podman {
			words = group.flags + " " + group.podman
		}
		for _, word := range strings.Fields(words) {
			spellings, takesValue := strings.CutSuffix(word, "=")
			names := strings.Split(spellings, ",")
			for _, name := range names {
				if name[0] != '-' {
					name = "--" + name
				}
				known[name] = Flag{flagGroup: group, Name: names[0], TakesValue: takesValue}
			}
		}
	}
	return known
}

// A verdict says whether a policy's user may add a flag.
type verdict int

const (
	harmless  verdict = iota
	weakening         // if AllowUnsafeArgs names it
	owned             // never
)

// A flagGroup holds the flags that are judged alike. A word is a flag's name, after
// commas its other spellings, and "=" if it takes a value.
type flagGroup struct {
	verdict verdict
	Why     string // completes the error; empty for what is harmless
	// safe reports whether the flag is harmless with that value, whatever the verdict. If
	// nil, no value makes it so.
	safe func(value string) bool
	// flags are those of both engines.
	flags, docker, podman string
}

// flagGroups has the flags of docker run up to 29 and of podman run up to 5, hidden and
// outdated ones too. One that is missing is refused.
var flagGroups = []flagGroup{
	{
		verdict: harmless,
		flags: "blkio-weight= blkio-weight-device= cap-drop= cpuset-cpus= cpuset-mems= device-read-bps= " +
			"device-read-iops= device-write-bps= device-write-iops= " +
			"dns= dns-option,dns-opt= dns-search= expose= hostname,-h= kernel-memory= memory-reservation= " +
			"memory-swappiness= platform= quiet,-q stop-timeout=",
		docker: "cpu-count= cpu-percent= domainname= io-maxbandwidth= io-maxiops=",
		podman: "arch,override-arch= group-entry= image-volume= no-hostname os,override-os= passwd passwd-entry= " +
			"timeout= umask= unsetenv= unsetenv-all variant,override-variant=",
	},

	{verdict: weakening, Why: "is what ExtraHosts is for", flags: "add-host="},
	{verdict: weakening, Why: "is what AddCapabilities is for", flags: "cap-add="},
	{verdict: weakening, Why: "is what CPUs is for", flags: "cpus= cpu-period= cpu-quota="},
	{verdict: weakening, Why: "is what CPUShares is for", flags: "cpu-shares,-c="},
	{verdict: weakening, Why: "is what Spec.Env is for", flags: "env,-e=", podman: "env-merge="},
	{verdict: weakening, Why: "is what Devices is for", flags: "device="},
	{verdict: weakening, Why: "is what GPUs is for", flags: "gpus="},
	{verdict: weakening, Why: "is what MemoryBytes is for", flags: "memory,-m= memory-swap="},
	{verdict: weakening, Why: "is what Spec.Workspace and Mounts are for", flags: "mount= volume,-v="},
	{verdict: weakening, Why: "is what NetworkEnabled is for", flags: "network,net="},
	{verdict: weakening, Why: "is what PidsLimit is for", flags: "pids-limit="},
	{verdict: weakening, Why: "is what WritableRootfs and Tmpfs are for", flags: "read-only tmpfs=",
		podman: "read-only-tmpfs"},
	{verdict: weakening, Why: "is what Runtime is for", flags: "runtime="},
	{verdict: weakening, Why: "is what AllowNewPrivileges is for, and can switch off other protection",
		flags: "security-opt="},
	{verdict: weakening, Why: "is what User is for", flags: "user,-u="},
	{verdict: weakening, Why: "is what Spec.Workspace and Command.Dir are for", flags: "workdir,-w="},

	{
		verdict: weakening, Why: "gives the container rights over the host",
		flags:  "device-cgroup-rule= group-add= privileged",
		docker: "use-api-socket",
	},
	{
		verdict: weakening, Why: "lets the container share what keeps it apart from the host or from other containers",
		flags:  "cgroupns= ipc= pid= userns= uts= volumes-from=",
		docker: "isolation= link=",
		podman: "gidmap= requires= subgidname= subuidname= uidmap=",
	},
	{
		verdict: weakening, Why: "brings files, variables or accounts of the host into the container",
		flags:  "env-file= label-file=",
		docker: "volume-driver=",
		// A time zone is a path below /usr/share/zoneinfo, and may leave it.
		podman: "chrootdirs= env-host hosts-file= hostuser= http-proxy secret= tz=",
	},
	{
		verdict: weakening, Why: "replaces the library's choice of what /etc/hosts holds",
		safe:   isTrue,
		podman: "no-hosts",
	},
	{
		verdict: weakening, Why: "opens the container to a network, or gives it an address or a name that others " +
			"there may trust",
		flags:  "ip= ip6= mac-address= network-alias,net-alias= publish,-p= publish-all,-P",
		docker: "link-local-ip=",
	},
	{
		verdict: weakening, Why: "can lift the limits on what the container takes of the host",
		flags: "cgroup-parent= cpu-rt-period= cpu-rt-runtime= oom-kill-disable shm-size= sysctl=",
		// Podman takes the storage options of all its containers here, a program to run
		// on the host among them.
		docker: "storage-opt=",
		podman: "storage-opt= cgroup-conf= cgroups= rdt-class=",
	},
	{
		verdict: weakening, Why: "saves the container before the host's own processes when memory is short, " +
			"unless it is a number from 0",
		safe:  isNotNegative,
		flags: "oom-score-adj=",
	},
	{
		verdict: weakening, Why: "can raise a limit, unless it is a number for as, cpu, data, fsize or rss, or core=0",
		safe:  lowersLimit,
		flags: "ulimit=",
	},
	{
		verdict: weakening, Why: "changes what the engine's runtime does for the container",
		flags:  "annotation=",
		podman: "personality= seccomp-policy=",
	},

	{
		verdict: owned, Why: "names that begin with " + container.LabelPrefix +
			" are those by which the library knows its containers",
		safe:  func(value string) bool { return !strings.HasPrefix(strings.TrimSpace(value), container.LabelPrefix) },
		flags: "label,-l=",
	},
	{
		verdict: owned, Why: "the library talks to the container over stdin, stdout and stderr, and nothing else " +
			"may read or keep them",
		flags:  "attach,-a= detach,-d detach-keys= interactive,-i log-driver= log-opt= sig-proxy tty,-t",
		podman: "preserve-fd= preserve-fds=",
	},
	{
		verdict: owned, Why: "the library names, ends and removes its containers, and what it did not make it leaves alone",
		flags:  "name= restart= rm,purge stop-signal=",
		podman: "pod= pod-id-file= replace rmi",
	},
	{
		verdict: owned, Why: "the file would stay on the host",
		flags:  "cidfile=",
		podman: "conmon-pidfile= pidfile=",
	},
	{
		verdict: owned, Why: "the container's process 1 has to be the one that the library starts, so that all ends with it",
		flags:  "entrypoint= init",
		podman: "init-path= rootfs sdnotify= shm-size-systemd= systemd=",
	},
	{
		verdict: owned, Why: "the engine would run a command of its own beside those of the session",
		flags: "health-cmd,healthcheck-command= health-interval,healthcheck-interval= " +
			"health-retries,healthcheck-retries= health-start-interval= " +
			"health-start-period,healthcheck-start-period= health-timeout,healthcheck-timeout=",
		podman: "health-log-destination= health-max-log-count= health-max-log-size= health-on-failure= " +
			"health-startup-cmd= health-startup-interval= health-startup-retries= health-startup-success= " +
			"health-startup-timeout=",
	},
	{
		verdict: owned, Why: "the engine would run the image's health check beside the commands of the session",
		safe:  isTrue,
		flags: "no-healthcheck",
	},
	{
		verdict: owned, Why: "the library pulls an image apart from the runs, without this flag",
		flags:  "disable-content-trust pull=",
		podman: "authfile= cert-dir= creds= decryption-key= retry= retry-delay= signature-policy= tls-verify",
	},
	{verdict: owned, Why: "nothing would be started", flags: "help"},
}

func isTrue(value string) bool {
	set, err := strconv.ParseBool(value)
	return err == nil && set
}

func isNotNegative(value string) bool {
	n, err := strconv.Atoi(value)
	return err == nil && n >= 0
}

// lowersLimit reports whether a --ulimit can only take away. There is no limit on these
// by default, while other defaults are not known here, and a core dump may go to a
// program of the host. Numbers keep out podman's list of several limits in one value.
func lowersLimit(value string) bool {
	name, limits, _ := strings.Cut(value, "=")
	soft, hard, ok := strings.Cut(limits, ":")
	if !ok {
		hard = soft
	}
	switch name {
	case "as", "cpu", "data", "fsize", "rss":
		return isNotNegative(soft) && isNotNegative(hard)
	case "core":
		return soft == "0" && hard == "0"
	}
	return false
}
