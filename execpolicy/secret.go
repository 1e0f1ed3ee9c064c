package execpolicy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf16"

	"github.com/hashicorp/go-multierror"

	"github.com/seed-64a260eb/cofferdam/internal/shellwire"
)

// Secrets are the secrets of a [Spec] or a [Command].
type Secrets []Secret

// A SecretSet is [Secrets]. A program that has none has nothing of them in its binary: therefore it is an interface, which nothing else
// implements.
type SecretSet interface {
	// judge adds what is wrong with them to problems, and takes their values out of all.
	judge(errs *multierror.Error, env map[string]string) *multierror.Error
	names() []string
	// concealer returns what puts something else in place of the values, as far as they need not be looked up.
	concealer() func(text string) string
	// refuse returns the error of what can have none.
	refuse() error
	// open gives them to a session whose shell has answered.
	open(ctx context.Context, c *conn) error
	// give returns a command's environment with them, and what removes what they take inside, by the time left if that is not zero.
	// After an error that has been done.
	give(ctx context.Context, c *conn, env map[string]string, deadline, left time.Time) (all map[string]string, end func(left time.Time), err error)
}

// known is what a session does not show. It holds no type of its own, for the same reason.
type known struct {
	values  any                               // *values
	conceal func(text string) string          // returns the text with something else in place of the values
	hide    func(w io.Writer) io.WriteCloser  // passes what is written to it on to w so
	filter  func(w io.Writer) io.WriteCloser  // the session's own, behind it; nil if there is none
	again   func(secrets SecretSet) SecretSet // makes a session that is given the secrets, if any, not show them either
}

// conceal returns the text with something else in place of the values of all secrets that the session was ever given.
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

// A Secret is a value that a session's programs get, and that nothing else shows. Printed with package fmt, as text or in JSON it is its
// name only, unless it stands in a field that is not exported, which these don't ask.
type Secret struct {
	// Name is that of the variable of the environment that holds the value. It must be a shell variable's, and not be in Env too. One of a
	// command may have the name of one of the session's, in whose place it then stands.
	Name string
	// Value is the value, of at least 4 bytes, not counting white space around it, for what is shorter stands in much else that is printed;
	// of at most [MaxSecret], and without a NUL byte. If empty, Lookup has it.
	Value string
	// Lookup returns the value. It is called at Start, and again at Restart, when the shell has answered; or when a command's turn has
	// come. Its context ends after [Limits.StartupTimeout], or with the command's time, which it uses up; one that does not return then is
	// left behind. It is on a goroutine of its own, and one that panics takes the program with it. An error fails the start, or the
	// command, which then does not run; it must not have the value in it. If nil, Value has it.
	Lookup func(ctx context.Context, name string) (string, error)
	// File puts the value into a file that only the session's user may read, and the file's name into the variable. It lies in the
	// container's memory; under a [HostPolicy] on the host's disk. A command's file is removed when the command has ended. A session's
	// stays, and is made anew before the startup scripts run again.
	File bool
}

const (
	// MaxSecret is how many bytes a [Secret] may have.
	MaxSecret = 64 << 10
	// minSecret is how many it must have, and minSecretLine how many a line must have to be found by itself.
	minSecret     = 4
	minSecretLine = 8
)

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
	case len(strings.TrimSpace(s.Value)) < minSecret:
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

func (secrets Secrets) judge(errs *multierror.Error, env map[string]string) *multierror.Error {
	for i, s := range secrets {
		errs = multierror.Append(errs, validateEnv(map[string]string{s.Name: ""})...)
		_, twice := env[s.Name]
		for _, other := range secrets[:i] {
			twice = twice || other.Name == s.Name
		}
		if twice {
			errs = multierror.Append(errs, errors.New("the "+s.String()+" is set twice"))
		}
		if (s.Value == "") == (s.Lookup == nil) {
			errs = multierror.Append(errs, errors.New("the "+s.String()+" has to have a Value or a Lookup, and not both"))
		} else if s.Lookup == nil {
			if err := s.check(); err != nil {
				errs = multierror.Append(errs, err)
			}
		}
	}
	if errs != nil {
		conceal := secrets.concealer()
		for i, err := range errs.Errors {
			errs.Errors[i] = errors.New(conceal(err.Error()))
		}
	}
	return errs
}

func (secrets Secrets) names() []string {
	names := make([]string, len(secrets))
	for i, s := range secrets {
		names[i] = s.Name
	}
	return names
}

func (secrets Secrets) concealer() func(text string) string {
	return (*values)(nil).with(secrets).conceal
}

func (Secrets) refuse() error { return errors.New("only a session has Secrets") }

// values are what must not be seen. They don't change.
type values struct {
	by [256][]value // by the first byte, in order
}

type value struct {
	text, shown string
}

// with returns the values and those of secrets.
func (v *values) with(secrets []Secret) *values {
	all := &values{}
	if v != nil {
		*all = *v
	}
	for _, s := range secrets {
		all.add(s, s.Value, minSecret)
		// Most who print a key print it a line at a time.
		for line := range strings.Lines(s.Value) {
			all.add(s, line, minSecretLine)
		}
	}
	return all
}

// add adds a text of a secret in all its forms, unless it is too short.
func (v *values) add(s Secret, text string, least int) {
	if text = strings.TrimSpace(text); len(text) < least {
		return
	}
	for _, form := range forms(text) {
		v.insert(value{form, "[" + s.String() + "]"})
	}
}

// forms returns a text as it is, and as those quote it who print it so that it can be read back.
func forms(text string) []string {
	single := shellwire.Quote(text)
	quoted := strconv.Quote(text)
	quoted = quoted[1 : len(quoted)-1]
	// Python and JavaScript take the quotation marks that need not be escaped, if there are any.
	free := strings.ReplaceAll(quoted, `\"`, `"`)
	return []string{
		text,
		single[1 : len(single)-1],
		strings.NewReplacer(`\`, `\\`, `$`, `\$`, "`", "\\`", `"`, `\"`).Replace(text), // bash, of what it exports
		quoted,
		free,
		strings.ReplaceAll(free, "'", `\'`),
		strings.NewReplacer("<", `\u003c`, ">", `\u003e`, "&", `\u0026`).Replace(quoted), // Go's JSON
		escaped(text),
	}
}

// escaped returns a text as those write it in JSON who write ASCII only, as Python does.
func escaped(text string) string {
	var b strings.Builder
	for _, r := range text {
		switch {
		case strings.ContainsRune("\\\"", r):
			b.WriteString("\\" + string(r))
		case ' ' <= r && r <= '~':
			b.WriteRune(r)
		case strings.ContainsRune("\b\f\n\r\t", r):
			b.WriteString("\\" + map[rune]string{'\b': "b", '\f': "f", '\n': "n", '\r': "r", '\t': "t"}[r])
		default:
			for _, unit := range utf16.AppendRune(nil, r) {
				fmt.Fprintf(&b, "\\u%04x", unit)
			}
		}
	}
	return b.String()
}

func (v *values) insert(n value) {
	bucket := &v.by[n.text[0]]
	i, there := slices.BinarySearchFunc(*bucket, n.text, func(k value, text string) int { return strings.Compare(k.text, text) })
	if !there {
		// Others may have the array.
		*bucket = slices.Insert(slices.Clip(*bucket), i, n)
	}
}

// match returns the longest value that b begins with, whose text is empty if there is none, and whether b is the beginning of a longer one.
func (v *values) match(b []byte) (found value, more bool) {
	in := v.by[b[0]] // those that begin with b[:i], in order
	for i := 1; ; i++ {
		if len(in) > 0 && len(in[0].text) == i {
			found, in = in[0], in[1:]
		}
		switch {
		case len(in) == 0:
			return found, false
		case i == len(b):
			return found, true
		case len(in) == 1:
			rest, text := b[i:], in[0].text[i:]
			if len(text) > len(rest) {
				return found, text[:len(rest)] == string(rest)
			} else if text == string(rest[:len(text)]) {
				return in[0], false
			}
			return found, false
		}
		from := func(c int) int {
			n, _ := slices.BinarySearchFunc(in, c, func(k value, c int) int { return int(k.text[i]) - c })
			return n
		}
		in = in[from(int(b[i])):from(int(b[i])+1)]
	}
}

// conceal returns the text with something else in place of the values.
func (v *values) conceal(text string) string {
	if v == nil {
		return text
	}
	var b strings.Builder
	c := concealer{values: v, w: &b}
	c.pass([]byte(text), true)
	return b.String()
}

// A concealer passes on what is written to it with something else in place of the values: all that is part of one, also where they
// overlap. However the stream is cut, the result is the same. It holds back what may be the beginning of a value, and no more.
type concealer struct {
	values *values
	w      io.Writer
	held   []byte
	end    int // so much of what is held is part of a value
}

func (c *concealer) Write(p []byte) (int, error) {
	b := p
	if len(c.held) > 0 {
		c.held = append(c.held, p...)
		b = c.held
	}
	n, err := c.pass(b, false)
	c.held = append(c.held[:0], b[n:]...)
	return len(p), err
}

// Close passes what is held, and closes what is behind.
func (c *concealer) Close() error {
	_, err := c.pass(c.held, true)
	c.held = nil
	if w, ok := c.w.(io.Closer); ok {
		err = errors.Join(err, w.Close())
	}
	return err
}

// pass passes what is clear, which is all if nothing more comes, and returns how much of b need not come again.
func (c *concealer) pass(b []byte, last bool) (n int, err error) {
	write := func(p []byte) {
		if err == nil && len(p) > 0 {
			_, err = c.w.Write(p)
		}
	}
	for ; n < len(b); n++ {
		if c.values.by[b[n]] == nil {
			continue
		}
		found, more := c.values.match(b[n:])
		if more && !last {
			break
		}
		if found.text == "" {
			continue
		}
		if n >= c.end {
			write(b[c.end:n])
			write([]byte(found.shown))
		}
		c.end = max(c.end, n+len(found.text))
	}
	if n > c.end {
		write(b[c.end:n])
		c.end = n
	}
	c.end -= n
	return n, err
}

// hideIn makes a session hide the values too.
func (v *values) hideIn(c *conn) {
	k := &known{values: v, conceal: v.conceal, filter: c.filter}
	if old := c.known.Load(); old != nil {
		k.filter = old.filter
	}
	k.hide = func(w io.Writer) io.WriteCloser { return &concealer{values: v, w: w} }
	k.again = func(secrets SecretSet) SecretSet { return again{secrets, v} }
	c.known.Store(k)
	c.filter = k.hide
	if k.filter != nil {
		c.filter = func(w io.Writer) io.WriteCloser { return k.hide(k.filter(w)) }
	}
}

// again are secrets, if any, of a session that does not show what it did not before.
type again struct {
	SecretSet
	values *values
}

func (a again) names() []string {
	if a.SecretSet == nil {
		return nil
	}
	return a.SecretSet.names()
}

func (a again) open(ctx context.Context, c *conn) error {
	a.values.hideIn(c)
	if a.SecretSet == nil {
		return nil
	}
	return a.SecretSet.open(ctx, c)
}

// fetch returns the secrets with their values, which the conn hides from then on, and gives each its place in the environment: the value,
// or the name of a file that is still to be made.
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
			err := leave(ctx, func() error {
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
			env[s.Name] = c.proc.Scratch + "/k" + token()
		}
	}
	var old *values
	if k := c.known.Load(); k != nil {
		old = k.values.(*values)
	}
	old.with(secrets).hideIn(c)
	return secrets, nil
}

// put makes the files.
func (secrets Secrets) put(t *transfer, env map[string]string) error {
	// They are none of what a record counts.
	defer func(in int64) { t.c.in = in }(t.c.in)
	for _, s := range secrets {
		if !s.File {
			continue
		}
		file := shellwire.Word(env[s.Name])
		temp := shellwire.Word(env[s.Name] + token())
		t.undo += "rm -f " + file + " " + temp + "; "
		if err := t.put(file, temp, []byte(s.Value), 0o400); err != nil {
			return fmt.Errorf("the %s: %w: %w", s, ErrTransfer, err)
		}
	}
	return nil
}

func (secrets Secrets) give(ctx context.Context, c *conn, env map[string]string, deadline, left time.Time) (map[string]string, func(time.Time), error) {
	t := &transfer{c: c, ctx: ctx, deadline: deadline, left: left}
	end := func(left time.Time) {
		if !left.IsZero() {
			t.left = left
		}
		t.clean()
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

// open gives the secrets to the shell only when it has answered, so that they come into nobody's hands who has not.
func (secrets Secrets) open(ctx context.Context, c *conn) error {
	secrets, err := secrets.fetch(ctx, c, after(c.limits.StartupTimeout), c.env)
	if err != nil {
		return err
	}
	c.renew = func(ctx context.Context, deadline, left time.Time) error {
		return secrets.put(&transfer{c: c, ctx: ctx, deadline: deadline, left: left}, c.env)
	}
	deadline := after(c.limits.StartupTimeout)
	if err := c.renew(ctx, deadline, time.Time{}); err != nil {
		return err
	}
	return c.handshake(ctx, deadline, time.Time{})
}
