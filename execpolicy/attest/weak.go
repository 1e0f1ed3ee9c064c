package attest

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/seed-64a260eb/cofferdam/dockercli"
)

// A Weakness is a published container escape that works with a version of a part of the
// engine.
type Weakness struct {
	// Component is the name of the program, and Version the version that it reports.
	Component string `json:"component"`
	Version   string `json:"version"`
	// Advisory is the number of the advisory, Summary says what it is about, and Source
	// is its address.
	Advisory string `json:"advisory"`
	Summary  string `json:"summary"`
	Source   string `json:"source"`
}

// String returns the weakness as one line.
func (w Weakness) String() string {
	return fmt.Sprintf("%s %s: %s, %s (%s)", printable(w.Component), printable(w.Version), w.Advisory, w.Summary, w.Source)
}

// Weaknesses returns the published container escapes that work with the versions of an
// engine's parts. Distributions fix them without a new version number, so a weakness is a
// reason to look, and not a proof.
func Weaknesses(components []dockercli.Component) []Weakness {
	var found []Weakness
	for _, c := range components {
		for _, a := range advisories {
			if a.component == c.Name && a.affects(c.Version) {
				found = append(found, Weakness{c.Name, c.Version, a.id, a.summary, a.source})
			}
		}
	}
	return found
}

// An advisory is about the versions in any of its ranges.
type advisory struct {
	component, id string
	ranges        []versions
	summary       string
	source        string
}

// versions are those from the first, which may be empty, up to but without the one that
// has the fix.
type versions struct{ from, fixed string }

func (a advisory) affects(version string) bool {
	v, ok := parseVersion(version)
	if !ok {
		return false
	}
	for _, r := range a.ranges {
		from, _ := parseVersion(r.from)
		fixed, _ := parseVersion(r.fixed)
		if v.compare(from) >= 0 && v.compare(fixed) < 0 {
			return true
		}
	}
	return false
}

// A version is four numbers, the last one that of the release candidate; a release has
// none and comes after its candidates.
type version [4]int

const noCandidate = 1 << 30

// parseVersion reads what an engine reports, such as "1.0.0-rc95", "v1.1.5+ds1",
// "1.6.20~ds1" or "1.1.12-0ubuntu1". What a distribution added does not count.
func parseVersion(s string) (version, bool) {
	v := version{3: noCandidate}
	s = strings.TrimPrefix(strings.TrimSpace(s), "v")
	for i := range 3 {
		n, rest, ok := number(s)
		if !ok {
			return v, false
		}
		v[i], s = n, rest
		if !strings.HasPrefix(s, ".") {
			break
		}
		s = s[1:]
	}
	pre := strings.TrimLeft(s, "-~.")
	for _, word := range []string{"rc", "beta", "alpha", "dev"} {
		rest, ok := strings.CutPrefix(pre, word)
		if !ok {
			continue
		}
		v[3] = 0
		if word == "rc" {
			if n, _, ok := number(strings.TrimLeft(rest, ".-")); ok {
				v[3] = n
			}
		}
	}
	return v, true
}

// number reads the digits that a text begins with.
func number(s string) (n int, rest string, ok bool) {
	end := 0
	for end < len(s) && end < 9 && s[end] >= '0' && s[end] <= '9' {
		end++
	}
	n, err := strconv.Atoi(s[:end])
	return n, s[end:], err == nil
}

// compare returns a negative number if v is older than o, and a positive one if it is
// newer.
func (v version) compare(o version) int {
	for i := range v {
		if v[i] != o[i] {
			return v[i] - o[i]
		}
	}
	return 0
}
