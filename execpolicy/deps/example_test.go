package deps_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/execpolicy/deps"
)

// cacheDir is a directory that only this user can write to.
func cacheDir() (string, error) {
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir = filepath.Join(dir, "my-agent")
	return dir, os.MkdirAll(dir, 0o700)
}

// Packages are installed with the network on, and used with the network off.
func Example() {
	ctx := context.Background()
	cache, err := cacheDir()
	if err != nil {
		fmt.Println(err)
		return
	}
	layer, err := deps.Build(ctx, execpolicy.DockerPolicy{NetworkEnabled: true}, cache, deps.Recipe{
		Scripts: []string{"python3 -m pip install --no-cache-dir --target . requests==2.32.3"},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	policy := execpolicy.DockerPolicy{Mounts: []dockercli.Mount{layer.Mount}}
	r, err := execpolicy.Run(ctx, policy, execpolicy.Spec{Env: layer.Env}, execpolicy.Command{
		Script: "python3 -c 'import requests; print(requests.__version__)'",
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Print(r.Render(execpolicy.RenderOptions{}))
}

// A model is told a program's functions as stubs, and the code that it writes can import
// them.
func ExampleFunctions() {
	ctx := context.Background()
	functions := deps.Functions{
		Source: "import numpy\n\ndef mean(values: list[float]) -> float:\n    \"\"\"Return the " +
			"mean.\"\"\"\n    return float(numpy.mean(values))\n",
		Requirements: []string{"numpy>=2"},
	}
	recipe, err := functions.Recipe()
	if err != nil {
		fmt.Println(err)
		return
	}
	cache, err := cacheDir()
	if err != nil {
		fmt.Println(err)
		return
	}
	build := execpolicy.DockerPolicy{NetworkEnabled: true, Tmpfs: map[string]int64{"/tmp": 512 << 20},
		MemoryBytes: 1 << 30}
	layer, err := deps.Build(ctx, build, cache, recipe)
	if err != nil {
		fmt.Println(err)
		return
	}
	s, err := execpolicy.Start(ctx, execpolicy.DockerPolicy{Mounts: []dockercli.Mount{layer.Mount}},
		execpolicy.Spec{Env: layer.Env})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()
	stubs, err := functions.Stubs(ctx, s)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Print(stubs)
	r, err := s.Run(ctx, execpolicy.Command{Script: "python3 -c 'from functions import mean; print(mean([1, 2]))'"})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Print(r.Render(execpolicy.RenderOptions{}))
}

// A build in two phases: the first brings packages over the network, and the second uses
// them without it.
func ExampleBuild() {
	ctx := context.Background()
	cache, err := cacheDir()
	if err != nil {
		fmt.Println(err)
		return
	}
	fetch, build := execpolicy.BuildPolicies()
	layer, err := deps.Build(ctx, fetch, cache,
		deps.Recipe{Scripts: []string{"python3 -m pip install --no-cache-dir --target . mkdocs==1.6.1"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	build.Mounts = []dockercli.Mount{layer.Mount}
	r, err := execpolicy.Run(ctx, build, execpolicy.Spec{Workspace: "website", Env: layer.Env},
		execpolicy.Command{Script: "python3 -m mkdocs build"})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Print(r.Render(execpolicy.RenderOptions{}))
}

// A layer that nobody needs any more is removed, also from an engine on another machine.
func ExampleRemove() {
	ctx := context.Background()
	cache, err := cacheDir()
	if err != nil {
		fmt.Println(err)
		return
	}
	old := deps.Recipe{Scripts: []string{"python3 -m pip install --no-cache-dir --target . requests==2.31.0"}}
	err = deps.Remove(ctx, execpolicy.DockerPolicy{}, cache, old)
	if errors.Is(err, dockercli.ErrVolumeInUse) {
		fmt.Println("a session has it")
	}
}

func ExampleRecipe() {
	recipe := deps.Recipe{
		Scripts: []string{"npm install --no-audit left-pad@1.3.0"},
		Env:     map[string]string{"npm_config_registry": "https://npm.example.com", "HOME": "/tmp"},
	}
	fmt.Println(len(recipe.Scripts), "script runs in", deps.Target)
	// Output: 1 script runs in /deps
}

// A layer and its environment are what a later session needs.
func ExampleLayer() {
	attach := func(l *deps.Layer, p *execpolicy.DockerPolicy, s *execpolicy.Spec) {
		p.Mounts = append(p.Mounts, l.Mount)
		s.Env = l.Env
	}
	var policy execpolicy.DockerPolicy
	var spec execpolicy.Spec
	attach(&deps.Layer{
		Mount: dockercli.Mount{Source: "/home/me/.cache/my-agent/0123456789abcdef/tree", Target: deps.Target},
		Env:   map[string]string{"PYTHONPATH": deps.Target},
	}, &policy, &spec)
	fmt.Println(policy.Mounts[0].Writable, spec.Env["PYTHONPATH"])
	// Output: false /deps
}
