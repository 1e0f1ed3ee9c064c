package container

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"

	"github.com/seed-64a260eb/cofferdam/dockercli"
)

// NoFIFOs returns why FIFOs of this machine would not carry the streams of a container of
// that engine and runtime, or the empty text.
func NoFIFOs(e *dockercli.Engine, runtime string) string {
	if why := elsewhere(e); why != "" {
		return why
	}
	if e.Kind == dockercli.Nerdctl {
		return "nerdctl can't detach a container that it removes"
	}
	if why := otherKernel(e); why != "" {
		return why
	}
	if !isPlain(runtime) {
		return fmt.Sprintf("the runtime %q may have a kernel of its own", runtime)
	}
	return ""
}

// NoListening returns why this program could not listen inside of a container of that
// engine and runtime, or the empty text. [MayListen] says what this program lacks.
func NoListening(e *dockercli.Engine, runtime string) string {
	if why := elsewhere(e); why != "" {
		return why
	}
	if why := otherKernel(e); why != "" {
		return why
	}
	switch {
	case e.Rootless:
		return "the engine is rootless, and its containers are in a user namespace that this program can't enter"
	case !isPlain(runtime):
		return fmt.Sprintf("the runtime %q may have a network of its own", runtime)
	}
	return ""
}

// elsewhere returns why an engine's containers may not be on this machine, or the empty
// text.
func elsewhere(e *dockercli.Engine) string {
	switch {
	case runtime.GOOS != "linux":
		return "containers don't share the kernel of this system"
	case e.Remote:
		return "the engine may be on another machine"
	case e.PodmanService:
		return "podman's service may be on another machine"
	}
	return ""
}

// otherKernel returns why an engine's containers may not have this machine's kernel, or
// the empty text.
func otherKernel(e *dockercli.Engine) string {
	switch e.Kernel {
	case "":
		return "it is not known which kernel the engine has"
	case ownKernel():
		return ""
	}
	return "the engine has another kernel: " + e.Kernel
}

var ownKernel = sync.OnceValue(func() string {
	release, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	return strings.TrimSpace(string(release))
})

// isPlain reports whether a runtime, which is the engine's own if empty, runs commands on
// the engine's kernel.
func isPlain(runtime string) bool { return runtime == "" || runtime == "runc" || runtime == "crun" }
