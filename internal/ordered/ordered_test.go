package ordered_test

import (
	"maps"
	"slices"
	"strconv"
	"testing"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/internal/ordered"
)

func TestKeys(t *testing.T) {
	assert.Equal(t, len(ordered.Keys(map[string]int(nil))), 0)
	m := map[string]bool{"": true}
	for i := range 100 {
		m[strconv.Itoa(i*7919%1000)] = true
	}
	assert.DeepEqual(t, ordered.Keys(m), slices.Sorted(maps.Keys(m)))
}
