package execpolicy_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/execpolicy/redact"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest/leftout"
)

// A keeper is a policy under which sessions have secrets.
type keeper struct {
	execpolicy.Policy
	spec execpolicy.Spec
}

// keepers runs f under each kind of policy.
func keepers(t *testing.T, f func(t *testing.T, k keeper)) {
	everywhere(t, func(t *testing.T, p place) {
		policies := map[string]execpolicy.Policy{"hardened": p.policy(), "compat": p.compat()}
		if p.engine == clusterEngine {
			delete(policies, "compat")
		}
		for name, policy := range policies {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				f(t, keeper{policy, p.spec()})
			})
		}
	})
	if inCluster(t) {
		return
	}
	t.Run("host", func(t *testing.T) {
		enginetest.Check(t)
		f(t, keeper{execpolicy.HostPolicy{Limits: hostLimits}, execpolicy.Spec{}})
	})
}

func (p place) compat() placePolicy {
	policy := execpolicy.Compat()
	policy.Engine, policy.Image, policy.Limits = p.engine, p.image, p.policy().Limits
	return placePolicy{policy}
}

func (k keeper) open(t *testing.T, secrets ...execpolicy.Secret) session {
	t.Helper()
	spec := k.spec
	spec.Secrets = []execpolicy.Secret(secrets)
	return open(t, k, spec)
}

// content returns what a script writes to its stdout, which goes to a file: what is read
// is not redacted.
func (s session) content(script string) string {
	s.t.Helper()
	s.ok("{ " + script + "\n} >content")
	data, err := s.ReadFile(s.t.Context(), "content", 0)
	assert.NilError(s.t, err)
	s.ok("rm content")
	return string(data)
}

// byByte prints a variable's value, or half of it, in writes of one byte.
const byByte = `byByte() { v=$1; while [ -n "$v" ]; do printf %s "${v%"${v#?}"}"; v=${v#?}; done; }; `

func TestSecrets(t *testing.T) {
	keepers(t, func(t *testing.T, k keeper) {
		token, key := newValue(), "-----BEGIN KEY-----\n"+newValue()+"\n it's \"quoted\" \\ here\n-----END KEY-----\n"
		s := k.open(t, execpolicy.Secret{Name: "TOKEN", Value: token}, execpolicy.Secret{Name: "KEY", Value: key, File: true})
		half := strconv.Itoa(len(token) / 2)
		t.Run("they reach the program", func(t *testing.T) {
			s := session{s.Session, t}
			assert.Equal(t, s.content(`printf %s "$TOKEN"`), token)
			assert.Equal(t, s.content(`sh -c 'printf %s "$TOKEN"'`), token)
			assert.Equal(t, s.content(`cat "$KEY"`), key)
			assert.Assert(t, strings.HasPrefix(s.ok(`ls -ln "$KEY"`), "-r--------"))
			assert.Equal(t, s.ok(`ls -n "$KEY" | { read a a user a; echo $user; }`), s.ok("id -u"))
		})
		for _, c := range []struct{ name, script, out, errOut string }{
			{"whole", `echo "$TOKEN"; cat "$KEY" >&2`, "[secret TOKEN]\n", "[secret KEY]\n"},
			{"byte by byte", byByte + `byByte "$TOKEN"; echo; byByte "$(cat "$KEY")" >&2`, "[secret TOKEN]\n", "[secret KEY]"},
			{"a line of it", `head -n 2 "$KEY"; tail -n 1 "$KEY" >&2`, "[secret KEY]\n[secret KEY]\n", "[secret KEY]\n"},
			{"twice in a row, and at the end", `printf "a$TOKEN$TOKEN b$TOKEN"`,
				"a[secret TOKEN][secret TOKEN] b[secret TOKEN]", ""},
			{"with pauses, among other output",
				`printf 'x%.` + half + `s' "$TOKEN"; sleep 0.05; echo y >&2; printf %s "${TOKEN#` + strings.Repeat("?",
					len(token)/2) + `}"`, "x[secret TOKEN]", "y\n"},
			{"half on each stream, where neither is it", `printf '%.` + half + `s' "$TOKEN"; printf %s "${TOKEN#` +
				strings.Repeat("?", len(token)/2) + `}" >&2`,
				token[:len(token)/2], token[len(token)/2:]},
			{"in the shell's own words", `set -x; : "$TOKEN"; set +x`, "", "+ : [secret TOKEN]\n"},
			{"binary output beside", `printf 'a\000\377'; printf "$TOKEN"; printf '\r\n\001'`,
				"a\x00\xff[secret TOKEN]\r\n\x01", ""},
		} {
			t.Run(c.name, func(t *testing.T) {
				s := session{s.Session, t}
				var out, errOut bytes.Buffer
				r := s.run(execpolicy.Command{Script: c.script, Stdout: &out, Stderr: &errOut})
				assert.Equal(t, string(r.Stdout), c.out)
				assert.Equal(t, out.String(), c.out)
				if c.name == "in the shell's own words" {
					// Some put it in quotes, and each has a prompt of its own.
					words := strings.ReplaceAll(string(r.Stderr), "'", "")
					assert.Assert(t, strings.Contains(words, c.errOut) && !shows(words, token), words)
					return
				}
				assert.Equal(t, string(r.Stderr), c.errOut)
				assert.Equal(t, errOut.String(), c.errOut)
				assert.Equal(t, r.StdoutInfo.Bytes, int64(len(c.out)))
				if !strings.HasPrefix(c.name, "half") {
					assert.Assert(t, !shows(r.Text(), token) && !shows(r.Text(), key), r.Text())
				}
			})
		}
		t.Run("wherever the readers' buffers end", func(t *testing.T) {
			s := session{s.Session, t}
			for _, buffer := range []int{4 << 10, 64 << 10, 128 << 10} {
				for _, before := range []int{len(token), len(token) / 2, 1} {
					fill := buffer - before
					r := s.script(fmt.Sprintf(`{ head -c %d /dev/zero | tr '\000' x; printf %%s "$TOKEN"; head -c %d `+
						`/dev/zero | tr '\000' x; } | cat`, fill, buffer))
					want := strings.Repeat("x", fill) + "[secret TOKEN]" + strings.Repeat("x", buffer)
					assert.Assert(t, string(r.Stdout) == want, "%d bytes before", fill)
				}
			}
		})
		t.Run("a command that is ended", func(t *testing.T) {
			s := session{s.Session, t}
			// It may have been ended before it has printed anything; and without its
			// container there is nothing to go on with.
			ended := func(r *execpolicy.Result) bool { return inside(r) && len(r.Stdout) > 0 }
			r := s.until(ended, nil, s.shortly(`printf "$TOKEN"; sleep 4911`))
			assert.Equal(t, r.Outcome, execpolicy.OutcomeTimedOut)
			assert.Equal(t, string(r.Stdout), "[secret TOKEN]")
			// What is printed counts, not what is shown.
			r = s.until(ended, nil, s.command(execpolicy.Command{Script: `sleep 4912 & printf "$TOKEN"; wait`,
				OutputLimit: int64(len(token)) / 2}))
			assert.Equal(t, r.Outcome, execpolicy.OutcomeOutputLimit)
			assert.Equal(t, string(r.Stdout), "[secret TOKEN]")
		})
		t.Run("the directory", func(t *testing.T) {
			s := session{s.Session, t}
			was := s.ok("pwd")
			r := s.script(`mkdir "$TOKEN" && cd "$TOKEN" && pwd`)
			assert.Equal(t, r.Dir, filepath.Join(was, "[secret TOKEN]"))
			assert.Equal(t, strings.TrimSpace(string(r.Stdout)), r.Dir)
			r = s.run(execpolicy.Command{Script: `cd ..; rmdir "$TOKEN"`, Dir: "."})
			assert.Equal(t, r.ExitCode, 0)
			s.ok("cd " + was)
			for _, dir := range []string{"/nowhere/" + token, token} {
				_, err := s.Run(t.Context(), execpolicy.Command{Script: ":", Dir: dir})
				assert.ErrorIs(t, err, execpolicy.ErrNoDir)
				assert.Assert(t, strings.Contains(err.Error(), "[secret TOKEN]") && !shows(err.Error(), token), err)
			}
		})
		t.Run("files", func(t *testing.T) {
			s := session{s.Session, t}
			_, err := s.ReadFile(t.Context(), "/nowhere/"+token, 0)
			assert.ErrorIs(t, err, fs.ErrNotExist)
			assert.Assert(t, strings.Contains(err.Error(), "/nowhere/[secret TOKEN]") && !shows(err.Error(), token), err)
			err = s.WriteFile(t.Context(), "/proc/"+token, []byte("x"), 0o600)
			assert.ErrorContains(t, err, "/proc/[secret TOKEN]")
			assert.Assert(t, !shows(err.Error(), token), err)
			s.ok(`mkdir -m 0555 "$TOKEN"`)
			err = s.WriteFile(t.Context(), token+"/x", []byte("x"), 0o600)
			if s.ok("id -u") != "0" {
				assert.ErrorIs(t, err, fs.ErrPermission)
				assert.Assert(t, strings.Contains(err.Error(), "[secret TOKEN]") && !shows(err.Error(), token), err)
				// What a program says of a tree is in its error.
				err = s.CopyFS(t.Context(), token, fstest.MapFS{"x": {}})
				assert.ErrorIs(t, err, fs.ErrPermission)
				assert.Assert(t, strings.Contains(err.Error(), "[secret TOKEN]") && !shows(err.Error(), token), err)
				s.ok(`mkdir "$TOKEN-" && >"$TOKEN-/$TOKEN" && chmod 0 "$TOKEN-/$TOKEN"`)
				err = s.CopyOut(t.Context(), token+"-", io.Discard)
				assert.ErrorIs(t, err, fs.ErrPermission)
				assert.Assert(t, strings.Count(err.Error(), "[secret TOKEN]") > 1 && !shows(err.Error(), token), err)
			}
			s.ok(`chmod 0755 "$TOKEN"; rm -rf "$TOKEN" "$TOKEN-"`)
			// So is what the library says of one.
			s.ok(`mkdir tree && ln -s x "tree/$TOKEN"`)
			err = s.CopyOut(t.Context(), "tree", io.Discard)
			assert.ErrorIs(t, err, execpolicy.ErrUnsafeType)
			assert.Assert(t, strings.Contains(err.Error(), "[secret TOKEN]") && !shows(err.Error(), token), err)
			var path *fs.PathError
			assert.Assert(t, errors.As(err, &path) && !shows(path.Err.Error(), token), err)
			s.ok("rm -r tree")
			err = s.WriteFile(t.Context(), token, nil, fs.ModeSetuid)
			assert.Assert(t, !shows(err.Error(), token), err)
			_, err = s.ReadFile(t.Context(), token, -1)
			assert.Assert(t, !shows(err.Error(), token), err)
		})
		t.Run("the session, printed", func(t *testing.T) {
			for _, verb := range []string{"%v", "%+v", "%#v"} {
				text := fmt.Sprintf(verb, s.Session)
				assert.Assert(t, !shows(text, token), text)
			}
		})
		t.Run("another shell", func(t *testing.T) {
			s := session{s.Session, t}
			file := s.ok(`echo "$KEY"`)
			assert.Assert(t, s.script(`rm -f "$KEY"; exit 3`).StateLost)
			assert.Equal(t, s.content(`printf %s "$TOKEN"; cat "$KEY"`), token+key)
			assert.Equal(t, s.ok(`echo "$KEY"; echo "$TOKEN"`), file+"\n[secret TOKEN]")
		})
	})
}

// An error names the directory that is missing, and no part of a secret, whose value may be
// a path.
func TestSecretThatIsAPath(t *testing.T) {
	keepers(t, func(t *testing.T, k keeper) {
		first, second := newValue(), newValue()
		s := k.open(t, execpolicy.Secret{Name: "TOKEN", Value: first + "/" + second})
		name := first + "/" + second + "/none"
		for _, made := range []string{"", first, first + "/" + second} {
			if made != "" {
				assert.NilError(t, s.MkdirAll(t.Context(), made, 0o755))
			}
			for _, err := range []error{
				s.WriteFile(t.Context(), name+"/file", []byte("x"), 0o600),
				s.CopyFS(t.Context(), name+"/tree", sample()),
			} {
				assert.ErrorIs(t, err, fs.ErrNotExist)
				assert.ErrorContains(t, err, "[secret TOKEN]")
				assert.Assert(t, !shows(err.Error(), first) && !shows(err.Error(), second), err)
			}
		}
	})
}

// inEachShell are scripts that print the variable V of the environment as a shell quotes
// it.
var inEachShell = []string{`export -p`, `set`, `x=$V; set`, `set -x; : "$V"`, `set -x; x=$V`, `trap ": $V" USR1; trap`}

// printers are ways to print a value quoted: scripts for shells, and for other programs
// expressions of v.
var printers = map[string][]string{
	"busybox sh": inEachShell,
	"dash":       inEachShell,
	"bash": append([]string{
		`declare -p V`, `a=("$V"); declare -p a`, `declare -A a=(["$V"]=1); declare -p a`, `alias x="$V"; alias x`,
		`printf "%q\n" "$V"`, `echo "${V@Q}"`, `echo "${V@A}"`, `set -x; a=("$V"); a[1]=$V`, `set -x; [[ x == "$V" ]]`,
		`set -x; [[ "$V" == x ]]`, `set -x; [[ x =~ "$V" ]]`,
	}, inEachShell...),
	"python3": {
		`v`, `shlex.quote(v)`, `ascii(v)`, `repr(v)`, `repr(os.fsencode(v))`, `json.dumps(v)`,
		`json.dumps(v, ensure_ascii=False)`,
		`"%r" % [v]`, `shlex.join(["echo", v])`, `ascii({v: v})`,
	},
	"node": {`v`, `JSON.stringify(v)`, `require("util").inspect(v)`, `require("util").inspect([v])`},
}

// specials are what is quoted in one way or another.
var specials = []string{
	"", " ", "\t", "\n", "\r\n", "'", "''", `"`, `\`, `\\`, "$", "`", "~", "=", "!", "é", "ü", "Ã\u0083", "日本",
	"\U0001f600", "\u0085", "\xff", "\xc3", "\x1b", "\x01", "\x7f", "<&>", "*?[]", "{a,b}", "#;|()", "\\n", `\'`, `'"`,
	"$'", "it's \"a\" \\ b",
}

// TestSecretsQuoted has each of the programs print each of the values, in each way.
func TestSecretsQuoted(t *testing.T) {
	var values []string
	var secrets []execpolicy.Secret
	for i, special := range append(specials, "-", "*", "\\\t'", "\x1b'\xff\"\n$") {
		v := special + newValue() + special + special + newValue() + special
		values = append(values, v)
		secrets = append(secrets, execpolicy.Secret{Name: fmt.Sprint("V", i), Value: v})
	}
	const mark = "\n+-+-+\n"
	names := strings.Join(secretNames(secrets), " ")
	keepers(t, func(t *testing.T, k keeper) {
		s := k.open(t)
		// Those that have to be in the image, and node, which may be where there is none.
		for program, ways := range printers {
			if s.script("command -v "+program+" >/dev/null").ExitCode != 0 {
				_, host := k.Policy.(execpolicy.HostPolicy)
				assert.Check(t, host || program == "node", program)
				continue
			}
			for _, locale := range enginetest.Chosen(t, []string{"C", "C.UTF-8"}) {
				t.Run(program+" "+locale, func(t *testing.T) {
					s := session{s.Session, t}
					script := "export LC_ALL=" + locale + "; for name in " + names + "; do eval V=\\$$name\n"
					switch program {
					case "python3":
						script = "LC_ALL=" + locale + ` python3 -c '
import os, sys, json, shlex
for name in "` + names + `".split():
	v = os.environ[name]
	for text in ` + strings.Join(ways, ", ") + `:
		sys.stdout.buffer.write(("` + `\n+-+-+\n` + `" + text).encode("utf-8", "surrogateescape"))'`
					case "node":
						script = `node -e '
for (let name of "` + names + `".split(" ")) {
	let v = process.env[name]
	for (let text of [` + strings.Join(ways, ", ") + `]) process.stdout.write("` + `\n+-+-+\n` + `" + text)
}'`
					default:
						for _, way := range ways {
							script += "printf '" + `\n+-+-+\n` + "'; env -i LC_ALL=" + locale + ` PATH="$PATH" V="$V" ` + program +
								" -c '" + way + "' 2>&1\n"
						}
						script += "done"
					}
					var out bytes.Buffer
					r := s.run(execpolicy.Command{Script: script, Secrets: secrets, Stdout: &out})
					printed := strings.Split(out.String(), mark)[1:]
					assert.Equal(t, len(printed), len(values)*len(ways), "%s", r.Text())
					for i, text := range printed {
						v := i / len(ways)
						way := ways[i%len(ways)]
						if strings.Contains(way, "x == ") && strings.ContainsAny(values[v], "\x01\x7f") {
							// bash has a meaning of its own for these two, and no
							// backslash before them.
							continue
						}
						if !strings.Contains(text, "[secret "+secrets[v].Name+"]") || shows(text, values[v]) {
							t.Errorf("%s of %q: %q", way, values[v], text[max(0, len(text)-200):])
						}
					}
				})
			}
		}
	})
}

func secretNames(secrets []execpolicy.Secret) (names []string) {
	for _, s := range secrets {
		names = append(names, s.Name)
	}
	return names
}

func TestSecretsOfCommands(t *testing.T) {
	keepers(t, func(t *testing.T, k keeper) {
		first, value, key := newValue(), newValue(), newValue()+"\n"
		s := k.open(t, execpolicy.Secret{Name: "TOKEN", Value: first})
		secrets := []execpolicy.Secret{{Name: "TOKEN", Value: value}, {Name: "KEY", Value: key, File: true},
			{Name: "OTHER", Value: "other one", File: true}}
		r := s.run(execpolicy.Command{
			Script: `printf %s "$TOKEN" >env; cat "$KEY" "$OTHER" >file; echo "$TOKEN"; cat "$KEY" >&2; echo "$KEY ` +
				`$OTHER" >files; cat`, Secrets: secrets,
			Stdin: strings.NewReader("stdin"), Env: map[string]string{"X": "x"},
		})
		assert.Equal(t, string(r.Stdout), "[secret TOKEN]\nstdin")
		assert.Equal(t, string(r.Stderr), "[secret KEY]\n")
		for name, want := range map[string]string{"env": value, "file": key + "other one"} {
			data, err := s.ReadFile(t.Context(), name, 0)
			assert.NilError(t, err)
			assert.Equal(t, string(data), want)
		}
		// The next one has nothing of it, and may print what this one has left.
		assert.Equal(t, s.content(`printf %s "$TOKEN$KEY"`), first)
		assert.Equal(t, s.ok(`for f in $(cat files); do [ ! -e "$f" ] || echo "$f is there"; done; cat env; cat file`),
			"[secret TOKEN][secret KEY]\n[secret OTHER]")

		t.Run("a program", func(t *testing.T) {
			s := session{s.Session, t}
			r := s.run(execpolicy.Command{Argv: []string{"sh", "-c", `echo "$TOKEN"; [ -r "$KEY" ]`}, Secrets: secrets})
			assert.Equal(t, r.Text(), "[secret TOKEN]\n")
		})
		t.Run("a background job that prints later", func(t *testing.T) {
			s := session{s.Session, t}
			late := newValue()
			s.run(execpolicy.Command{Script: `{ while [ ! -e go ]; do sleep 0.01; done; echo "$LATE"; >gone; } & :`,
				Secrets: []execpolicy.Secret{{Name: "LATE", Value: late}}})
			assert.Equal(t, s.ok(">go; while [ ! -e gone ]; do sleep 0.01; done"), "[secret LATE]")
		})
		// However it ends, the file is removed.
		for _, c := range []struct {
			name    string
			command execpolicy.Command
			outcome execpolicy.Outcome
		}{
			{"it fails", execpolicy.Command{Script: `echo "$KEY" >files; (exit 3)`}, execpolicy.OutcomeExited},
			{"its shell ends", execpolicy.Command{Script: `echo "$KEY" >files; exit 3`}, execpolicy.OutcomeExited},
			{"it is ended", execpolicy.Command{Script: `echo "$KEY" >files; echo begun; sleep 4913`},
				execpolicy.OutcomeCanceled},
			{"its shell is ended", execpolicy.Command{Script: `echo "$KEY" >files; echo begun; while :; do :; done`},
				execpolicy.OutcomeCanceled},
		} {
			t.Run(c.name, func(t *testing.T) {
				s := session{s.Session, t}
				if _, host := k.Policy.(execpolicy.HostPolicy); host && c.name == "its shell is ended" {
					// There its shell can only be ended with all.
					return
				}
				c.command.Secrets = []execpolicy.Secret{{Name: "KEY", Value: key, File: true}}
				run := s.command(c.command)
				if c.outcome == execpolicy.OutcomeCanceled {
					run = s.canceled(errGone, c.command)
				}
				assert.Equal(t, s.until(inside, nil, run).Outcome, c.outcome)
				assert.Equal(t, s.ok(`for f in $(cat files); do echo "$f"; [ -e "$f" ] && echo there; done | wc -l`), "1")
			})
		}
		t.Run("a directory that is not there", func(t *testing.T) {
			s := session{s.Session, t}
			_, err := s.Run(t.Context(),
				execpolicy.Command{Script: ":", Dir: key, Secrets: []execpolicy.Secret{{Name: "KEY", Value: key, File: true}}})
			assert.ErrorIs(t, err, execpolicy.ErrNoDir)
			assert.Assert(t, !shows(err.Error(), key), err)
		})
		t.Run("a file that can't be made", func(t *testing.T) {
			s := session{s.Session, t}
			if _, host := k.Policy.(execpolicy.HostPolicy); !host {
				// The directory is not the user's.
				return
			}
			secrets := []execpolicy.Secret{{Name: "KEY", Value: key, File: true}}
			s.run(execpolicy.Command{Script: `mv "${KEY%/*}" "${KEY%/*}-moved"`, Secrets: secrets})
			r, err := s.Run(t.Context(), execpolicy.Command{Script: ">ran", Secrets: secrets})
			assert.Assert(t, r == nil)
			assert.ErrorIs(t, err, execpolicy.ErrTransfer)
			assert.ErrorContains(t, err, "the secret KEY: ")
			assert.Assert(t, !shows(err.Error(), key), err)
			assert.Equal(t, s.ok(`[ -e ran ] || echo not; mv ../scratch-moved ../scratch`), "not")
		})
		t.Run("the largest", func(t *testing.T) {
			s := session{s.Session, t}
			large := strings.Repeat(newValue()+" it's\t\x01\xff", execpolicy.MaxSecret)[:execpolicy.MaxSecret-1] + "'"
			secrets := []execpolicy.Secret{{Name: "A", Value: large}, {Name: "B", Value: large, File: true}}
			r := s.run(execpolicy.Command{Script: `printf %s "$A"; printf %s "$A" >a; cat <"$B" >b`, Secrets: secrets})
			assert.Equal(t, string(r.Stdout), "[secret A]")
			for _, name := range []string{"a", "b"} {
				data, err := s.ReadFile(t.Context(), name, 0)
				assert.NilError(t, err)
				assert.Assert(t, string(data) == large, name)
			}
		})
		// None is ever forgotten, not even if a busy machine has made another session
		// necessary.
		s.write("env", []byte(value), 0o600)
		assert.Equal(t, s.ok(`echo "$TOKEN"; cat env`), "[secret TOKEN]\n[secret TOKEN]")
	})
}

// Nothing of a value is in what is kept of much output.
func TestSecretsInMuchOutput(t *testing.T) {
	keepers(t, func(t *testing.T, k keeper) {
		token := newValue()
		switch p := k.Policy.(type) {
		case placePolicy:
			p.MaxOutputBytes = 4000
			k.Policy = p
		case execpolicy.HostPolicy:
			p.MaxOutputBytes = 4000
			k.Policy = p
		}
		s := k.open(t, execpolicy.Secret{Name: "TOKEN", Value: token})
		r := s.script(`i=0; while [ $i -lt 1000 ]; do printf "$i $TOKEN"; i=$((i + 1)); done; echo "$TOKEN"`)
		assert.Assert(t, r.StdoutInfo.DroppedBytes > 0)
		assert.Assert(t, !shows(string(r.Stdout), token), "%s", r.Stdout)
		assert.Assert(t, !shows(r.Text(), token), r.Text())
	})
}

func TestSecretsAndHooks(t *testing.T) {
	keepers(t, func(t *testing.T, k keeper) {
		token, card := newValue(), "4532-0151-1283-0366"
		spec := k.spec
		spec.Secrets = []execpolicy.Secret{{Name: "TOKEN", Value: token}, {Name: "KEY", Value: card, File: true}}
		redactor, err := redact.New(redact.Rule{Type: "payment_card"}, redact.Rule{Type: "email"})
		assert.NilError(t, err)
		spec.Filter = redactor.Writer
		hook := func(ctx context.Context, s *execpolicy.Session) error {
			r, err := s.Run(ctx, execpolicy.Command{Script: `echo "$TOKEN"; printf %s "$TOKEN" >hooked; test "$TOKEN"`})
			if err == nil && (r.ExitCode != 0 || string(r.Stdout) != "[secret TOKEN]\n") {
				err = errors.New(r.Text())
			}
			return err
		}
		spec.Prepare, spec.Finish = hook, hook
		spec.Startup = []string{`x="$TOKEN $(cat "$KEY")"; rm "$KEY"`}
		spec.Shutdown = []string{`: "` + token + `"; echo "it failed with $TOKEN, user@example.com" >&2; (exit 7)`}
		s := open(t, k, spec)
		// What is a secret is no card any more.
		assert.Equal(t, s.ok(`echo "$x 3782 822463 10005"`), "[secret TOKEN] [secret KEY] [REDACTED_PAYMENT_CARD]")
		data, err := s.ReadFile(t.Context(), "hooked", 0)
		assert.NilError(t, err)
		assert.Equal(t, string(data), token)
		assert.Assert(t, s.script("exit 3").StateLost)
		assert.Equal(t, s.ok(`echo "$x"`), "[secret TOKEN] [secret KEY]")
		err = s.Close()
		assert.ErrorIs(t, err, execpolicy.ErrScript)
		assert.ErrorContains(t, err, `: \"[secret TOKEN]\"`)
		assert.ErrorContains(t, err, "exit code 7: it failed with [secret TOKEN], [REDACTED_EMAIL]")
		assert.Assert(t, !shows(err.Error(), token), err)

		spec.Startup, spec.Shutdown = spec.Shutdown, nil
		_, err = execpolicy.Start(t.Context(), k, spec)
		assert.ErrorIs(t, err, execpolicy.ErrStart)
		assert.ErrorContains(t, err, "it failed with [secret TOKEN]")
		assert.Assert(t, !shows(err.Error(), token), err)
	})
}

var errVault = errors.New("the vault is sealed")

func TestSecretsThatAreLookedUp(t *testing.T) {
	keepers(t, func(t *testing.T, k keeper) {
		var asked []string
		var values []string
		lookup := func(_ context.Context, name string) (string, error) {
			asked = append(asked, name)
			values = append(values, newValue())
			return values[len(values)-1], nil
		}
		spec := k.spec
		spec.Secrets = []execpolicy.Secret{{Name: "TOKEN", Lookup: lookup}, {Name: "KEY", Lookup: lookup, File: true}}
		s := open(t, k, spec)
		command := execpolicy.Command{Script: `printf %s "$TOKEN $(cat "$KEY") $MORE" >content`,
			Secrets: []execpolicy.Secret{{Name: "MORE", Lookup: lookup}}}
		s.run(command)
		data, err := s.ReadFile(t.Context(), "content", 0)
		assert.NilError(t, err)
		assert.Equal(t, string(data), strings.Join(values, " "))
		old := slices.Clone(values)
		assert.NilError(t, s.Restart(t.Context()))
		assert.DeepEqual(t, asked, []string{"TOKEN", "KEY", "MORE", "TOKEN", "KEY"})
		// What was left behind on the host is still no value to be seen.
		assert.NilError(t, s.WriteFile(t.Context(), "old", []byte(strings.Join(old, "\n")+"\n"), 0o600))
		assert.Equal(t, s.ok(`cat old; echo "$TOKEN"; cat "$KEY"`),
			"[secret TOKEN]\n[secret KEY]\n[secret MORE]\n[secret TOKEN]\n[secret KEY]")

		for _, c := range []struct {
			name   string
			lookup func(context.Context, string) (string, error)
			is     error
			want   string
		}{
			{"an error", func(context.Context, string) (string, error) { return newValue(), errVault }, errVault,
				"the secret BAD: the vault is sealed"},
			{"nothing", func(context.Context, string) (string, error) { return "", nil }, nil,
				"the value of the secret BAD is shorter than 4 bytes"},
			{"a NUL", func(context.Context, string) (string, error) { return "hunter2\x00", nil }, nil,
				"the value of the secret BAD holds a NUL byte"},
			{"too much", func(context.Context, string) (string, error) { return strings.Repeat("hunter2", 10_000), nil },
				nil, "the value of the secret BAD is longer"},
		} {
			t.Run(c.name, func(t *testing.T) {
				s := session{s.Session, t}
				bad := k.spec
				bad.Secrets = []execpolicy.Secret{{Name: "BAD", Lookup: c.lookup}}
				_, startErr := execpolicy.Start(t.Context(), k, bad)
				assert.ErrorIs(t, startErr, execpolicy.ErrStart)
				r, runErr := s.Run(t.Context(), execpolicy.Command{Script: ">ran", Secrets: bad.Secrets})
				assert.Assert(t, r == nil)
				for _, err := range []error{startErr, runErr} {
					assert.ErrorContains(t, err, c.want)
					assert.Assert(t, c.is == nil || errors.Is(err, c.is))
					assert.Assert(t, !strings.Contains(err.Error(), "hunter2") && !strings.Contains(err.Error(), "secret-value-"), err)
				}
				assert.Equal(t, s.ok("[ -e ran ] || echo not"), "not")
			})
		}
	})
}

// A lookup that does not return is left behind.
func TestSecretsWhoseLookupHangs(t *testing.T) {
	keepers(t, func(t *testing.T, k keeper) {
		release := make(chan struct{})
		// One that never returned would be found among what is left behind.
		defer close(release)
		var begun atomic.Int32
		hang := []execpolicy.Secret{{Name: "SLOW", Lookup: func(ctx context.Context, _ string) (string, error) {
			begun.Add(1)
			<-release
			return "", nil
		}}}
		s := k.open(t)
		_, err := s.Run(t.Context(), execpolicy.Command{Script: ">ran", Secrets: hang, Timeout: 50 * time.Millisecond})
		assert.ErrorIs(t, err, execpolicy.ErrTimeout)
		whose := errors.New("the user has gone")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancelLater := []execpolicy.Secret{{Name: "SLOW", Lookup: func(ctx context.Context, name string) (string, error) {
			cancel(whose)
			return hang[0].Lookup(ctx, name)
		}}}
		_, err = s.Run(ctx, execpolicy.Command{Script: ">ran", Secrets: cancelLater})
		assert.ErrorIs(t, err, whose)
		assert.Equal(t, s.ok("[ -e ran ] || echo not"), "not")
		spec := k.spec
		spec.Secrets = hang
		// The limit is also that of what comes before the lookup.
		first := time.Second
		if _, host := k.Policy.(execpolicy.HostPolicy); host {
			first = short
		}
		unhurried(t, first, func(limit time.Duration) error {
			policy := k.Policy
			switch p := policy.(type) {
			case placePolicy:
				p.StartupTimeout = limit
				policy = p
			case execpolicy.HostPolicy:
				p.StartupTimeout = limit
				policy = p
			}
			before := begun.Load()
			_, err := execpolicy.Start(t.Context(), policy, spec)
			assert.ErrorIs(t, err, execpolicy.ErrStart)
			assert.ErrorIs(t, err, context.DeadlineExceeded)
			if begun.Load() == before {
				return err
			}
			assert.ErrorContains(t, err, "the secret SLOW: the deadline has passed")
			return nil
		})
	})
}

// A sight is a place where somebody outside could see a value.
type sight struct{ where, text string }

// outside returns what this machine's processes outside of the container were started
// with.
func outside(t *testing.T) (seen []sight) {
	t.Helper()
	own, err := os.Readlink("/proc/self/ns/pid")
	assert.NilError(t, err)
	dirs, err := filepath.Glob("/proc/[0-9]*")
	assert.NilError(t, err)
	for _, dir := range dirs {
		if ns, err := os.Readlink(dir + "/ns/pid"); err != nil || ns != own {
			continue
		}
		for _, name := range []string{"cmdline", "environ"} {
			text, err := os.ReadFile(dir + "/" + name)
			if err == nil {
				seen = append(seen, sight{dir + "/" + name, string(text)})
			}
		}
	}
	return seen
}

// told returns what an engine tells of a container.
func (p place) told(t *testing.T, name string) (seen []sight) {
	t.Helper()
	for _, args := range [][]string{{"inspect", name}, {"logs", name}, {"ps", "-a", "--no-trunc"}, {"top", name}} {
		cmd, cancel := p.command(args...)
		// There may be no log.
		out, _ := cmd.CombinedOutput()
		cancel()
		if args[0] != "top" {
			seen = append(seen, sight{strings.Join(args, " "), string(out)})
		}
	}
	return seen
}

// onDisk returns the files that an engine of this machine has for a container, and what
// its root was changed to, but not what its image has.
func (p place) onDisk(t *testing.T, name string) (seen []sight) {
	t.Helper()
	id := strings.TrimSpace(p.cli(t, "inspect", "--format", "{{.Id}}", name))
	roots := regexp.MustCompile(`/[^",:\s]+`).FindAllString(p.cli(t, "inspect", "--format",
		"{{json .GraphDriver.Data}}", name), -1)
	roots = slices.DeleteFunc(roots,
		func(dir string) bool { return !strings.HasSuffix(dir, "/diff") && !strings.HasSuffix(dir, "/work") })
	assert.Assert(t, len(roots) > 0, "where the container's changes are is not known")
	// Lower directories are the image's.
	roots = roots[len(roots)-min(len(roots), 2):]
	states := []string{"/run", "/var/log", os.TempDir()}
	if p.engine.Kind == dockercli.Podman {
		graph := strings.TrimSpace(p.cli(t, "info", "--format", "{{.Store.GraphRoot}}"))
		states = append(states, graph+"/overlay-containers")
		// Podman's own list of its containers.
		roots = append(roots, graph+"/libpod", graph+"/overlay-containers/containers.json")
	} else {
		states = append(states, strings.TrimSpace(p.cli(t, "info", "--format", "{{.DockerRootDir}}"))+"/containers")
	}
	for _, state := range states {
		filepath.WalkDir(state, func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() && d.Name() == id {
				roots = append(roots, path)
				return fs.SkipDir
			}
			if err == nil && d.Type().IsRegular() && strings.Contains(path, id[:12]) {
				roots = append(roots, path)
			}
			return nil
		})
	}
	for _, root := range roots {
		filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return nil
			case d.IsDir() && (d.Name() == "rootfs" || d.Name() == "merged"):
				return fs.SkipDir
			case d.Type().IsRegular():
				if text, err := os.ReadFile(path); err == nil {
					seen = append(seen, sight{path, string(text)})
				}
			}
			return nil
		})
	}
	return seen
}

// Nobody outside of the container sees a value, where they see others.
func TestSecretsAreNowhere(t *testing.T) {
	onEngines(t, func(t *testing.T, p place) {
		policy := p.compat()
		control := newValue()
		spec := p.spec()
		spec.Env = map[string]string{"CONTROL": control}
		env, file, command, commandFile := newValue(), newValue(), newValue(), newValue()
		asked := false
		spec.Secrets = []execpolicy.Secret{
			{Name: "TOKEN", Value: env}, {Name: "KEY", Value: file, File: true},
			{Name: "LATER", Lookup: func(context.Context, string) (string, error) { asked = true; return env + file, nil }},
		}
		spec.Startup = []string{`[ "$TOKEN" ] && [ -r "$KEY" ]`}
		explained, err := policy.Explain(t.Context(), spec)
		assert.NilError(t, err)
		s := open(t, policy, spec)
		assert.Assert(t, asked)
		s.ok(`printf %s "$CONTROL" >/control`)
		c := s.start(t.Context(), execpolicy.Command{
			Script: `echo "$TOKEN $COMMAND"; cat "$KEY" "$FILE"; cat >&2; sleep 4914`, Stdin: strings.NewReader("stdin"),
			Timeout: -1,
			Secrets: []execpolicy.Secret{{Name: "COMMAND", Value: command}, {Name: "FILE", Value: commandFile, File: true}},
		})
		seen := map[string][]sight{"processes": outside(t), "the engine": p.told(t, s.Name())}
		if p.engine.Remote {
			leftout.Note(t, "the disk of a remote engine is another machine's")
		} else if os.Getuid() == 0 || p.engine.Rootless && p.engine.Kind == dockercli.Docker {
			seen["the disk"] = p.onDisk(t, s.Name())
		} else {
			leftout.Note(t, "only the users inside see what the engine has on its disk")
		}
		files := 0
		for where, sights := range seen {
			found := 0
			for _, at := range append(sights, sight{"Explain", explained}) {
				if strings.Contains(at.text, control) {
					found++
				}
				for name, value := range map[string]string{"TOKEN": env, "KEY": file, "COMMAND": command, "FILE": commandFile} {
					assert.Check(t, !strings.Contains(at.text, value), "%s is in %s", name, at.where)
				}
			}
			files += len(sights)
			assert.Check(t, found > 0, "%s: what is there is not seen", where)
			t.Logf("%s: %d looked at, the control seen in %d", where, len(sights), found)
		}
		assert.NilError(t, s.Close())
		<-c.done
		assert.Assert(t, !shows(c.err.Error(), command))
		assert.Assert(t, !shows(c.result.Text(), env) && !shows(c.result.Text(), commandFile), c.result.Text())
	})
}

// A restart that fails once its container has answered forgets no secret.
func TestSecretsOfARestartThatFails(t *testing.T) {
	enginetest.Check(t)
	var fails, ends atomic.Bool
	ends.Store(true)
	policy := spawning{execpolicy.HostPolicy{Limits: hostLimits}, func(proc *execpolicy.Process) {
		kill := proc.Kill
		proc.Kill = func(ctx context.Context) error {
			if err := kill(ctx); err != nil || ends.Load() {
				return err
			}
			return execpolicy.ErrStillThere
		}
		execpolicy.SetWay(proc, func() error {
			if fails.Load() {
				ends.Store(false)
				return errors.New("nothing listens for hunter2")
			}
			return nil
		})
	}}
	log := &trail{}
	s := open(t, policy, execpolicy.Spec{Audit: log.audit})
	s.run(execpolicy.Command{Script: ":", Secrets: []execpolicy.Secret{{Name: "TOKEN", Value: "hunter2"}}})
	fails.Store(true)
	err := s.Restart(t.Context())
	assert.ErrorIs(t, err, execpolicy.ErrStillThere)
	assert.ErrorContains(t, err, "nothing listens for [secret TOKEN]")
	assert.Equal(t, s.Redact("hunter2"), "[secret TOKEN]")
	fails.Store(false)
	ends.Store(true)
	s.restart()
	assert.Equal(t, s.ok("echo hunter2"), "[secret TOKEN]")
	assert.NilError(t, s.Close())
	assert.Assert(t, !strings.Contains(fmt.Sprint(log.all()), "hunter2"))
}
