package tool

import (
	"context"
	"errors"
	"strings"

	"github.com/seed-64a260eb/cofferdam/execpolicy"
)

// The texts of LangChain's shell tool.
const (
	shellAbout = "Execute a shell command inside a persistent session. Before running a command, " +
		"confirm the working directory is correct (e.g., inspect with `ls` or `pwd`) and ensure " +
		"any parent directories exist. Prefer absolute paths and quote paths containing spaces, " +
		"such as `cd \"/path/with spaces\"`. Chain multiple commands with `&&` or `;` instead of " +
		"embedding newlines. Avoid unnecessary `cd` usage unless explicitly required so the " +
		"session remains stable. Outputs may be truncated when they become very large, and long " +
		"running commands will be terminated once their configured timeout elapses."
	shellNeither    = "Shell tool requires either 'command' or 'restart'."
	shellBoth       = "Specify only one of 'command' or 'restart'."
	shellNoString   = "Shell tool expects a 'command' string when restart is not requested."
	shellRestarted  = "Shell session restarted."
	shellNotStarted = "Failed to restart shell session."
)

// copiedAnew is what LangChain, whose workspace is never a copy, has no words for.
const copiedAnew = " The workspace was copied in anew: changes in it that were not saved are lost."

var shellForm = form{
	{name: "command", kind: text, about: "The shell command to execute.", wrong: shellNoString},
	{name: "restart", kind: flag, about: "Whether to restart the shell session."},
}

func (s *Set) shell(ctx context.Context, in input) (Reply, error) {
	switch {
	case !in.has("command") && !in.flag("restart"):
		return failed(shellNeither), nil
	case in.has("command") && in.flag("restart"):
		return failed(shellBoth), nil
	case in.flag("restart"):
		return s.restart(ctx)
	case strings.TrimSpace(in.text("command")) == "":
		return failed(shellNoString), nil
	}
	r, err := s.Session.Run(ctx, execpolicy.Command{Script: in.text("command")})
	if r == nil {
		return s.unanswered(ctx, err)
	}
	return s.ran(ctx, r, r.Render, err)
}

// restart begins the session anew.
func (s *Set) restart(ctx context.Context) (Reply, error) {
	select {
	case <-s.Session.Done():
		// A session whose lifetime is over is not the model's to prolong.
		if _, err := s.Session.Stat(ctx, "."); errors.Is(err, execpolicy.ErrExpired) {
			return failed(unusable), err
		}
	default:
	}
	if err := s.Session.Restart(ctx); err != nil {
		return failed(shellNotStarted), err
	}
	reply := Reply{Text: shellRestarted}
	if s.Session.Copied() {
		reply.Text += copiedAnew
	}
	return reply, nil
}

// ran returns the reply for what has run.
func (s *Set) ran(ctx context.Context, r *execpolicy.Result, render func(execpolicy.RenderOptions) string, err error) (Reply, error) {
	// The outcome may be as it should, and the call have failed all the same.
	reply := Reply{Result: r, Failed: err != nil || r.Outcome != execpolicy.OutcomeExited || r.ExitCode != 0}
	if err == nil || errors.Is(err, execpolicy.ErrBlocked) && !hosts(ctx, err) {
		var passed bool
		reply.Text, passed = s.rendered(render, s.options.Render)
		reply.Failed = reply.Failed || !passed
		return reply, nil
	}
	note, err := s.unanswered(ctx, err)
	reply.Text = s.noted(render, note.Text)
	return reply, err
}
