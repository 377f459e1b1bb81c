# make run    build everything and rehearse an installation: the page is at http://127.0.0.1:8090
# make test   build everything and run every test, with the browser and the emulator that they need
# make docs   write docs/lifecycle.md, operators.md, validations.md and steps.md anew from the engine
# The other targets are the parts of these, and: lint, bench, crds, clean.

VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
LDFLAGS := -s -w -X landfall/appliance/command.version=$(VERSION)
UI      := web/ui
SOURCES := $(shell git ls-files $(UI) 2>/dev/null | grep -v -e '/test/' -e '/e2e/')

# The program, the tests and the checks are compiled with the same flags, so that what they depend on is compiled once for all of them, and
# once more for the race detector. A -tags of a command takes the place of the one here, so it names TAGS again.
# grpcnotrace leaves out gRPC's pages for its developers, which nobody serves here, and what only they need.
TAGS := grpcnotrace
export GOFLAGS := -trimpath -tags=$(TAGS)

.PHONY: build run docs test test-go test-walks test-bmcs test-tools test-boot test-mirror test-network test-ui test-e2e lint lint-go lint-ui bench crds clean FORCE

build: bin/landfall

run: build
	bin/landfall demo

# The Go toolchain knows best what of it is out of date.
bin/landfall: assets/ui/index.html FORCE
	CGO_ENABLED=0 go build -ldflags '$(LDFLAGS)' -o $@ .

FORCE:

assets/ui/index.html: $(UI)/node_modules/.package-lock.json $(SOURCES)
	LANDFALL_VERSION=$(VERSION) npm --prefix $(UI) run build
	touch $@

$(UI)/node_modules/.package-lock.json: $(UI)/package.json $(UI)/package-lock.json
	npm --prefix $(UI) ci --no-audit --no-fund
	touch $@

# Browsers and emulated machines wait more than they work, so they share the machine.
test: test-go test-walks test-bmcs test-tools bin/landfall
	$(MAKE) --jobs 2 --old-file bin/landfall test-e2e test-boot test-mirror test-network test-ui

# What they need from Debian, beforehand: the package manager serves one at a time.
test-tools:
	.ci/install-emulator
	.ci/install-registry
	.ci/install-networkmanager
	.ci/install-browser

# The race detector is the only thing here that needs a C compiler. A program that it watches waits a second before it ends, for races of those
# who go on until then; these tests have waited for everybody by then, and start many programs. Vet is lint's, and what a debugger reads is left out.
test-go: assets/ui/index.html
	GORACE=atexit_sleep_ms=0 CGO_ENABLED=1 go test -race -vet off -ldflags -w -timeout 20m ./...

# Ten thousand random walks over the state machines, and which transitions they took; thousands of histories told to AMS
# over a line where everything goes wrong.
test-walks:
	CGO_ENABLED=0 go test ./appliance/engine -count 1 -v -run '^TestRandomWalks$$' -walks 10000
	CGO_ENABLED=0 go test ./appliance/ams -count 1 -run '^TestRelay_randomFaultsConverge$$' -walks 2500
	CGO_ENABLED=0 go test ./appliance/ams -count 1 -run '^TestRelay_manyClusters$$' -clusters 10000

# Every fault of BMCs with every vendor's profile.
test-bmcs:
	CGO_ENABLED=0 go test -tags $(TAGS),redfish -run TestEveryFault ./appliance/bmc

test-boot: bin/landfall
	.ci/install-emulator
	@tags=boot; if [ -x /usr/sbin/libvirtd ] && command -v virsh >/dev/null; then tags=boot,libvirt; else \
		echo "test-boot: no libvirt here; the machine behind a BMC is QEMU's alone" >&2; fi; set -x; \
	CGO_ENABLED=0 go test -tags $(TAGS),$$tags ./isogen/boottest/...

# The prover against a real registry: what make test-go can't build, because it needs Debian's docker-registry.
test-mirror: assets/ui/index.html
	.ci/install-registry
	CGO_ENABLED=0 go test -tags $(TAGS),registry ./appliance/mirror/registrytest/...

# Keyfiles against a real NetworkManager. Where nobody may make network namespaces, none is started, and it says so.
NAMESPACES := $(if $(filter 0,$(shell id -u)),,--user --map-root-user) --net --mount
test-network:
	.ci/install-networkmanager
	CGO_ENABLED=0 go test -tags $(TAGS),networkmanager ./ignition/networkmanagertest
	@if unshare $(NAMESPACES) true; then \
		CGO_ENABLED=0 go test -tags $(TAGS),networkmanager,namespaces -run '^TestNetworkManagerStarts' ./ignition/networkmanagertest; \
	else \
		echo "test-network: no network namespaces here; no NetworkManager was started" >&2; \
	fi

test-ui: assets/ui/index.html
	npm --prefix $(UI) test

test-e2e: bin/landfall
	.ci/install-browser
	.ci/install-emulator
	npm --prefix $(UI) run e2e

lint: lint-go lint-ui

lint-go: assets/ui/index.html
	@files=$$(git ls-files '*.go' | xargs gofmt -l); \
		if [ -n "$$files" ]; then echo "gofmt would change:"; echo "$$files"; exit 1; fi
	CGO_ENABLED=0 go vet ./...
	CGO_ENABLED=0 go vet -tags $(TAGS),boot ./isogen/boottest/...
	CGO_ENABLED=0 go vet -tags $(TAGS),boot,libvirt ./isogen/boottest/...
	CGO_ENABLED=0 go vet -tags $(TAGS),registry ./appliance/mirror/registrytest/...
	CGO_ENABLED=0 go vet -tags $(TAGS),networkmanager,namespaces ./ignition/networkmanagertest
	CGO_ENABLED=0 go tool staticcheck ./...
	go mod tidy -diff

lint-ui: $(UI)/node_modules/.package-lock.json
	npm --prefix $(UI) run lint
	npm --prefix $(UI) run typecheck

docs:
	CGO_ENABLED=0 go test ./appliance/engine/lifecycle -count 1 -run '^TestLifecyclePage$$' -update
	CGO_ENABLED=0 go test ./appliance/engine/operator -count 1 -run '^TestOperatorsPage$$' -update
	CGO_ENABLED=0 go test ./appliance/engine/validation -count 1 -run '^TestValidationsPage_isUpToDate$$' -update
	CGO_ENABLED=0 go test ./appliance/engine/steps -count 1 -run '^TestStepsPage_isUpToDate$$' -update

bench: assets/ui/index.html
	CGO_ENABLED=0 go test -run '^$$' -bench . ./store ./isogen ./ignition ./web/image ./appliance/ams ./appliance ./appliance/release ./web/kube
	.ci/install-registry
	CGO_ENABLED=0 go test -tags $(TAGS),registry -run '^$$' -bench . ./appliance/mirror/registrytest

# The resource definitions of the Kubernetes API, from the Go modules that define them. controller-gen leaves fields out when it fails, so
# its exit status counts.
CRD_MODULES := github.com/openshift/hive/apis github.com/openshift/assisted-service/api github.com/metal3-io/baremetal-operator/apis open-cluster-management.io/api
CRD_PACKAGES := github.com/openshift/hive/apis/hive/v1 github.com/openshift/assisted-service/api/hiveextension/v1beta1 \
	github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1 open-cluster-management.io/api/cluster/v1 \
	landfall/appliance/kube/objects/addon landfall/appliance/kube/objects/agentinstall
crds:
	rm -rf bin/crds && mkdir -p bin/crds
	cd web/kube/crds/generate && go mod tidy && CGO_ENABLED=0 go tool controller-gen crd:crdVersions=v1,allowDangerousTypes=true \
		$(addprefix paths=,$(CRD_PACKAGES)) output:crd:dir=$(CURDIR)/bin/crds
	cd web/kube/crds/generate && CGO_ENABLED=0 go run . $(CURDIR)/bin/crds ../crds.json.gz
	for m in $(CRD_MODULES); do go list -m -f '{{.Path}} {{with .Replace}}{{.Version}}{{else}}{{.Version}}{{end}}' $$m; done > web/kube/crds/sources.txt
	sha256sum appliance/kube/objects/addon/*.go appliance/kube/objects/agentinstall/*.go >> web/kube/crds/sources.txt

clean:
	rm -rf bin $(UI)/node_modules
	find assets/ui -mindepth 1 ! -name .keep -delete
