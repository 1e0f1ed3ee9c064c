// Package gvisor holds the test of sessions under gVisor, whose runtime it builds. It is
// a module of its own, so that nothing else requires gVisor.
package gvisor
