module github.com/seed-64a260eb/cofferdam/internal/kubernetes

go 1.25

require (
	github.com/seed-64a260eb/cofferdam v0.0.0
	gotest.tools/v3 v3.5.2
)

require (
	github.com/google/go-cmp v0.5.9 // indirect
	github.com/google/shlex v0.0.0-20191202100458-e7afc7fbc510 // indirect
	github.com/hashicorp/errwrap v1.0.0 // indirect
	github.com/hashicorp/go-multierror v1.1.1 // indirect
)

replace github.com/seed-64a260eb/cofferdam => ../..
