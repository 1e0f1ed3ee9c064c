package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"

	"github.com/seed-64a260eb/cofferdam/internal/enginetest/setup"
)

// managers are the package managers that the tour knows, and their commands that install
// podman. A manager that removed packages for it would do harm.
var managers = []struct{ program, command string }{
	{"apt-get", "apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-remove podman"},
	{"dnf", "dnf install -y podman"},
	{"apk", "apk add podman"},
	{"zypper", "zypper --non-interactive install podman"},
	{"pacman", "pacman -Sy --noconfirm --needed podman"},
}

// installCommand returns the shell command that installs podman, or an error that says
// why there is none.
func installCommand() (string, error) {
	if !slices.Contains(setup.Wanted(), "podman") {
		return "", fmt.Errorf("ENGINE is %q, and nothing else was tried: unset it to try docker and podman",
			os.Getenv("ENGINE"))
	}
	if _, err := exec.LookPath("podman"); err == nil {
		return "", errors.New("podman is installed: what it says above has to be fixed first")
	}
	for _, m := range managers {
		if _, err := exec.LookPath(m.program); err != nil {
			continue
		}
		command := m.command
		// Podman's usual runtime does not run on every kind of cgroups. Docker may have
		// brought the other one, which has to stay.
		if _, err := exec.LookPath("runc"); err != nil && m.program == "apt-get" {
			command += " runc"
		}
		return command, nil
	}
	return "", errors.New("install docker or podman: https://podman.io/docs/installation says how on this system")
}

// asRoot returns the command as the user has to write it.
func asRoot(command string) string {
	if os.Geteuid() == 0 {
		return command
	}
	program := "su -c"
	if _, err := exec.LookPath("sudo"); err == nil {
		program = "sudo sh -c"
	}
	return program + " '" + strings.ReplaceAll(command, "'", `'\''`) + "'"
}
