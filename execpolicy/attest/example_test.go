package attest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/execpolicy/attest"
)

// A session comes up only if everything that its policy asks for is in force.
func ExampleStart() {
	ctx := context.Background()
	s, report, err := attest.Start(ctx, execpolicy.DockerPolicy{}, execpolicy.Spec{}, attest.Options{})
	if errors.Is(err, attest.ErrNotInForce) {
		fmt.Println(report.Missing, err)
	}
	if err != nil {
		return
	}
	defer s.Close()
	fmt.Print(report)
}

// A policy that embeds a DockerPolicy can be attested too.
func ExampleSubject() {
	type policy struct{ execpolicy.DockerPolicy }
	var p attest.Subject = policy{execpolicy.DockerPolicy{NetworkEnabled: true}}
	s, report, err := attest.Start(context.Background(), p, execpolicy.Spec{}, attest.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()
	fmt.Println(report.Finding(attest.NoNetwork).InForce)
}

// A report of a pod has protections that no other has.
func ExamplePodProtections() {
	for _, p := range attest.PodProtections() {
		fmt.Println(p)
	}
	// Output:
	// no token
	// nothing injected
	// no container log
	// no termination log
}

// The zero policy's own report is kept as a record.
func ExamplePolicy() {
	report, err := attest.Policy(context.Background(), execpolicy.DockerPolicy{}, attest.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	json.NewEncoder(os.Stdout).Encode(report)
}

// Where not every protection is possible, Require names those that must be in force.
func ExampleOptions() {
	ctx := context.Background()
	s, _, err := attest.Start(ctx, execpolicy.DockerPolicy{Runtime: "runsc"}, execpolicy.Spec{}, attest.Options{
		Require: []attest.Protection{attest.NoNetwork, attest.ReadOnlyRoot, attest.NoCapabilities,
			attest.NoHostMounts},
		RefuseWeakEngine: true,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	s.Close()
}

// Somebody took the profile away from a container.
func ExampleConfinement() {
	r := attest.Report{Confinement: attest.Confinement{AppArmor: true, Inside: "unconfined",
		Weaknesses: []string{"AppArmor does not confine process 1, although the host uses it"}}}
	fmt.Println(r.Confinement.Inside, len(r.Confinement.Weaknesses))
	// Output: unconfined 1
}

func ExampleReport() {
	r := attest.Report{Engine: "podman", Findings: []attest.Finding{{
		Protection: attest.MemoryLimit, Asked: "512 MiB", InForce: attest.No, Inside: "no limit (max)", Outside: "no limit",
	}}}
	f := r.Finding(attest.MemoryLimit)
	fmt.Println(f.Protection, f.InForce)
	// Output: memory limit no
}

func ExampleFinding() {
	f := attest.Finding{Protection: attest.Seccomp, Asked: "the library's", InForce: attest.Yes,
		Inside: "Seccomp 2; refused: set-uid files"}
	if f.Asked != "" && f.InForce != attest.Yes {
		fmt.Println(f.Protection, "was asked for and is not in force:", f.Inside, f.Outside)
	}
}

func ExampleProtections() {
	for _, p := range attest.Protections()[:3] {
		fmt.Println(p)
	}
	// Output:
	// no network
	// read-only root
	// no capabilities
}

func ExampleWeaknesses() {
	for _, w := range attest.Weaknesses([]dockercli.Component{{Name: "runc", Version: "1.0.0-rc6"},
		{Name: "runc", Version: "99.0.0"}}) {
		if w.Advisory == "CVE-2019-5736" {
			fmt.Println(w)
		}
	}
	// Output:
	// runc 1.0.0-rc6: CVE-2019-5736, a program in the container overwrites runc on the host (https://www.openwall.com/lists/oss-security/2019/02/11/2)
}

func ExampleWeakness() {
	w := attest.Weakness{Component: "runc", Version: "1.1.5", Advisory: "CVE-2024-21626",
		Summary: "a descriptor that leaks", Source: "https://example.org"}
	fmt.Println(w)
	// Output: runc 1.1.5: CVE-2024-21626, a descriptor that leaks (https://example.org)
}

func ExampleProtection() {
	// All but the limits, which a rootless engine may drop.
	limits := []attest.Protection{attest.MemoryLimit, attest.NoSwap, attest.CPULimit, attest.PidsLimit}
	required := slices.DeleteFunc(attest.Protections(),
		func(p attest.Protection) bool { return slices.Contains(limits, p) })
	fmt.Println(len(required), "are required")
	// Output: 14 are required
}

func ExampleState() {
	for _, s := range []attest.State{attest.Yes, attest.No, attest.Unknown, attest.Admitted} {
		fmt.Println(s)
	}
	// Output:
	// yes
	// no
	// unknown
	// admitted
}
