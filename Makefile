# make run    build everything and start the demo: http://127.0.0.1:8090
# make test   build everything and run all tests; installs the browser and the emulator they need
# make dist   build what a site installs into dist: programs, packages, images, checksums
# make docs   generate docs/lifecycle.md, operators.md, validations.md and steps.md from the engine,
#             docs/values.md from the API, docs/readings.md and docs/metrics.md from an appliance,
#             and the tables in docs/security.md and docs/operations.md; list all sentences of the
#             program and the page in docs/sentences
# Other targets: the parts of test, and lint, bench, crds, clean.

VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
LDFLAGS := -s -w -X landfall/appliance/command.version=$(VERSION)
UI      := web/ui
SOURCES := $(shell git ls-files $(UI) README.md 'docs/*.md' 2>/dev/null | grep -v -e '/test/' -e '/e2e/')

# The program, the tests and the checks use the same flags, so that dependencies are compiled only
# once for all of them, and a second time for the race detector. A command's own -tags replaces this
# one, so such commands repeat TAGS. grpcnotrace omits gRPC's debug pages, which the program does
# not serve, and their dependencies. No command needs the debugger's data (DWARF), whose generation
# is a seventh of the time of compiling.
TAGS := grpcnotrace
export GOFLAGS := -trimpath -gcflags=all=-dwarf=false -tags=$(TAGS)

.PHONY: build run docs lint lint-go lint-ui bench crds clean dist dist-check FORCE
.PHONY: test test-tools test-go test-race test-plain test-modules test-load test-walks test-kills test-bmcs
.PHONY: test-boot test-mirror test-directory test-tpm test-network test-site test-packages test-fleet test-ui
.PHONY: test-e2e screenshots lighthouse

build: bin/landfall

run: build
	bin/landfall demo

# FORCE runs go build each time; the Go toolchain compiles only the changed packages.
bin/landfall: assets/ui/index.html FORCE
	CGO_ENABLED=0 go build -ldflags '$(LDFLAGS)' -o $@ .

FORCE:

# The programs of all targets are in bin/dist. The time of the commit is the time of all files.
TARGETS := linux-amd64 linux-arm64 darwin-arm64
EPOCH = $(or $(SOURCE_DATE_EPOCH),$(shell git log -1 --format=%ct))
dist: bin/landfall $(TARGETS:%=bin/dist/landfall-%)
	cd packaging && CGO_ENABLED=0 go run . -version $(VERSION) -epoch $(EPOCH)

bin/dist/landfall-%: assets/ui/index.html FORCE
	GOOS=$(firstword $(subst -, ,$*)) GOARCH=$(lastword $(subst -, ,$*)) CGO_ENABLED=0 \
		go build -ldflags '$(LDFLAGS)' -o $@ .

# Builds everything twice: here, and in a clone in another directory without the build cache.
dist-check:
	@git diff --quiet HEAD || { echo "dist-check: a clone lacks your changes; commit them first" >&2; exit 1; }
	$(MAKE) dist
	clone=$$(mktemp -d) && trap 'chmod -R u+w "$$clone"; rm -rf "$$clone"' EXIT && \
		git clone -q . "$$clone/other" && \
		GOCACHE="$$clone/cache" $(MAKE) -C "$$clone/other" dist && \
		diff dist/SHA256SUMS "$$clone/other/dist/SHA256SUMS"

assets/ui/index.html: $(UI)/node_modules/.package-lock.json $(SOURCES)
	LANDFALL_VERSION=$(VERSION) npm --prefix $(UI) run build
	touch $@

$(UI)/node_modules/.package-lock.json: $(UI)/package.json $(UI)/package-lock.json
	npm --prefix $(UI) ci --no-audit --no-fund
	touch $@

# Two of these run at a time, the longest first, because many tests wait: for browsers, emulated
# machines and disks. Some need the packages of others too: mtools and xorriso.
test: test-tools bin/landfall
	$(MAKE) --jobs 2 --old-file bin/landfall test-race test-e2e test-boot test-plain test-walks test-mirror \
		test-site test-modules test-packages test-bmcs test-ui test-network test-fleet test-tpm test-directory

# The Debian packages for the tests. They are installed first, because only one process can use the
# package manager at a time.
test-tools:
	.ci/install-emulator
	.ci/install-curl
	.ci/install-registry
	.ci/install-slapd
	.ci/install-swtpm
	.ci/install-networkmanager
	.ci/install-siteclients
	.ci/install-debianroot
	.ci/install-etcd
	.ci/install-browser

# Tests that run without the race detector, which makes them several times slower: tests that send
# one request at a time, run one command at a time or have one goroutine, tests that run kubectl or
# kill processes, and installations of more kinds of clusters. Their goroutines meet with the
# detector in ABI_importInstallExport, Auth_installation, Demo_installsClusterAndExits,
# ManifestsOfSite_applyInstallTakeOver, Registry_rehearsesFromOneArchive, Run_weekHoldsInvariants.
REQUESTS := BadInput_.*|Robustness_.*|Paths_otherSpellingsOpenNothing|Roles_onAllRoutes|Readings_agree|Kubectl_.*
OPERATIONS := Operations_(documentedResponses|fieldsMatchSchema|randomRequests|readsShowNoSecrets)
FAULTS := InstallerError_isOneEvent|BadMirror_namedAtInstallAndRetried|FullDisk_.*
DAMAGE := (Damage|Follower)_(eachRowAffectsOnlyItself|randomDamageIsNeverServed)|Open_damagedPageIsLeftBehind
KILLS := Installation_survives(EveryKill|Stop)|Hub_consistentAfterEveryKill|DataKey_rotationSurvivesKills|PowerCut_.*
COMMANDS := Equality_documentIsCurrent|Lines_fromNothingToCluster|Verbs_againstDemo|Manual_.*|Kubeconfig_installedCluster
MODELS := RandomWalks|Model_failuresAndReopening|Collect_manyNames|Endpoints_agreeWithANaiveModel
ROWS := Lifecycles|Rendered_equalsStoredRow|Pages_namedTestsExist
CLUSTERS := Topologies_.*|ABI_topologies|BMC_installsServer|Secrets_noneAfterAnInstallation
HOSTED := Hosted_hostsOfApplianceBecomeWorkers
SITES := Hub_(installsSitesFromManifests|documentedSamples)|Rehearsal_leavesNothing
REGISTRY := Registry_(installsInNamespace|mediumReturnsDuringInstallation)
WEEKS := Run_(busySiteStaysWithinLimits|hostedClustersAgreeAtTheEnd)|Flood_logins
EXCEPT := $(REQUESTS)|$(OPERATIONS)|$(FAULTS)|$(DAMAGE)|$(KILLS)|$(COMMANDS)|$(MODELS)|$(ROWS)
NO_RACE := ^Test($(EXCEPT)|$(CLUSTERS)|$(HOSTED)|$(SITES)|$(REGISTRY)|$(WEEKS))$$

REPEAT := -timeout 20m
test-go: test-race test-plain test-modules

# The Go tests ten times in a row beside two busy loops. It finds tests that need a fast machine. It
# takes more than an hour, so it is no part of test.
RUNS := 10
test-load: assets/ui/index.html
	yes >/dev/null & first=$$!; yes >/dev/null & trap "kill $$first $$!" EXIT; \
		$(MAKE) --keep-going --jobs 2 test-race test-plain REPEAT='-timeout 4h -count $(RUNS)'; exit $$?

# Only the race detector needs a C compiler. A program with it waits for a second before it exits,
# to find races of the remaining goroutines. No goroutines of these tests remain at the exit, so the
# wait is disabled. The target lint runs vet.
test-race: assets/ui/index.html
	GORACE=atexit_sleep_ms=0 CGO_ENABLED=1 go test -race -vet off -ldflags -w $(REPEAT) -skip '$(NO_RACE)' \
		$$(go list ./... | grep -vx landfall)

# The tests of this directory read the sources. They are named as files, because the package would
# be linked with the whole program.
test-plain: assets/ui/index.html
	CGO_ENABLED=0 go test -vet off -ldflags -w $(REPEAT) -run '$(NO_RACE)' ./appliance ./appliance/command \
		./appliance/engine ./appliance/mirror ./appliance/simulate/scenario ./store
	CGO_ENABLED=0 go test -vet off ./*_test.go

# The builder of the packages and other people's programs, such as clients, identity providers and
# CAs, are in separate modules (packaging/go.mod, web/clients/go.mod, web/clients/workagent/go.mod,
# web/clients/conformancetest/go.mod, web/clients/imagetest/go.mod,
# appliance/access/oidctest/go.mod, appliance/authority/acmetest/go.mod). The tag
# containers_image_openpgp builds the library of podman without C.
test-modules: assets/ui/index.html
	cd web/clients && CGO_ENABLED=0 go test -vet off ./...
	cd web/clients/workagent && CGO_ENABLED=0 go test -vet off ./...
	cd appliance/access/oidctest && CGO_ENABLED=0 go test -vet off ./...
	cd appliance/authority/acmetest && CGO_ENABLED=0 go test -vet off ./...
	cd web/clients/conformancetest && CGO_ENABLED=0 go test -vet off ./...
	cd web/clients/imagetest && GOFLAGS='$(GOFLAGS),containers_image_openpgp' CGO_ENABLED=0 go test -vet off ./...
	cd packaging && CGO_ENABLED=0 go test -vet off ./...

# Ten thousand random walks over the state machines, with a list of the executed transitions; 2,500
# histories reported to AMS over a faulty connection; ten thousand clusters reported to AMS; 1,200
# histories of an appliance and a management cluster; 1,000 removals of the registry's medium.
test-walks:
	CGO_ENABLED=0 go test ./appliance/engine -count 1 -v -run '^TestRandomWalks$$' -walks 10000
	CGO_ENABLED=0 go test ./appliance/ams -count 1 -run '^TestRelay_randomFaultsConverge$$' -walks 2500
	CGO_ENABLED=0 go test ./appliance/ams -count 1 -run '^TestRelay_manyClusters$$' -clusters 10000
	CGO_ENABLED=0 go test ./appliance/hosted/maestro -count 1 -run '^TestHistories_random$$' -histories 1200
	CGO_ENABLED=0 go test ./web/registry -count 1 -run '^TestRemovals_random$$' -removals 1000

# 1,000 kills of an appliance with a replica. It takes minutes, so it is no part of test, which has
# 30 of them.
test-kills:
	CGO_ENABLED=0 go test ./appliance/replica -count 1 -timeout 30m -run '^TestReplica_randomKills$$' -kills 1000

# Every simulated fault of BMCs with the profile of every vendor.
test-bmcs:
	CGO_ENABLED=0 go test -tags $(TAGS),redfish -run '^TestFaults$$' ./appliance/bmc

test-boot: bin/landfall
	.ci/install-emulator
	@tags=boot; if [ -x /usr/sbin/libvirtd ] && command -v virsh >/dev/null; then tags=boot,libvirt; \
		else echo "test-boot: libvirt is missing; the machine behind a BMC is QEMU without it" >&2; fi; \
	set -x; \
	CGO_ENABLED=0 go test -tags $(TAGS),$$tags ./isogen/boottest/...

# Mirror proofs and couriers with a real registry, Debian's docker-registry, and the appliance's
# registry with Debian's skopeo and podman, and the hand-over from this to that.
test-mirror: assets/ui/index.html
	.ci/install-registry
	CGO_ENABLED=0 go test -tags $(TAGS),registry ./appliance/mirror/registrytest/...
	CGO_ENABLED=0 go test -tags $(TAGS),registry ./web/registry -run '^Test(Skopeo|Podman)_'
	CGO_ENABLED=0 go test -tags $(TAGS),registry ./appliance -run '^TestHandOver_applianceIsSwitchedOff$$'

# Logins with a real LDAP directory, Debian's slapd.
test-directory:
	.ci/install-slapd
	CGO_ENABLED=0 go test -tags $(TAGS),slapd ./appliance/access/ldaptest

# Data keys sealed with an emulated TPM, Debian's swtpm.
test-tpm:
	.ci/install-swtpm
	CGO_ENABLED=0 go test -tags $(TAGS),tpm ./appliance/keyring

# Keyfiles with a real NetworkManager. If network namespaces are not permitted, NetworkManager is
# not started, and a message reports this.
NAMESPACES := $(if $(filter 0,$(shell id -u)),,--user --map-root-user) --net --mount
test-network:
	.ci/install-networkmanager
	CGO_ENABLED=0 go test -tags $(TAGS),networkmanager ./ignition/networkmanagertest
	@if unshare $(NAMESPACES) true; then \
		CGO_ENABLED=0 go test -tags $(TAGS),networkmanager,namespaces -run '^TestNetworkManagerStarts' \
			./ignition/networkmanagertest; \
	else \
		echo "test-network: network namespaces are not permitted; NetworkManager was not started" >&2; \
	fi

# The services of the site with Debian's udhcpc, dig, chronyd, tftp and dnsmasq, a site of one
# stick, and a disk that hangs. If namespaces are not permitted, a message reports this.
test-site:
	.ci/install-siteclients
	CGO_ENABLED=0 go test -tags $(TAGS),siteclients ./appliance/siteservice/clienttest ./appliance/fleet/virtualip
	CGO_ENABLED=0 go test -tags $(TAGS),siteclients ./appliance \
		-run '^Test(Registry_aloneInItsNetwork|Installation_survivesHungDisk)$$'

# The deb package and landfall service on a Debian system with systemd, in namespaces. Only root can
# make such a system; otherwise a message reports this.
test-packages: bin/landfall
	.ci/install-debianroot
	@if [ "$$(id -u)" = 0 ] && unshare --pid --fork --mount --net --cgroup mount -t proc proc /proc 2>/dev/null; then \
		cd packaging && CGO_ENABLED=0 go test -vet off -tags $(TAGS),systemd .; \
	else \
		echo "test-packages: only root can start systemd in namespaces; packages were not installed" >&2; \
	fi

# Fleets with Debian's etcd: the log with faults and with random histories; members whose leaders
# are killed, paused and cut off 200 times during installations. The histories of their clients are
# checked for linearizability.
test-fleet: assets/ui/index.html
	.ci/install-etcd
	CGO_ENABLED=0 go test -tags $(TAGS),etcd ./appliance/fleet/sequence ./appliance/fleet/membership \
		./appliance/command/member
	CGO_ENABLED=0 go test -tags $(TAGS),etcd -timeout 40m -run '^TestFleet' ./appliance

test-ui: assets/ui/index.html
	npm --prefix $(UI) test

test-e2e: bin/landfall
	.ci/install-browser
	.ci/install-emulator
	npm --prefix $(UI) run e2e

# The main pages in three widths and two themes, for a look: screenshots/page-*.png, and all of them
# in screenshots/pages.tar; and the pictures of the README: docs/page*.png
screenshots: bin/landfall
	.ci/install-browser
	cd $(UI) && SCREENSHOTS=$(CURDIR)/screenshots node --test e2e/screenshots.mjs
	cd screenshots && tar -cf pages.tar page-*.png

# A table of Lighthouse's figures for every page. The machine should do nothing else.
lighthouse: bin/landfall
	.ci/install-browser
	node $(UI)/e2e/lighthouse.mjs

lint:
	$(MAKE) --jobs 2 lint-go lint-ui

# go vet checks all dependencies again for each other value of its own flag -tags, but not for other
# tags in GOFLAGS. With GOGC, the checks need less time and more memory.
TEST_TAGS := boot,libvirt,redfish,registry,slapd,tpm,networkmanager,namespaces,siteclients,etcd
lint-go: export GOGC := 400
lint-go: assets/ui/index.html
	@files=$$(git ls-files '*.go' | xargs gofmt -l); \
		if [ -n "$$files" ]; then echo "gofmt would change:"; echo "$$files"; exit 1; fi
	CGO_ENABLED=0 go vet ./...
	GOFLAGS='$(GOFLAGS),boot' CGO_ENABLED=0 go vet ./isogen/boottest/...
	GOFLAGS='$(GOFLAGS),$(TEST_TAGS)' CGO_ENABLED=0 go vet ./...
	CGO_ENABLED=0 go tool staticcheck ./...
	CGO_ENABLED=0 go test -vet off -count 1 -run '^Test(Columns|Names|Commands)' ./*_test.go
	go mod tidy -diff
	cd web/clients && CGO_ENABLED=0 go vet ./... && go mod tidy -diff
	cd web/clients/workagent && CGO_ENABLED=0 go vet ./... && go mod tidy -diff
	cd web/clients/conformancetest && CGO_ENABLED=0 go vet ./... && go mod tidy -diff
	cd web/clients/imagetest && GOFLAGS='$(GOFLAGS),containers_image_openpgp' CGO_ENABLED=0 go vet ./...
	cd web/clients/imagetest && go mod tidy -diff
	cd appliance/access/oidctest && CGO_ENABLED=0 go vet ./... && go mod tidy -diff
	cd appliance/authority/acmetest && CGO_ENABLED=0 go vet ./... && go mod tidy -diff
	cd packaging && CGO_ENABLED=0 go vet ./... && go mod tidy -diff
	cd packaging && GOFLAGS='$(GOFLAGS),systemd' CGO_ENABLED=0 go vet ./...

lint-ui: $(UI)/node_modules/.package-lock.json
	npm --prefix $(UI) run lint
	npm --prefix $(UI) run typecheck

docs: $(UI)/node_modules/.package-lock.json
	CGO_ENABLED=0 go test ./appliance/engine/lifecycle -count 1 -run '^TestLifecyclePage$$' -update
	CGO_ENABLED=0 go test ./appliance/engine/operator -count 1 -run '^TestOperatorsPage$$' -update
	CGO_ENABLED=0 go test ./appliance/engine/validation -count 1 -run '^TestValidationsPage_isUpToDate$$' -update
	CGO_ENABLED=0 go test ./appliance/engine/steps -count 1 -run '^TestStepsPage_isUpToDate$$' -update
	CGO_ENABLED=0 go test ./web/api/openapi -count 1 -run '^TestValuesPage_isUpToDate$$' -update
	CGO_ENABLED=0 go test ./appliance -count 1 \
		-run '^TestSecurityPage_listsAllOperations$$|^TestReadings_agree$$|^TestMetrics_catalogueIsUpToDate$$' -update
	CGO_ENABLED=0 go test ./appliance/config -count 1 -run '^TestGrowth_tableIsCurrent$$' -update
	CGO_ENABLED=0 go test ./appliance/command -count 1 -run '^TestManual_documentIsCurrent$$|^TestEquality_documentIsCurrent$$' -update
	CGO_ENABLED=0 go test . -count 1 -run '^TestSentences_catalogueIsCurrent$$' -update
	cd $(UI) && npx vitest run test/sentences.test.ts -u

bench: assets/ui/index.html
	CGO_ENABLED=0 go test -run '^$$' -bench . ./store ./isogen ./ignition ./web/image ./web/kube \
		./appliance ./appliance/access/... ./appliance/ams ./appliance/release ./appliance/hosted/maestro \
		./appliance/fleet ./appliance/siteservice/... ./appliance/registry/... ./web/registry ./web/maestro ./web/hosted
	.ci/install-registry
	CGO_ENABLED=0 go test -tags $(TAGS),registry -run '^$$' -bench . ./appliance/mirror/registrytest
	CGO_ENABLED=0 go test -tags $(TAGS),registry -run '^$$' -bench FirstImage -benchtime 1x ./web/registry
	.ci/install-etcd
	CGO_ENABLED=0 go test -tags $(TAGS),etcd -run '^$$' -bench . ./appliance/fleet/sequence
	CGO_ENABLED=0 go test -tags $(TAGS),etcd -run '^$$' -bench Fleet -timeout 30m ./appliance

# The custom resource definitions of the Kubernetes API, generated from Go packages. If
# controller-gen fails, its output lacks fields, so the target stops.
CRD_MODULES := github.com/openshift/hive/apis \
	github.com/openshift/assisted-service/api \
	github.com/metal3-io/baremetal-operator/apis \
	open-cluster-management.io/api
CRD_PACKAGES := github.com/openshift/hive/apis/hive/v1 \
	github.com/openshift/assisted-service/api/hiveextension/v1beta1 \
	github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1 \
	open-cluster-management.io/api/cluster/v1 \
	landfall/appliance/kube/objects/addon \
	landfall/appliance/kube/objects/agentinstall
crds:
	rm -rf bin/crds && mkdir -p bin/crds
	cd web/kube/crds/generate && go mod tidy && \
		CGO_ENABLED=0 go tool controller-gen crd:crdVersions=v1,allowDangerousTypes=true \
		$(addprefix paths=,$(CRD_PACKAGES)) output:crd:dir=$(CURDIR)/bin/crds
	cd web/kube/crds/generate && CGO_ENABLED=0 go run . $(CURDIR)/bin/crds ../crds.json.gz
	for m in $(CRD_MODULES); do \
		go list -m -f '{{.Path}} {{with .Replace}}{{.Version}}{{else}}{{.Version}}{{end}}' $$m; \
	done > web/kube/crds/sources.txt
	sha256sum appliance/kube/objects/addon/*.go appliance/kube/objects/agentinstall/*.go >> web/kube/crds/sources.txt

clean:
	rm -rf bin dist $(UI)/node_modules
	find assets/ui -mindepth 1 ! -name .keep -delete
