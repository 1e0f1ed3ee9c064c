package execpolicy

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/seed-64a260eb/cofferdam/internal/bound"
	"github.com/seed-64a260eb/cofferdam/internal/environ"
	"github.com/seed-64a260eb/cofferdam/internal/problems"
	"github.com/seed-64a260eb/cofferdam/internal/random"
	"github.com/seed-64a260eb/cofferdam/internal/secret"
	"github.com/seed-64a260eb/cofferdam/internal/shell"
	"github.com/seed-64a260eb/cofferdam/internal/shellwire"
	"github.com/seed-64a260eb/cofferdam/internal/transfer"
)

// A Secret is a value that a session's programs get, and that nothing else shows. Package
// fmt, MarshalText and package encoding/json print only its name. But package fmt prints
// all of a Secret that stands in an unexported field of another struct, because it can't
// call the Secret's methods there.
type Secret struct {
	// Name is the name of the environment variable that holds the value. It must be the
	// name of a shell variable, and must not be in Env too. A command's secret
	// replaces a session's secret of the same name for that command.
	Name string
	// Value is the value. It has at least 4 bytes, not counting white space around it,
	// because shorter values would match unrelated output. It has at most [MaxSecret]
	// bytes, and no NUL byte. Either Value or Lookup must be set, and not both.
	Value string
	// Lookup returns the value. For a session's secret it is called at Start, and again
	// at Restart, when the shell has answered. Its context ends after
	// [Limits.StartupTimeout]. For a command's secret it is called when the command's
	// turn has come. It takes some of the command's time, and its context ends with that.
	// A Lookup that does not return then is left behind. It runs on a goroutine of its
	// own. A panic there ends the program. An error fails the start, or the command,
	// which then does not run. The error must not hold the value.
	Lookup func(ctx context.Context, name string) (string, error)
	// File puts the value into a file that only the session's user may read, and the
	// file's name into the variable. The file is in the container's memory, or under a
	// [HostPolicy] on the host's disk. The file of a command's secret is removed when the
	// command has ended. That of a session's secret stays. It is made anew before the
	// startup scripts run again.
	File bool
}

// MaxSecret is how many bytes a [Secret] may have: 64 KiB.
const MaxSecret = secret.MaxLen

// String returns the word "secret" and the name.
func (s Secret) String() string { return "secret " + s.Name }

// Format prints what String returns, whatever the verb.
func (s Secret) Format(f fmt.State, _ rune) { io.WriteString(f, s.String()) }

// MarshalText returns what String returns.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// check reports what is wrong with the value.
func (s Secret) check() error {
	if err := secret.Check(s.Value); err != nil {
		return fmt.Errorf("the value of the %v %w", s, err)
	}
	return nil
}

// validateSecrets adds what is wrong with the secrets, and takes their values out of all.
func validateSecrets(found problems.List, secrets []Secret, env map[string]string) problems.List {
	for i, s := range secrets {
		found = append(found, environ.Check(map[string]string{s.Name: ""})...)
		_, twice := env[s.Name]
		if twice || slices.ContainsFunc(secrets[:i], func(other Secret) bool { return other.Name == s.Name }) {
			found.Add("the %v is set twice", s)
		}
		if (s.Value == "") == (s.Lookup == nil) {
			found.Add("the %v has to have a Value or a Lookup, and not both", s)
		} else if s.Lookup == nil {
			found = append(found, s.check())
		}
	}
	values := addValues(nil, secrets)
	for i, err := range found {
		found[i] = problems.Redact(err, values.Redact)
	}
	return found
}

func secretNames(secrets []Secret) []string {
	var names []string
	for _, s := range secrets {
		names = append(names, s.Name)
	}
	return names
}

// addValues returns the values of v and those of the secrets, as far as they need not be
// looked up.
func addValues(v *secret.Values, secrets []Secret) *secret.Values {
	if len(secrets) == 0 {
		return v
	}
	more := make([]secret.Value, len(secrets))
	for i, s := range secrets {
		more[i] = secret.Value{Text: s.Value, Placeholder: "[" + s.String() + "]"}
	}
	return v.With(more...)
}

// redact returns the text with something else in place of the values of all secrets that
// the session was ever given.
func (c *conn) redact(text string) string { return c.redactor.Values().Redact(text) }

// secretFilter returns what redacts the values in a stream; nil if there are none.
func (c *conn) secretFilter() shell.Filter {
	if values := c.redactor.Values(); values != nil {
		return values.Writer
	}
	return nil
}

// setValues makes the values all that the session redacts.
func (c *conn) setValues(values *secret.Values) {
	if values == nil {
		return
	}
	c.redactor.Set(values)
	all := shell.Filter(values.Writer)
	if filter := c.filter; filter != nil {
		all = func(w io.Writer) io.WriteCloser { return values.Writer(filter(w)) }
	}
	c.SetFilter(all)
}

// fetch returns the secrets with their values, which the conn hides from then on, and
// gives each its place in the environment: the value, or the name of a file that is still
// to be made.
func (c *conn) fetch(ctx context.Context, secrets []Secret, deadline time.Time, env map[string]string) ([]Secret, error) {
	ctx, cancel := bound.Until(ctx, deadline, ErrTimeout)
	defer cancel()
	secrets = slices.Clone(secrets)
	for i := range secrets {
		s := &secrets[i]
		if err := s.fetch(ctx); err != nil {
			return nil, err
		}
		env[s.Name] = s.Value
		if s.File {
			env[s.Name] = c.proc.Scratch + "/k" + random.Token()
		}
	}
	c.setValues(addValues(c.redactor.Values(), secrets))
	return secrets, nil
}

// fetch looks the value up, if it is not there.
func (s *Secret) fetch(ctx context.Context) error {
	if s.Lookup == nil {
		return nil
	}
	lookup, name, got := s.Lookup, s.Name, make(chan string, 1)
	err := bound.Call(ctx, func() error {
		value, err := lookup(ctx, name)
		got <- value
		return err
	})
	if err != nil {
		return fmt.Errorf("the %s: %w", s, err)
	}
	s.Value = <-got
	return s.check()
}

// putSecrets makes the files of secrets, whose names are in env.
func putSecrets(t *transfer.Transfer, secrets []Secret, env map[string]string) error {
	for _, s := range secrets {
		if !s.File {
			continue
		}
		file := shellwire.Word(env[s.Name])
		temp := shellwire.Word(env[s.Name] + random.Token())
		t.Undo += "rm -f " + file + " " + temp + "; "
		if err := t.Put(file, temp, []byte(s.Value), 0o400); err != nil {
			return fmt.Errorf("the %s: %w: %w", s, ErrTransfer, err)
		}
	}
	return nil
}

// giveSecrets returns a command's environment with secrets, and what removes what they
// take inside, by endBy if that is not zero. After an error that has been done.
func (c *conn) giveSecrets(
	ctx context.Context, secrets []Secret, env map[string]string, deadline, endBy time.Time,
) (all map[string]string, remove func(endBy time.Time), err error) {
	t := c.newTransfer(ctx, nil)
	t.Deadline, t.EndBy = deadline, endBy
	remove = func(endBy time.Time) {
		if !endBy.IsZero() {
			t.EndBy = endBy
		}
		t.Clean()
	}
	all = map[string]string{}
	maps.Copy(all, env)
	secrets, err = c.fetch(ctx, secrets, deadline, all)
	if err == nil {
		err = putSecrets(t, secrets, all)
	}
	if err != nil {
		remove(time.Time{})
	}
	return all, remove, err
}

// openSecrets gives the session's secrets to the shell. It is called only after the shell
// has answered, so that no other process receives them.
func (c *conn) openSecrets(ctx context.Context) (err error) {
	if len(c.secrets) == 0 {
		return nil
	}
	env := map[string]string{}
	if c.secrets, err = c.fetch(ctx, c.secrets, bound.After(c.limits.StartupTimeout), env); err != nil {
		return err
	}
	deadline := bound.After(c.limits.StartupTimeout)
	if err := c.addEnv(ctx, env, deadline); err != nil {
		return err
	}
	return c.renewSecrets(ctx, deadline, time.Time{})
}

// renewSecrets makes the files of the session's secrets for a new worker.
func (c *conn) renewSecrets(ctx context.Context, deadline, endBy time.Time) error {
	t := c.newTransfer(ctx, nil)
	t.Deadline, t.EndBy = deadline, endBy
	return putSecrets(t, c.secrets, c.env)
}
