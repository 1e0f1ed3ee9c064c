package execpolicy_test

import (
	"context"
	"fmt"
	"log"

	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/execpolicy/egress"
)

// What a session's programs try to reach can be watched.
func ExampleEgress() {
	policy := execpolicy.DockerPolicy{Egress: egress.Allow("api.github.com:443")}
	spec := execpolicy.Spec{Audit: func(e execpolicy.Event) error {
		if e.Kind == execpolicy.EventEgress {
			fmt.Println(e.Target, e.Addr, e.In, e.Out, e.Error)
		}
		return nil
	}}
	s, err := execpolicy.Start(context.Background(), policy, spec)
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
}
