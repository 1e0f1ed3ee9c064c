package enginetest

import "testing"

// NoAllocs fails the test if f allocates. The count is the whole program's, in which what
// other tests have left may still end: what f itself allocates is in every count.
func NoAllocs(t *testing.T, f func()) {
	t.Helper()
	least := testing.AllocsPerRun(20, f)
	for range 50 {
		if least == 0 {
			return
		}
		least = min(least, testing.AllocsPerRun(20, f))
	}
	t.Errorf("%v allocations a run, want none", least)
}
