package hosts

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/stretchr/testify/require"

	"landfall/appliance/access/machine"
	"landfall/appliance/engine"
	"landfall/appliance/kube/controller"
	"landfall/appliance/kube/kubetest"
	"landfall/appliance/mirror"
	"landfall/appliance/release"
)

// testSite is a site with the controllers of hosts. It implements the interfaces of their options.
type testSite struct {
	*kubetest.Site
	*Controllers
	rules     map[ruleSet]*mirror.Import // the present mirror rules
	release   siteReleases
	images    map[string]string      // the state of the requested images by URL; "" is downloaded
	requested map[string]WantedImage // the last request, by URL
	stop      func()                 // stops the loop
	bootURL   string                 // see Projector
	tokens    *machine.Issuer        // nil: machines are not authenticated
}

// ruleSet names a set of mirror rules.
type ruleSet struct {
	level mirror.Level
	name  string
}

func newSite(t testing.TB) *testSite {
	t.Helper()
	return openSite(kubetest.New(t))
}

// openSite opens the engine and the controllers of a site.
func openSite(site *kubetest.Site) *testSite {
	b := &testSite{Site: site}
	b.start()
	return b
}

// start opens the engine and the controllers, and runs the loop.
func (b *testSite) start() {
	b.Helper()
	b.rules, b.images = map[ruleSet]*mirror.Import{}, map[string]string{}
	b.open()
	b.stop = b.Run()
}

// open opens an engine with a projector, and the controllers.
func (b *testSite) open() {
	b.Helper()
	projector := Projector{Objects: b.Site.Objects, URL: kubetest.URL, BootURL: b.bootURL}
	options := b.engineOptions()
	options.Projector, options.Tokens = projector, b.tokens
	b.Open(options)
	b.Controllers = New(Options{Projector: projector, DB: b.Site.DB, Engine: b.Site.Engine, Loop: b.Site.Loop,
		Clock: b.Site.Clock, Mirrors: b, OSImages: b, Images: b})
	b.Site.Loop.Add(b.Reconcilers()...)
}

func (b *testSite) engineOptions() engine.Options {
	return engine.Options{
		Releases: &b.release,
		ReleaseList: []engine.ReleaseImage{
			{OpenshiftVersion: "4.20.8", CPUArchitecture: "x86_64", URL: "quay.io/release:4.20.8", Default: true},
			{OpenshiftVersion: "4.19.9", CPUArchitecture: "x86_64", URL: "quay.io/release:4.19.9"},
			{OpenshiftVersion: "4.20.8", CPUArchitecture: "arm64", URL: "quay.io/release:4.20.8-arm"},
			{OpenshiftVersion: "4.20.8", CPUArchitecture: "s390x", URL: "quay.io/release:4.20.8-s390x"},
		},
	}
}

func (b *testSite) SetMirror(_ context.Context, level mirror.Level, name string, rules *mirror.Import) error {
	if rules == nil {
		delete(b.rules, ruleSet{level, name})
	} else {
		b.rules[ruleSet{level, name}] = rules
	}
	return nil
}

func (b *testSite) FetchImages(_ context.Context, wanted []WantedImage) (waiting []string, fault string, err error) {
	if b.requested == nil {
		b.requested = map[string]WantedImage{}
	}
	for _, image := range wanted {
		b.requested[image.URL] = image
		state, known := b.images[image.URL]
		if !known {
			state = "downloading"
			b.images[image.URL] = state
		}
		switch {
		case strings.HasPrefix(state, "bad"):
			fault = image.URL + ": " + state
		case state != "":
			waiting = append(waiting, image.URL+": "+state)
		}
	}
	return waiting, fault, nil
}

func (b *testSite) Known(version, _ string) bool { return version != "9.99" }

// reconcileAgain reconciles an object as the loop does after its delay, and returns the next delay.
func (b *testSite) reconcileAgain(r controller.Reconciler, name string) time.Duration {
	b.Helper()
	next, err := r.Reconcile(b.Context(), "site", name)
	require.NoError(b, err)
	b.WaitIdle()
	return next
}

// siteReleases serves one release. Its agent's image is found unless err is set.
type siteReleases struct {
	err      error // returned by Payload
	requests atomic.Int64
}

func (r *siteReleases) Payload(_ context.Context, pullSpec, arch string, _ authn.Keychain) (*release.Payload, error) {
	r.requests.Add(1)
	if r.err != nil {
		return nil, r.err
	}
	images := map[string]string{}
	for _, tag := range []string{release.TagInstaller, release.TagAgent, release.TagHostInstaller,
		release.TagController, release.TagMachineConfigOperator, release.TagMustGather} {
		images[tag] = "quay.io/parts/" + tag + "@sha256:" + strings.Repeat("a", 64)
	}
	return &release.Payload{PullSpec: pullSpec, Image: "quay.io/release@sha256:" + strings.Repeat("b", 64),
		Version: "4.20.8", Architecture: arch, Images: images}, nil
}

func (r *siteReleases) Installer(context.Context, *release.Payload, authn.Keychain,
	func(done, total int64)) (*release.Installer, func(), error) {
	return &release.Installer{Path: "/nowhere/openshift-install"}, func() {}, nil
}

func (r *siteReleases) Generate(context.Context, *release.Installer,
	release.GenerateRequest) (*release.Generated, error) {
	return nil, fmt.Errorf("these tests install no cluster")
}
