//go:build registry

package registrytest

import (
	"context"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	ggcr "github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/stretchr/testify/require"

	"landfall/appliance/doctor"
	"landfall/appliance/mirror"
	"landfall/appliance/mirror/prover"
	"landfall/appliance/release"
	"landfall/appliance/simulate/registry"
)

// The repositories of a release in the layout of oc-mirror version 2.
const (
	ReleaseImages = "openshift/release-images"
	Release       = "openshift/release"
)

// Site is a mirror with a small release, and the upstream registry of the release.
type Site struct {
	*Registry
	Payload  *registry.Pushed
	Upstream string // host:port of a plain HTTP registry with the release at its original paths
	Images   map[string]v1.Image
}

// NewSite starts a registry and fills it in the layout of oc-mirror version 2.
func NewSite(t testing.TB) *Site {
	t.Helper()
	upstream := httptest.NewServer(ggcr.New(ggcr.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(upstream.Close)
	s := &Site{Registry: Start(t, Options{}), Upstream: strings.TrimPrefix(upstream.URL, "http://"),
		Images: map[string]v1.Image{}}
	var err error
	s.Payload, err = registry.PushPayload(t.Context(), s.Upstream,
		registry.Payload{Faults: registry.PayloadFaults{NoInstaller: true}})
	require.NoError(t, err)
	for tag := range s.Payload.Images {
		s.Images[tag] = s.pulled(t, fmt.Sprintf("%s/%s:%s-x86_64-%s", s.Upstream, Release, s.Payload.Version, tag))
		s.pushUpstream(t, s.Images[tag], "openshift-release-dev/ocp-v4.0-art-dev:"+tag)
		s.Fill(t, tag)
	}
	s.Images["release"] = s.pulled(t, fmt.Sprintf("%s/%s:%s-x86_64", s.Upstream, ReleaseImages, s.Payload.Version))
	s.pushUpstream(t, s.Images["release"], "openshift-release-dev/ocp-release:release")
	s.Fill(t, "release")
	return s
}

func (s *Site) pulled(t testing.TB, ref string) v1.Image {
	t.Helper()
	parsed, err := name.ParseReference(ref, name.Insecure)
	require.NoError(t, err)
	image, err := remote.Image(parsed)
	require.NoError(t, err)
	return image
}

// pushUpstream pushes an image to the upstream registry.
func (s *Site) pushUpstream(t testing.TB, image v1.Image, path string) {
	t.Helper()
	ref, err := name.ParseReference(s.Upstream+"/"+path, name.Insecure)
	require.NoError(t, err)
	require.NoError(t, remote.Write(ref, image))
}

// Fill pushes an image of the release, or "release" itself, to its place in the mirror.
func (s *Site) Fill(t testing.TB, tag string) {
	t.Helper()
	path := fmt.Sprintf("%s:%s-x86_64-%s", Release, s.Payload.Version, tag)
	if tag == "release" {
		path = fmt.Sprintf("%s:%s-x86_64", ReleaseImages, s.Payload.Version)
	}
	ref := s.Ref(t, path)
	layers, err := s.Images[tag].Layers()
	require.NoError(t, err)
	for _, layer := range layers { // remote.Write pushes no layers if the manifest exists
		require.NoError(t, remote.WriteLayer(ref.Context(), layer, s.Remote()...))
	}
	require.NoError(t, remote.Write(ref, s.Images[tag], s.Remote()...))
}

// Digest returns the digest of an image of the release.
func (s *Site) Digest(t testing.TB, tag string) string {
	t.Helper()
	digest, err := s.Images[tag].Digest()
	require.NoError(t, err)
	return digest.String()
}

// MirrorSets returns a manifest like those in oc-mirror's cluster-resources: rules by digest from
// each source to a repository of the mirror.
func (s *Site) MirrorSets(kind string, rules map[string]string) []byte {
	list := map[string]string{"ImageDigestMirrorSet": "imageDigestMirrors",
		"ImageTagMirrorSet": "imageTagMirrors"}[kind]
	text := "---\napiVersion: config.openshift.io/v1\nkind: " + kind + "\nmetadata:\n  name: release-0\nspec:\n  " +
		list + ":\n"
	for source, repository := range rules {
		text += fmt.Sprintf("  - source: %s\n    mirrors: [%s/%s]\n", source, s.Host, repository)
	}
	return []byte(text)
}

// Source repositories of a release.
const (
	ReleaseSource   = "quay.io/openshift-release-dev/ocp-release"
	ComponentSource = "quay.io/openshift-release-dev/ocp-v4.0-art-dev"
)

// Rules returns rules with a CA bundle: the given sets, or by default those of oc-mirror.
func (s *Site) Rules(t testing.TB, ca []byte, sets ...[]byte) *mirror.Rules {
	t.Helper()
	if sets == nil {
		sets = [][]byte{s.MirrorSets("ImageDigestMirrorSet", map[string]string{ReleaseSource: ReleaseImages,
			ComponentSource: Release})}
	}
	sources := mirror.Sources{CABundle: []mirror.Document{{Name: "ca.pem", Data: ca}}}
	for _, set := range sets {
		sources.MirrorSets = append(sources.MirrorSets, mirror.Document{Name: "idms-oc-mirror.yaml", Data: set})
	}
	rules, err := mirror.Parse(sources)
	require.NoError(t, err)
	return rules
}

// Prove proves the release with rules and a password, as the appliance does.
func (s *Site) Prove(t testing.TB, rules *mirror.Rules, password string) *prover.Report {
	t.Helper()
	report, err := s.Prover(t, rules, password)(t.Context())
	require.NoError(t, err)
	return &report.Report
}

// Prover returns a prover and the request for the release with rules and a password.
func (s *Site) Prover(t testing.TB, rules *mirror.Rules,
	password string) func(context.Context) (*prover.ReleaseReport, error) {
	t.Helper()
	secret, err := mirror.ParsePullSecret(s.PullSecret(password))
	require.NoError(t, err)
	client := mirror.NewClient(rules, mirror.ClientOptions{})
	t.Cleanup(client.CloseIdleConnections)
	library, err := release.New(release.Options{Mirror: client, CacheDir: t.TempDir(), Logger: discard()})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, library.Close()) })
	return func(ctx context.Context) (*prover.ReleaseReport, error) {
		return prover.Release(ctx, prover.New(prover.Options{Client: client}), library, prover.ReleaseRequest{
			PullSpec: s.Payload.Release, Architecture: "x86_64", Secret: secret,
		}, nil)
	}
}

// Diagnose runs the doctor's checks of the mirror. It returns the failed results about registries
// and images as "area subject: result". It omits checks that could not run because of another
// reported result.
func (s *Site) Diagnose(t testing.TB, rules *mirror.Rules, password string) []string {
	t.Helper()
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(rules.CABundle())
	report := doctor.Doctor{}.Diagnose(t.Context(), &doctor.Site{
		Registries: []doctor.Registry{{Host: s.Host}}, Authorities: trusted, Holes: rules.Holes(),
		MirroredReleases: []doctor.MirroredRelease{{Name: s.Payload.Version, Prove: s.Prover(t, rules, password)}},
	})
	red := []string{}
	for _, finding := range report.Findings {
		if finding.Status == doctor.Red || finding.Status == doctor.Amber && finding.Area != doctor.Clocks {
			require.NotEmpty(t, finding.Advice, "%v", finding)
			red = append(red, finding.Area+" "+finding.Subject+": "+finding.Result)
		}
	}
	return red
}

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }
