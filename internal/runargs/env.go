package runargs

import "strings"

// IsClientVar reports whether a variable of the environment means something to an
// engine's client itself, or to what loads it.
func IsClientVar(name string) bool {
	switch upper := strings.ToUpper(name); upper {
	case "PATH", "HOME", "USER", "LOGNAME", "TMPDIR", "PWD", "SHELL", "NOTIFY_SOCKET", "LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES",
		"NETCONFPATH":
		return true
	default:
		for _, prefix := range []string{"DOCKER_", "BUILDKIT_", "CONTAINER", "_CONTAINER", "PODMAN_", "NERDCTL_", "ROOTLESSKIT_", "CNI_", "CDI_", "REGISTRY_", "STORAGE_", "XDG_", "SSH_", "SSL_", "LD_", "DYLD_", "GO", "DBUS_", "TMP"} {
			if strings.HasPrefix(upper, prefix) {
				return true
			}
		}
		return strings.HasSuffix(upper, "_PROXY")
	}
}
