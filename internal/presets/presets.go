// Package presets lists the presets of package execpolicy, for its documentation:
// execpolicy/presets.md, which the program internal/attest prints.
package presets

import (
	"strings"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/execpolicy"
)

// A Preset is a policy with a name.
type Preset struct {
	Name     string // the expression that is it
	Sentence string // says what it is for and what it allows
	Policy   execpolicy.DockerPolicy
	// Loose says that it does without parts of the zero policy that none of its fields
	// names. In a report they are missing.
	Loose bool
}

// All returns the presets, the zero policy first.
func All() []Preset {
	fetch, build := execpolicy.BuildPolicies()
	return []Preset{
		{Name: "execpolicy.DockerPolicy{}",
			Sentence: "The hardened one: no network, a read-only root, no capabilities, an ordinary user, 512 MiB of " +
				"memory, one processor, 256 processes."},
		{Name: "execpolicy.Notebook()", Policy: execpolicy.Notebook(),
			Sentence: "For code that is written and run piece by piece: the zero policy with a writable root, 2 GiB " +
				"of memory, 512 processes, 512 MiB in /tmp."},
		{Name: "fetch, _ := execpolicy.BuildPolicies()", Policy: fetch,
			Sentence: "The first phase of a build, which brings what is needed: the zero policy with the network, 2 " +
				"GiB of memory, 512 processes, 1 GiB in /tmp."},
		{Name: "_, build := execpolicy.BuildPolicies()", Policy: build,
			Sentence: "The second phase of a build, which works on what the first one has brought: the same without the network."},
		{Name: "execpolicy.Compat()", Policy: execpolicy.Compat(), Loose: true,
			Sentence: "LangChain's: no network, and else what engines do unasked, measured here by the zero policy: " +
				"a writable root, root as the user, no limits."},
	}
}

// maxLine is how long a line of [Stable] may be.
const maxLine = 110

// Stable returns what [execpolicy.DockerPolicy.Explain] says of a preset as it is on
// every machine, in lines that a shell takes for one. The program has no path, the
// container is called NAME, the labels that say who started it are left out, and the
// limit of a user's processes, which is the host's, is N. The filter of system calls
// comes from its file in execpolicy.
func Stable(kind dockercli.Kind, line string) string {
	var b strings.Builder
	b.WriteString(kind.String())
	length := b.Len()
	if command, _, ok := strings.Cut(line, " 3<<"); ok {
		line = command + " 3<seccomp.json"
	}
	// No word of a preset has a blank.
	for _, word := range strings.Fields(line)[1:] {
		switch {
		case strings.HasPrefix(word, "--label=cofferdam."):
			continue
		case strings.HasPrefix(word, "--name="):
			word = "--name=NAME"
		case strings.HasPrefix(word, "--ulimit=nproc="):
			word = "--ulimit=nproc=N:N"
		}
		if length+1+len(word) > maxLine {
			b.WriteString(" \\\n ")
			length = 1
		}
		b.WriteString(" " + word)
		length += 1 + len(word)
	}
	return b.String()
}
