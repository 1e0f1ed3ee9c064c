GO ?= go
# How long each fuzz target runs, or how often: FUZZTIME=300x.
FUZZTIME ?= 10s
# What make test tests.
PACKAGES ?= ./...
# Most tests take one engine, one shell and one way of the streams, chosen by the test's
# name. ALL=1 makes them take each, which takes hours.
SHORT_TESTS = $(if $(ALL),,-short)

# Run by their versions, so that they are no requirements of the module.
STATICCHECK = honnef.co/go/tools/cmd/staticcheck@v0.7.0
GOVULNCHECK = golang.org/x/vuln/cmd/govulncheck@v1.7.0

.PHONY: demo attest doctor tested test remote rootless test-kubernetes \
	fault-kubernetes modules bench programs fault lint vuln fuzz

demo:
	$(GO) run ./internal/tour

# What isolates each preset on each engine: execpolicy/presets.md.
attest:
	$(GO) run ./internal/attest

# What is missing on this machine, and what fixes it. ENGINE names one engine, such as
# "docker --context ci".
doctor:
	@$(GO) run ./internal/doctor

# The table of what the library is tested on, in README.md.
tested:
	$(GO) run ./internal/doctor -write

# Two packages at a time: most tests wait most of their time, and more would measure each
# other where they have bounds in it. What could not be tested here is told at the end.
test:
	@notes=$$(mktemp) && trap 'rm -f "$$notes"' EXIT && trap 'exit 130' INT TERM && status=0 && { \
		COFFERDAM_LEFT_OUT=$$notes $(GO) test -p 2 -race -shuffle=on -timeout=$(if $(ALL),4h,80m) \
			$(SHORT_TESTS) $(TESTFLAGS) $(PACKAGES) || status=$$?; \
	} && sort -u "$$notes" | awk -F '\t' \
		'{ tests[$$1] = tests[$$1] " " $$2 } END { for (why in tests) print "left out: " why ":" tests[why] }' | sort && exit $$status

# The suites of sessions on engines that are reached as those on other machines are. WAYS
# names them: docker-tls, docker-ssh, podman-tcp and podman-ssh. ARGS are arguments of go
# test, in place of those that choose the suites.
remote:
	$(GO) run ./internal/remote $(WAYS) $(if $(ARGS),-- $(ARGS))

# Suites as an ordinary user with a podman of their own. It needs root.
rootless:
	.ci/rootless

# Tests beside a real cluster, which is brought up for them. The first time Kubernetes is
# built. ARGS are arguments of go test, in place of those that choose what wants a
# cluster.
test-kubernetes:
	$(GO) -C internal/kubernetes run . $(if $(ARGS),-- $(ARGS))

# As fault, on such a cluster.
fault-kubernetes:
	ENGINE=kubernetes $(GO) -C internal/kubernetes run . -exec -- $(GO) run ./internal/fault

# The modules below this one, whose requirements this one does not have.
modules:
	@find . -mindepth 2 -name go.mod | sort | while read -r file; do \
		echo "== $${file%/go.mod}" && cd "$${file%/go.mod}" && \
		$(GO) vet ./... && $(GO) run $(STATICCHECK) ./... && $(GO) mod tidy -diff && \
		$(GO) test -p 2 -race -shuffle=on -timeout=20m $(SHORT_TESTS) $(TESTFLAGS) ./... && \
		cd "$(CURDIR)" || exit 1; \
	done

# ONLY names the measurements to make, such as "transfers snippets". SHORT=1 does fewer
# rounds, and SLACK=2 lets most bounds be missed by twice. ONLY=scoreboard compares with
# other libraries, and writes a section of README.md.
bench:
	$(GO) run ./internal/bench $(if $(SHORT),-short) $(if $(SLACK),-slack $(SLACK)) $(ONLY)

# What ordinary programs do under the filter of system calls, in an image of its own with
# compilers, node and numpy.
programs:
	$(GO) run ./internal/programs/try

# ROUNDS, SEED, ENGINE and ONLY say what is tried: internal/fault/main.go has the words.
fault:
	$(GO) run ./internal/fault

lint:
	@files=$$(gofmt -s -l .) && test -z "$$files" || { echo "gofmt -s would change: $$files"; exit 1; }
	@find . -name '*.go' ! -name '*_test.go' | xargs awk '{ text = $$0; gsub(/\t/, "    ", text) } \
		/^\t*\/\/ +[^ \t]/ && length(text) > 90 && text !~ /:\/\// { print FILENAME ":" FNR ": a comment over 90 columns"; bad = 1 } \
		{ code = $$0; gsub(/"([^"\\]|\\.)*"/, "", code); gsub(/`[^`]*`/, "", code) } \
		code !~ /^\t*\/\// && code ~ /\/\/ / && length(text) > 90 { print FILENAME ":" FNR ": a comment after code, over 90 columns"; bad = 1 } \
		END { exit bad }'
	$(GO) vet ./...
	GOOS=darwin GOARCH=arm64 $(GO) vet ./...
	GOOS=windows GOARCH=amd64 $(GO) vet ./...
	$(GO) run $(STATICCHECK) ./...
	$(GO) mod tidy -diff

# A database that can't be reached is no finding.
vuln:
	@log=$$(mktemp) && trap 'rm -f "$$log"' EXIT && \
	if $(GO) run $(GOVULNCHECK) ./... >"$$log" 2>&1; then \
		cat "$$log"; \
	elif why=$$(grep -o 'fetching vulnerabilities: .*' "$$log"); then \
		echo "not checked: $$why"; \
	else \
		cat "$$log"; exit 1; \
	fi

# The targets of a package share one program. What they find worth keeping is kept where
# go test -fuzz keeps it.
fuzz:
	@dir=$$(mktemp -d) && trap 'rm -rf "$$dir"' EXIT && cache=$$($(GO) env GOCACHE)/fuzz && \
	grep -rl --include='*_test.go' '^func Fuzz' . | xargs -n 1 dirname | sort -u | \
	while read -r package; do \
		cd "$$package" && $(GO) test -c -fuzz=. -o "$$dir/fuzz.test" . </dev/null && \
			path=$$($(GO) list .) || exit 1; \
		for target in $$(grep -ho '^func Fuzz[^(]*' *_test.go | cut -d ' ' -f 2); do \
			echo "== $$package $$target"; \
			"$$dir/fuzz.test" -test.run='^$$' -test.fuzz="^$$target\$$" -test.fuzztime=$(FUZZTIME) \
				-test.fuzzcachedir="$$cache/$$path" </dev/null || exit 1; \
		done; \
		cd "$(CURDIR)"; \
	done
