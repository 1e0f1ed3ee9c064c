package attest

import (
	"cmp"
	"path"
	"slices"
	"strings"

	"github.com/seed-64a260eb/cofferdam/internal/mountinfo"
	"github.com/seed-64a260eb/cofferdam/internal/outside"
)

// kubernetes is the Engine of a report about a pod.
const kubernetes = "kubernetes"

const (
	tokenDir       = "/var/run/secrets/kubernetes.io/serviceaccount"
	terminationLog = "/dev/termination-log"
)

var podProtections = []row{
	{NoToken, always("none"), insideToken, func(_ want, s *outside.Settings) side {
		switch {
		case s.Pod.Token:
			return no("a token of the account %s", s.Pod.ServiceAccount)
		case s.Pod.MayHaveToken:
			return no("a volume or a variable has secrets, which may be tokens")
		}
		return yes("none of the account %s", s.Pod.ServiceAccount)
	}},
	{NothingInjected, askedInjected, nil, outsideInjected},
	{NoContainerLog, always(""), nil, func(want, *outside.Settings) side {
		return no("kept on the node until the pod is deleted")
	}},
	{NoTerminationLog, always(""), insideTermination, outsideTermination},
}

// insidePodNetwork judges what was tried to be reached: a pod has links and routes, and
// what goes out is dropped on its way.
func insidePodNetwork(f *facts) side {
	var reached, silent, untried []string
	for _, try := range f.tried {
		how, target, _ := strings.Cut(try, " ")
		switch how {
		case "reached":
			reached = append(reached, target)
		case "silent":
			silent = append(silent, target)
		case "untried":
			untried = append(untried, target)
		}
	}
	switch {
	case len(reached) > 0:
		return no("links %s; reached: %s", list(f.links), list(reached))
	case len(untried) > 0:
		return unknown("links %s; attempts that did not end as they should: %s", list(f.links), list(untried))
	case len(silent) == 0:
		return unknown("links %s; nothing could be tried", list(f.links))
	}
	return yes("links %s; no answer from %s", list(f.links), list(silent))
}

func insideToken(_ want, f *facts) side {
	// The directory is the name that Kubernetes itself uses, and a link may lead to it.
	if f.exists[tokenDir] {
		return no("%s is there", tokenDir)
	}
	if !f.read["/proc/self/mountinfo"] {
		return unknown("the mounts can't be read")
	}
	return yes("no %s", tokenDir)
}

func askedInjected(w want) string {
	if len(w.Pod.Injected) == 0 {
		return "nothing"
	}
	return "nothing but " + strings.Join(w.Pod.Injected, " ")
}

func outsideInjected(w want, s *outside.Settings) side {
	var bad []string
	for _, name := range s.Pod.Injected {
		within := func(field string) bool {
			rest, ok := strings.CutPrefix(name, field)
			return ok && (rest == "" || rest[0] == '.' || rest[0] == '=')
		}
		if !slices.ContainsFunc(w.Pod.Injected, within) {
			bad = append(bad, name)
		}
	}
	return either(len(bad) == 0, "%s", cmp.Or(strings.Join(bad, " "), "nothing"))
}

func insideTermination(_ want, f *facts) side {
	m, ok := f.at(terminationLog)
	switch {
	case !f.read["/proc/self/mountinfo"]:
		return unknown("the mounts can't be read")
	case !ok:
		return yes("none")
	}
	return either(m.Has("ro"), "%s %s, of the node's disk", terminationLog, m.Options)
}

func outsideTermination(_ want, s *outside.Settings) side {
	return either(s.Pod.TerminationLog == "", "%s", cmp.Or(s.Pod.TerminationLog, "none"))
}

// ofPod reports whether a mount is one of the files that the kubelet makes for each pod.
func ofPod(m mountinfo.Mount) bool {
	dirs := strings.Split(m.Root, "/")
	ofUID := slices.ContainsFunc(dirs, isUID)
	switch m.Target {
	case "/etc/hosts":
		// The mount is writable even where the root is not, and the file is root's.
		return ofUID && path.Base(m.Root) == "etc-hosts"
	case terminationLog:
		return ofUID && len(dirs) > 3 && dirs[len(dirs)-3] == "containers"
	}
	return false
}

func isUID(name string) bool {
	return len(name) == 36 && strings.Count(name, "-") == 4 &&
		strings.Trim(name, "0123456789abcdef-") == ""
}
