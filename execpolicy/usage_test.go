package execpolicy_test

import (
	"context"
	"fmt"
	"time"

	"github.com/seed-64a260eb/cofferdam/execpolicy"
)

// unknown is the usage of which nothing is known.
var unknown = execpolicy.Usage{CPU: -1, PeakBefore: -1, PeakAfter: -1}

func ExampleUsage() {
	ctx := context.Background()
	s, err := execpolicy.Start(ctx, execpolicy.DockerPolicy{}, execpolicy.Spec{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()
	r, err := s.Run(ctx, execpolicy.Command{Argv: []string{"./solution"}, Timeout: 10 * time.Second, Usage: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	switch u := r.Usage; {
	case u.CPU < 0 || u.PeakAfter < 0:
		fmt.Println("not known")
	case u.PeakAfter > u.PeakBefore:
		fmt.Println("it took", u.CPU, "and", u.PeakAfter, "bytes")
	default:
		fmt.Println("it took", u.CPU, "and at most", u.PeakAfter, "bytes")
	}
}
