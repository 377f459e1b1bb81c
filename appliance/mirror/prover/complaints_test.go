package prover_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/stretchr/testify/require"

	"landfall/appliance/mirror"
	"landfall/appliance/mirror/prover"
	"landfall/appliance/release"
)

// The tests in this file cover the most frequent complaints about mirrors, each with its message.

func TestProof_indexCopiedForOneArchitecture(t *testing.T) {
	f := newFakeRegistry(t)
	f.instead = func(w http.ResponseWriter, r *http.Request) bool {
		switch r.URL.Path {
		case "/v2/team/app/tags/list":
			_, err := fmt.Fprint(w,
				`{"name":"team/app","tags":["sha256-77.sig","4.19.3-x86_64-cli","4.19.3-x86_64-etcd"]}`)
			require.NoError(t, err)
		case "/v2/team/app/manifests/4.19.3-x86_64-etcd":
			w.Header().Set("Docker-Content-Digest", digestOf(f.manifest))
		default:
			return false
		}
		return true
	}
	list := "sha256:" + strings.Repeat("7", 64)
	p := newProver(t, rulesTo(t, f.host+"/team/app"), prover.Options{})
	report := prove(t, p, prover.Request{Images: []prover.Image{{Ref: source + "@" + list, Names: []string{"etcd"}}}})
	require.Equal(t, prover.MissingManifest, report.Results[0].Status)
	require.Equal(t, f.host+"/team/app has no etcd ("+source+"@"+list+
		"), but its tag 4.19.3-x86_64-etcd has the digest "+
		digestOf(f.manifest)+
		". The digest changes if a list of several architectures is copied for one architecture, or if the image "+
		"is rebuilt; mirror the image by its original digest, with all architectures.", report.Results[0].Text)

	report = prove(t, p, prover.Request{Images: []prover.Image{{Ref: source + "@" + list, Names: []string{"oc"}}}})
	require.Contains(t, report.Results[0].Text, "has no oc ("+source+"@"+list+"); mirror it there.",
		"no tag resembles the name")
}

func TestProof_mirrorThatRejectsThePassword(t *testing.T) {
	f := newFakeRegistry(t)
	f.instead = func(w http.ResponseWriter, r *http.Request) bool {
		if strings.Contains(r.URL.Path, "/first/") {
			w.Header().Set("WWW-Authenticate", `Basic realm="site"`)
			refuse(w, http.StatusUnauthorized, "UNAUTHORIZED")
			return true
		}
		return false
	}
	report := prove(t, newProver(t, rulesTo(t, f.host+"/first/app", f.host+"/second/app"), prover.Options{}),
		one(f.image))
	require.Equal(t, prover.Unauthorized, report.Results[0].Status)
	require.Len(t, report.Faults, 1)
	require.Contains(t, report.Faults[0].Text, f.host+"/first/app answered 401 Unauthorized")
}

// payloads implements prover.Payloads with one release.
type payloads map[string]string

func (p payloads) Payload(_ context.Context, pullSpec, _ string, _ authn.Keychain) (*release.Payload, error) {
	return &release.Payload{PullSpec: pullSpec, Image: pullSpec, Version: "5.0.0", Architecture: "x86_64", Images: p},
		nil
}

func TestProof_osImagesInTheirOwnRepository(t *testing.T) {
	f := newFakeRegistry(t)
	_, digest, _ := strings.Cut(f.image, "@")
	images := payloads{"etcd": f.image, "rhel-coreos": "quay.io/openshift-release-dev/ocp-v4.0-art-dev@" + digest}
	p := newProver(t, rulesTo(t, f.host+"/team/app"), prover.Options{})
	report, err := prover.Release(t.Context(), p, images, prover.ReleaseRequest{PullSpec: f.image,
		Architecture: "x86_64"}, nil)
	require.NoError(t, err)
	require.Equal(t, 1, report.Gaps())
	for _, result := range report.Results {
		if result.Gap() {
			require.Equal(t, []string{"rhel-coreos"}, result.Names)
			require.Equal(t, "The mirror has rhel-coreos (quay.io/openshift-release-dev/ocp-v4.0-art-dev@"+digest+
				") as "+f.host+"/team/app@"+digest+
				", but no rule leads there; add one from quay.io/openshift-release-dev/ocp-v4.0-art-dev to "+f.host+
				"/team/app.", result.Text)
		}
	}
}

func TestProof_pullSecretEntryWithoutPort(t *testing.T) {
	f := newFakeRegistry(t)
	f.instead = func(w http.ResponseWriter, r *http.Request) bool {
		w.Header().Set("WWW-Authenticate", `Basic realm="site"`)
		refuse(w, http.StatusUnauthorized, "UNAUTHORIZED")
		return true
	}
	secret, err := mirror.ParsePullSecret(`{"auths":{"127.0.0.1":{"auth":"dTpw"}}}`)
	require.NoError(t, err)
	request := one(f.image)
	request.Secret = secret
	report := prove(t, newProver(t, rulesTo(t, f.host+"/team/app"), prover.Options{}), request)
	require.Contains(t, report.Faults[0].Text, "the pull secret has no entry for it; add an entry for "+f.host+
		" to the pull secret.")
}
