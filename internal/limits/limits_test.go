package limits

import (
	"fmt"
	"testing"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/dockercli"
)

func TestSet(t *testing.T) {
	const common = "core=0:0 nofile=1024:1024"
	all := []string{dockercli.LimitMemory, dockercli.LimitProcessors, dockercli.LimitProcesses}
	docker := dockercli.Engine{Kind: dockercli.Docker}
	podman := dockercli.Engine{Kind: dockercli.Podman, Remote: true}
	lacking := dockercli.Engine{Kind: dockercli.Podman, Kernel: "6.1", MissingLimits: all}
	old := dockercli.Engine{Kind: dockercli.Podman, Kernel: "5.4", MissingLimits: all}
	for _, c := range []struct {
		name          string
		engine        dockercli.Engine
		wanted        Wanted
		user          string // in a namespace of its own
		limits        string // of memory, swap, processors, their shares and processes
		shm, ulimits  string
		countsByUsers bool
	}{
		{"zero", docker, Wanted{}, "", "536870912 536870912 1 0 256", "16m", common, false},
		{"wanted", docker, Wanted{Memory: 9e6, CPUs: "2", CPUShares: 3, Pids: 17, HostShm: true}, "", "9000000 9000000 2 3 17", "16m", common, false},
		{"podman", podman, Wanted{}, "", "536870912 536870912 1 0 256", "16m", common + " nproc=4096:4096", false},
		{"the host's /dev/shm", podman, Wanted{HostShm: true}, "", "536870912 536870912 1 0 256", "", common + " nproc=4096:4096", false},
		{"lacking", lacking, Wanted{CPUShares: 3, Pids: 17}, "1000:1000", "   0 0", "16m", common + " nproc=17:17", true},
		{"the owner on an old kernel", old, Wanted{Pids: 17}, "1000:1000", "   0 0", "16m",
			fmt.Sprintf("%s nproc=%d:%[2]d", common, maxProcesses()), true},
		{"nobody on an old kernel", old, Wanted{Pids: 17}, "65534:65534", "   0 0", "16m", common + " nproc=17:17", true},
	} {
		o := dockercli.RunOptions{User: c.user}
		if c.user != "" {
			o.UserNS = "keep-id"
		}
		Set(&o, &c.engine, c.wanted)
		assert.Equal(t, fmt.Sprintf("%s %s %s %d %d", o.Memory, o.MemorySwap, o.CPUs, o.CPUShares, o.PidsLimit), c.limits, c.name)
		assert.Equal(t, o.ShmSize, c.shm, c.name)
		assert.Equal(t, fmt.Sprint(o.Ulimits), "["+c.ulimits+"]", c.name)
		assert.Equal(t, o.IPC, "private")
		assert.Equal(t, CountsByUser(&c.engine), c.countsByUsers, c.name)
	}
}
