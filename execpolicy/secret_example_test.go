package execpolicy_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

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
		Secrets: []execpolicy.Secret{{Name: "API_TOKEN", Lookup: fromEnv}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()
	r, err := s.Run(ctx, execpolicy.Command{
		Script: `wget -q --header "Authorization: Bearer $API_TOKEN" https://example.com/ || echo "refused: ` +
			`$API_TOKEN"; ls -l "$SIGNING_KEY"`,
		Secrets: []execpolicy.Secret{{Name: "SIGNING_KEY", Lookup: fromEnv, File: true}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(r.Render(execpolicy.RenderOptions{}))
}

// A secret, or what holds it, is printed as its name.
func ExampleSecret_String() {
	s := execpolicy.Secret{Name: "API_TOKEN", Value: "hunter2"}
	fmt.Printf("%v %+v %#v\n", s, []execpolicy.Secret{s}, &s)
	// Output: secret API_TOKEN [secret API_TOKEN] secret API_TOKEN
}

// All that is wrong with secrets is reported at once, before anything is started, and
// without a value.
func ExampleSecret_invalid() {
	_, err := execpolicy.Start(context.Background(), execpolicy.DockerPolicy{},
		execpolicy.Spec{Secrets: []execpolicy.Secret{
			{Name: "API_TOKEN", Value: "hunter2"},
			{Name: "API_TOKEN", Value: "hunter3"},
			{Name: "PIN", Value: "123"},
			{Name: "SIGNING_KEY"},
		}})
	fmt.Println(strings.ReplaceAll(err.Error(), "; ", "\n"))
	// Output:
	// invalid: the secret API_TOKEN is set twice
	// the value of the secret PIN is shorter than 4 bytes, and could not be told from what else is printed
	// the secret SIGNING_KEY has to have a Value or a Lookup, and not both
}
