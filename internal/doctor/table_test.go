package main

import (
	"os"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/execpolicy/doctor"
)

func TestTable(t *testing.T) {
	got := table([]doctor.Engine{{
		Name: "docker 20.10.24+dfsg1", ClientVersion: "28.2.2", Transport: "fifo", Rootless: true,
		Info:     &dockercli.Info{CgroupVersion: "1", DefaultRuntime: "runc", Seccomp: true, PidsLimit: true},
		Versions: []dockercli.Component{{Name: "docker", Version: "20.10.24"}, {Name: "runc", Version: "1.1.5+ds1"}},
	}})
	assert.Equal(t, got, "|engine|client|rootless|cgroups|filters|runtime|streams|\n|---|---|---|---|---|---|---|\n"+
		"|docker 20.10.24|28.2.2|yes|1: pids|seccomp|runc 1.1.5|fifo|\n")
}

func TestReplace(t *testing.T) {
	got, err := replace("a\n"+begin+"old\n"+end+"b\n", "new\n")
	assert.NilError(t, err)
	assert.Equal(t, got, "a\n"+begin+"\nnew\n\n"+end+"b\n")
	for _, bad := range []string{"", begin, end + begin} {
		_, err := replace(bad, "new\n")
		assert.ErrorContains(t, err, "no section")
	}
}

// README.md has a table that was made by this program.
func TestReadmeHasTheTable(t *testing.T) {
	text, err := os.ReadFile("../../" + readme)
	assert.NilError(t, err)
	_, rest, _ := strings.Cut(string(text), begin)
	section, _, ok := strings.Cut(rest, end)
	assert.Assert(t, ok)
	head, _, _ := strings.Cut(table(nil), "\n")
	assert.Assert(t, strings.Contains(section, head), "run make tested")
}

// An engine that was named may be none that a policy chooses by itself.
func TestWorks(t *testing.T) {
	good := []doctor.Step{{Name: doctor.StepRemoval}}
	for _, c := range []struct {
		engine      doctor.Engine
		named, want bool
	}{
		{doctor.Engine{Chosen: true, Steps: good}, false, true},
		{doctor.Engine{Chosen: true}, false, false},
		{doctor.Engine{Steps: good}, false, false},
		{doctor.Engine{Steps: good}, true, true},
		{doctor.Engine{Chosen: true}, true, false},
	} {
		got := works(&doctor.Report{Engines: []doctor.Engine{c.engine}}, c.named)
		assert.Check(t, got == c.want, "%+v", c)
	}
}
