package fakeengine

import (
	"fmt"
	"strings"

	"github.com/seed-64a260eb/cofferdam/dockercli"
)

// versions are those of the engines whose words are used.
var versions = map[dockercli.Kind]struct{ client, server string }{
	dockercli.Docker: {"28.2.2", "20.10.24"},
	dockercli.Podman: {"4.3.1", "4.3.1"},
}

// sockets are where the engines say that they listen. Nobody talks to them.
var sockets = map[dockercli.Kind]string{dockercli.Docker: "/var/run/docker.sock"}

// A refusal is how an engine says no: an exit code and words for stderr.
type refusal struct {
	Code  int
	Words string
}

func (r *refusal) Error() string { return strings.TrimSpace(r.Words) }

// refuse returns a refusal of a verb other than run, in docker's words or in podman's.
func refuse(kind dockercli.Kind, docker, podman refusal) *refusal {
	if kind == dockercli.Podman {
		podman.Words = "Error: " + podman.Words + "\n"
		return &podman
	}
	docker.Words = "Error response from daemon: " + docker.Words + "\n"
	return &docker
}

// refuseRun returns a refusal of run. Docker's words come from its daemon.
func refuseRun(kind dockercli.Kind, docker, podman refusal) *refusal {
	r := refuse(kind, docker, podman)
	if kind == dockercli.Docker {
		r.Words = "docker: " + r.Words + "\nRun 'docker run --help' for more information\n"
	}
	return r
}

// refuseFlag returns a client's refusal of its own command line.
func refuseFlag(kind dockercli.Kind, verb, format string, args ...any) *refusal {
	words := fmt.Sprintf(format, args...)
	if kind == dockercli.Podman {
		return &refusal{125, fmt.Sprintf("Error: %s\nSee 'podman %s --help'\n", words, verb)}
	}
	return &refusal{125, fmt.Sprintf("%s\n\nUsage:  docker %s [OPTIONS]\n\nRun 'docker %s --help' for more information\n", words, verb, verb)}
}

// refuseStart returns the refusal of a command that can't be executed. Podman's words
// have a tail that says what kind of failure it is.
func refuseStart(kind dockercli.Kind, code int, why string) *refusal {
	tail := "OCI runtime error"
	switch code {
	case 126:
		tail = "OCI permission denied"
	case 127:
		tail = "OCI runtime attempted to invoke a command that was not found"
	}
	const runc = "runc create failed: unable to start container process: "
	return refuseRun(kind,
		refusal{code, "failed to create shim task: OCI runtime create failed: " + runc + why + ": unknown"},
		refusal{code, "runc: " + runc + why + ": " + tail})
}

func noContainer(kind dockercli.Kind, name string) *refusal {
	return refuse(kind, refusal{1, "No such container: " + name},
		refusal{125, fmt.Sprintf("no container with name or ID %q found: no such container", name)})
}

func noImage(kind dockercli.Kind, image string) *refusal {
	return refuse(kind, refusal{1, fmt.Sprintf("no such image: %s: No such image: %s", image, image)},
		refusal{125, fmt.Sprintf("inspecting object: %s: image not known", image)})
}

func nameInUse(kind dockercli.Kind, name, id string) *refusal {
	return refuseRun(kind,
		refusal{125, fmt.Sprintf("Conflict. The container name %q is already in use by container %q. "+
			"You have to remove (or rename) that container to be able to reuse that name.", "/"+name, id)},
		refusal{125, fmt.Sprintf("creating container storage: the container name %q is already in use by %s. "+
			"You have to remove that container to be able to reuse that name: that name is already in use", name, id)})
}

// lost is what a run's client says when the engine goes away.
func lost(kind dockercli.Kind) string {
	if kind == dockercli.Podman {
		return "Error: error waiting for container: unexpected EOF\n"
	}
	return "time=\"2026-01-02T15:04:05Z\" level=error msg=\"error waiting for container: unexpected EOF\"\n"
}
