package dockercli_test

import (
	"encoding/csv"
	"strings"
	"testing"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"gotest.tools/v3/assert"
)

// The engines read the value with this parser.
func FuzzMountValue(f *testing.F) {
	for _, seed := range []string{"/plain", "/a,b", "/a:b", `/"q"`, "/new\nline", "/cr\rx", "/cr\r\nx", "/ ",
		"/é", "relative", `C:\x`, "/a=b", "/\"", "/,,\""} {
		f.Add(seed, "/target", false)
		f.Add("/source", seed, true)
	}
	f.Fuzz(func(t *testing.T, source, target string, writable bool) {
		value, err := dockercli.MountValue(dockercli.Mount{Source: source, Target: target, Writable: writable})
		if err != nil {
			assert.ErrorIs(t, err, dockercli.ErrArgument)
			return
		}
		r := csv.NewReader(strings.NewReader(value))
		fields, err := r.Read()
		assert.NilError(t, err)
		want := []string{"type=bind", "source=" + source, "target=" + target}
		if !writable {
			want = append(want, "readonly")
		}
		assert.DeepEqual(t, fields, want)
	})
}

// What is absolute on any system is passed on as it is: the engine's client and its
// virtual machine make their own path of it.
func TestMountOfOtherSystems(t *testing.T) {
	for source, want := range map[string]string{
		"/Users/me/my work":           "type=bind,source=/Users/me/my work,target=/w,readonly",
		"/private/var/folders/a,b/T":  `type=bind,"source=/private/var/folders/a,b/T",target=/w,readonly`,
		`C:\Users\me\work`:            `type=bind,source=C:\Users\me\work,target=/w,readonly`,
		"c:/Users/me/work":            "type=bind,source=c:/Users/me/work,target=/w,readonly",
		`D:\`:                         `type=bind,source=D:\,target=/w,readonly`,
		`C:\a,b`:                      `type=bind,"source=C:\a,b",target=/w,readonly`,
		`\\wsl.localhost\Debian\home`: `type=bind,source=\\wsl.localhost\Debian\home,target=/w,readonly`,
		"//wsl$/Debian/home":          "type=bind,source=//wsl$/Debian/home,target=/w,readonly",
		"/c/Users/me":                 "type=bind,source=/c/Users/me,target=/w,readonly", // as a shell for Windows has it
	} {
		value, err := dockercli.MountValue(dockercli.Mount{Source: source, Target: "/w"})
		assert.NilError(t, err)
		assert.Equal(t, value, want)
	}
	for _, source := range []string{"", ".", "work", `work\here`, "C:", "C:work", `\work`, `1:\work`, "CC:/work", `C:\work `} {
		_, err := dockercli.MountValue(dockercli.Mount{Source: source, Target: "/w"})
		assert.ErrorIs(t, err, dockercli.ErrArgument, source)
	}
	// Inside, a path is Linux's.
	_, err := dockercli.MountValue(dockercli.Mount{Source: "/a", Target: `C:\w`})
	assert.ErrorIs(t, err, dockercli.ErrArgument)
}

// A client of Windows has a path with spaces and backslashes, and may end its lines with
// a carriage return.
func TestClientOfWindows(t *testing.T) {
	e := &dockercli.Engine{Path: `C:\Program Files\Docker\docker.exe`, Global: []string{"--context", "desktop-linux"}}
	argv, err := e.RunArgs(dockercli.RunOptions{Image: "image", HTTPProxy: true,
		Mounts: []dockercli.Mount{{Source: `C:\Users\me`, Target: "/w"}}})
	assert.NilError(t, err)
	assert.DeepEqual(t, argv, []string{`C:\Program Files\Docker\docker.exe`, "--context", "desktop-linux", "run",
		`--mount=type=bind,source=C:\Users\me,target=/w,readonly`, "--entrypoint=", "--", "image"})
	assert.Equal(t, e.Client(), `'C:\Program Files\Docker\docker.exe' --context desktop-linux`)

	info, err := dockercli.ParseInfo("version \"28.3.2\"\r\ncgroup \"2\"\r\nmemory true\r\n\r\n")
	assert.NilError(t, err)
	assert.DeepEqual(t, *info, dockercli.Info{ServerVersion: "28.3.2", CgroupVersion: "2", MemoryLimit: true})
	contexts, err := dockercli.ParseContexts("context \"desktop-linux\" true \"npipe:////./pipe/dockerDesktopLinuxEngine\"\r\n")
	assert.NilError(t, err)
	assert.DeepEqual(t, contexts, []dockercli.Context{{Name: "desktop-linux", Current: true,
		Endpoint: "npipe:////./pipe/dockerDesktopLinuxEngine"}})
}

// desktops are messages of Docker Desktop, from its documentation and its users' reports.
var desktops = map[string]error{
	"docker: Error response from daemon: Mounts denied: \nThe path /opt/data is not shared from the host and is not known to Docker.\n" +
		"You can configure shared paths from Docker -> Preferences... -> Resources -> File Sharing.": dockercli.ErrArgument,
	"error during connect: Get \"http://%2F%2F.%2Fpipe%2FdockerDesktopLinuxEngine/v1.50/version\": open //./pipe/dockerDesktopLinuxEngine: " +
		"The system cannot find the file specified.": dockercli.ErrEngineDown,
	"error during connect: In the default daemon configuration on Windows, the docker client must be run with elevated privileges to connect.: " +
		"Get \"http://%2F%2F.%2Fpipe%2Fdocker_engine/v1.24/version\": open //./pipe/docker_engine: Access is denied.": dockercli.ErrPermission,
	"Cannot connect to the Docker daemon at unix:///Users/me/.docker/run/docker.sock. Is the docker daemon running?": dockercli.ErrEngineDown,
}

func TestClassifyDesktops(t *testing.T) {
	for said, want := range desktops {
		assert.Check(t, dockercli.Classify([]byte(said)) == want, said)
	}
}
