package audit_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/execpolicy/audit"
)

// Each event is a line in a file, and says on whose behalf it happened.
func Example() {
	log, err := audit.File("audit.jsonl")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer log.Close()
	who := []slog.Attr{slog.String("user", "ada"), slog.String("agent", "reviewer")}
	spec := execpolicy.Spec{Audit: audit.To(slog.NewJSONHandler(log, nil).WithAttrs(who))}
	r, err := execpolicy.Run(context.Background(), execpolicy.DockerPolicy{}, spec,
		execpolicy.Command{Script: "make test"})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(r.Render(execpolicy.RenderOptions{}))
}

func ExampleTo() {
	// What differs from run to run is left out here.
	plain := &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		switch a.Key {
		case slog.TimeKey, "host", "uid", "pid":
			return slog.Attr{}
		}
		return a
	}}
	record := audit.To(slog.NewJSONHandler(os.Stdout, plain))
	record(execpolicy.Event{Time: time.Now(), Kind: execpolicy.EventCommand, Name: "cofferdam-1", Seq: 3,
		Script: "echo \"hi\"\nexit 3"})
	record(execpolicy.Event{Time: time.Now(), Kind: execpolicy.EventResult, Name: "cofferdam-1", Seq: 4, Of: 3, Out: 3,
		Duration: 12 * time.Millisecond, Outcome: execpolicy.OutcomeExited, ExitCode: 3, OOMAfter: -1})
	// Output:
	// {"level":"INFO","msg":"command","session":"cofferdam-1","seq":3,"script":"echo \"hi\"\nexit 3"}
	// {"level":"INFO","msg":"result","session":"cofferdam-1","seq":4,"of":3,"seconds":0.012,"bytes_out":3,"outcome":"exited","exit":3,"oom_before":0,"gone":false}
}

func ExampleFile() {
	log, err := audit.File("/var/log/cofferdam/audit.jsonl")
	if err != nil {
		// Without a record nothing is to run.
		fmt.Println(err)
		return
	}
	defer log.Close()
	spec := execpolicy.Spec{Audit: audit.To(slog.NewJSONHandler(log, nil))}
	s, err := execpolicy.Start(context.Background(), execpolicy.DockerPolicy{}, spec)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(s.Close())
}

// Records may go to more than one place, as all of slog's do; here kills are also
// printed.
func ExampleLog() {
	log, err := audit.File("audit.jsonl")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer log.Close()
	file := audit.To(slog.NewJSONHandler(log, nil))
	aloud := audit.To(slog.NewTextHandler(os.Stderr, nil))
	spec := execpolicy.Spec{Audit: func(e execpolicy.Event) error {
		if e.Kind == execpolicy.EventKill {
			aloud(e)
		}
		return file(e)
	}}
	_, err = execpolicy.Run(context.Background(), execpolicy.DockerPolicy{}, spec,
		execpolicy.Command{Argv: []string{"make"}})
	fmt.Println(err)
}
