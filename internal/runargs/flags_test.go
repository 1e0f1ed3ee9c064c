package runargs

import (
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/dockercli"
)

func TestFlagTableHolds(t *testing.T) {
	for _, kind := range []dockercli.Kind{dockercli.Docker, dockercli.Podman} {
		var spellings int
		for _, g := range flagGroups {
			words := g.flags + " " + g.docker
			if kind == dockercli.Podman {
				words = g.flags + " " + g.podman
			}
			spellings += len(strings.FieldsFunc(words, func(r rune) bool { return r == ' ' || r == ',' }))
			assert.Equal(t, g.Why == "", g.verdict == harmless, words)
		}
		assert.Equal(t, len(Flags(kind)), spellings, "%v: a spelling stands twice", kind)
	}
}

func TestOnlyLowerLimitsAreHarmless(t *testing.T) {
	for value, want := range map[string]bool{
		"fsize=1": true, "fsize=1:2": true, "as=0": true, "core=0": true, "core=0:0": true,
		"fsize=-1": false, "fsize=1:-1": false, "fsize=unlimited": false, "fsize": false, "fsize=": false,
		"fsize=1:": false, "fsize=1:2:3": false,
		"core=1": false, "core=0:1": false, "core=-1": false, "nofile=1": false, "rtprio=1": false,
		"memlock=0": false, "host": false, "": false,
		"fsize=1,rtprio=99": false, `"fsize=1"`: false, " fsize=1": false, "FSIZE=1": false,
	} {
		assert.Equal(t, lowersLimit(value), want, value)
	}
}
