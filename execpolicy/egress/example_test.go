package egress_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/execpolicy/egress"
)

// A session may install packages, and reaches nothing else.
func ExampleAllow() {
	ctx := context.Background()
	policy := execpolicy.DockerPolicy{Egress: egress.Allow("pypi.org:443", "files.pythonhosted.org:443")}
	s, err := execpolicy.Start(ctx, policy, execpolicy.Spec{})
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	res, err := s.Run(ctx, execpolicy.Command{Script: "pip install --user requests", Timeout: 5 * time.Minute})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(res.Text())
}

// A list is checked before anything is started, as all of a policy is.
func ExampleList() {
	list := egress.List{
		Destinations: []string{"API.example.com:443", "192.0.2.7:8443"},
		MaxBytes:     64 << 20,
		IdleTimeout:  time.Minute,
	}
	fmt.Println(list.Check())
	fmt.Println(egress.Allow("*.example.com:443").Check())
	// Output:
	// [192.0.2.7:8443 api.example.com:443] <nil>
	// [] invalid: Egress: the destination "*.example.com:443": there are no patterns: name each host
}
