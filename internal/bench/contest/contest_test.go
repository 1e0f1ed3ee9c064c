package contest

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
)

// A player is a contender that waits for its contexts.
type player struct{ image string }

func (p *player) Start(_ context.Context, c Container) error {
	p.image = c.Image
	return nil
}

func (p *player) Run(ctx context.Context, script string) (int, error) {
	if script == "wait" {
		<-ctx.Done()
		return 0, ctx.Err()
	}
	return len(p.image + script), nil
}

func (p *player) Close() error { return errors.New("closed") }

func TestServe(t *testing.T) {
	requests := `{"Op":"start","Container":{"Image":"image"}}
		{"Op":"run","Script":":","Times":3}
		{"Op":"run","Script":"wait","Timeout":1000000}
		{"Op":"close"}
		{"Op":"other"}`
	var out strings.Builder
	contenders := map[string]Contender{"player": &player{}}
	assert.NilError(t, serve(contenders, "player", strings.NewReader(requests), &out))
	var all []Response
	for d := json.NewDecoder(strings.NewReader(out.String())); ; {
		var r Response
		err := d.Decode(&r)
		if err == io.EOF {
			break
		}
		assert.NilError(t, err)
		all = append(all, r)
	}
	assert.Equal(t, len(all), 5)
	assert.Equal(t, len(all[1].Times), 3)
	assert.Equal(t, all[1].Bytes, len("image:"))
	assert.Assert(t, all[2].Times[0] >= time.Millisecond)
	assert.Equal(t, all[2].Err, "context deadline exceeded")
	assert.Equal(t, all[3].Err, "closed")
	assert.Assert(t, all[4].Err != "")
	assert.ErrorContains(t, serve(contenders, "nobody", strings.NewReader(""), io.Discard), "nobody")
	assert.Assert(t, serve(contenders, "player", strings.NewReader("{"), io.Discard) != nil)
}
