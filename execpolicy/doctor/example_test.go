package doctor_test

import (
	"context"
	"fmt"
	"os"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/execpolicy/doctor"
)

// A program that can't go on without an engine says what is missing.
func ExampleExamine() {
	report, err := doctor.Examine(context.Background(), doctor.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	if !report.Works() {
		fmt.Fprint(os.Stderr, report)
	}
}

// One engine, with the image that a program uses.
func ExampleOptions() {
	report, err := doctor.Examine(context.Background(), doctor.Options{
		Engines: []*dockercli.Engine{{Global: []string{"--context", "ci"}}},
		Image:   "registry.example/tools:1.0",
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, p := range report.Engines[0].Problems {
		fmt.Println(p.Missing, p.Means, p.Fix)
	}
}

func ExampleReport() {
	r := doctor.Report{
		FindError: "no container engine found",
		Problems: []doctor.Problem{{Missing: "an engine", Means: "Nothing can be run.",
			Fix: "sudo apt-get install -y podman", Blocks: true}},
	}
	fmt.Print(&r)
	// Output:
	// A policy that names no engine fails: no container engine found
	//   MISSING: an engine
	//       Nothing can be run.
	//       $ sudo apt-get install -y podman
}

func ExampleEngine() {
	e := doctor.Engine{Steps: []doctor.Step{{Name: doctor.StepStart, Error: "no such runtime"}}}
	fmt.Println(e.Works())
	// Output: false
}

func ExampleStep() {
	s := doctor.Step{Name: doctor.StepDeadline, Error: "it ran on"}
	fmt.Println(s.Name, s.Error)
	// Output: deadline it ran on
}

func ExampleStepName() {
	fmt.Println(doctor.StepRemoval)
	// Output: removal
}

func ExampleProblem() {
	p := doctor.Problem{Missing: "an image", Fix: "docker pull python:3.12-alpine3.19"}
	fmt.Println(p.Missing, p.Fix)
	// Output: an image docker pull python:3.12-alpine3.19
}

func ExampleCgroups() {
	fmt.Println(doctor.Cgroups(&dockercli.Info{CgroupVersion: "2", MemoryLimit: true, PidsLimit: true}))
	// Output: 2: memory pids
}

func ExampleFilters() {
	fmt.Println(doctor.Filters(&dockercli.Info{Seccomp: true, AppArmor: true}))
	// Output: seccomp AppArmor
}
