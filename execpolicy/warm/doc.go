// Package warm has sessions ready before somebody wants them.
//
// To start a container takes an engine some tenths of a second. A [Pool] starts sessions
// ahead, and [Pool.Take] hands one out in a few milliseconds:
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
// Each session is handed out once, and never comes back: what one user leaves in it, no
// other finds. Nothing of a user is there before Take either. Whatever belongs to one
// goes in over the session's stdin when it is taken: variables, secrets, startup scripts,
// [execpolicy.Spec.Prepare] and Finish, Filter, Approve, Audit, Limits. A workspace is
// copied in: see workspace.Options.Take. What all have in common, such as labels, a shell
// and startup scripts that run ahead, is in the spec of [New].
//
// # What is handed out
//
// A session is handed out if its container lives and its shell answers. One that does not
// is ended in the background, and the next is tried. One that ends while it is idle, or
// that has been idle for [Options.MaxAge], is replaced. What a session that was taken
// finds is as after [execpolicy.Start], but for the time: the container is older, by up
// to MaxAge, and its own [execpolicy.Limits.Lifetime], which the policy sets, has begun
// with it. So that has to be longer than MaxAge and the longest use together.
//
// # When there is none
//
// Take waits, first come, first served, and the pool starts sessions for those who wait
// beyond its Size. If too many wait, or for too long, the error wraps [ErrBusy]. If
// starts fail, those who wait are told why and not kept waiting. The pool goes on trying,
// after a pause that grows to ten seconds.
//
// The pool does not count who uses sessions at a time: each takes what its policy allows
// of the machine's memory, and the caller knows how many are enough.
//
// # What waiting costs
//
// An idle session is a container that runs, with a shell that reads: no processor time,
// and the memory of the two shells, of the engine's client and of what the engine has
// beside each container. Making that cheaper would make the session no warm one: in a
// container that docker has created and not started, only a seventh of the start is done;
// one that is paused takes as much memory, and longer than all of Take to go on.
//
// # When it ends
//
// [Pool.Close] ends the sessions that were not taken. A session that was taken is the
// caller's, who closes it. If the program is killed, nothing is left of either, as
// package execpolicy promises for every session.
package warm
