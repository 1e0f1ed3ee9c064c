package runargs

import "strings"

// IsClientVar reports whether a variable of the environment means something to an
// engine's client itself, or to what loads it. ENV does not: only an interactive shell
// runs the file that it names.
func IsClientVar(name string) bool {
	switch upper := strings.ToUpper(name); upper {
	case "PATH", "HOME", "USER", "LOGNAME", "TMPDIR", "PWD", "SHELL", "NOTIFY_SOCKET", "LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES",
		"NETCONFPATH",
		// A client that is a script of bash runs the file that it names.
		"BASH_ENV",
		// Windows has names in either case.
		"USERPROFILE", "HOMEDRIVE", "HOMEPATH", "APPDATA", "LOCALAPPDATA", "PROGRAMDATA", "PROGRAMFILES", "SYSTEMROOT",
		"PATHEXT", "COMSPEC", "TEMP":
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
