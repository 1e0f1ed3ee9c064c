package execpolicy

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/internal/problems"
)

// checkExtraArgs reports everything for which [DockerPolicy.ExtraRunArgs] and
// [DockerPolicy.AllowUnsafeArgs] can't be used with that kind of engine. No error holds a
// flag's value, which may be secret.
func checkExtraArgs(kind dockercli.Kind, args, allowed []string) []error {
	var found problems.List
	known := runFlags(kind)
	for _, name := range allowed {
		if f, ok := known["--"+name]; !ok || f.name != name || f.verdict != weakening {
			found.Add("AllowUnsafeArgs: %q is no flag of %v run that can be allowed; write its long name without dashes, such as \"ipc\"", name, kind)
		}
	}
	for i, arg := range args {
		if strings.Contains(arg, "\x00") {
			found.Add("ExtraRunArgs[%d] holds a NUL byte", i)
		}
		if !utf8.ValidString(arg) {
			found.Add("ExtraRunArgs[%d] is not valid UTF-8, and the engine would change it", i)
		}
	}
	for _, f := range readExtraArgs(kind, args) {
		if err := f.check(allowed); err != nil {
			found.Add("ExtraRunArgs[%d]: %w", f.index, err)
		}
	}
	return found
}

// UnsafeArgs returns what ExtraRunArgs has only because AllowUnsafeArgs lets it in, for
// that kind of engine: each flag once, by its long name, with what is wrong with it, and
// without its value.
func (p DockerPolicy) UnsafeArgs(kind dockercli.Kind) []string {
	var unsafe []string
	for _, f := range readExtraArgs(kind, p.ExtraRunArgs) {
		if f.err != nil || f.verdict != weakening || f.safe != nil && f.safe(f.value) {
			continue
		}
		if text := "--" + f.name + " " + f.why; !slices.Contains(unsafe, text) {
			unsafe = append(unsafe, text)
		}
	}
	return unsafe
}

// An extraFlag is a flag as the engine reads it, or what it can't read.
type extraFlag struct {
	runFlag
	index    int    // of the word that it begins in
	spelling string // as it was written, without the value
	value    string
	apart    bool  // the value is a word of its own
	err      error // the flag can't be read; then the rest is not set
}

func (f extraFlag) check(allowed []string) error {
	if f.err != nil {
		return f.err
	}
	spelling := f.spelling
	if long := "--" + f.name; spelling != long {
		spelling += " (" + long + ")"
	}
	if _, err := strconv.ParseBool(f.value); err != nil && !f.takesValue {
		return fmt.Errorf("%s can only be true or false", spelling)
	}
	if f.apart && f.value == "--" {
		return fmt.Errorf(`%s has the value "--", which ends the flags for whoever reads the line; write it after "="`, spelling)
	}
	if f.safe != nil && f.safe(f.value) {
		return nil
	}
	switch f.verdict {
	case owned:
		return fmt.Errorf("%s can't be given: %s", spelling, f.why)
	case weakening:
		if !slices.Contains(allowed, f.name) {
			return fmt.Errorf("%s %s; add %q to AllowUnsafeArgs if you mean it", spelling, f.why, f.name)
		}
	}
	return nil
}

// readExtraArgs reads words as the engines' clients do (github.com/spf13/pflag, not
// interspersed), but goes on after what can't be read, so that everything is reported at
// once.
func readExtraArgs(kind dockercli.Kind, args []string) []extraFlag {
	known := runFlags(kind)
	var read []extraFlag
	for i := 0; i < len(args); i++ {
		f := extraFlag{index: i}
		fail := func(format string, a ...any) {
			read = append(read, extraFlag{index: f.index, err: fmt.Errorf(format, a...)})
		}
		// add adds the flag of that spelling, with its value if one is attached, and
		// reports whether it took what follows in the word.
		add := func(spelling, attached string, hasAttached bool, follows string) (took bool) {
			var ok bool
			f.spelling = spelling
			if f.runFlag, ok = known[spelling]; !ok {
				fail("%v run has no flag %.60q that is known here; a flag of %v itself belongs in Engine.Global", kind, spelling, kind)
				// What comes next is more likely its value than the image.
				if !hasAttached && i+1 < len(args) && !strings.HasPrefix(args[i+1], "-") {
					i++
				}
				return true
			}
			switch {
			case hasAttached:
				f.value, took = attached, true
			case !f.takesValue:
				f.value = "true"
			case follows != "":
				f.value, took = follows, true
			case i+1 < len(args):
				i++
				f.value, f.apart = args[i], true
			default:
				// The engine would take the library's next flag for the value.
				fail("%s needs a value", spelling)
				return true
			}
			read = append(read, f)
			return took
		}

		switch word := args[i]; {
		case len(word) < 2 || word[0] != '-':
			fail("the word is neither a flag nor a flag's value, so it would be taken for the image; a flag that is true or false takes its value after \"=\"")
		case word == "--":
			fail(`"--" would end the flags`)
		case word[1] == '-':
			name, value, ok := strings.Cut(word, "=")
			add(name, value, ok, "")
		default:
			for letters := word[1:]; letters != ""; {
				letter, rest := "-"+letters[:1], letters[1:]
				// A lone "=" at the end is no sign but a letter, or the value.
				value, ok := strings.CutPrefix(rest, "=")
				if add(letter, value, ok && value != "", rest) {
					break
				}
				letters = rest
			}
		}
	}
	return read
}

// A runFlag is a flag of an engine's run.
type runFlag struct {
	*flagGroup
	name       string // the long name, without dashes
	takesValue bool
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
	why     string                  // completes the error
	safe    func(value string) bool // values for which the flag is harmless whatever the verdict; if nil, none
	// flags are those of both engines.
	flags, docker, podman string
}

// flagGroups has the flags of docker run up to 29 and of podman run up to 5, hidden and
// outdated ones too. One that is missing is refused.
var flagGroups = []flagGroup{
	{
		verdict: harmless,
		flags: "blkio-weight= blkio-weight-device= cap-drop= cpuset-cpus= cpuset-mems= device-read-bps= device-read-iops= device-write-bps= device-write-iops= " +
			"dns= dns-option,dns-opt= dns-search= expose= hostname,-h= kernel-memory= memory-reservation= memory-swappiness= platform= quiet,-q stop-timeout=",
		docker: "cpu-count= cpu-percent= domainname= io-maxbandwidth= io-maxiops=",
		podman: "arch,override-arch= group-entry= image-volume= no-hostname os,override-os= passwd passwd-entry= timeout= umask= unsetenv= unsetenv-all variant,override-variant=",
	},

	{verdict: weakening, why: "is what ExtraHosts is for", flags: "add-host="},
	{verdict: weakening, why: "is what AddCapabilities is for", flags: "cap-add="},
	{verdict: weakening, why: "is what CPUs is for", flags: "cpus= cpu-period= cpu-quota="},
	{verdict: weakening, why: "is what CPUShares is for", flags: "cpu-shares,-c="},
	{verdict: weakening, why: "is what Spec.Env is for", flags: "env,-e=", podman: "env-merge="},
	{verdict: weakening, why: "is what GPUs is for", flags: "gpus="},
	{verdict: weakening, why: "is what MemoryBytes is for", flags: "memory,-m= memory-swap="},
	{verdict: weakening, why: "is what Spec.Workspace and Mounts are for", flags: "mount= volume,-v="},
	{verdict: weakening, why: "is what NetworkEnabled is for", flags: "network,net="},
	{verdict: weakening, why: "is what PidsLimit is for", flags: "pids-limit="},
	{verdict: weakening, why: "is what WritableRootfs and Tmpfs are for", flags: "read-only tmpfs=", podman: "read-only-tmpfs"},
	{verdict: weakening, why: "is what Runtime is for", flags: "runtime="},
	{verdict: weakening, why: "is what AllowNewPrivileges is for, and can switch off other protection", flags: "security-opt="},
	{verdict: weakening, why: "is what User is for", flags: "user,-u="},
	{verdict: weakening, why: "is what Spec.Workspace and Command.Dir are for", flags: "workdir,-w="},

	{
		verdict: weakening, why: "gives the container rights over the host",
		flags:  "device= device-cgroup-rule= group-add= privileged",
		docker: "use-api-socket",
	},
	{
		verdict: weakening, why: "lets the container share what keeps it apart from the host or from other containers",
		flags:  "cgroupns= ipc= pid= userns= uts= volumes-from=",
		docker: "isolation= link=",
		podman: "gidmap= requires= subgidname= subuidname= uidmap=",
	},
	{
		verdict: weakening, why: "brings files, variables or accounts of the host into the container",
		flags:  "env-file= label-file=",
		docker: "volume-driver=",
		// A time zone is a path below /usr/share/zoneinfo, and may leave it.
		podman: "chrootdirs= env-host hosts-file= hostuser= http-proxy secret= tz=",
	},
	{
		verdict: weakening, why: "replaces the library's choice of what /etc/hosts holds",
		safe:   isTrue,
		podman: "no-hosts",
	},
	{
		verdict: weakening, why: "opens the container to a network, or gives it an address or a name that others there may trust",
		flags:  "ip= ip6= mac-address= network-alias,net-alias= publish,-p= publish-all,-P",
		docker: "link-local-ip=",
	},
	{
		verdict: weakening, why: "can lift the limits on what the container takes of the host",
		flags: "cgroup-parent= cpu-rt-period= cpu-rt-runtime= oom-kill-disable shm-size= sysctl=",
		// Podman takes the storage options of all its containers here, a program to run
		// on the host among them.
		docker: "storage-opt=",
		podman: "storage-opt= cgroup-conf= cgroups= rdt-class=",
	},
	{
		verdict: weakening, why: "saves the container before the host's own processes when memory is short, unless it is a number from 0",
		safe:  isNotNegative,
		flags: "oom-score-adj=",
	},
	{
		verdict: weakening, why: "can raise a limit, unless it is a number for as, cpu, data, fsize or rss, or core=0",
		safe:  lowersLimit,
		flags: "ulimit=",
	},
	{
		verdict: weakening, why: "changes what the engine's runtime does for the container",
		flags:  "annotation=",
		podman: "personality= seccomp-policy=",
	},

	{
		verdict: owned, why: "names that begin with " + labelPrefix + " are those by which the library knows its containers",
		safe:  func(value string) bool { return !strings.HasPrefix(strings.TrimSpace(value), labelPrefix) },
		flags: "label,-l=",
	},
	{
		verdict: owned, why: "the library talks to the container over stdin, stdout and stderr, and nothing else may read or keep them",
		flags:  "attach,-a= detach,-d detach-keys= interactive,-i log-driver= log-opt= sig-proxy tty,-t",
		podman: "preserve-fd= preserve-fds=",
	},
	{
		verdict: owned, why: "the library names, ends and removes its containers, and what it did not make it leaves alone",
		flags:  "name= restart= rm,purge stop-signal=",
		podman: "pod= pod-id-file= replace rmi",
	},
	{
		verdict: owned, why: "the file would stay on the host",
		flags:  "cidfile=",
		podman: "conmon-pidfile= pidfile=",
	},
	{
		verdict: owned, why: "the container's process 1 has to be the one that the library starts, so that all ends with it",
		flags:  "entrypoint= init",
		podman: "init-path= rootfs sdnotify= shm-size-systemd= systemd=",
	},
	{
		verdict: owned, why: "the engine would run a command of its own beside those of the session",
		flags: "health-cmd,healthcheck-command= health-interval,healthcheck-interval= health-retries,healthcheck-retries= health-start-interval= " +
			"health-start-period,healthcheck-start-period= health-timeout,healthcheck-timeout=",
		podman: "health-log-destination= health-max-log-count= health-max-log-size= health-on-failure= " +
			"health-startup-cmd= health-startup-interval= health-startup-retries= health-startup-success= health-startup-timeout=",
	},
	{
		verdict: owned, why: "the engine would run the image's health check beside the commands of the session",
		safe:  isTrue,
		flags: "no-healthcheck",
	},
	{
		verdict: owned, why: "the library pulls an image apart from the runs, without this flag",
		flags:  "disable-content-trust pull=",
		podman: "authfile= cert-dir= creds= decryption-key= retry= retry-delay= signature-policy= tls-verify",
	},
	{verdict: owned, why: "nothing would be started", flags: "help"},
}

// runFlags returns the flags of the engine's run by each of their spellings, dashes
// included.
func runFlags(kind dockercli.Kind) map[string]runFlag {
	known := map[string]runFlag{}
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
				known[name] = runFlag{flagGroup: group, name: names[0], takesValue: takesValue}
			}
		}
	}
	return known
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
