package controlplane_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"testing"

	"github.com/stretchr/testify/require"

	"landfall/appliance/hosted/bundle"
	"landfall/appliance/hosted/cloudevent"
	"landfall/appliance/hosted/controlplane"
)

// deliver gives a bundle of one credential to the agent, or its deletion.
func (n *nested) deliver(b *bundle.Bundle, deleted bool) {
	n.t.Helper()
	data, err := json.Marshal(cloudevent.BundleData{Manifests: b.Manifests, Configs: b.Configs,
		DeleteOption: b.DeleteOption})
	require.NoError(n.t, err)
	event := &cloudevent.Event{ID: "1", Source: "maestro", SubResource: cloudevent.Spec, Action: cloudevent.Create,
		Time: n.clock.Now(), Consumer: "mc1", ResourceID: b.ID, ResourceVersion: 1, Data: data}
	if deleted {
		event.Deleted = n.clock.Now()
	}
	n.agent.Handle(event.Message())
}

// The bundle of a credential reads an object of HyperShift, which stays when the bundle goes.
func TestCredential_secondAfterFirst(t *testing.T) {
	n := newNested(t)
	n.in.Management.Layout = controlplane.Flat
	content, err := n.control()
	n.apply(1, content, err)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	request, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	require.NoError(t, err)
	csr := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: request}))
	early, err := controlplane.Credential(n.in.Cluster, "early", csr, 60)
	require.NoError(t, err)
	for _, id := range []string{"first", "second"} {
		content, err := controlplane.Credential(n.in.Cluster, id, csr, 60)
		require.NoError(t, err)
		b := &bundle.Bundle{ID: id, Manifests: content.Manifests, Configs: content.Configs, Version: 1,
			DeleteOption: controlplane.OrphanOption()}
		n.deliver(b, false)
		_, ca, ok := n.report(b).Certificate()
		require.True(t, ok, id)
		require.NotEmpty(t, ca)
		n.deliver(b, true)
	}
	require.Empty(t, n.cluster.Deleted(""), "the delete option of the bundles is Orphan")
	b := &bundle.Bundle{ID: "deletes", Manifests: early.Manifests, Configs: early.Configs, Version: 1}
	n.deliver(b, false)
	n.deliver(b, true)
	require.Len(t, n.cluster.Deleted(""), 2, "the object that the bundle reads stays")
}

func TestAgent_reasonOfMissingObject(t *testing.T) {
	n := newNested(t)
	content, err := controlplane.Credential(n.in.Cluster, "first", "", 60)
	require.NoError(t, err)
	b := &bundle.Bundle{ID: "first", Manifests: content.Manifests, Configs: content.Configs, Version: 1}
	n.deliver(b, false)
	require.Contains(t, string(n.status(b).Data), `"status":"False","observedGeneration":1,`+
		`"lastTransitionTime":"1970-01-01T00:00:00Z","reason":"AppliedManifestFailed"`)
}
