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
// notebook. It is the zero [DockerPolicy] with these changes:
//
//   - WritableRootfs, because libraries write caches and settings beside themselves and
//     into the home of the image's user. The modes of the image's files still say who may
//     write what: the user stays 65534:65534, or the workspace's owner, unless User names
//     the image's, such as "1000:100" for Jupyter's. What is written is on the engine's
//     disk, and has no limit in size.
//   - MemoryBytes of 2 GiB, because data is held in memory.
//   - Tmpfs with 512 MiB in /tmp, which is a session's HOME, where caches go. It counts
//     as memory.
//   - PidsLimit of 512, because numerical libraries start a thread for each of the host's
//     processors, however many CPUs allows.
//   - CommandTimeout of 5 min, because a piece may compute for a long time.
//
// There is no network. Raise CPUs if you know how many processors the engine's host has.
func Notebook() DockerPolicy {
	return DockerPolicy{
		Limits:         Limits{CommandTimeout: 5 * time.Minute},
		WritableRootfs: true,
		MemoryBytes:    presetMemory,
		PidsLimit:      presetPids,
		Tmpfs:          map[string]int64{"/tmp": 512 << 20},
	}
}

// BuildPolicies returns the policies for the two phases of a build. fetch has the
// network, to bring what is needed. build has none, and so can send nothing away. Each
// phase has a container of its own, so the first one has to leave its files in a
// directory that the second one sees: give fetch to the Build of package deps, and add
// the layer that it returns to the Mounts of build.
//
// Both are the zero [DockerPolicy] with these changes:
//
//   - NetworkEnabled, in fetch alone. If the hosts are known, set Egress in its place:
//     see package execpolicy/egress.
//   - MemoryBytes of 2 GiB, for compilers and linkers.
//   - Tmpfs with 1 GiB in /tmp, for unpacked packages and the temporary files of
//     compilers. It counts as memory.
//   - PidsLimit of 512, for parallel builds.
//   - CommandTimeout of 10 min, for a large download or build.
//
// The root stays read-only, because what a phase writes there would be gone with its
// container. Raise CPUs if you know how many processors the engine's host has.
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
