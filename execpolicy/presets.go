package execpolicy

import "time"

// The numbers of the presets. A DockerPolicy's other numbers stay the zero policy's, one
// processor among them: docker refuses to start a container that may use more than its
// host has, and a preset starts everywhere.
const (
	presetMemory = 2 << 30
	// presetPids is for numerical libraries and compilers, which start some for each of
	// the host's processors. A walk over that many takes an eighth of a second.
	presetPids = 512
)

// Notebook returns the policy for code that is written and run piece by piece, as in a
// notebook. It is the zero [DockerPolicy] but for these:
//
//   - WritableRootfs: libraries write caches and settings beside themselves and into the
//     home of the image's user. What may be written to is still a matter of the image's
//     modes: the user stays 65534:65534, or the workspace's owner, unless User names that
//     of the image, such as "1000:100" for Jupyter's. It is on the engine's disk, and
//     without a limit in size.
//   - MemoryBytes of 2 GiB, because data is held in memory.
//   - Tmpfs with 512 MiB in /tmp, which is a session's HOME and so where caches go. It
//     counts as memory.
//   - PidsLimit of 512, because numerical libraries start threads for each of the host's
//     processors, whatever they may use of them.
//   - CommandTimeout of 5 min, because one piece may compute for long.
//
// There is no network. CPUs can be raised by who knows how many processors the engine's
// host has.
func Notebook() DockerPolicy {
	return DockerPolicy{
		Limits:         Limits{CommandTimeout: 5 * time.Minute},
		WritableRootfs: true,
		MemoryBytes:    presetMemory,
		PidsLimit:      presetPids,
		Tmpfs:          map[string]int64{"/tmp": 512 << 20},
	}
}

// BuildPolicies returns the policies for the two phases of a build: fetch, which has the
// network to bring what is needed, and build, which has none and so can send nothing away
// of what it works on. The phases are containers of their own, and what the first one
// leaves behind has to lie in a directory that the second one sees: the policy of a
// set-up of package deps is fetch, and build has its layer among its Mounts.
//
// Both are the zero [DockerPolicy] but for these:
//
//   - NetworkEnabled, in fetch alone.
//   - MemoryBytes of 2 GiB, for compilers and linkers.
//   - Tmpfs with 1 GiB in /tmp, where packages are unpacked and compilers put what they
//     pass on. It counts as memory.
//   - PidsLimit of 512, for what is built in parallel.
//   - CommandTimeout of 10 min, for a download or a build of some size.
//
// The root stays read-only: what a phase writes there would be gone with its container.
// CPUs can be raised by who knows how many processors the engine's host has.
func BuildPolicies() (fetch, build DockerPolicy) {
	phase := func() DockerPolicy {
		return DockerPolicy{
			Limits:      Limits{CommandTimeout: 10 * time.Minute},
			MemoryBytes: presetMemory,
			PidsLimit:   presetPids,
			Tmpfs:       map[string]int64{"/tmp": 1 << 30},
		}
	}
	fetch, build = phase(), phase()
	fetch.NetworkEnabled = true
	return fetch, build
}
