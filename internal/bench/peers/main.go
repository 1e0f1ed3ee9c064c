// Command peers takes part in the scoreboard with the libraries of others. They are in a
// module of their own, so that nobody else has their requirements.
//
// Both are of the versions that still talk to engines of API 1.41. Openblox is not here:
// its module is not on every proxy.
package main

import (
	"github.com/docker/docker/api/types/container"

	"github.com/seed-64a260eb/cofferdam/internal/bench/contest"
)

func main() {
	contest.Serve(map[string]contest.Contender{
		"docker-client":  &client{},
		"testcontainers": &testcontainer{},
	})
}

// harden gives a container the limits that the others have by their flags.
func harden(c *container.HostConfig) {
	pids := int64(256)
	c.NetworkMode = "none"
	c.ReadonlyRootfs = true
	c.CapDrop = []string{"ALL"}
	c.SecurityOpt = []string{"no-new-privileges"}
	c.Memory, c.MemorySwap, c.NanoCPUs, c.PidsLimit = 512<<20, 512<<20, 1e9, &pids
}

// idle is what a container runs while it waits for commands.
var idle = []string{"sleep", "7200"}
