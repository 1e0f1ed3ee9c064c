package limits

import (
	"testing"

	"gotest.tools/v3/assert"
)

func TestCountsOutside(t *testing.T) {
	for release, want := range map[string]bool{
		"4.19.0-25-amd64": true, "5.13.19": true, "5.14.0-1": false, "6.1.0-25-amd64": false, "5.4": true, "": false, "unknown": false,
	} {
		assert.Equal(t, countsOutside(release), want, release)
	}
}
