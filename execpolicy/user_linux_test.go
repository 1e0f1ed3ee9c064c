package execpolicy

import (
	"errors"
	"io/fs"
	"syscall"
	"testing"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/internal/account"
)

// A fakeFile is a file of somebody's, for tests that can't make one.
type fakeFile struct {
	fs.FileInfo
	mode     fs.FileMode
	uid, gid uint32
}

func (f fakeFile) IsDir() bool       { return f.mode.IsDir() }
func (f fakeFile) Mode() fs.FileMode { return f.mode }
func (f fakeFile) Sys() any          { return &syscall.Stat_t{Uid: f.uid, Gid: f.gid} }

func dirOf(uid, gid uint32, perm fs.FileMode) fakeFile {
	return fakeFile{nil, fs.ModeDir | perm, uid, gid}
}

func TestRunsAs(t *testing.T) {
	docker, podman := &dockercli.Engine{}, &dockercli.Engine{Kind: dockercli.Podman}
	rootlessDocker, rootlessPodman := &dockercli.Engine{Rootless: true},
		&dockercli.Engine{Kind: dockercli.Podman, Rootless: true}
	remote := &dockercli.Engine{Remote: true}
	none := fakeFile{}
	socket := fakeFile{nil, fs.ModeSocket | 0o600, 0, 0}
	for _, c := range []struct {
		name      string
		engine    *dockercli.Engine
		policy    DockerPolicy
		workspace fakeFile
		writable  bool
		mounts    []fakeFile
		want      string
		isOwner   bool
		refused   int // of the shares
	}{
		{"nothing is shared", docker, DockerPolicy{}, none, true, nil, "65534:65534", false, 0},
		{"an ordinary workspace", docker, DockerPolicy{}, dirOf(1000, 100, 0o700), true, nil, "1000:100", true, 0},
		{"one that its owner has closed", podman, DockerPolicy{}, dirOf(1000, 100, 0), true, nil, "1000:100", true, 0},
		{"one of root's group", podman, DockerPolicy{}, dirOf(1000, 0, 0o700), true, nil, "1000:65534", true, 0},
		{"one of root's", docker, DockerPolicy{}, dirOf(0, 0, 0o755), true, nil, "65534:65534", false, 1},
		{"one of root's that is read", docker, DockerPolicy{}, dirOf(0, 0, 0o755), false, nil, "65534:65534", false, 0},
		{"one of root's that can't be read", docker, DockerPolicy{}, dirOf(0, 0, 0o754), false, nil, "65534:65534", false, 1},
		{"one of root's and its group's", docker, DockerPolicy{}, dirOf(0, 65534, 0o770), true, nil, "65534:65534", false, 0},
		{"its group may not", docker, DockerPolicy{}, dirOf(0, 65534, 0o707), true, nil, "65534:65534", false, 1},
		{"a number", docker, DockerPolicy{User: "7"}, dirOf(1, 7, 0o070), true, nil, "7:7", false, 0},
		{"another number", docker, DockerPolicy{User: "7:8"}, dirOf(1, 7, 0o070), true, nil, "7:8", false, 1},
		{"a number with a colon", docker, DockerPolicy{User: "7:"}, none, true, nil, "7:7", false, 0},
		{"root without capabilities", docker, DockerPolicy{User: "0"}, dirOf(1, 1, 0o700), true, nil, "0:0", false, 1},
		{"root with some", docker, DockerPolicy{User: "root", AddCapabilities: []string{"DAC_OVERRIDE"}},
			dirOf(1, 1, 0o700), true, nil, "0:0", false, 0},
		{"root's group", docker, DockerPolicy{User: "5:root"}, none, true, nil, "5:0", false, 0},
		{"a name", docker, DockerPolicy{User: "me"}, dirOf(1, 1, 0o700), true, []fakeFile{dirOf(1, 1, 0)}, "me", false, 0},
		{"a name and a group", docker, DockerPolicy{User: "me:"}, none, true, nil, "me", false, 0},
		{"a group's name", docker, DockerPolicy{User: "5:us"}, dirOf(1, 1, 0), true, nil, "5:us", false, 0},
		{"another machine", remote, DockerPolicy{}, none, true, []fakeFile{dirOf(0, 0, 0)}, "65534:65534", false, 0},
		{"a user that is named elsewhere", docker, DockerPolicy{ExtraRunArgs: []string{"-u5"}}, dirOf(0, 0, 0),
			true, nil, "65534:65534", false, 0},

		{"the one owner of mounts", docker, DockerPolicy{}, none, true,
			[]fakeFile{dirOf(9, 0, 0o700), dirOf(0, 0, 0o777), dirOf(9, 9, 0o700)}, "9:65534", true, 0},
		{"two owners", docker, DockerPolicy{}, none, true, []fakeFile{dirOf(9, 9, 0o700), dirOf(8, 8, 0o700)},
			"65534:65534", false, 2},
		{"root owns one", docker, DockerPolicy{}, none, false, []fakeFile{dirOf(9, 9, 0o700), dirOf(0, 0, 0o700)},
			"65534:65534", false, 2},
		{"root owns it", docker, DockerPolicy{}, none, false, []fakeFile{dirOf(0, 0, 0o700)}, "65534:65534", false, 1},
		{"what all can use has no say", docker, DockerPolicy{}, none, false, []fakeFile{dirOf(9, 9, 0o755)},
			"65534:65534", false, 0},
		{"a workspace comes first", docker, DockerPolicy{}, dirOf(3, 3, 0o700), true, []fakeFile{dirOf(9, 9, 0o700)},
			"3:3", true, 1},
		{"a file", docker, DockerPolicy{}, none, false, []fakeFile{{nil, 0o600, 9, 9}}, "9:9", true, 0},
		{"a file that can be read", docker, DockerPolicy{}, none, false, []fakeFile{{nil, 0o604, 9, 9}},
			"65534:65534", false, 0},
		{"a socket", docker, DockerPolicy{}, none, true, []fakeFile{socket}, "65534:65534", false, 0},

		{"docker without root's rights", rootlessDocker, DockerPolicy{}, dirOf(1000, 1000, 0o755), true, nil,
			"65534:65534", false, 1},
		{"whose user is nobody here", rootlessDocker, DockerPolicy{}, dirOf(65534, 65534, 0o700), true, nil,
			"65534:65534", false, 1},
		{"where all may write", rootlessDocker, DockerPolicy{}, dirOf(1000, 1000, 0o777), true, nil, "65534:65534", false, 0},
		{"and root by name is this user", rootlessDocker, DockerPolicy{User: "0:0"}, dirOf(1000, 1000, 0o700), true,
			nil, "0:0", false, 0},
		{"a mount there", rootlessDocker, DockerPolicy{}, none, false, []fakeFile{dirOf(1000, 1000, 0o700)},
			"65534:65534", false, 1},
		{"podman without root's rights", rootlessPodman, DockerPolicy{}, dirOf(1000, 1000, 0o700), true, nil,
			"1000:1000", true, 0},
		{"a mount of its user's", rootlessPodman, DockerPolicy{}, none, true, []fakeFile{dirOf(1000, 1000, 0o700)},
			"1000:1000", true, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			seen := c.policy.caseOf(c.engine)
			if c.workspace != none {
				seen.Workspace = account.Share{Source: "/no/workspace", Info: c.workspace, Writable: c.writable}
			}
			for _, info := range c.mounts {
				seen.Mounts = append(seen.Mounts, account.Share{Source: "/no/mount", Info: info, Writable: c.writable})
			}
			user, isOwner, errs := seen.Choose()
			assert.Equal(t, user, c.want)
			assert.Equal(t, isOwner, c.isOwner)
			assert.Equal(t, len(errs), c.refused, "%v", errs)
			if c.workspace != none && len(errs) > 0 && len(seen.Mounts) == 0 {
				assert.Assert(t, errors.Is(errs[0], ErrNoMount), errs[0])
			}
		})
	}
}
