GO ?= go
FUZZTIME ?= 10s

# Run by its version, so that it is no requirement of the module.
STATICCHECK = honnef.co/go/tools/cmd/staticcheck@v0.7.0

.PHONY: demo test bench lint fuzz

demo:
	$(GO) run ./internal/tour

test:
	$(GO) test -race -shuffle=on $(TESTFLAGS) ./...

bench:
	$(GO) run ./internal/bench

lint:
	test -z "$$(gofmt -s -l . | tee /dev/stderr)"
	$(GO) vet ./...
	GOOS=darwin $(GO) vet ./...
	GOOS=windows $(GO) vet ./...
	$(GO) run $(STATICCHECK) ./...
	$(GO) mod tidy -diff

fuzz:
	for package in $$($(GO) list ./...); do \
		for target in $$($(GO) test -list='^Fuzz' $$package | grep '^Fuzz'); do \
			$(GO) test -run='^$$' -fuzz="^$$target$$" -fuzztime=$(FUZZTIME) $$package || exit 1; \
		done; \
	done
