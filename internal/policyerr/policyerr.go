// Package policyerr defines errors of package execpolicy. They are defined here so that
// the packages behind it can return them.
package policyerr

import "errors"

// ErrStillThere is execpolicy.ErrStillThere.
var ErrStillThere = errors.New("not known to be gone")
