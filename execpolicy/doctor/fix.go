package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/execpolicy/attest"
)

// A machine is what commands depend on.
type machine struct {
	goos    string
	release string // the text of /etc/os-release
	root    bool   // this program is root's
	systemd bool
}

// installers are the commands that install packages, or upgrade those that are there, by
// the names that distributions have for themselves in ID and ID_LIKE of os-release.
var installers = []struct{ id, command string }{
	{"debian", "apt-get install -y"},
	{"ubuntu", "apt-get install -y"},
	{"fedora", "dnf install -y"},
	{"rhel", "dnf install -y"},
	{"alpine", "apk add -u"},
	{"arch", "pacman -S --noconfirm"},
	{"suse", "zypper install -y"},
	{"opensuse", "zypper install -y"},
}

// install returns the command that installs or upgrades packages.
func (m machine) install(packages ...string) string {
	words := strings.Join(packages, " ")
	if m.goos == "darwin" {
		return "brew install " + words
	}
	var ids []string
	for line := range strings.Lines(m.release) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		if key == "ID" || key == "ID_LIKE" {
			ids = append(ids, strings.Fields(strings.Trim(value, `"'`))...)
		}
	}
	for _, id := range ids {
		for _, i := range installers {
			if id == i.id {
				return m.sudo(i.command + " " + words)
			}
		}
	}
	return "# install " + words
}

func (m machine) sudo(command string) string {
	if m.root {
		return command
	}
	return "sudo " + command
}

// noClient is the problem of a machine without an engine.
func (m machine) noClient() Problem {
	p := Problem{
		Missing: "an engine", Blocks: true,
		Means: "No docker and no podman program is on PATH, so nothing can be run.",
		Fix:   m.install("podman"),
	}
	switch m.goos {
	case "darwin":
		p.Fix += "\npodman machine init\npodman machine start"
	case "windows":
		p.Fix = "winget install RedHat.Podman\npodman machine init\npodman machine start"
	}
	return p
}

// noAnswer is the problem of an engine that can't be asked.
func (m machine) noAnswer(e *dockercli.Engine, err error) Problem {
	p := Problem{Missing: "an answer of the engine", Blocks: true, Means: "Its client fails, so the library can't start anything with it.",
		Fix: e.Client() + " info"}
	// Where the client looks stands in its message, if not in its flags.
	called := flags(e)
	where := strings.ToLower(fmt.Sprint(called, " ", err))
	podman, nerdctl := strings.HasPrefix(called, "podman"), strings.HasPrefix(called, "nerdctl")
	switch {
	case errors.Is(err, dockercli.ErrPermission):
		p.Missing = "the right to use the engine"
		p.Means = "This user may not open the engine's socket. Who may is as good as root, so a rootless engine is the safer way."
		p.Fix = m.install("podman") + "\n# or:\nsudo usermod -aG docker \"$USER\"\n# and log in again"
	case errors.Is(err, context.DeadlineExceeded):
		p.Missing = "an answer of the engine in time"
		p.Means = "Its client hangs. A session would fail after its StartupTimeout."
		if !podman && !nerdctl && m.systemd {
			p.Fix += "\n" + m.sudo("journalctl -u docker -n 50")
		}
	case errors.Is(err, dockercli.ErrEngineDown):
		p.Missing = "an engine that runs"
		p.Means = "Nobody answers where the client looks for its engine."
		switch {
		case strings.Contains(where, "colima"):
			p.Fix = "colima start"
		case strings.Contains(where, "desktop") || strings.Contains(where, ".docker/run"):
			p.Fix = "docker desktop start"
		case podman && m.goos != "linux":
			p.Fix = "podman machine start"
		case podman && len(e.Global) > 0:
			p.Fix = "podman system connection list\n# start the engine there, or name another by CONTAINER_HOST or --connection"
		case nerdctl && strings.Contains(where, "rootless"):
			p.Fix = "containerd-rootless-setuptool.sh install"
		case nerdctl && m.systemd:
			p.Fix = m.sudo("systemctl start containerd")
		case podman:
			p.Fix = "systemctl --user start podman.socket"
		case m.systemd && len(e.Global) == 0:
			p.Fix = m.sudo("systemctl start docker")
		default:
			p.Fix = "docker context ls\n# start the engine there, or name another by DOCKER_HOST or --context"
		}
	}
	return p
}

// missing returns what an engine that answers lacks by its own words.
func (m machine) missing(e *dockercli.Engine, info *dockercli.Info, weak []attest.Weakness) []Problem {
	var all []Problem
	// Elsewhere the engine's machine is a virtual one.
	here := !e.Remote && m.goos == "linux"
	add := func(missing, means, fix string) {
		all = append(all, Problem{Missing: missing, Means: means, Fix: fix})
	}
	var limits []string
	for _, l := range []named{{"memory", info.MemoryLimit}, {"processors", info.CPULimit}, {"processes", info.PidsLimit}} {
		if !l.is {
			limits = append(limits, l.name)
		}
	}
	if len(limits) > 0 {
		means := "The engine drops these limits with a warning at most, so that one command can take all of the machine's."
		fix := "# give the engine's control groups the controllers memory, cpu and pids"
		switch {
		case info.Rootless && info.CgroupVersion == "1":
			means += " Without root's rights it can't set them on version 1 of control groups."
			fix = "# boot the engine's machine with the kernel's parameter systemd.unified_cgroup_hierarchy=1, or use the engine as root"
			if strings.Contains(m.release, "fedora") || strings.Contains(m.release, "rhel") {
				fix = m.sudo("grubby --update-kernel=ALL --args=systemd.unified_cgroup_hierarchy=1") + "\n" + m.sudo("reboot")
			}
		case info.Rootless:
			means += " Its user's session has no such controllers."
			fix = m.sudo("mkdir -p /etc/systemd/system/user@.service.d") +
				"\nprintf '[Service]\\nDelegate=cpu cpuset io memory pids\\n' | " + m.sudo("tee /etc/systemd/system/user@.service.d/delegate.conf") +
				"\n" + m.sudo("systemctl daemon-reload") + "\n# and log in again"
		case slices.Contains(limits, "memory"):
			fix = "# boot the engine's machine with the kernel's parameters cgroup_enable=memory swapaccount=1"
		}
		add("limits of "+strings.Join(limits, ", "), means, fix)
	}
	if e.Kind == dockercli.Docker && !e.PodmanService && info.MemoryLimit && !info.SwapLimit {
		add("a limit of swap", "A command can use as much swap as memory, on top of its limit.",
			"# boot the engine's machine with the kernel's parameter swapaccount=1, or without swap")
	}
	if !info.Seccomp {
		fix := "# use an engine and a kernel with seccomp"
		if e.Kind == dockercli.Docker && here {
			fix = "grep seccomp-profile /etc/docker/daemon.json\n# remove that line and restart the engine, or use a kernel with seccomp"
		}
		add("the engine's filter of system calls",
			"Sessions ask for the library's own filter. If the engine can't set that either, they fail, or have none: package attest tells.", fix)
	}
	if !info.AppArmor && !info.SELinux {
		fix := "# enable AppArmor or SELinux on the engine's machine"
		if here && (strings.Contains(m.release, "debian") || strings.Contains(m.release, "ubuntu")) {
			fix = m.install("apparmor") + "\n" + fix
		}
		add("AppArmor or SELinux", "A second wall is missing. What gets out of a container by a fault of the engine or the kernel meets no other.", fix)
	}
	if e.PodmanService {
		add("podman's own flags", "Docker's client can't give them. A container has the lines of the host's /etc/hosts, a writable /run and /var/tmp, and needs EngineSeccomp.",
			"export "+dockercli.EngineVar+"='podman --remote'")
	}
	if e.Kind == dockercli.Podman && e.Remote {
		add("the library's filter of system calls", "Podman's service can't be given it. A policy needs EngineSeccomp, whose filter lets programs make user namespaces.",
			"# set EngineSeccomp, or run the program on the engine's machine")
	}
	if len(weak) > 0 {
		all = append(all, m.weak(e, weak))
	}
	return all
}

// weak is the problem of versions with published container escapes.
func (m machine) weak(e *dockercli.Engine, weak []attest.Weakness) Problem {
	var parts, components, ids []string
	packaged := true
	for _, w := range weak {
		if part := w.Component + " " + w.Version; !slices.Contains(parts, part) {
			parts = append(parts, part)
			components = append(components, w.Component)
		}
		// These have one name everywhere. Docker's parts have others in docker's own
		// packages, which a distribution's would remove.
		packaged = packaged && (w.Component == "podman" || w.Component == "crun")
		ids = append(ids, w.Advisory)
	}
	p := Problem{
		Missing: "fixes in " + strings.Join(parts, ", "),
		Means: "Ways out of a container are published: " + strings.Join(ids, ", ") +
			". A distribution may have fixed them without another number. Package attest says what each is.",
		Fix: "# upgrade " + strings.Join(components, ", ") + " with what installed them",
	}
	if packaged && !e.Remote && m.goos == "linux" {
		p.Fix = m.install(components...)
	}
	return p
}

// noImage is the problem of an engine without an image, or that does not say.
func (m machine) noImage(e *dockercli.Engine, image string, err error) Problem {
	if !errors.Is(err, dockercli.ErrImageMissing) {
		return m.noAnswer(e, err)
	}
	if e.Kind == dockercli.Podman && image == execpolicy.DefaultImage {
		// Podman may not know which registry a short name means.
		image = "docker.io/library/" + image
	}
	return Problem{
		Missing: "an image",
		Means:   "No session was tried. The first one pulls the image, which fails without a network.",
		Fix:     e.Client() + " pull " + image,
	}
}

// causes say what a failed start means by its words, all of which occur, in lower case.
// In what fixes it CONF stands for a directory of podman's settings.
var causes = []struct {
	words   []string
	problem Problem
}{
	{[]string{"hybrid mode"}, Problem{
		Missing: "a runtime for this machine's control groups",
		Means:   "crun refuses a machine that has both versions of control groups. runc does not.",
		Fix:     "mkdir -p CONF\nprintf '[engine]\\nruntime = \"runc\"\\n' >CONF/runc.conf",
	}},
	{[]string{"rlimit", "not permitted"}, Problem{
		Missing: "the right to raise limits",
		Means:   "Podman's default limits lie above those of this user, who may not raise them.",
		Fix:     "mkdir -p CONF\nprintf '[containers]\\ndefault_ulimits = [\"nofile=1024:1024\", \"nproc=4096:4096\"]\\n' >CONF/ulimits.conf",
	}},
	{[]string{"tmpfs", "uid=65534", "invalid argument"}, noUsers},
	{[]string{"no subuid ranges"}, noUsers},
}

// podmanConf returns a directory of podman's settings.
func (m machine) podmanConf() string {
	if m.root {
		return "/etc/containers/containers.conf.d"
	}
	return "~/.config/containers/containers.conf.d"
}

// noUsers is the problem of a rootless engine that has one user only.
var noUsers = Problem{
	Missing: "more users for the engine",
	Means:   `The engine has only its own user inside containers, so a command can't be an ordinary one. Sessions start with User "0:0".`,
	Fix: "# FIRST to LAST are 65536 numbers that no line of /etc/subuid and /etc/subgid has\n" +
		"sudo usermod --add-subuids FIRST-LAST --add-subgids FIRST-LAST \"$USER\"\npodman system migrate",
}

// failed is the problem of an engine with which a step fails.
func (m machine) failed(e *dockercli.Engine, steps []Step, err error) Problem {
	failed := steps[slices.IndexFunc(steps, func(s Step) bool { return s.Error != "" })]
	text := strings.ToLower(err.Error())
	for _, c := range causes {
		if failed.Name == StepStart && !slices.ContainsFunc(c.words, func(w string) bool { return !strings.Contains(text, w) }) {
			p := c.problem
			p.Blocks = true
			p.Fix = strings.ReplaceAll(p.Fix, "CONF", m.podmanConf())
			return p
		}
	}
	switch failed.Name {
	case StepStart:
		p := Problem{Missing: "a session that starts", Blocks: true, Means: "The library can't use the engine.",
			Fix: e.Client() + " run --rm --network=none IMAGE true\n# and fix what that says"}
		if errors.Is(err, dockercli.ErrNoCommand) {
			p.Missing, p.Means = "an image with sh, mkfifo, cp, chmod, rm and dd", "The images that are there have no shell that the library needs."
			p.Fix = e.Client() + " pull " + execpolicy.DefaultImage
		}
		return p
	case StepRemoval:
		return Problem{Missing: "the removal of the container", Means: "Containers may be left after sessions.",
			Fix: e.Client() + " ps --all --filter label=cofferdam.name"}
	}
	return Problem{Missing: fmt.Sprintf("a session whose step %q goes well", failed.Name), Blocks: true,
		Means: "The library starts sessions with the engine, which then fail. Load of the machine can be the cause.",
		Fix:   "# look again when the machine has less to do"}
}
