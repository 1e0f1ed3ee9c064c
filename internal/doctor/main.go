// Doctor prints what it finds of this machine's engines: see package execpolicy/doctor.
// It exits with 1 if the engine of a policy that names none does not work, or that which
// ENGINE names. With -json it prints the report as JSON.
//
// With -write it looks at docker and podman as the tests use them, with an image and
// settings that work, and writes the table of what the library is tested on into
// README.md.
//
// The environment's ENGINE names one engine, as a command line.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/execpolicy/doctor"
	"github.com/seed-64a260eb/cofferdam/internal/enginetest/setup"
)

// setupTimeout bounds the making of one engine's image.
const setupTimeout = 6 * time.Minute

func main() {
	asJSON := flag.Bool("json", false, "print JSON")
	write := flag.Bool("write", false, "write the table in README.md")
	flag.Parse()
	works, err := run(context.Background(), *asJSON, *write)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	if err != nil || !works {
		os.Exit(1)
	}
}

func run(ctx context.Context, asJSON, write bool) (bool, error) {
	if write {
		return true, writeTable(ctx)
	}
	var o doctor.Options
	if spec := os.Getenv("ENGINE"); spec != "" {
		e, err := dockercli.Parse(spec)
		if err != nil {
			return false, err
		}
		o.Engines = []*dockercli.Engine{e}
	}
	r, err := doctor.Examine(ctx, o)
	if err != nil {
		return false, err
	}
	if asJSON {
		text, err := json.MarshalIndent(r, "", "  ")
		fmt.Printf("%s\n", text)
		return works(r, o.Engines != nil), err
	}
	fmt.Print(r)
	return works(r, o.Engines != nil), nil
}

// works reports whether the one engine that was named works or, if none was, that of a
// policy that names none.
func works(r *doctor.Report, named bool) bool {
	if named {
		return r.Engines[0].Works()
	}
	return r.Works()
}

// writeTable looks at the engines of the tests, and writes what they are.
func writeTable(ctx context.Context) error {
	var rows []doctor.Engine
	for _, spec := range setup.Wanted() {
		row, err := examine(ctx, spec)
		if err == nil && !row.Works() {
			err = errors.New(row.Name + " does not work")
		}
		if err != nil {
			return err
		}
		rows = append(rows, *row)
	}
	text, err := os.ReadFile(readme)
	if err != nil {
		return err
	}
	changed, err := replace(string(text), table(rows))
	if err != nil {
		return err
	}
	return os.WriteFile(readme, []byte(changed), 0o644)
}

func examine(ctx context.Context, spec string) (*doctor.Engine, error) {
	ctx, cancel := context.WithTimeout(ctx, setupTimeout)
	defer cancel()
	e, err := setup.Lookup(ctx, spec)
	if err != nil {
		return nil, err
	}
	image, err := setup.Ready(ctx, e, os.Stderr)
	if err != nil {
		return nil, err
	}
	r, err := doctor.Examine(ctx, doctor.Options{Engines: []*dockercli.Engine{e}, Image: image})
	if err != nil {
		return nil, err
	}
	fmt.Fprint(os.Stderr, r)
	return &r.Engines[0], nil
}
