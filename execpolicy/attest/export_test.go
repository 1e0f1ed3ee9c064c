package attest

import (
	"context"
	"fmt"
	"os"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/internal/outside"
)

// What tests of this package need besides its public names.
var InsideScript = insideScript

// wanted returns what a policy asks for. Without an engine of its own it has one that is
// never asked.
func wanted(p execpolicy.DockerPolicy, spec execpolicy.Spec) want {
	if p.Engine == nil {
		self, err := os.Executable()
		if err != nil {
			panic(err)
		}
		p.Engine = &dockercli.Engine{Path: self, PodmanService: true}
	}
	view, err := p.Outside(context.Background(), spec)
	if err != nil {
		panic(err)
	}
	return want{Wanted: view.Wanted}
}

// Inside returns how a protection looks from inside alone.
func Inside(p execpolicy.DockerPolicy, spec execpolicy.Spec, name Protection, answer string) State {
	for _, known := range protections {
		if known.name == name {
			return known.inside(wanted(p, spec), parseFacts(answer)).state
		}
	}
	return Unknown
}

// Outside returns what the engine's settings say of a protection.
func Outside(p execpolicy.DockerPolicy, spec execpolicy.Spec, name Protection, s *dockercli.Settings) State {
	for _, known := range protections {
		if known.name == name {
			return known.outside(wanted(p, spec), &outside.Settings{Container: *s}).state
		}
	}
	return Unknown
}

// Classify compares what was seen with what is wanted.
func Classify(p execpolicy.DockerPolicy, spec execpolicy.Spec, answer string, s *dockercli.Settings) []Finding {
	return classify(wanted(p, spec), parseFacts(answer), &outside.Settings{Container: *s})
}

// ClassifyPod is Classify of a pod.
func ClassifyPod(w outside.Wanted, answer string, s *outside.Settings) []Finding {
	return classify(want{Wanted: w}, parseFacts(answer), s)
}

// Confine returns what was seen of the security modules.
func Confine(info *dockercli.Info, answer string, s *dockercli.Settings) Confinement {
	return confinement(info, parseFacts(answer), &outside.Settings{Container: *s})
}

// ZeroTmpfs returns the directories in memory.
func ZeroTmpfs() map[string]int64 { return wanted(execpolicy.DockerPolicy{}, execpolicy.Spec{}).Tmpfs }

// ZeroFlags returns the defaults as an engine is given them.
func ZeroFlags() []string {
	w := wanted(execpolicy.DockerPolicy{}, execpolicy.Spec{})
	return []string{
		fmt.Sprintf("--memory=%d", w.Memory), fmt.Sprintf("--memory-swap=%d", w.Memory), "--cpus=" + w.CPUs,
		fmt.Sprintf("--pids-limit=%d", w.Pids),
		"--user=" + w.User, fmt.Sprintf("--shm-size=%dm", w.Shm>>20),
	}
}

// CompareVersions reads two versions and compares them.
func CompareVersions(a, b string) (int, bool) {
	first, ok := parseVersion(a)
	second, alsoOK := parseVersion(b)
	return first.compare(second), ok && alsoOK
}

// An Advisory is one of the table.
type Advisory struct {
	Component, ID, Summary, Source string
	Ranges                         [][2]string
}

// Advisories returns the table.
func Advisories() []Advisory {
	var all []Advisory
	for _, a := range advisories {
		known := Advisory{Component: a.component, ID: a.id, Summary: a.summary, Source: a.source}
		for _, r := range a.ranges {
			known.Ranges = append(known.Ranges, [2]string{r.from, r.fixed})
		}
		all = append(all, known)
	}
	return all
}
