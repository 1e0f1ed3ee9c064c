package container

import (
	"path/filepath"
	"strings"
)

// Evidence is what the kernel of this machine says of a container's process 1, whatever
// the engine says. With process 1 ends all that is in its process namespace: the kernel
// lets it become a zombie only when nothing else is left there.
type evidence int

const (
	// processUnknown means that process 1 was not found: the engine runs on another
	// machine, or in a virtual one, or /proc does not show it.
	processUnknown evidence = iota
	processLives
	processEnded
)

// WorkspaceDir is where a session works in a container.
const WorkspaceDir = "/workspace"

// ScratchDir is where the files of a session's supervisor are in a container. Its process
// 1 runs the program "sh" there.
const ScratchDir = "/.cofferdam"

// A FirstProcess is process 1 of a container, by the number that it has on this machine.
// The zero value is one that was not found.
type FirstProcess struct {
	Name string // the container's, which its command line ends with
	PID  int
	// Start is in the kernel's ticks since the boot: a number that is used again has
	// another.
	Start uint64
	// Freezer is the directory of the control group that can freeze it, as it was when
	// the process was found, if there is one.
	Freezer string
	// Quota is likewise that of the control group which bounds its use of the processors.
	Quota string
}

// ownGroup returns the directory of a control group if it is that of a container alone:
// engines put the container's ID into the last name.
func ownGroup(dir string) string {
	for id := range strings.FieldsFuncSeq(filepath.Base(dir), func(c rune) bool {
		return !strings.ContainsRune("0123456789abcdef", c)
	}) {
		if len(id) == 64 {
			return dir
		}
	}
	return ""
}

func (p FirstProcess) evidence() evidence {
	switch {
	case p.PID == 0:
		return processUnknown
	case ended(p.PID, p.Start):
		return processEnded
	}
	return processLives
}
