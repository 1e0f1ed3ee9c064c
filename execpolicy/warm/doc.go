// Package warm keeps sessions that were started ahead, and hands each of them out once.
//
// An engine takes some tenths of a second to start a container. A [Pool] starts sessions
// before anybody asks, and [Pool.Take] hands one out in a few milliseconds:
//
//	pool, err := warm.New(execpolicy.DockerPolicy{}, execpolicy.Spec{}, warm.Options{Size: 4})
//	if err != nil {
//		return err
//	}
//	defer pool.Close()
//	s, err := pool.Take(ctx, execpolicy.Spec{Env: map[string]string{"USER": "ann"}})
//	if err != nil {
//		return err
//	}
//	defer s.Close()
//
// A session never comes back to the pool. So what one user leaves in it, no other user
// finds, and nothing of a user is in it before Take. What belongs to one user goes in
// over the session's stdin when it is taken: variables, secrets, startup scripts, and
// what [execpolicy.Spec.Prepare] copies. The Finish, Filter, Approve, Audit and Limits
// that Take is given apply from then on. What all users have in common is in the spec of
// [New]: a shell, labels, variables, and startup scripts that run ahead. Package
// execpolicy/workspace copies a directory into a session of a pool if its Options.Take is
// set to the pool's Take.
//
// # Which sessions are handed out
//
// Take hands out a session whose container lives and whose shell answers. It ends any
// other in the background, and tries the next. The pool replaces a session that ends
// while it is idle, or that was started [Options.MaxAge] ago. If sessions end one after
// another within ten seconds of their starts, the pool pauses before each start, for up
// to ten seconds, even if somebody waits. Otherwise the pool waits 100 ms before it
// replaces a session that was taken, so that the start does not take the processors from
// the user's first command. It starts at once if somebody waits.
//
// The [execpolicy.Limits.Lifetime] of the policy begins with the container. It has to be
// longer than a start, MaxAge and the longest use together. A Lifetime of a user begins
// with Take, and can only end the session earlier.
//
// # When no session is idle
//
// Take waits, first come, first served. The pool starts sessions for those who wait,
// beyond its Size. If too many wait, or one waits too long, the error wraps [ErrBusy]. If
// two starts in a row have failed, Take returns the error of the latest and does not
// wait. The pool goes on trying, after pauses of up to ten seconds.
//
// The pool does not limit how many sessions are in use. Each may use as much memory as
// the policy allows, so the caller has to limit them.
//
// # What an idle session costs
//
// It is a running container whose shell reads. It takes no processor time. Where there
// are a hundred sessions, each takes 7.5 MiB with docker, and 9.4 MiB if its streams pass
// through the engine's client: see [execpolicy.Transport]. They share most of what their
// processes have: alone, the shells take 5 MiB, the engine's process beside the container
// 12 MiB with docker and 1 MiB with podman, and a client 25 MiB with docker and 34 MiB
// with podman.
//
// Other ways were measured, and are no substitute. A container that is created ahead and
// started later takes more than two thirds of the time of a start. One that is paused
// takes the same memory, and 40 ms to go on.
//
// # The end
//
// [Pool.Close] ends the sessions that were not taken. A session that was taken belongs to
// the caller, who closes it. If the program is killed, nothing is left of either, as
// package execpolicy promises for every session.
package warm
