//go:build registry

package registrytest

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"

	"os"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/stretchr/testify/require"

	"landfall/appliance"
	"landfall/appliance/command"
	"landfall/appliance/config"
	"landfall/appliance/mirror"
	"landfall/appliance/mirror/prover"
	"landfall/appliance/simulate"
	"landfall/appliance/simulate/installer"
	"landfall/appliance/simulate/registry"
)

func TestMain(m *testing.M) {
	installer.Main()
	os.Exit(m.Run())
}

// gap is a gap in the mirror, with the expected results of the prover and the doctor.
type gap struct {
	name     string
	inject   func(*testing.T, *Site)
	rules    func(*testing.T, *Site) *mirror.Rules // nil for the rules of oc-mirror
	password string                                // "" for the right password
	statuses map[string]prover.Status              // expected statuses of images that are not held
	says     []string                              // a part of each expected sentence
	// beginning of the doctor's only red result; "" for none
	red    string
	repair func(*testing.T, *Site)
}

func gaps() []gap {
	lastLayer := func(t *testing.T, s *Site, tag string) string {
		layers, err := s.Images[tag].Layers()
		require.NoError(t, err)
		digest, err := layers[len(layers)-1].Digest()
		require.NoError(t, err)
		return digest.String()
	}
	return []gap{
		{name: "nothing", statuses: map[string]prover.Status{}},
		{name: "a manifest is missing",
			inject:   func(t *testing.T, s *Site) { s.Delete(t, Release, "manifests/"+s.Digest(t, "etcd")) },
			statuses: map[string]prover.Status{"etcd": prover.MissingManifest},
			says:     []string{"/openshift/release has no etcd (" + ComponentSource + "@sha256:"},
			red:      "images image etcd: HOST/openshift/release has no etcd (" + ComponentSource + "@sha256:",
			repair:   func(t *testing.T, s *Site) { s.Fill(t, "etcd") }},
		{name: "a layer is missing",
			inject:   func(t *testing.T, s *Site) { s.Delete(t, Release, "blobs/"+lastLayer(t, s, "must-gather")) },
			statuses: map[string]prover.Status{"must-gather": prover.MissingLayer},
			says:     []string{"/openshift/release has the manifest of must-gather (" + ComponentSource},
			red: "images image must-gather: HOST/openshift/release has the manifest of must-gather (" +
				ComponentSource,
			repair: func(t *testing.T, s *Site) { s.Fill(t, "must-gather") }},
		{name: "the release image is missing",
			inject:   func(t *testing.T, s *Site) { s.Delete(t, ReleaseImages, "manifests/"+s.Digest(t, "release")) },
			statuses: map[string]prover.Status{"release image": prover.MissingManifest},
			says:     []string{"/openshift/release-images has no release image"},
			red:      "images image release image: HOST/openshift/release-images has no release image",
			repair:   func(t *testing.T, s *Site) { s.Fill(t, "release") }},
		{name: "no rule for the components",
			rules: func(t *testing.T, s *Site) *mirror.Rules {
				return s.Rules(t, s.CA, s.MirrorSets("ImageDigestMirrorSet",
					map[string]string{ReleaseSource: ReleaseImages}))
			},
			statuses: everyComponent(prover.NoRule), says: nil,
			red: "images images of " + ComponentSource + ": No rule leads from agent-installer-api-server"},
		{name: "a rule only for tags",
			rules: func(t *testing.T, s *Site) *mirror.Rules {
				return s.Rules(t, s.CA, s.MirrorSets("ImageDigestMirrorSet",
					map[string]string{ReleaseSource: ReleaseImages}),
					s.MirrorSets("ImageTagMirrorSet", map[string]string{ComponentSource: Release}))
			},
			statuses: everyComponent(prover.TagRule), says: nil,
			red: "images images of " + ComponentSource + ": agent-installer-api-server"},
		{name: "a wrong CA",
			rules: func(t *testing.T, s *Site) *mirror.Rules {
				other, _, _ := authority(t, time.Now().Add(time.Hour))
				return s.Rules(t, other)
			},
			statuses: map[string]prover.Status{"release image": prover.BadTLS},
			says: []string{"has a certificate signed by an unknown authority; add the CA that signed the " +
				"certificate of 127.0.0.1:"},
			red: `registries HOST: its certificate is signed by "CN=Site Root", which is not trusted`},
		{name: "a wrong password", password: "wrong",
			statuses: map[string]prover.Status{"release image": prover.Unauthorized},
			says:     []string{"answered 401 Unauthorized"},
			red:      "images HOST/openshift/release-images: HOST/openshift/release-images answered 401 Unauthorized"},
	}
}

func everyComponent(status prover.Status) map[string]prover.Status {
	statuses := map[string]prover.Status{}
	for _, tag := range []string{"agent-installer-api-server", "agent-installer-csr-approver",
		"agent-installer-node-agent", "agent-installer-orchestrator",
		"cli", "cluster-version-operator", "etcd", "installer", "machine-config-operator", "machine-os-images",
		"must-gather", "rhel-coreos"} {
		statuses[tag] = status
	}
	return statuses
}

func TestProof_reportsOnlyTheInjectedGap(t *testing.T) {
	s := NewSite(t)
	for _, g := range gaps() {
		t.Run(g.name, func(t *testing.T) {
			if g.inject != nil {
				g.inject(t, s)
			}
			rules := s.Rules(t, s.CA)
			if g.rules != nil {
				rules = g.rules(t, s)
			}
			password := Password
			if g.password != "" {
				password = g.password
			}
			requireStatuses(t, s.Prove(t, rules, password), g.statuses, g.says)
			requireRed(t, s, s.Diagnose(t, rules, password), g.red)
			if g.repair != nil {
				g.repair(t, s)
				requireStatuses(t, s.Prove(t, s.Rules(t, s.CA), Password), map[string]prover.Status{}, nil)
				requireRed(t, s, s.Diagnose(t, s.Rules(t, s.CA), Password), "")
			}
		})
	}
}

// requireRed checks the beginning of the doctor's only red result.
func requireRed(t *testing.T, s *Site, red []string, begins string) {
	t.Helper()
	if begins == "" {
		require.Empty(t, red)
		return
	}
	require.Len(t, red, 1, "%q", red)
	require.True(t, strings.HasPrefix(red[0], strings.ReplaceAll(begins, "HOST", s.Host)), "%s", red[0])
}

// requireStatuses checks that the report contains exactly these images and sentences.
func requireStatuses(t *testing.T, report *prover.Report, statuses map[string]prover.Status, says []string) {
	t.Helper()
	got, sentences := map[string]prover.Status{}, []string{}
	for _, result := range report.Results {
		if result.Status == prover.Held {
			require.Empty(t, result.Text)
			continue
		}
		got[strings.Join(result.Names, ",")] = result.Status
		if result.Text != "" {
			sentences = append(sentences, result.Text)
		}
	}
	for _, fault := range report.Faults {
		sentences = append(sentences, fault.Text)
	}
	require.Equal(t, statuses, got)
	require.Equal(t, len(statuses) == 0, report.Complete())
	if says == nil && len(statuses) > 0 {
		require.Len(t, sentences, len(statuses))
		return
	}
	require.Len(t, sentences, len(says), "%q", sentences)
	for i := range says {
		require.Contains(t, sentences[i], says[i])
	}
	require.Empty(t, report.Warnings)
}

func TestProof_expiredCertificateIsReportedOnce(t *testing.T) {
	r := Start(t, Options{NotAfter: time.Now().Add(-time.Hour)})
	s := &Site{Registry: r, Payload: &registry.Pushed{Release: ReleaseSource + "@sha256:" +
		strings.Repeat("a", 64)}}
	requireStatuses(t, s.Prove(t, s.Rules(t, r.CA), Password),
		map[string]prover.Status{"release image": prover.BadTLS},
		[]string{"has a certificate that is not valid: x509: certificate has expired or is not yet valid"})
	requireRed(t, s, s.Diagnose(t, s.Rules(t, r.CA), Password), "registries HOST: its certificate expired on ")
}

func TestProof_findsImageOutsideOfTheRules(t *testing.T) {
	s := NewSite(t)
	require.NoError(t, remote.Write(s.Ref(t, "elsewhere/etcd:1"), s.Images["etcd"], s.Remote()...))
	s.Delete(t, Release, "manifests/"+s.Digest(t, "etcd"))
	rules := s.Rules(t, s.CA, s.MirrorSets("ImageDigestMirrorSet", map[string]string{ReleaseSource: ReleaseImages,
		ComponentSource: Release, "quay.io/elsewhere": "elsewhere/etcd"}))
	report := s.Prove(t, rules, Password)
	requireStatuses(t, report, map[string]prover.Status{"etcd": prover.MissingManifest},
		[]string{"but the rules look in " + s.Host + "/openshift/release; correct the rule for " + ComponentSource})
	requireRed(t, s, s.Diagnose(t, rules, Password), "images image etcd: The mirror has etcd (")
}

func TestCourier_closesAllGaps(t *testing.T) {
	s := NewSite(t)
	layers, err := s.Images["must-gather"].Layers()
	require.NoError(t, err)
	layer, err := layers[len(layers)-1].Digest()
	require.NoError(t, err)
	s.Delete(t, Release, "manifests/"+s.Digest(t, "etcd"))
	s.Delete(t, Release, "blobs/"+layer.String())
	dir := t.TempDir()
	write := func(name string, data []byte) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, data, 0o600))
		return path
	}
	settings := config.Default()
	settings.TLS.Enabled = false
	settings.Listen, settings.DataDir = "127.0.0.1:0", filepath.Join(dir, "data")
	settings.URL = []string{"http://192.0.2.10"} // of a proxy, so that the doctor finds that hosts reach it
	settings.Auth = config.AuthNone
	settings.ReleaseImages = []config.ReleaseImage{{OpenshiftVersion: s.Payload.Version, CPUArchitecture: "x86_64",
		URL: s.Payload.Release}}
	live := filepath.Join(dir, "live.iso")
	_, err = simulate.WriteBaseISO(live, simulate.BaseISO{})
	require.NoError(t, err)
	settings.OSImages = []config.OSImage{{OpenshiftVersion: s.Payload.Version, CPUArchitecture: "x86_64", Path: live}}
	settings.Mirror = config.Mirror{CABundle: write("ca.pem", s.CA), PullSecret: write("secret.json",
		[]byte(s.PullSecret(Password))),
		IDMSFiles: []string{write("idms.yaml", s.MirrorSets("ImageDigestMirrorSet",
			map[string]string{ReleaseSource: ReleaseImages, ComponentSource: Release}))}}
	running, err := appliance.New(t.Context(), settings, discard(), "test")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- running.Run(ctx) }()
	t.Cleanup(func() { cancel(); require.NoError(t, <-ended) })
	url, list, carried := running.LocalURL(), filepath.Join(dir, "list.txt"), filepath.Join(dir, "carried")
	upstream := write("registries.conf", fmt.Appendf(nil,
		"[[registry]]\nlocation = \"quay.io\"\nblocked = true\n[[registry.mirror]]\nlocation = %q\ninsecure = true\n",
		s.Upstream))
	run := func(code int, arguments ...string) {
		t.Helper()
		require.Equal(t, code, command.Execute(arguments, fstest.MapFS{}), "landfall %s", strings.Join(arguments, " "))
	}
	fill := func() {
		run(0, "courier", "fill", list, "-o", carried, "--registries-conf", upstream, "--part-size", "64KiB")
	}
	push := func() {
		run(0, "courier", "push", carried, "--to", s.Host, "--ca", settings.Mirror.CABundle, "--pull-secret",
			settings.Mirror.PullSecret)
	}
	diagnose := []string{"doctor", "--url", url}
	prove := []string{"mirror", "prove", "--url", url, "--release", s.Payload.Version, "--fresh"}

	run(1, append(prove, "--list", list)...)
	run(1, diagnose...)
	fill()
	push()
	run(0, prove...)
	run(0, diagnose...)
	run(0, append(prove, "--bytes")...)

	s.Delete(t, ReleaseImages, "manifests/"+s.Digest(t, "release")) // a list that cannot name the other images
	for tag := range s.Payload.Images {
		s.Delete(t, Release, "manifests/"+s.Digest(t, tag))
	}
	run(1, append(prove, "--list", list)...)
	fill()
	push()
	run(0, prove...)

	text, err := os.ReadFile(list)
	require.NoError(t, err)
	write("list.txt", bytes.Replace(text, []byte("ocp-release@"), []byte("ocp-releasf@"), 1))
	run(1, "courier", "fill", list, "-o", carried, "--registries-conf", upstream)
}
