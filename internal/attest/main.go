// Attest prints what isolates a session of each preset on each engine that works, as
// execpolicy/presets.md has it: what the preset is for, its command line, and a table.
// With the argument "json" it prints the reports alone. It exits with 1 if something that
// a policy asks for is not in force.
//
// The environment's ENGINE names one engine; else docker and podman are tried.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/execpolicy/attest"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest/setup"
	"github.com/seed-64a260eb/cofferdam/internal/presets"
)

// timeout bounds the making of one engine's image, and one report.
const timeout = 6 * time.Minute

const title = `<!-- Made by: make -s attest >execpolicy/presets.md -->

# Presets

Each of these is a ` + "`DockerPolicy`" + `, whose fields can be set as those of the zero one. Below
each are two things: the command line with which an engine starts its container for the
command ` + "`sh`" + `, and what ` + "`execpolicy/attest`" + ` saw of a session on one machine. The labels
that say who started the container are left out. NAME is drawn, and N is the host's. The
filter of system calls, which ` + "`Explain`" + ` writes out, is [seccomp.json](seccomp.json). A
session that goes by FIFOs is started with ` + "`--detach`" + `, and a mount of them, in place of
` + "`--interactive`" + `. What a preset does not ask for is not protected.
`

// A machine is an engine that works, with an image.
type machine struct {
	*dockercli.Engine
	image string
	last  *attest.Report
}

func main() {
	asJSON := slices.Contains(os.Args[1:], "json")
	machines, ok := find()
	show := func(format string, a ...any) {
		if !asJSON {
			fmt.Printf(format, a...)
		}
	}
	show("%s", title)
	for _, p := range presets.All() {
		show("\n## `%s`\n\n%s\n", p.Name, p.Sentence)
		for _, m := range machines {
			line, r, err := m.report(p.Policy)
			if err != nil && !(p.Loose && errors.Is(err, attest.ErrNotInForce)) {
				fmt.Fprintf(os.Stderr, "%s: %v: %v\n", p.Name, m.Kind, err)
				ok = false
			}
			if r == nil {
				continue
			}
			m.last = r
			if asJSON {
				text, err := json.MarshalIndent(r, "", "  ")
				fmt.Printf("%s\n", text)
				ok = ok && err == nil
			}
			table := *r
			table.Weaknesses = nil // they stand once at the end
			_, body, _ := strings.Cut(table.String(), "\n\n")
			show("\n```sh\n%s\n```\n\n```text\n%s```\n", line, body)
		}
	}
	show("\n## The engines\n\nTheir versions, and what is published of these; a distribution may have fixed it " +
		"without another number.\n")
	for _, m := range machines {
		if m.last == nil {
			continue
		}
		var versions []string
		for _, c := range m.last.Versions {
			versions = append(versions, c.Name+" "+c.Version)
		}
		show("\n%s: %s\n\n", m.Kind, strings.Join(versions, ", "))
		for _, w := range m.last.Weaknesses {
			show("- %s\n", w)
		}
	}
	if !ok || len(machines) == 0 {
		os.Exit(1)
	}
}

// find returns the engines that work, and whether those that are there do.
func find() (machines []*machine, ok bool) {
	ok = true
	for _, name := range setup.Wanted() {
		ctx, cancel := context.WithTimeout(context.Background(), timeout)
		defer cancel()
		e, err := setup.Lookup(ctx, name)
		var image string
		if err == nil {
			image, err = setup.Ready(ctx, e, os.Stderr)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			ok = ok && errors.Is(err, dockercli.ErrNoEngine)
			continue
		}
		machines = append(machines, &machine{Engine: e, image: image})
	}
	return machines, ok
}

// report looks at a session of a policy, and returns its command line with the policy's
// own image.
func (m *machine) report(p execpolicy.DockerPolicy) (line string, r *attest.Report, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	p.Engine = m.Engine
	if line, err = p.Explain(ctx, execpolicy.Spec{}); err != nil {
		return "", nil, err
	}
	p.Image = m.image
	r, err = attest.Policy(ctx, p, attest.Options{})
	return presets.Stable(m.Kind, line), r, err
}
