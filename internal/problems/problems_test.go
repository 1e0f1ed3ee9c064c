package problems_test

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"testing"

	"github.com/hashicorp/go-multierror"
	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/internal/problems"
)

func TestRedact(t *testing.T) {
	redact := func(text string) string { return strings.ReplaceAll(text, "hunter2", "***") }
	assert.NilError(t, problems.Redact(nil, redact))
	assert.Equal(t, problems.Redact(fs.ErrExist, redact), fs.ErrExist)
	err := problems.Redact(&fs.PathError{Op: "open", Path: "hunter2", Err: fs.ErrNotExist}, redact)
	assert.Error(t, err, "open ***: file does not exist")
	assert.ErrorIs(t, err, fs.ErrNotExist)
	assert.Assert(t, !errors.Is(err, fs.ErrExist))
	var path *fs.PathError
	assert.Assert(t, !errors.As(err, &path))
}

func TestJoin(t *testing.T) {
	var none *multierror.Error
	assert.NilError(t, problems.Join())
	assert.NilError(t, problems.Join(nil, none, errors.Join(), problems.Join()))

	assert.Equal(t, len(problems.Of(io.EOF)), 0)
	a, b, c := errors.New("a"), errors.New("b"), fmt.Errorf("c: %w", fs.ErrPermission)
	for _, errs := range [][]error{
		{a, b, c},
		{a, b, c, b, fmt.Errorf("b")},
		{problems.Join(a, b), c, problems.Join(c)},
		{errors.Join(a, errors.Join(b, c))},
		{multierror.Append(nil, a, b), c},
		{fmt.Errorf("%w: %w", problems.Err, a), fmt.Errorf("%w: %w", problems.Err, multierror.Append(nil, b, c))},
		{fmt.Errorf("%w: a", problems.Err), fmt.Errorf("%w: %w", problems.Err, problems.Join(b, c))},
	} {
		err := problems.Join(errs...)
		assert.Equal(t, err.Error(), "invalid: a; b; c: permission denied")
		assert.ErrorIs(t, err, problems.Err)
		assert.ErrorIs(t, err, fs.ErrPermission)
		assert.Assert(t, !errors.Is(err, io.EOF))
		assert.Equal(t, len(problems.Of(err)), 3)
	}
}
