package redact_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"

	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/execpolicy/redact"
)

// What a command prints is redacted before it is kept, passed on or rendered.
func Example() {
	r, err := redact.New(redact.Rule{Type: "email"}, redact.Secrets(os.Getenv("API_TOKEN")))
	if err != nil {
		fmt.Println(err)
		return
	}
	spec := execpolicy.Spec{Filter: r.Writer}
	res, err := execpolicy.Run(context.Background(), execpolicy.DockerPolicy{}, spec,
		execpolicy.Command{Script: "git log -1"})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(res.Render(execpolicy.RenderOptions{}))
}

func ExampleRedactor_Writer() {
	r, err := redact.New(redact.Rule{Type: "ip"}, redact.Secrets("correct horse"))
	if err != nil {
		fmt.Println(err)
		return
	}
	w := r.Writer(os.Stdout)
	for _, part := range []string{"login from 10.0.", "0.7 with correct", " horse\n"} {
		io.WriteString(w, part)
	}
	fmt.Println(w.Close())
	// Output:
	// login from [REDACTED_IP] with [REDACTED_SECRET]
	// <nil>
}

// A caller's own rule finds its matches by a pattern, or by any other function.
func ExampleRule() {
	key := regexp.MustCompile(`\bsk-[0-9a-z]{8,}`)
	r, err := redact.New(redact.Rule{
		Type:     "api_key",
		Strategy: redact.Mask,
		Find:     func(line []byte) [][]int { return key.FindAllIndex(line, -1) },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	text, err := r.Bytes([]byte("the key is sk-4f9ac81e07\n"))
	fmt.Printf("%s%v\n", text, err)
	// Output:
	// the key is ****1e07
	// <nil>
}

func ExampleStrategy() {
	for _, s := range []redact.Strategy{redact.Redact, redact.Mask, redact.Hash, redact.Block} {
		r, err := redact.New(redact.Rule{Type: "email", Strategy: s})
		if err != nil {
			fmt.Println(err)
			return
		}
		text, err := r.Bytes([]byte("user@example.com"))
		fmt.Printf("%v: %s %v\n", s, text, err)
	}
	// Output:
	// redact: [REDACTED_EMAIL] <nil>
	// mask: user@****.com <nil>
	// hash: <email_hash:b4c9a289> <nil>
	// block:  detected email
}

func ExampleBlockedError() {
	r, err := redact.New(redact.Rule{Type: "credit_card", Strategy: redact.Block})
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = r.Bytes([]byte("4532 0151 1283 0366"))
	var blocked *redact.BlockedError
	fmt.Println(errors.As(err, &blocked), blocked.Type, errors.Is(err, execpolicy.ErrBlocked))
	// Output: true credit_card true
}
