package appliance_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"

	"landfall/appliance/mirror/courier"
	mirrorsite "landfall/appliance/mirror/site"
)

// proofs returns the proofs of an appliance.
func proofs(t *testing.T, address string) []mirrorsite.Proof {
	t.Helper()
	var list struct{ Proofs []mirrorsite.Proof }
	call(t, http.MethodGet, address+mirrorPath+"/proofs", nil).read(t, http.StatusOK, &list)
	return list.Proofs
}

// proveRelease starts a proof and waits for its end.
func proveRelease(t *testing.T, address, release string) *mirrorsite.Proof {
	t.Helper()
	proof := new(mirrorsite.Proof)
	call(t, http.MethodPost, address+mirrorPath+"/proofs", object{"release": release}).read(t, http.StatusAccepted,
		proof)
	eventually(t, "the proof ends", func() bool {
		call(t, http.MethodGet, address+mirrorPath+"/proofs/"+proof.ID, nil).read(t, http.StatusOK, proof)
		return proof.State != mirrorsite.ProofRunning
	})
	return proof
}

func TestMirrorGaps_blockInstallUntilAccepted(t *testing.T) {
	s, g := newProxiedSite(t)
	_, etcd, _ := strings.Cut(s.release.Images["etcd"], "@")
	address, _ := s.start(t)
	id := s.readyCluster(t, address, pullSecret, pullSecret)
	eventually(t, "the mirror is proven when the cluster is ready", func() bool {
		list := proofs(t, address)
		return len(list) == 1 && list[0].State == mirrorsite.ProofDone && list[0].Complete && list[0].Why == "ready"
	})

	g.setHandler(respondNotFound("/manifests/"+etcd, "MANIFEST_UNKNOWN"))
	pressInstall(t, address, id)
	requireUnprepared(t, address, id, "1 of 13 images are not available", g.address+"/openshift/release has no etcd ("+
		s.release.Images["etcd"]+"); mirror it there", "landfall mirror accept-gaps --cluster "+id)
	require.Equal(t, "install", proofs(t, address)[0].Why)

	require.Equal(t, http.StatusNoContent, call(t, http.MethodPut, address+"/api/landfall/v1/clusters/"+
		id+"/mirror-gaps", object{"accept": true}).status)
	pressInstall(t, address, id)
	requireStatus(t, address, id, models.ClusterStatusInstalled)
	requireRefusal(t, call(t, http.MethodPut, address+"/api/landfall/v1/clusters/none/mirror-gaps",
		object{"accept": true}), http.StatusNotFound, "There is no cluster none")
}

func TestMirrorGaps_listedSignedAndCounted(t *testing.T) {
	s, g := newProxiedSite(t)
	_, etcd, _ := strings.Cut(s.release.Images["etcd"], "@")
	address, _ := s.start(t)
	g.setHandler(respondNotFound("/manifests/"+etcd, "MANIFEST_UNKNOWN"))

	proof := proveRelease(t, address, s.release.Version)
	require.Equal(t, mirrorsite.ProofDone, proof.State, proof.Message)
	require.Equal(t, 1, proof.Gaps)
	list := address + mirrorPath + "/proofs/" + proof.ID + "/list"
	text := call(t, http.MethodGet, list, nil)
	require.Equal(t, http.StatusOK, text.status)
	got, _, err := courier.Parse(text.body)
	require.NoError(t, err)
	require.Equal(t, s.release.Release, got.Release)
	require.Equal(t, []courier.Item{{Source: s.release.Images["etcd"], Destination: g.address + "/openshift/release:" +
		s.release.Version + "-x86_64-etcd"}}, got.Items)
	require.Contains(t, string(call(t, http.MethodGet, list+"?format=imageset", nil).body),
		"release: "+s.release.Release)
	require.Contains(t, string(call(t, http.MethodGet, list+"?format=csv", nil).body), "etcd,"+s.release.Images["etcd"])
	requireRefusal(t, call(t, http.MethodGet, list+"?format=pdf", nil), http.StatusBadRequest,
		`the format "pdf" does not exist`)

	g.setHandler(nil)
	proof = proveRelease(t, address, s.release.Version)
	require.True(t, proof.Complete, proof.Message)
	require.Equal(t, 1, proof.Awaited)
	require.Equal(t, 1, proof.Arrived)
	requireRefusal(t, call(t, http.MethodGet, address+mirrorPath+"/proofs/"+proof.ID+"/list", nil), http.StatusConflict,
		"The shopping list is empty")
	requireRefusal(t, call(t, http.MethodPost, address+mirrorPath+"/proofs", object{"release": "4.1.0"}),
		http.StatusNotFound, "no release 4.1.0; add it in the settings")
	requireRefusal(t, call(t, http.MethodPost, address+mirrorPath+"/proofs", object{}), http.StatusBadRequest,
		"either a release")
}
