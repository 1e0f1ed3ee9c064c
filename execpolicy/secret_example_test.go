package execpolicy_test

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/seed-64a260eb/cofferdam/execpolicy"
)

func ExampleSecret() {
	fromEnv := func(_ context.Context, name string) (string, error) {
		value, ok := os.LookupEnv(name)
		if !ok {
			return "", errors.New("it is not set")
		}
		return value, nil
	}
	ctx := context.Background()
	s, err := execpolicy.Start(ctx, execpolicy.DockerPolicy{NetworkEnabled: true}, execpolicy.Spec{
		Secrets: execpolicy.Secrets{{Name: "API_TOKEN", Lookup: fromEnv}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()
	r, err := s.Run(ctx, execpolicy.Command{
		Script:  `wget -q --header "Authorization: Bearer $API_TOKEN" https://example.com/ || echo "refused: $API_TOKEN"; ls -l "$SIGNING_KEY"`,
		Secrets: execpolicy.Secrets{{Name: "SIGNING_KEY", Lookup: fromEnv, File: true}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(r.Text())
}

// Whoever prints a secret, or what holds it, prints its name.
func ExampleSecret_String() {
	s := execpolicy.Secret{Name: "API_TOKEN", Value: "hunter2"}
	fmt.Printf("%v %+v %#v\n", s, []execpolicy.Secret{s}, &s)
	// Output: secret API_TOKEN [secret API_TOKEN] secret API_TOKEN
}
