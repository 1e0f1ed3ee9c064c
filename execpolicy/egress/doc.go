// Package egress lets the programs of a container that has no network open connections,
// through a proxy, to the hosts and ports of a list, and to no others.
//
//	policy := execpolicy.DockerPolicy{
//		Egress: egress.Allow("pypi.org:443", "files.pythonhosted.org:443"),
//	}
//
// The container still has only its own loopback. This program listens on it, at
// 127.0.0.1:3128, and is a proxy there that knows one method, CONNECT. A session sets
// HTTPS_PROXY and its relatives, so that most programs find the proxy by themselves. What
// does not ask the proxy, such as ping, a lookup by DNS or QUIC, has no way out.
//
// For each connection the proxy
//
//   - compares the host and the port that it is asked for with the list,
//   - looks up the host's name itself, outside,
//   - if the host is a name, leaves out each of its addresses that is not public, or is
//     one of this machine, unless AllowPrivate has it; an address that the list itself
//     names is not checked,
//   - connects to an address that is left, and looks up nothing again,
//   - and passes on bytes both ways. It does not read them.
//
// A request for plain http, which has no CONNECT, is answered with status 405. What is
// not in the list gets 403. The text of an answer says why. With [execpolicy.Spec.Audit]
// each connection that the proxy has accepted is recorded as an [execpolicy.EventEgress],
// unless the Auditor is too slow.
//
// The list is about hosts and not about what is said to them. A program can send whatever
// it has read to a host of the list, and can reach what that host reaches for it: other
// names behind the same servers of a content network, or more hosts if it is itself a
// proxy. What it may send in all is bounded by [List.MaxBytes]. Code in a session whose
// list is not empty must be thought of as talking to these hosts in the name of this
// machine.
//
// The proxy needs docker or podman on this machine, and Linux. This program needs the
// capabilities SYS_ADMIN and SYS_PTRACE, which root has outside of containers, to enter
// the network namespace of the container once and listen there. Rootless engines, remote
// ones and other systems are refused before anything is started.
package egress
