package container

import (
	"os"
	"testing"
)

// The look at the processes is a part of every start.
func BenchmarkFindFirst(b *testing.B) {
	for name, above := range map[string]int{"new": os.Getpid(), "all": 1 << 30} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				FindFirst("no such name", above)
			}
		})
	}
}
