package tool

import (
	"context"
	"encoding/json"

	"github.com/seed-64a260eb/cofferdam/execpolicy"
)

// A Tool is something that a model can call.
type Tool struct {
	// Name is what the model calls it by: letters, digits and underscores.
	Name string
	// Description tells the model what the tool is for.
	Description string
	// Schema is the JSON Schema of the input. Those of this package are an object with
	// properties of simple types, which the APIs of all models take.
	Schema json.RawMessage
	// Call does what the input asks for. An input that is empty or null is an object
	// without properties. The reply has a text for the model, even with an error. An
	// error is not the model's fault: it says that the host can't go on as before.
	Call func(ctx context.Context, input json.RawMessage) (Reply, error)
}

// A Reply is what comes of a call.
type Reply struct {
	// Text is what the model is to be told. It is never empty.
	Text string
	// Failed says that the call did not do what it was to do: the input was wrong, or the
	// command did not exit with 0. A call that asks about a job has not failed, however
	// the job has ended.
	Failed bool
	// Result is how a command, a snippet or a job ended. It is nil if none ran, while a
	// job runs, and for the other tools.
	Result *execpolicy.Result
	// Value is the value of a snippet's last statement as JSON, as in [python.Result]. It
	// is nil if Spec.Filter finds something that is only there without JSON's escapes, or
	// without those of the repr.
	Value json.RawMessage
}
