package execpolicy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/seed-64a260eb/cofferdam/internal/problems"
	"github.com/seed-64a260eb/cofferdam/internal/random"
	"github.com/seed-64a260eb/cofferdam/internal/secret"
	"github.com/seed-64a260eb/cofferdam/internal/shellwire"
	"github.com/seed-64a260eb/cofferdam/internal/transfer"
)

// Secrets are the secrets of a [Spec] or a [Command].
type Secrets []Secret

// A SecretSet is [Secrets]. It is an interface so that the linker can drop secret handling
// from a program that has no secrets; nothing else implements it.
type SecretSet interface {
	// validate adds what is wrong with them, and takes their values out of all.
	validate(found problems.List, env map[string]string) problems.List
	names() []string
	// concealer returns what puts something else in place of the values, as far as they
	// need not be looked up.
	concealer() func(text string) string
	// refuse returns the error of what can have none.
	refuse() error
	// open gives them to a session whose shell has answered.
	open(ctx context.Context, c *conn) error
	// give returns a command's environment with them, and what removes what they take
	// inside, by endBy if that is not zero. After an error that has been done.
	give(ctx context.Context, c *conn, env map[string]string, deadline, endBy time.Time) (all map[string]string, end func(endBy time.Time), err error)
}

// known is what a session does not show. It names no type of package secret, so that a
// program that has no secrets has nothing of that package.
type known struct {
	values any // *secret.Values
	// conceal returns the text with something else in place of the values.
	conceal func(text string) string
	// hide returns a writer that does so with a stream on its way to w.
	hide func(w io.Writer) io.WriteCloser
	// filter is the session's own, behind hide; nil if there is none.
	filter func(w io.Writer) io.WriteCloser
	// again returns secrets, which may be nil, for a session that hides the values too.
	again func(secrets SecretSet) SecretSet
}

// conceal returns the text with something else in place of the values of all secrets that
// the session was ever given.
func (c *conn) conceal(text string) string {
	if k := c.known.Load(); k != nil {
		return k.conceal(text)
	}
	return text
}

// hide returns what conceals the values in a stream; nil if there are none.
func (c *conn) hide() func(io.Writer) io.WriteCloser {
	if k := c.known.Load(); k != nil {
		return k.hide
	}
	return nil
}

// A Secret is a value that a session's programs get, and that nothing else shows. Printed
// with package fmt, as text or in JSON it is its name only, unless it stands in a field
// that is not exported, which these don't ask.
type Secret struct {
	// Name is that of the variable of the environment that holds the value. It must be a
	// shell variable's, and not be in Env too. One of a command may have the name of one
	// of the session's, in whose place it then stands.
	Name string
	// Value is the value: at least 4 bytes, not counting white space around it, since
	// shorter values would match unrelated output; at most [MaxSecret], and without a NUL
	// byte. If empty, Lookup has it.
	Value string
	// Lookup returns the value. It is called at Start, and again at Restart, when the
	// shell has answered; or when a command's turn has come. Its context ends after
	// [Limits.StartupTimeout], or with the command's time, which it uses up; one that
	// does not return then is left behind. It is on a goroutine of its own, and one that
	// panics takes the program with it. An error fails the start, or the command, which
	// then does not run; it must not have the value in it. If nil, Value has it.
	Lookup func(ctx context.Context, name string) (string, error)
	// File puts the value into a file that only the session's user may read, and the
	// file's name into the variable. It lies in the container's memory; under a
	// [HostPolicy] on the host's disk. A command's file is removed when the command has
	// ended. A session's stays, and is made anew before the startup scripts run again.
	File bool
}

// MaxSecret is how many bytes a [Secret] may have.
const MaxSecret = 64 << 10

// String returns the word "secret" and the name.
func (s Secret) String() string { return "secret " + s.Name }

// Format prints what String returns, whatever is asked for.
func (s Secret) Format(f fmt.State, _ rune) { io.WriteString(f, s.String()) }

// MarshalText returns what String returns.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// check reports what is wrong with the value.
func (s Secret) check() error {
	what := ""
	switch {
	case len(strings.TrimSpace(s.Value)) < secret.MinLen:
		what = "is shorter than 4 bytes, and could not be told from what else is printed"
	case len(s.Value) > MaxSecret:
		what = "is longer than 64 KiB"
	case strings.Contains(s.Value, "\x00"):
		what = "holds a NUL byte"
	default:
		return nil
	}
	return errors.New("the value of the " + s.String() + " " + what)
}

func (secrets Secrets) validate(found problems.List, env map[string]string) problems.List {
	for i, s := range secrets {
		found = append(found, validateEnv(map[string]string{s.Name: ""})...)
		_, twice := env[s.Name]
		for _, other := range secrets[:i] {
			twice = twice || other.Name == s.Name
		}
		if twice {
			found.Add("the %v is set twice", s)
		}
		if (s.Value == "") == (s.Lookup == nil) {
			found.Add("the %v has to have a Value or a Lookup, and not both", s)
		} else if s.Lookup == nil {
			if err := s.check(); err != nil {
				found = append(found, err)
			}
		}
	}
	if len(found) > 0 {
		conceal := secrets.concealer()
		for i, err := range found {
			found[i] = errors.New(conceal(err.Error()))
		}
	}
	return found
}

func (secrets Secrets) names() []string {
	names := make([]string, len(secrets))
	for i, s := range secrets {
		names[i] = s.Name
	}
	return names
}

// addTo returns the values and those of the secrets.
func (secrets Secrets) addTo(v *secret.Values) *secret.Values {
	more := make([]secret.Value, len(secrets))
	for i, s := range secrets {
		more[i] = secret.Value{Text: s.Value, Placeholder: "[" + s.String() + "]"}
	}
	return v.With(more...)
}

func (secrets Secrets) concealer() func(text string) string {
	return secrets.addTo(nil).Redact
}

func (Secrets) refuse() error { return errors.New("only a session has Secrets") }

// hideIn makes a session hide the values too.
func hideIn(c *conn, v *secret.Values) {
	k := &known{values: v, conceal: v.Redact, hide: v.Writer, filter: c.Filter}
	if old := c.known.Load(); old != nil {
		k.filter = old.filter
	}
	k.again = func(secrets SecretSet) SecretSet { return again{secrets, v} }
	c.known.Store(k)
	c.Filter = k.hide
	if k.filter != nil {
		c.Filter = func(w io.Writer) io.WriteCloser { return k.hide(k.filter(w)) }
	}
}

// again are secrets, if any, of a session that does not show what it did not before.
type again struct {
	SecretSet
	values *secret.Values
}

func (a again) names() []string {
	if a.SecretSet == nil {
		return nil
	}
	return a.SecretSet.names()
}

func (a again) open(ctx context.Context, c *conn) error {
	hideIn(c, a.values)
	if a.SecretSet == nil {
		return nil
	}
	return a.SecretSet.open(ctx, c)
}

// fetch returns the secrets with their values, which the conn hides from then on, and
// gives each its place in the environment: the value, or the name of a file that is still
// to be made.
func (secrets Secrets) fetch(ctx context.Context, c *conn, deadline time.Time, env map[string]string) (Secrets, error) {
	if !deadline.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadlineCause(ctx, deadline, ErrTimeout)
		defer cancel()
	}
	secrets = slices.Clone(secrets)
	for i := range secrets {
		s := &secrets[i]
		if s.Lookup != nil {
			lookup, name, got := s.Lookup, s.Name, make(chan string, 1)
			err := abandonOnCancel(ctx, func() error {
				value, err := lookup(ctx, name)
				got <- value
				return err
			})
			if err != nil {
				return nil, fmt.Errorf("the %s: %w", s, err)
			}
			s.Value = <-got
			if err := s.check(); err != nil {
				return nil, err
			}
		}
		env[s.Name] = s.Value
		if s.File {
			env[s.Name] = c.proc.Scratch + "/k" + random.Token()
		}
	}
	var old *secret.Values
	if k := c.known.Load(); k != nil {
		old = k.values.(*secret.Values)
	}
	hideIn(c, secrets.addTo(old))
	return secrets, nil
}

// put makes the files.
func (secrets Secrets) put(t *transfer.Transfer, env map[string]string) error {
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

func (secrets Secrets) give(ctx context.Context, c *conn, env map[string]string, deadline, endBy time.Time) (map[string]string, func(time.Time), error) {
	t := c.newTransfer(ctx, nil)
	t.Deadline, t.EndBy = deadline, endBy
	end := func(endBy time.Time) {
		if !endBy.IsZero() {
			t.EndBy = endBy
		}
		t.Clean()
	}
	all := map[string]string{}
	maps.Copy(all, env)
	secrets, err := secrets.fetch(ctx, c, deadline, all)
	if err == nil {
		err = secrets.put(t, all)
	}
	if err != nil {
		end(time.Time{})
	}
	return all, end, err
}

// open gives the secrets to the shell only when it has answered, so that they come into
// nobody's hands who has not.
func (secrets Secrets) open(ctx context.Context, c *conn) error {
	secrets, err := secrets.fetch(ctx, c, after(c.limits.StartupTimeout), c.env)
	if err != nil {
		return err
	}
	c.renew = func(ctx context.Context, deadline, endBy time.Time) error {
		t := c.newTransfer(ctx, nil)
		t.Deadline, t.EndBy = deadline, endBy
		return secrets.put(t, c.env)
	}
	deadline := after(c.limits.StartupTimeout)
	if err := c.renew(ctx, deadline, time.Time{}); err != nil {
		return err
	}
	return c.handshake(ctx, deadline, time.Time{})
}
