package shellwire

import (
	"strconv"
	"strings"
	"time"
)

// ParseCounts returns what a look has told of the use of the container since a [Note]:
// the processor time between the two, and the peak of memory at each. What is not known
// is -1.
func ParseCounts(counts string) (cpu time.Duration, before, after int64) {
	cpu, before, after = -1, -1, -1
	words := strings.Fields(counts)
	if len(words) != 4 {
		return cpu, before, after
	}
	var n [4]int64
	for i, word := range words {
		var err error
		if n[i], err = strconv.ParseInt(word, 10, 64); err != nil || n[i] < 0 {
			n[i] = -1
		}
	}
	if n[0] >= 0 && n[2] >= n[0] {
		cpu = time.Duration(n[2] - n[0])
	}
	if n[1] < 0 || n[3] < 0 || n[3] >= n[1] {
		before, after = n[1], n[3]
	}
	return cpu, before, after
}
