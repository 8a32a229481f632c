# What can be done here. Everything but the Go command is installed, or built into
# the user's cache, by the targets that need it.

# Compiled alike everywhere, so that the tests and the built Caddy share the compiler's
# work: xcaddy builds without C and with -trimpath.
export CGO_ENABLED ?= 0
export GOFLAGS := $(GOFLAGS) -trimpath

# A program, not `go run`, whose exit code after Ctrl-C is always 1.
devenv = mkdir -p .codehub/bin && go build -o .codehub/bin/devenv ./coordinator/devenv/cmd/devenv && exec .codehub/bin/devenv

.DEFAULT_GOAL := help
.PHONY: help build run images test bench-gateway bench-failover bench-reconcile lint deadcode fmt clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## build ./caddy, Caddy with CodeHub's modules, from xcaddy.json
	@echo "building ./caddy from xcaddy.json (minutes the first time)"; $(devenv) build

run: ## run CodeHub on this machine with private servers, until Ctrl-C
	@$(devenv) run

images: ## build the container images and print their references
	@$(devenv) images

# Arguments for go test, such as: make test ARGS='-run TestGC ./coordinator/gc'
ARGS ?= -timeout 15m ./...

test: lint build ## lint, build, and run all tests against real servers
	@$(devenv) test $(ARGS)

# A folder for CPU profiles, such as: make bench-gateway PROFILE=/tmp
PROFILE ?=

bench-gateway: build ## compare the gateway's processor time with plain reverse_proxy's
	@$(devenv) test -run '^$$' -bench '^BenchmarkGateway$$' -benchtime 1x ./caddymodule/e2e \
		$(if $(PROFILE),-gateway-profile=$(abspath $(PROFILE)))

bench-failover: ## measure how long a leader is missing that is killed or stopped
	@$(devenv) test -timeout 20m -run '^$$' -bench '^BenchmarkFailover$$' -benchtime 1x ./coordinator

bench-reconcile: build ## measure what an idle process costs, and how soon a desired state is acted upon
	@$(devenv) test -timeout 30m -run '^$$' -bench '^Benchmark(Idle|DesiredToAction|Wake|Cycle)$$' -benchtime 1x -p 1 \
		./coordinator/processtest ./coordinator/reconcile ./caddymodule/e2e

lint: ## check format, code and layout
	@unformatted=$$(gofmt -l caddymodule coordinator storagejob); \
	if [ -n "$$unformatted" ]; then echo "gofmt these files (make fmt):" $$unformatted; exit 1; fi
	@strange=$$(ls | grep -vxE '$(subst $(space),|,$(top_level))'); \
	if [ -n "$$strange" ]; then echo "the top level may not hold" $$strange: move it into a folder that is there, or delete it; exit 1; fi
	go vet ./...
	go run honnef.co/go/tools/cmd/staticcheck@v0.8.2 ./...
	@$(MAKE) --no-print-directory deadcode

# What the top level may hold besides dot-files.
empty :=
space := $(empty) $(empty)
top_level := caddymodule coordinator storagejob xcaddy\.json Caddyfile\.example go\.mod go\.sum Makefile \
	README\.md README\.ko\.md CONTRIBUTING\.md SECURITY\.md LICENSE CHANGELOG\.md caddy

# The programs of this repository, and Caddy with our modules: through Caddy's code, the
# methods that it calls on our modules count as called.
deadcode: ## list functions that only tests call
	@mkdir -p .codehub/lint/caddy
	@printf '%s\n' 'package main' 'import caddycmd "github.com/caddyserver/caddy/v2/cmd"' \
		'import _ "github.com/codehub/gateway/caddymodule"' 'func main() { caddycmd.Main() }' >.codehub/lint/caddy/main.go
	@dead=$$(go run golang.org/x/tools/cmd/deadcode@v0.51.0 -tags nobadger,nomysql,nopgx -filter '^github.com/codehub/gateway/' \
		./.codehub/lint/caddy ./storagejob ./coordinator/devenv/cmd/devenv ./coordinator/devenv/webterm) || exit 1; \
	if [ -n "$$dead" ]; then echo "only tests call these functions; delete them or call them:"; echo "$$dead"; exit 1; fi

fmt: ## format the code
	gofmt -w caddymodule coordinator storagejob

clean: ## delete what was built here; .codehub, the data of make run, stays
	rm -f caddy
