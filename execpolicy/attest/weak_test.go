package attest_test

import (
	"net/url"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/assert/cmp"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/execpolicy/attest"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest"
	"github.com/seed-64a260eb/cofferdam/internal/fakeengine"
)

func TestCompareVersions(t *testing.T) {
	ascending := []string{
		"0.10.4", "0.10.5", "1.0.0-alpha", "1.0.0-rc1", "1.0.0-rc6", "1.0.0-rc10", "1.0.0-rc.93", "1.0.0-rc95",
		"1.0.0", "1.0.1", "1.1.5", "1.1.11",
		"1.1.12", "1.2.0-rc.1", "1.2.0-rc.3", "1.2", "1.2.8", "1.30", "4.4.0", "18.06.1", "18.09.2", "19.03.15",
		"20.10.3", "28.5.2", "29.5.1",
	}
	for i, a := range ascending {
		for j, b := range ascending {
			got, ok := attest.CompareVersions(a, b)
			assert.Assert(t, ok, "%s %s", a, b)
			assert.Check(t, (got < 0) == (i < j) && (got > 0) == (i > j), "%s and %s: %d", a, b, got)
		}
	}
	for a, b := range map[string]string{
		"1.1.5+ds1": "1.1.5", "v1.1.5": "1.1.5", "1.6.20~ds1": "1.6.20", "1.1.12-0ubuntu1~22.04.1": "1.1.12",
		"1.0.0~rc93+ds1": "1.0.0-rc93",
		"20.10.24+dfsg1": "20.10.24", "1.1.0+dev": "1.1.0", "1.1.5+ds1-1+deb12u1": "1.1.5", "19.03.1-ce": "19.3.1",
		"1.8.1-3.el9": "1.8.1", " 1.2.3 ": "1.2.3",
	} {
		got, ok := attest.CompareVersions(a, b)
		assert.Check(t, ok && got == 0, "%s and %s: %d", a, b, got)
	}
	for _, s := range []string{"", "unknown", "library-import", "v", "-1.2", "rc1", "1."} {
		_, ok := attest.CompareVersions(s, "1.0.0")
		assert.Check(t, !ok, "%s", s)
	}
}

func FuzzCompareVersions(f *testing.F) {
	f.Add("1.0.0-rc95", "1.1.5+ds1")
	f.Add("99999999999999999999.1.1", "v..")
	f.Fuzz(func(t *testing.T, a, b string) {
		forth, ok := attest.CompareVersions(a, b)
		back, okBack := attest.CompareVersions(b, a)
		assert.Equal(t, ok, okBack)
		assert.Assert(t, !ok || (forth < 0) == (back > 0) && (forth == 0) == (back == 0))
		attest.Weaknesses([]dockercli.Component{{Name: "runc", Version: a}, {Name: a, Version: b}})
	})
}

// The first version of a range is affected, and the last before the fix; the fix is not.
func TestAdvisories(t *testing.T) {
	seen := map[string]bool{}
	for _, a := range attest.Advisories() {
		assert.Check(t, !seen[a.Component+a.ID], "%s comes twice", a.ID)
		seen[a.Component+a.ID] = true
		u, err := url.Parse(a.Source)
		assert.Check(t, err == nil && u.Scheme == "https" && u.Host != "", "%s: %s", a.ID, a.Source)
		assert.Check(t, strings.HasPrefix(a.ID, "CVE-") && a.Summary != "" && len(a.Ranges) > 0)
		named := func(version string) bool {
			return slices.ContainsFunc(attest.Weaknesses([]dockercli.Component{{Name: a.Component, Version: version}}),
				func(w attest.Weakness) bool { return w.Advisory == a.ID && w.Source == a.Source })
		}
		for _, r := range a.Ranges {
			from, fixed := r[0], r[1]
			if from == "" {
				from = "0.0.1"
			}
			order, ok := attest.CompareVersions(from, fixed)
			assert.Check(t, ok && order < 0, "%s: %s is not before %s", a.ID, from, fixed)
			assert.Check(t, named(from), "%s: %s", a.ID, from)
			assert.Check(t, !named(fixed), "%s: %s", a.ID, fixed)
			assert.Check(t, !named("99.0.0"), a.ID)
		}
	}
}

func TestWeaknesses(t *testing.T) {
	ids := func(name, version string) string {
		var all []string
		for _, w := range attest.Weaknesses([]dockercli.Component{{Name: name, Version: version}}) {
			all = append(all, w.Advisory)
		}
		return strings.Join(all, " ")
	}
	for _, c := range []struct{ name, version, want string }{
		{"runc", "1.0.0-rc6", "CVE-2019-5736 CVE-2021-30465 CVE-2023-28642 CVE-2024-45310 CVE-2025-31133 " +
			"CVE-2025-52565 CVE-2025-52881 CVE-2026-41579"},
		{"runc", "1.1.5+ds1", "CVE-2024-21626 CVE-2024-45310 CVE-2025-31133 CVE-2025-52565 CVE-2025-52881 CVE-2026-41579"},
		{"runc", "1.3.2", "CVE-2025-31133 CVE-2025-52565 CVE-2025-52881 CVE-2026-41579"},
		{"runc", "1.3.4", "CVE-2026-41579"},
		{"runc", "1.4.0-rc.2", "CVE-2025-31133 CVE-2025-52565 CVE-2025-52881 CVE-2026-41579"},
		{"runc", "1.3.6", ""}, {"runc", "1.5.2", ""}, {"runc", "unknown", ""},
		{"crun", "1.30", "CVE-2026-115521"}, {"crun", "1.31", ""},
		{"containerd", "1.6.20~ds1", "CVE-2024-40635 CVE-2026-53488"},
		{"containerd", "2.1.0", "CVE-2025-47290 CVE-2026-53488"}, {"containerd", "2.2.4", "CVE-2026-53488"},
		{"containerd", "2.3.6", ""},
		{"docker", "29.5.1", ""}, {"docker", "27.1.0", "CVE-2024-41110 CVE-2026-34040 CVE-2026-41567 CVE-2026-42306"},
		{"podman", "4.3.1", "CVE-2024-1753 CVE-2026-57231"}, {"podman", "5.8.7", "CVE-2026-94603"},
		{"podman", "5.8.8", ""}, {"podman", "6.1.2", "CVE-2026-94603"},
		{"docker desktop", "4.43.2", "CVE-2025-9074"}, {"docker client", "29.7.0", ""},
	} {
		assert.Check(t, cmp.Equal(ids(c.name, c.version), c.want), "%s %s", c.name, c.version)
	}
}

// A weak engine is a warning, and an error if that is asked for, before anything is
// started.
func TestRefuseWeakEngine(t *testing.T) {
	for kind, known := range map[dockercli.Kind]string{dockercli.Docker: "docker 20.10.24: CVE-2026-41567",
		dockercli.Podman: "runc 1.1.5+ds1: CVE-2024-21626"} {
		t.Run(kind.String(), func(t *testing.T) { refuseWeakEngine(t, kind, known) })
	}
}

func refuseWeakEngine(t *testing.T, kind dockercli.Kind, known string) {
	fakeengine.NeedIsolation(t)
	enginetest.Check(t)
	e := fakeengine.New(t, kind, fakeengine.Faults{})
	p := execpolicy.DockerPolicy{Engine: e.Engine}
	o := attest.Options{Require: []attest.Protection{attest.User}}

	s, r, err := attest.Start(t.Context(), p, execpolicy.Spec{}, o)
	assert.NilError(t, err)
	defer s.Close()
	assert.Assert(t, len(r.Weaknesses) > 0)
	assert.Assert(t, strings.Contains(r.String(), known), r.String())

	o.RefuseWeakEngine = true
	_, err = attest.Check(t.Context(), s, p, execpolicy.Spec{}, o)
	assert.ErrorIs(t, err, attest.ErrWeakEngine)

	runs := len(e.Calls())
	refused, r, err := attest.Start(t.Context(), p, execpolicy.Spec{}, o)
	assert.Assert(t, refused == nil)
	assert.ErrorIs(t, err, attest.ErrWeakEngine)
	assert.ErrorContains(t, err, known)
	assert.Assert(t, len(r.Weaknesses) > 0 && len(r.Findings) == 0)
	for _, call := range e.Calls()[runs:] {
		// What asks for the versions, and starts nothing.
		assert.Equal(t, call[0], map[dockercli.Kind]string{dockercli.Docker: "version", dockercli.Podman: "info"}[kind])
	}
}
