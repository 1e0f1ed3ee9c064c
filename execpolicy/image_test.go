package execpolicy_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest"
	"github.com/seed-64a260eb/cofferdam/internal/fakeengine"
)

// Of an image's settings its environment counts, and nothing else.
func TestSettingsOfTheImage(t *testing.T) {
	enginetest.Run(t, func(t *testing.T, e enginetest.Engine) {
		p := place{engine: e.Engine, labels: e.Labels}
		p.image = e.Derive(t, ":", "USER 1234:1234", "WORKDIR /opt/elsewhere", `ENTRYPOINT ["false"]`,
			"ENV GREETING=hello", "ENV HOME=/root")
		s := open(t, p.policy(), p.spec())
		const look = `while read -r key id rest; do case $key in Uid: | Gid:) echo "$id" ;; esac; done ` +
			`</proc/self/status; echo "$PWD $HOME $GREETING"`
		assert.Equal(t, s.ok(look), "65534\n65534\n/workspace /tmp hello")
		spec := p.spec()
		spec.Env = map[string]string{"HOME": "/workspace"}
		s = open(t, p.policy(), spec)
		assert.Equal(t, s.ok("echo $HOME"), "/workspace")
	})
}

// The engine's exec is a way into a session's container that goes past the session, but
// not past the container's limits.
func TestExecOfTheEngine(t *testing.T) {
	onEngines(t, func(t *testing.T, p place) {
		spec := p.spec()
		spec.Env = map[string]string{"OURS": "set"}
		asked := 0
		spec.Audit = func(e execpolicy.Event) error {
			if e.Kind == execpolicy.EventCommand {
				asked++
			}
			return nil
		}
		s := open(t, p.policy(), spec)
		const look = `echo "$PWD ${OURS-unset}"; while read -r key value rest; do case $key in Uid: | NoNewPrivs: ` +
			`| Seccomp:) echo "$value" ;; esac; done </proc/self/status; ! (: >/file) 2>/dev/null`
		status, out, err := p.engine.Exec(t.Context(),
			dockercli.ExecOptions{Container: s.Name(), Command: []string{"sh", "-c", look}})
		assert.NilError(t, err)
		assert.Equal(t, status, 0)
		assert.Equal(t, strings.TrimSpace(string(out)), "/ unset\n65534\n1\n2")
		assert.NilError(t, s.Close())
		assert.Equal(t, asked, 0)
	})
}

// What a policy needs is there before its sessions are, on any engine, and one pull is
// enough for all who want it.
func TestEnsureImage(t *testing.T) {
	onEngines(t, func(t *testing.T, p place) {
		image, err := p.policy().EnsureImage(t.Context())
		assert.NilError(t, err)
		policy := p.policy()
		policy.Platform = image.Platform
		s := open(t, policy, p.spec())
		id := p.cli(t, "container", "inspect", "--format={{.Image}}", s.Name())
		assert.Equal(t, strings.TrimSpace(id), image.ID)
		assert.Equal(t, s.script("exit 3").ImageID, image.ID)
		assert.NilError(t, s.Close())

		policy.Platform, policy.Pull = "linux/s390x", dockercli.PullNever
		_, err = policy.EnsureImage(t.Context())
		assert.ErrorIs(t, err, dockercli.ErrImageMissing)
		assert.ErrorContains(t, err, "the engine is "+p.engine.String())
	})
	t.Run("pull", func(t *testing.T) {
		fakeengine.NeedIsolation(t)
		enginetest.Check(t)
		e := fakeengine.New(t, dockercli.Docker, fakeengine.Faults{ImageMissing: true})
		p := execpolicy.DockerPolicy{Engine: e.Engine, Image: "image:1", Pull: dockercli.PullNever}
		_, err := p.EnsureImage(t.Context())
		assert.ErrorIs(t, err, dockercli.ErrImageMissing)
		var progress strings.Builder
		p.Pull, p.PullProgress = dockercli.PullMissing, &progress
		_, err = p.EnsureImage(t.Context())
		assert.NilError(t, err)
		assert.Assert(t, progress.Len() > 0)
		s := open(t, p, execpolicy.Spec{})
		assert.NilError(t, s.Close())
	})
}

// Every result names the image, whatever its outcome: of a session's first command, of
// one that is refused, of a job, and of Run.
func TestImageIDOfResults(t *testing.T) {
	onTransports(t, func(t *testing.T, p place, policy placePolicy) {
		image, err := policy.EnsureImage(t.Context())
		assert.NilError(t, err)
		spec := p.spec()
		spec.Approve = func(_ context.Context, r execpolicy.Request) error {
			if strings.Contains(r.String(), "forbidden") {
				return errors.New("no")
			}
			return nil
		}
		s := open(t, policy, spec)
		defer s.Close()
		r, err := s.Run(t.Context(), execpolicy.Command{Script: "forbidden"})
		assert.NilError(t, err)
		assert.Equal(t, r.Outcome, execpolicy.OutcomeRefused)
		assert.Equal(t, r.ImageID, image.ID)
		assert.Equal(t, s.script("exit 3").ImageID, image.ID)
		r, err = s.result(s.job(execpolicy.Command{Argv: []string{"true"}}))
		assert.NilError(t, err)
		assert.Equal(t, r.ImageID, image.ID)
		assert.Equal(t, r.Engine, p.engine.String())
		assert.NilError(t, s.Close())
		r, err = execpolicy.Run(t.Context(), policy, p.spec(), execpolicy.Command{Script: ":"})
		assert.NilError(t, err)
		assert.Equal(t, r.ImageID, image.ID)
	})
}

// An engine that hangs does not keep a result back beyond its time, and a record says
// that the image is not known.
func TestImageIDOfAnEngineThatHangs(t *testing.T) {
	fakeengine.NeedIsolation(t)
	enginetest.Check(t)
	e := fakeengine.New(t, dockercli.Docker, fakeengine.Faults{Hang: []string{"container inspect"}})
	policy := execpolicy.DockerPolicy{Engine: e.Engine, Transport: execpolicy.TransportAttach,
		Limits: execpolicy.Limits{TerminationTimeout: 4 * time.Second}}
	s := open(t, policy, execpolicy.Spec{})
	enginetest.Within(t, patience, "Run", func() {
		r := s.script("echo hello")
		assert.Equal(t, string(r.Stdout), "hello\n")
		assert.Equal(t, r.ImageID, "")
	})
	assert.NilError(t, s.Close())
}

// A secretive policy does not tell the image while never is open.
type secretive struct {
	execpolicy.Policy
	never chan struct{}
}

func (p secretive) Spawn(ctx context.Context, spec execpolicy.Spec) (*execpolicy.Process, error) {
	proc, err := p.Policy.Spawn(ctx, spec)
	if err == nil {
		proc.ImageID = func(context.Context) (string, error) {
			<-p.never
			return "late", nil
		}
	}
	return proc, err
}

// A policy of somebody else's that does not tell the image holds nothing up either.
func TestImageIDThatNeverComes(t *testing.T) {
	enginetest.Check(t)
	never := make(chan struct{})
	defer close(never)
	limits := hostLimits
	limits.TerminationTimeout = 2 * time.Second
	policy := secretive{execpolicy.HostPolicy{Limits: limits}, never}
	s := open(t, policy, execpolicy.Spec{})
	enginetest.Within(t, patience, "Run", func() {
		r := s.script("echo hello")
		assert.Equal(t, string(r.Stdout), "hello\n")
		assert.Equal(t, r.ImageID, "")
	})
	assert.NilError(t, s.Close())
}

// An image that is always pulled is, before each session, and without it there is none.
func TestImageThatIsAlwaysPulled(t *testing.T) {
	fakeengine.NeedIsolation(t)
	enginetest.Check(t)
	e := fakeengine.New(t, dockercli.Docker, fakeengine.Faults{
		Fail: map[string]fakeengine.Failure{"pull": {Exit: 1, Stderr: "manifest unknown\n", Times: 1}}})
	p := execpolicy.DockerPolicy{Engine: e.Engine, Image: "image:1", Pull: dockercli.PullAlways}
	verbs := func() (verbs []string) {
		for _, call := range e.Calls() {
			if call[0] == "run" || call[0] == "pull" {
				verbs = append(verbs, call[0])
			}
		}
		return verbs
	}
	_, err := execpolicy.Start(t.Context(), p, execpolicy.Spec{Env: map[string]string{"": ""}})
	assert.ErrorIs(t, err, execpolicy.ErrInvalid)
	p.CPUs = "many"
	_, err = p.Spawn(t.Context(), execpolicy.Spec{})
	assert.ErrorIs(t, err, execpolicy.ErrInvalid)
	assert.Equal(t, len(verbs()), 0)
	p.CPUs = ""
	_, err = execpolicy.Start(t.Context(), p, execpolicy.Spec{})
	assert.ErrorIs(t, err, execpolicy.ErrStart)
	assert.ErrorIs(t, err, dockercli.ErrPull)
	assert.Equal(t, strings.Count(err.Error(), "the engine is "), 1, "%v", err)
	for range 2 {
		s := open(t, p, execpolicy.Spec{})
		assert.NilError(t, s.Close())
	}
	assert.DeepEqual(t, verbs(), []string{"pull", "pull", "run", "pull", "run"})
}

// An image that is there for another platform is pulled. An engine has it, and says that
// it does not match.
func TestImageOfAnotherPlatformIsPulled(t *testing.T) {
	fakeengine.NeedIsolation(t)
	enginetest.Check(t)
	wrong := fakeengine.Failure{Exit: 125, Times: 1, Stderr: "docker: Error response from daemon: image with reference image:1 " +
		"was found but does not match the specified platform: wanted linux/arm64, actual: linux/amd64\n"}
	e := fakeengine.New(t, dockercli.Docker, fakeengine.Faults{Fail: map[string]fakeengine.Failure{"run": wrong}})
	pulls := func() int {
		return len(slices.DeleteFunc(e.Calls(), func(call []string) bool { return call[0] != "pull" }))
	}
	p := execpolicy.DockerPolicy{Engine: e.Engine, Image: "image:1"}
	_, err := execpolicy.Start(t.Context(), p, execpolicy.Spec{})
	assert.ErrorIs(t, err, dockercli.ErrImageMissing) // the engine may lie
	assert.Equal(t, pulls(), 0)
	e.Set(fakeengine.Faults{Fail: map[string]fakeengine.Failure{"run": wrong}})
	p.Platform = "linux/arm64"
	s := open(t, p, execpolicy.Spec{})
	assert.NilError(t, s.Close())
	assert.Equal(t, pulls(), 1)
}

func TestPullIsChecked(t *testing.T) {
	p := execpolicy.DockerPolicy{Engine: &dockercli.Engine{Path: "true"}, Pull: 7, PullTimeout: -1}
	_, ensured := p.EnsureImage(t.Context())
	for _, err := range []error{p.Check(t.Context(), execpolicy.Spec{}), ensured} {
		assert.ErrorIs(t, err, execpolicy.ErrInvalid)
		assert.ErrorContains(t, err, "Pull is PullPolicy(7)")
		assert.ErrorContains(t, err, "PullTimeout is -1ns")
	}
}

func TestPlatformIsChecked(t *testing.T) {
	for _, platform := range []string{"arm64", "linux/", "/arm64", "linux/arm 64", "linux//v8", "linux/arm64\n"} {
		p := execpolicy.DockerPolicy{Engine: &dockercli.Engine{Path: "true"}, Platform: platform}
		assert.ErrorContains(t, p.Check(t.Context(), execpolicy.Spec{}), "Platform is", platform)
	}
	p := execpolicy.DockerPolicy{Engine: &dockercli.Engine{Path: "true"}, Platform: "linux/arm/v7"}
	assert.NilError(t, p.Check(t.Context(), execpolicy.Spec{}))
}
