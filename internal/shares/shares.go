// Package shares turns what a policy shows of the host into what an engine is told of it,
// and refuses what would give the host away.
package shares

import (
	"fmt"
	"path"
	"path/filepath"
	"slices"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/internal/account"
	"github.com/seed-64a260eb/cofferdam/internal/mountguard"
	"github.com/seed-64a260eb/cofferdam/internal/problems"
)

// SetMounts gives a container mounts, each source where its links lead, and notes what it
// sees of the host by them. Each problem is about one that it must not have.
// podmanService says that the engine is podman's service.
func SetMounts(
	o *dockercli.RunOptions, seen *account.Case, guard *mountguard.Guard, podmanService bool, wanted []dockercli.Mount,
) problems.List {
	var found problems.List
	for _, m := range wanted {
		if m.Volume != "" {
			found = append(found, checkVolume(m.Volume, podmanService))
			o.Mounts = append(o.Mounts, m)
			continue
		}
		share := account.Share{Writable: m.Writable}
		var err error
		if share.Source, share.Info, err = guard.Check("the mount source", m.Source); err == nil {
			seen.Mounts = append(seen.Mounts, share)
		} else {
			found = append(found, err)
			share.Source = "/" // the rest of it may be wrong too
		}
		if m.Relabel != "" {
			found = append(found, guard.CheckRelabel("the mount source", m.Source))
		}
		m.Source = share.Source
		o.Mounts = append(o.Mounts, m)
	}
	return found
}

// checkVolume returns why a container must not have a volume, or nil.
func checkVolume(name string, podmanService bool) error {
	if podmanService {
		return fmt.Errorf("the volume %q: podman's service would make it if it is missing; use podman's own client", name)
	}
	return mountguard.Volume(name)
}

// SetDevices gives a container that has its mounts devices of the host. Each problem is
// about one that would give the host away.
func SetDevices(o *dockercli.RunOptions, guard *mountguard.Guard, wanted []dockercli.Device) problems.List {
	var found problems.List
	for _, d := range wanted {
		source, err := guard.CheckDevice(d.Source)
		found = append(found, err)
		if d.Target == "" {
			d.Target = d.Source
		}
		if reason := outsideDev(d.Target, o.Mounts); reason != "" {
			found.Add("the device target %q is %s, where the engine may leave a device on the host", d.Target, reason)
		}
		d.Source = source
		o.Devices = append(o.Devices, d)
	}
	return found
}

// outsideDev returns why a device must not appear there, or the empty text. Engines make
// a device in what is mounted at the place, or where a link of the image leads. The
// directory /dev is a new one for each container.
func outsideDev(target string, mounts []dockercli.Mount) string {
	if !mountguard.Within(target, "/dev") {
		return "outside /dev"
	}
	for _, m := range mounts {
		if mountguard.Within(target, path.Clean(m.Target)) {
			return fmt.Sprintf("in the mount on %q", m.Target)
		}
	}
	return ""
}

// SameTargets reports the places in the container that are given to several.
func SameTargets(o *dockercli.RunOptions) problems.List {
	var targets []string
	for _, t := range o.Tmpfs {
		targets = append(targets, t.Target)
	}
	for _, m := range o.Mounts {
		targets = append(targets, m.Target)
	}
	var found problems.List
	for i, target := range targets {
		targets[i] = filepath.ToSlash(filepath.Clean(target))
		if slices.Contains(targets[:i], targets[i]) {
			found.Add("more than one of the workspace, Mounts and Tmpfs, which is /tmp if it is nil, is to be at %q", target)
		}
	}
	return found
}
