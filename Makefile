# What can be done here. Only Go and make must be there; the targets install the rest, or build it into
# the user's cache.
#
# Tests and ./caddy are compiled with the go command's own flags, so that `go test ./a/package` uses what make has
# compiled. Only what is shipped is static and trimmed: images, the Debian package, its bills of materials.

# Not `go run`: its exit code after Ctrl-C is always 1, and its program does not notice that make was killed.
program = mkdir -p .codehub/bin && go build -o .codehub/bin/$(notdir $(1)) $(1) && exec .codehub/bin/$(notdir $(1))
devenv = $(call program,./coordinator/devenv/cmd/devenv)

.DEFAULT_GOAL := help
.PHONY: help build run preview screenshots images image deb sbom vulncheck reproduce test test-all check test-again fuzz fuzz-ci test-race nightly soak simulate test-power test-ide test-systemd test-compose test-k8s test-k8s-faults bench-k8s bench-gateway bench-events bench-wake bench-doze bench-editor bench-failover bench-reconcile bench-archive lint lint-beside test-built check-pure format vet staticcheck deadcode monitoring changelog fmt clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## build ./caddy, Caddy with CodeHub's modules, from xcaddy.json
	@echo "building ./caddy from xcaddy.json (minutes the first time)"; $(devenv) build

run: ## run CodeHub on this machine with private servers, until Ctrl-C
	@$(devenv) run

# The preview's address, such as: make preview LISTEN=127.0.0.1:8091
LISTEN ?= 127.0.0.1:8090

preview: ## show every page that people see in every state, from fixtures; load a page again to see a change
	@$(call program,./caddymodule/internal/preview/cmd/preview) -listen $(LISTEN)

# Part of the address of the pages, such as: make screenshots PAGE=wake
PAGE ?=

screenshots: ## write what every page looks like in every state, theme, width and language to .codehub/screenshots (Chromium)
	@go test -v -count=1 -timeout 2h -run '^TestScreenshots$$' ./caddymodule/internal/preview/browser \
		-screenshots='$(CURDIR)/.codehub/screenshots' -page='$(PAGE)'

images: ## build the container images and print their references
	@$(devenv) images

sbom: ## write bills of materials (CycloneDX) and licences to .codehub/dist, and list every module with its licence
	@$(devenv) sbom

# The database of the vulnerabilities is on the internet. If it cannot be reached, this says so and checks nothing.
vulncheck: ## look for known vulnerabilities in the code that ours calls, if their database can be reached
	@said=$$(go run golang.org/x/vuln/cmd/govulncheck@v1.9.0 ./... 2>&1) && { echo "$$said"; exit 0; }; echo "$$said"; \
	case $$said in *"vuln.go.dev"*"dial tcp"*|*"dial tcp"*"vuln.go.dev"*) \
		echo "NOT CHECKED: the database vuln.go.dev cannot be reached from here. Run this where it can." ;; \
	*) exit 1 ;; esac

deb: ## build the Debian package with the unit of systemd, in .codehub/dist
	@$(devenv) deb

reproduce: ## build everything that is shipped twice, in two folders and with empty caches, and compare (half an hour)
	@$(devenv) reproduce

image: ## build the images that a cluster needs: the gateway and the storage job
	@$(devenv) image

# How long it makes faults, such as: make soak FOR=2h. SEED repeats those of an earlier run.
FOR ?= 10m

soak: build ## break all servers at random under hundreds of users, for FOR=10m, and look for losses and leaks (root)
	@$(devenv) test -v -count=1 -timeout 0 -run '^TestSoak$$' ./caddymodule/e2e -soak=$(FOR) -soak-folder='$(CURDIR)/.codehub/soak'

# How many power cuts there are, such as: make test-power CUTS=100. SEED repeats those of an earlier run.
CUTS ?= 24

test-power: build ## cut the power of a whole host at random moments of every operation, CUTS=24 times (root; ten minutes)
	@$(devenv) test -v -count=1 -timeout 0 -run '^TestPower$$' ./caddymodule/e2e -power=$(CUTS)

# MEASURE=1 first measures again what a million rows cost PostgreSQL; compare that with Units in units.go.
MEASURE ?=

simulate: ## compute what a million workspaces ask of each server on working days, and write it into the guide
	$(if $(MEASURE),@$(devenv) test -timeout 60m -run '^$$' -bench '^BenchmarkMillion$$' -benchtime 1x ./coordinator/store)
	@go test -v -count=1 -timeout 30m -run '^TestSimulate$$' ./coordinator/control/reconcile/simulate -update

# Arguments for go test, such as: make test ARGS='-run TestGC ./coordinator/control/gc'
# SEED=123, as a failed test has printed it, repeats its random choices.
# The three packages that take longest mostly wait for servers. They begin first, and the others run
# beside them.
ARGS ?= -timeout 80m -p 3 ./coordinator/processtest ./caddymodule/e2e ./coordinator/backend/docker ./...

# Lint runs beside the tests, on the processor time that they leave. Its output appears only if it fails, and so does
# the target then, even if the tests pass.
test: ## lint, build, and run all tests against real servers; print the slowest packages and tests
	@rm -f $(lint_failed)
	@$(MAKE) --no-print-directory -k -j 2 lint-beside test-built || { [ ! -f $(lint_failed) ] || cat $(lint_failed); exit 1; }

test-all: export CODEHUB_TEST_ALL := 1
test-all: test ## the same with every case of the large matrices; `make test` chooses a third (an hour)

lint_failed := .codehub/lint/failed

# Without make's flags, so that it does not take the job slot of the tests.
lint-beside:
	@mkdir -p .codehub/lint
	@MAKEFLAGS= nice $(MAKE) --no-print-directory lint >.codehub/lint/log 2>&1 || \
		{ { cat .codehub/lint/log; echo "lint failed"; } | tee $(lint_failed); exit 1; }

# Lint vets the tests.
test-built: build
	@$(devenv) test -vet=off $(ARGS)

# The packages whose tests start no server and no browser, and build no program: those that do import one of these
# packages. The slowest target begins first.
check: ## check in a minute what needs no server and no browser: format, vet, staticcheck, and the tests of pure code
	@$(MAKE) --no-print-directory -O -j 2 check-pure staticcheck vet format

check-pure:
	@go test -vet=off $$(go list -test -f '{{.ImportPath}} {{join .Deps " "}}' ./... | \
		awk '$$1 ~ /\.test$$/ && $$0 " " !~ /\/coordinator\/devenv(\/server|\/chromium)? / { sub(/\.test$$/, "", $$1); print $$1 }')

# For how long, and which packages, such as: make test-again AGAIN=10m PACKAGES='./coordinator/control/ttl ./storagejob/...'
AGAIN ?= 1h
PACKAGES ?= ./...

test-again: build ## run every test up to 20 times, shuffled, under load, with one processor (an hour)
	@$(devenv) test-again -for $(AGAIN) $(PACKAGES)

# How often to call each target, and which, such as: make fuzz FUZZTIME=5000000x FUZZ=FuzzUnpack. A number of calls,
# not a duration: Go 1.26 sometimes reports the end of a duration as a failure, "context deadline exceeded"
# (golang/go#75804). CI takes half a minute for unpacking archives, the worst input that a stranger can send, and
# some seconds for each other target that compiles quickly; a night takes up to five minutes each. The targets of
# fuzz_heavy compile for minutes the first time, because they import Caddy or the database's driver.
FUZZTIME ?= 300000x
FUZZ ?= Fuzz
fuzz_targets := storagejob/internal/tree:FuzzUnpack storagejob/contract:FuzzMeta storagejob/contract:FuzzParseResult \
	storagejob/contract:FuzzParseArchiveURL coordinator/backend/internal/glance:FuzzParse \
	coordinator/backend/kubernetes/internal/mount:FuzzInside \
	caddymodule/internal/site:FuzzLocalPath caddymodule/internal/site:FuzzWorkspaceHost \
	caddymodule/internal/site:FuzzCrossOrigin caddymodule/internal/site:FuzzCookie \
	caddymodule/internal/gateway/pagescript:FuzzInjector caddymodule/internal/gateway/upgrade:FuzzFrames
fuzz_heavy := caddymodule/internal/parse:FuzzValues caddymodule/internal/settings:FuzzCaddyfile \
	caddymodule/internal/gateway/forward:FuzzRequestHeaders coordinator/dataplane/service:FuzzGitURL \
	coordinator/dataplane/service:FuzzCursor

# Few steps to minimize an input that reaches new code: by default that takes a minute, in which no other
# input is tried. A failing input is kept as a file below testdata.
fuzz_one = echo "$(1) for $(2)" && go test -run '^$$' -fuzz '^$(lastword $(subst :, ,$(1)))$$' -fuzztime $(2) \
	-fuzzminimizetime 20x -parallel 1 ./$(firstword $(subst :, ,$(1))) &&

fuzz: ## try random input on every parser of outside input, some minutes each, on one processor
	@$(foreach target,$(fuzz_targets) $(fuzz_heavy),$(if $(findstring $(FUZZ),$(target)),$(call fuzz_one,$(target),$(FUZZTIME)))) true

fuzz-ci: ## the same as CI does: fewer inputs, and only the parsers that compile quickly
	@$(foreach target,$(fuzz_targets),$(call fuzz_one,$(target),30000x)) true

# The race detector needs C. ./caddy and the images are built without the detector.
RACE ?= ./...

test-race: build ## run every test with the race detector, at low priority (hours)
	@CGO_ENABLED=1 nice .codehub/bin/devenv test -race -vet=off -timeout 3h -p 1 $(RACE)

# Everything that takes long. Each part runs even if those before it failed, and the end names the failed ones. Their
# output is in .codehub/nightly.
nightly := test-all test-race fuzz reproduce sbom vulncheck test-systemd test-compose test-power soak test-again

nightly: ## everything that takes long, one after the other (a night; root, Debian)
	@mkdir -p .codehub/nightly; failed=; for part in $(nightly); do echo "$$part"; \
		$(MAKE) --no-print-directory $$part >.codehub/nightly/$$part.log 2>&1 || failed="$$failed $$part"; done; \
	[ -z "$$failed" ] || { echo "failed:$$failed; see .codehub/nightly"; exit 1; }

# Which tests to run, such as: make test-ide IDE=TestIDETyping
IDE ?= ^TestIDE

test-ide: build ## test with real code-server and Jupyter in a browser (root; half an hour)
	@$(devenv) test-ide -v -count=1 -timeout 3h -run '$(IDE)' ./caddymodule/e2e

test-compose: ## run the gateway, the store and the storage job of the compose file on a real engine
	@$(devenv) test -tags compose -v -count=1 -timeout 30m -run '^TestCompose$$' ./caddymodule/e2e

test-systemd: ## install, run, restart, update and purge the Debian package under a real systemd (root, Debian)
	@$(devenv) test-systemd -v -count=1 -timeout 30m -run '^TestUnderSystemd$$' ./coordinator/devenv/internal/debian

# On a cluster whose Pods and Services this machine can reach. Others may use it too: each test has its own
# namespace. LOAD is the command that brings an image of the Docker engine to the nodes (the default for kind is
# kind's own), HOST this machine's address for Pods, such as:
# make test-k8s KUBECONFIG=~/.kube/lab LOAD='minikube image load' HOST=192.168.49.1
K8S ?= -count=1 -timeout 60m -p 1 ./coordinator/backend/kubernetes/... ./coordinator/processtest ./caddymodule/e2e ./caddymodule/deploy

test-k8s test-k8s-faults bench-k8s: export CODEHUB_TEST_KUBECONFIG := $(or $(KUBECONFIG),$(CODEHUB_TEST_KUBECONFIG))
test-k8s test-k8s-faults bench-k8s: export CODEHUB_TEST_K8S_LOAD := $(or $(LOAD),$(CODEHUB_TEST_K8S_LOAD))
test-k8s test-k8s-faults bench-k8s: export CODEHUB_TEST_K8S_HOST := $(or $(HOST),$(CODEHUB_TEST_K8S_HOST))
test-k8s: build ## test on the Kubernetes cluster of KUBECONFIG: the backend's conformance, and the product
	@$(devenv) test-k8s $(K8S)

# SVC stops, starts and kills a component of the cluster ("SVC kill kube-apiserver"), and IN runs a
# command on its only node. Nothing else may use the cluster meanwhile.
test-k8s-faults: export CODEHUB_TEST_K8S_SVC := $(or $(SVC),$(CODEHUB_TEST_K8S_SVC))
test-k8s-faults: export CODEHUB_TEST_K8S_IN := $(or $(IN),$(CODEHUB_TEST_K8S_IN))
test-k8s-faults: build ## break the API server, the kubelet and etcd of a cluster under the product
	@$(devenv) test-k8s -v -count=1 -timeout 30m -run '^TestCluster' ./caddymodule/e2e

bench-k8s: build ## measure a wake-up on a cluster compared with a raw Pod, idle API calls, and memory
	@$(devenv) test-k8s -timeout 30m -run '^$$' -bench '^Benchmark(Cluster(Wake|Idle)|Memory)$$' -benchtime 1x -p 1 \
		./caddymodule/e2e ./coordinator/backend/kubernetes/cluster

# A folder for CPU profiles, such as: make bench-gateway PROFILE=/tmp
PROFILE ?=

bench-gateway: build ## compare the gateway's processor time with plain reverse_proxy's
	@$(devenv) test -run '^$$' -bench '^BenchmarkGateway$$' -benchtime 1x ./caddymodule/e2e \
		$(if $(PROFILE),-gateway-profile=$(abspath $(PROFILE)))

bench-events: ## measure how long a change takes to reach 1,000 event streams, and the memory of each
	@$(devenv) test -run '^$$' -bench '^BenchmarkEvents$$' -benchtime 1x ./caddymodule/internal/api

bench-wake: build ## measure how much longer a wake-up takes than the engine alone
	@$(devenv) test -timeout 30m -run '^$$' -bench '^BenchmarkWake(Archived)?$$' -benchtime 1x ./caddymodule/e2e

bench-doze: build ## measure how soon a dozing workspace resumes, and what a hundred of them cost
	@$(devenv) test -timeout 30m -run '^$$' -bench '^BenchmarkDoze$$' -benchtime 1x ./caddymodule/e2e

bench-editor: build ## measure how long a person waits for code-server in a browser, compared with the engine alone (root)
	@$(devenv) test-ide -v -timeout 30m -run '^$$' -bench '^BenchmarkEditor$$' -benchtime 1x ./caddymodule/e2e

bench-failover: ## measure how long there is no leader after it is killed or stopped
	@$(devenv) test -timeout 20m -run '^$$' -bench '^BenchmarkFailover$$' -benchtime 1x ./coordinator

bench-reconcile: build ## measure what an idle process costs, and how soon it acts on a desired state
	@$(devenv) test -timeout 30m -run '^$$' -bench '^Benchmark(Idle|DesiredToAction|Wake|Cycle|Expiry)$$' -benchtime 1x -p 1 \
		./coordinator/processtest ./coordinator/control/reconcile ./caddymodule/e2e

# Fewer than 5 rounds, or only some trees: make bench-archive BENCH_ARCHIVE_ROUNDS=1 BENCH_ARCHIVE_TREES=modules,source
bench-archive: ## compare archive and restore with tar, zstd and rclone, and with a shell job
	@$(devenv) bench-archive -timeout 60m -run '^$$' -bench '^BenchmarkArchive$$' -benchtime 1x ./storagejob

lint: format vet staticcheck deadcode monitoring ## check format, code and layout

format:
	@unformatted=$$(gofmt -l caddymodule coordinator storagejob); \
	if [ -n "$$unformatted" ]; then echo "gofmt these files (make fmt):" $$unformatted; exit 1; fi
	@strange=$$(ls | grep -vxE '$(subst $(space),|,$(top_level))'); \
	if [ -n "$$strange" ]; then echo "the top level may not hold" $$strange: move it into a folder that is there, or delete it; exit 1; fi

vet:
	go vet ./...
	go vet -tags ide,compose ./caddymodule/e2e
	go vet -tags systemd ./coordinator/devenv/internal/debian

# Its own module, so that Prometheus changes no version of the product's modules. It reads files of other
# modules, which the test cache does not notice.
monitoring: ## test the alert rules and the dashboard with Prometheus' own query engine
	@cd caddymodule/deploy/monitoring && go test -count=1 ./...

staticcheck:
	go run honnef.co/go/tools/cmd/staticcheck@v0.8.2 ./...

# The files and folders that may be at the top level, besides dot-files.
empty :=
space := $(empty) $(empty)
top_level := caddymodule coordinator storagejob xcaddy\.json Caddyfile\.example go\.mod go\.sum Makefile \
	README\.md README\.ko\.md CONTRIBUTING\.md SECURITY\.md LICENSE CHANGELOG\.md caddy

# The programs of this repository, and Caddy with our modules: so the methods that Caddy calls on our modules
# count as called.
deadcode: ## list functions that only tests call
	@mkdir -p .codehub/lint/caddy
	@printf '%s\n' 'package main' 'import caddycmd "github.com/caddyserver/caddy/v2/cmd"' \
		'import _ "github.com/codehub/gateway/caddymodule"' 'func main() { caddycmd.Main() }' >.codehub/lint/caddy/main.go
	@dead=$$(go run golang.org/x/tools/cmd/deadcode@v0.51.0 -tags nobadger,nomysql,nopgx -filter '^github.com/codehub/gateway/' \
		./.codehub/lint/caddy ./storagejob ./coordinator/devenv/cmd/devenv ./coordinator/devenv/webterm \
		./caddymodule/internal/preview/cmd/preview) || exit 1; \
	if [ -n "$$dead" ]; then echo "only tests call these functions; delete them or call them:"; echo "$$dead"; exit 1; fi

# Each change has a file of its own, so that changes that are made at the same time never conflict.
changelog: ## move what .changes describes into CHANGELOG.md: make changelog VERSION=0.2.0
	@[ -n "$(VERSION)" ] || { echo "name the release: make changelog VERSION=0.2.0"; exit 2; }
	@{ printf '# Changelog\n\n## %s (%s)\n\n' '$(VERSION)' "$$(date -u +%F)"; cat .changes/*.md; \
		sed -e 1,2d -e '/^## Unreleased$$/,+1d' -e 's/^## /\n&/' CHANGELOG.md; } | cat -s >CHANGELOG.new
	@mv CHANGELOG.new CHANGELOG.md && rm .changes/*.md

fmt: ## format the code
	gofmt -w caddymodule coordinator storagejob

clean: ## delete ./caddy; .codehub, the data of make run, stays
	rm -f caddy
