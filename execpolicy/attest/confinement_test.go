package attest_test

import (
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/execpolicy/attest"
)

// The answers have the form in which kernels with AppArmor and with SELinux give them.
// They were not recorded.
func TestConfinement(t *testing.T) {
	apparmor, selinux := &dockercli.Info{AppArmor: true}, &dockercli.Info{SELinux: true}
	const (
		one = "value /proc/1/attr/apparmor/current docker-default (enforce)\n" +
			"value /proc/1/attr/current docker-default (enforce)\nend\n"
		free  = "value /proc/1/attr/current unconfined\nend\n"
		label = "value /proc/1/attr/current system_u:system_r:container_t:s0:c12,c345\nend\n"
		super = "value /proc/1/attr/current system_u:system_r:spc_t:s0\nend\n"
	)
	for _, c := range []struct {
		info    *dockercli.Info // nil if the engine does not tell
		answer  string
		s       dockercli.Settings
		inside  string
		outside string
		weak    string
	}{
		{&dockercli.Info{}, "end\n", dockercli.Settings{}, "", "", ""},
		{&dockercli.Info{}, free, dockercli.Settings{}, "unconfined", "", ""},
		{apparmor, one, dockercli.Settings{AppArmor: "docker-default"}, "docker-default (enforce)", "docker-default", ""},
		{apparmor, one, dockercli.Settings{}, "docker-default (enforce)", "", ""},
		{apparmor, free, dockercli.Settings{AppArmor: "docker-default"}, "unconfined", "docker-default",
			"AppArmor does not confine"},
		{apparmor, one, dockercli.Settings{AppArmor: "unconfined"}, "docker-default (enforce)", "unconfined",
			"AppArmor does not confine"},
		{apparmor, "end\n", dockercli.Settings{}, "", "", "AppArmor is not known to confine"},
		{apparmor, strings.TrimSuffix(one, "end\n"), dockercli.Settings{}, "", "", "AppArmor is not known to confine"},
		{selinux, label, dockercli.Settings{SELinux: "system_u:system_r:container_t:s0:c12,c345"},
			"system_u:system_r:container_t:s0:c12,c345", "system_u:system_r:container_t:s0:c12,c345", ""},
		{selinux, super, dockercli.Settings{}, "system_u:system_r:spc_t:s0", "", "SELinux does not confine"},
		{selinux, "end\n", dockercli.Settings{SELinux: "system_u:system_r:spc_t:s0"}, "", "system_u:system_r:spc_t:s0",
			"SELinux does not confine"},
		{selinux, "end\n", dockercli.Settings{}, "", "", "SELinux is not known to confine"},
		{nil, "end\n", dockercli.Settings{}, "", "", ""},
		{nil, one, dockercli.Settings{}, "docker-default (enforce)", "", ""},
		{nil, free, dockercli.Settings{}, "unconfined", "", "AppArmor does not confine"},
		{nil, label, dockercli.Settings{}, "system_u:system_r:container_t:s0:c12,c345", "", ""},
		{nil, super, dockercli.Settings{}, "system_u:system_r:spc_t:s0", "", "SELinux does not confine"},
		// What runs inside can't say more than a label.
		{selinux, "value /proc/1/attr/current \x1b[2J\nend\n", dockercli.Settings{}, "?[2J", "",
			"SELinux is not known to confine"},
	} {
		got := attest.Confine(c.info, c.answer, &c.s)
		assert.Check(t, got.Inside == c.inside && got.Outside == c.outside, "%q: %+v", c.answer, got)
		assert.Check(t, strings.HasPrefix(strings.Join(got.Weaknesses, "; "), c.weak), "%q: %+v", c.answer, got)
		assert.Check(t, (c.weak != "") == (len(got.Weaknesses) > 0), "%q: %+v", c.answer, got)
		text := (&attest.Report{Findings: []attest.Finding{{}}, Confinement: got}).String()
		silent := c.inside+c.outside+c.weak == ""
		assert.Check(t, strings.Contains(text, "security modules:\n  the host uses ") == !silent, text)
		assert.Check(t, strings.Contains(text, "security modules:\n  it is not known which one ") == (silent && c.info == nil), text)
		assert.Check(t, strings.Contains(text, "a weakness: ") == (c.weak != ""), text)
	}
}
