package container

import (
	"maps"
	"math/big"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/internal/enginetest/leftover"
)

// decimal returns a number of digits alone that has at most so many bits, or nil.
func decimal(text string, bits int) *big.Int {
	if !regexp.MustCompile(`\A[0-9]+\z`).MatchString(text) {
		return nil
	}
	n, ok := new(big.Int).SetString(text, 10)
	if !ok || n.BitLen() > bits {
		return nil
	}
	return n
}

// Labels are anybody's: one that starts a container can write them as it likes. Only what
// they prove counts.
func FuzzAbandoned(f *testing.F) {
	const now = 1234567890
	own := owner()
	pid, start := own["cofferdam.pid"], own["cofferdam.pid-start"]
	f.Add(uint8(0), "name", "", "", "", "", "", "", "never")
	f.Add(uint8(0), "name", "", "", "", "", "", "", strconv.Itoa(now-1))
	f.Add(uint8(0), "name", "", "", "", "", "", "", strconv.Itoa(now))
	f.Add(uint8(0), "other", "", "", "", "", "", "", "1")
	f.Add(uint8(0), "name", "", "", "", "", "", "", "-1")
	f.Add(uint8(0), "name", "", "", "", "", "", "", "18446744073709551615")
	const nobody = "1073741824" // no process has it
	for bit := range 6 {
		f.Add(uint8(1<<bit), "name", "x", "x", "x", nobody, "x", "1", "never")
		f.Add(uint8(1<<3|1<<bit), "name", "x", "x", "x", nobody, "x", "1", "never")
	}
	f.Add(uint8(1<<3), "name", "", "", "", "-1073741824", "", "", "never")
	f.Add(uint8(1<<3), "name", "", "", "", "0", "", "", "never")
	f.Add(uint8(1<<3), "name", "", "", "", "5368709120", "", "", "never") // cut short it were nobody
	f.Add(uint8(1<<3), "name", "", "", "", "+"+pid, "", "", "never")
	f.Add(uint8(1<<5), "name", "", "", "", "", "", start+"0", "never")
	f.Add(uint8(1<<5), "name", "", "", "", "", "", " 1", "never")
	f.Fuzz(func(t *testing.T, change uint8, name, host, boot, pidns, number, timens, began, expires string) {
		l := maps.Clone(owner())
		keys := []string{"cofferdam.host", "cofferdam.boot", "cofferdam.pidns", "cofferdam.pid", "cofferdam.timens",
			"cofferdam.pid-start"}
		for bit, value := range []string{host, boot, pidns, number, timens, began} {
			if change&(1<<bit) != 0 {
				l[keys[bit]] = value
			}
		}
		l["cofferdam.name"], l["cofferdam.expires"] = name, expires
		got := Abandoned("name", l, time.Unix(now, 0))
		end := decimal(expires, 63)
		switch {
		case name != "name":
			assert.Assert(t, !got)
			return
		case end != nil && end.Cmp(big.NewInt(now)) < 0:
			assert.Assert(t, got)
			return
		}
		assert.Equal(t, got, ownerGone(l))
		same := true
		for _, key := range []string{"cofferdam.host", "cofferdam.boot", "cofferdam.pidns", "cofferdam.timens"} {
			same = same && l[key] == own[key]
		}
		process, since := decimal(l["cofferdam.pid"], 31), decimal(l["cofferdam.pid-start"], 64)
		switch {
		case !same || process == nil || since == nil || process.Sign() == 0:
			assert.Assert(t, !got, "%q", l)
		case process.String() == pid:
			assert.Equal(t, got, since.String() != start, "%q", l)
		case process.Cmp(big.NewInt(1<<22)) > 0: // there are no such numbers
			assert.Assert(t, got, "%q", l)
		}
	})
}

// A process may be called anything, also what looks like more of its own fields.
func FuzzStatField(f *testing.F) {
	f.Add(1, "cat", "S", uint64(5), "")
	f.Add(1<<31-1, "x) Z 9 1 (", "Z", uint64(1<<63), "1 2 3")
	f.Add(1, "x) S\n1 1", "R", uint64(0), ")")
	f.Add(0, ")", "", uint64(0), "")
	f.Fuzz(func(t *testing.T, pid int, name, state string, start uint64, line string) {
		for n := 3; n < 60; n++ {
			// Of what is no such line at all, a field is a word of it.
			field := statField(line, n)
			assert.Assert(t, field == "" || !strings.ContainsAny(field, " \n\t)") && strings.Contains(line, field))
		}
		if len(strings.Fields(state)) != 1 || strings.Contains(state, ")") || strings.TrimSpace(state) != state {
			return // the kernel's is a letter
		}
		fields := []string{strconv.Itoa(pid), "(" + name + ")", state}
		for n := 4; n < 22; n++ {
			fields = append(fields, strconv.Itoa(-n))
		}
		fields = append(fields, strconv.FormatUint(start, 10))
		stat := strings.Join(fields, " ") + "\n"
		for n := 3; n <= 22; n++ {
			assert.Equal(t, statField(stat, n), fields[n-1], "%d of %q", n, stat)
		}
		for n := 23; n < 30; n++ {
			assert.Equal(t, statField(stat, n), "")
		}
	})
}

// The kernel's own line of this process has what the library takes it for.
func TestStatFieldOfThisProcess(t *testing.T) {
	stat, err := os.ReadFile("/proc/self/stat")
	assert.NilError(t, err)
	assert.Equal(t, statField(string(stat), 4), strconv.Itoa(os.Getppid()))
	assert.Equal(t, statField(string(stat), 22), leftover.StartOf(os.Getpid()))
}
