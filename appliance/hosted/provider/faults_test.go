package provider

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"landfall/appliance/fault"
	"landfall/appliance/hosted/arm"
	"landfall/appliance/hosted/bundle"
	"landfall/appliance/hosted/controlplane"
	"landfall/appliance/hosted/record"
	"landfall/store"
)

// one is the hosted cluster that a person deleted.
var one = []string{"edge1"}

// faults are faults of requests and reports, with their numbers (see
// appliance/hosted/faults_test.go). deleted are the hosted clusters that a person deleted: no other
// one may be deleted.
var faults = []struct {
	name    string
	deleted []string
	run     func(t *testing.T, s *site)
}{
	{"12 new resourceversion with old observedGeneration: not Succeeded", nil, func(t *testing.T, s *site) {
		s.addManagement()
		s.put("edge1", plain)
		s.isNotEnough(func(b *bundle.Bundle) { s.reportAs(b, b.Version, b.Version-1, available(1, "4.19.7")) })
	}},
	{"22 namespace bundle left over after delete: none", one, func(t *testing.T, s *site) {
		s.addManagement()
		s.put("edge1", plain)
		s.bringUp("edge1")
		_, err := s.DeleteCluster(t.Context(), s.caller, s.id("edge1"))
		require.NoError(t, err)
		c := s.cluster("edge1")
		s.remove(c.Control)
		require.NotEmpty(t, s.simulated.Objects(), "the namespaces go last")
		s.remove(c.Namespaces)
		require.Empty(t, s.simulated.Objects())
		require.Nil(t, s.cluster("edge1"))
		require.NoError(t, s.DB.View(func(tx *store.Tx) error {
			return bundle.Each(tx, func(b *bundle.Bundle) error {
				require.Fail(t, "a bundle is left over", b.Name)
				return nil
			})
		}))
	}},
	{"23 finalizer stuck on the HostedCluster: Deleting with the reason, for ever", one, func(t *testing.T, s *site) {
		s.addManagement()
		s.put("edge1", plain)
		s.bringUp("edge1")
		_, err := s.DeleteCluster(t.Context(), s.caller, s.id("edge1"))
		require.NoError(t, err)
		c := s.cluster("edge1")
		require.NoError(t, s.DB.Update(t.Context(), func(tx *store.Tx) error {
			return bundle.PutStatus(tx, c.Control, &bundle.Status{ResourceVersion: 1, Received: s.now(),
				Data: json.RawMessage(`{"conditions":[{"type":"Deleting","status":"True",
					"message":"the finalizer hypershift.openshift.io/finalizer remains"}]}`)})
		}))
		s.settle(t.Context(), []string{c.CID})
		c = s.cluster("edge1")
		require.Equal(t, record.Deleting, c.State)
		contains(t, c.Reason, "hypershift.openshift.io/finalizer remains")
		s.clock.Advance(30 * 24 * time.Hour)
		s.settleAll(t.Context())
		require.Equal(t, record.Deleting, s.cluster("edge1").State, "it waits for ever")
	}},
	// The agent leaves out a value that is too long, and says so at the manifest.
	{"25 jsonRaw too long", nil, func(t *testing.T, s *site) {
		s.addManagement()
		s.put("edge1", plain)
		c := s.cluster("edge1")
		s.report(c.Namespaces)
		s.report(c.Control, feedback{kind: "HostedCluster", name: "edge1", unsynced: "the value of status is too long"})
		c = s.cluster("edge1")
		require.Equal(t, record.Provisioning, c.State)
		contains(t, c.Reason, "the value of status is too long")
	}},
	{"26 inner ManifestWork without status", nil, func(t *testing.T, s *site) {
		s.addManagement()
		s.put("edge1", plain)
		s.isNotEnough(func(b *bundle.Bundle) { s.reportAs(b, b.Version, b.Version) })
	}},
	{"27 manifest refused by the cluster (Applied=False): reason on the RP resource", nil, func(t *testing.T, s *site) {
		s.addManagement()
		s.put("edge1", plain)
		c := s.cluster("edge1")
		s.report(c.Namespaces)
		s.report(c.Control, feedback{kind: "HostedCluster", name: "edge1",
			refused: `the server could not find the requested resource`})
		contains(t, s.cluster("edge1").Reason, "did not apply the HostedCluster edge1", "could not find")
	}},
	{"28 CRD missing", nil, func(t *testing.T, s *site) {
		s.addManagement()
		s.put("edge1", plain)
		c := s.cluster("edge1")
		s.report(c.Namespaces)
		s.report(c.Control, feedback{kind: "HostedCluster", name: "edge1",
			refused: `no matches for kind "HostedCluster" in version "hypershift.openshift.io/v1beta1"`})
		c = s.cluster("edge1")
		require.Equal(t, record.Provisioning, c.State, "it goes on when the operator is installed")
		contains(t, c.Reason, "no matches for kind", "install HyperShift's operator")
		s.report(c.Control, available(1, c.Release.Version))
		require.Equal(t, record.Succeeded, s.cluster("edge1").State)
	}},
	{"40 PUT twice, while Provisioning, PATCH absent, DELETE twice, during create", []string{"edge1", "edge2"},
		func(t *testing.T, s *site) {
			s.addManagement()
			created := s.put("edge1", plain)
			_, err := s.PutCluster(t.Context(), s.caller, s.id("edge1"), document(plain))
			require.Equal(t, arm.CodeConflict, code(err), "PUT while the first one runs")
			_, err = s.PatchCluster(t.Context(), s.caller, s.id("absent"), document(plain))
			require.Equal(t, arm.CodeResourceNotFound, code(err), "PATCH never creates")
			s.bringUp("edge1")
			changed := s.put("edge1", `{"location":"site","tags":{"a":"b"}}`)
			require.False(t, changed.Created)
			require.NotEqual(t, created.Operation.ID, changed.Operation.ID)
			require.Equal(t, record.Succeeded, s.cluster("edge1").State, "the manifests are the same")
			require.Equal(t, record.Succeeded, s.operation(changed.Operation.ID).Status)

			deleted, err := s.DeleteCluster(t.Context(), s.caller, s.id("edge1"))
			require.NoError(t, err)
			require.Equal(t, record.Deleting, deleted.Resource.Text("properties.provisioningState"))
			_, err = s.DeleteCluster(t.Context(), s.caller, s.id("edge1"))
			require.Equal(t, arm.CodeConflict, code(err))
			_, err = s.PutCluster(t.Context(), s.caller, s.id("edge1"), document(plain))
			require.Equal(t, arm.CodeConflict, code(err))
			none, err := s.DeleteCluster(t.Context(), s.caller, s.id("absent"))
			require.NoError(t, err)
			require.Nil(t, none)

			running := s.put("edge2", plain)
			s.deliver()
			_, err = s.DeleteCluster(t.Context(), s.caller, s.id("edge2"))
			require.NoError(t, err)
			require.Equal(t, record.Canceled, s.operation(running.Operation.ID).Status)
		}},
	{"41 operation status by another tenant: 404; after 7 days: 404", nil, func(t *testing.T, s *site) {
		s.caller.Tenant, s.caller.Client = "t1", "c1"
		result := s.put("edge1", plain)
		for _, other := range []Caller{{Tenant: "t2", Client: "c1"}, {Tenant: "t1", Client: "c2"}, {}} {
			o, err := s.Operation(s.subscription, result.Operation.ID, other)
			require.NoError(t, err)
			require.Nil(t, o)
		}
		deleted, err := s.DeleteCluster(t.Context(), s.caller, s.id("edge1"))
		require.NoError(t, err)
		s.operation(deleted.Operation.ID)
		s.clock.Advance(record.OperationsKept)
		o, err := s.Operation(s.subscription, deleted.Operation.ID, s.caller)
		require.NoError(t, err)
		require.Nil(t, o, "operations are kept for seven days")
		s.addManagement()
		s.put("edge2", plain)
	}},
	// The time of a creation passes only while the management cluster is connected.
	{"45 creation deadline while disconnected: does not fail", nil, func(t *testing.T, s *site) {
		s.addManagement()
		result := s.put("edge1", plain)
		c := s.cluster("edge1")
		s.report(c.Namespaces)
		s.report(c.Control, waiting("HostedCluster", "EtcdAvailable", "no volume"))
		for range 10 {
			s.clock.Advance(24 * time.Hour)
			s.settleAll(t.Context())
		}
		require.Equal(t, record.Provisioning, s.cluster("edge1").State, "ten days offline")
		s.connected = true
		for range int(creationTime/watchInterval) + 2 {
			s.settleUnfinished(t.Context(), s.obstacles())
			s.clock.Advance(watchInterval)
		}
		require.Equal(t, record.Failed, s.cluster("edge1").State)
		failure := s.operation(result.Operation.ID).Error
		require.Equal(t, "OCM4001", failure.Code)
		contains(t, failure.Message, "no volume")
		s.report(c.Control, waiting("HostedCluster", "EtcdAvailable", "no node"))
		require.Equal(t, failure.Message, s.cluster("edge1").Reason, "a failure keeps its reason")
		s.report(c.Control, available(1, "4.19.7"))
		require.Equal(t, record.Succeeded, s.cluster("edge1").State, "it came up all the same")
		require.Empty(t, s.cluster("edge1").Reason)
		require.Equal(t, record.Failed, s.operation(result.Operation.ID).Status)
	}},
	{"46 node pool with no matching Agent: Provisioning with that reason", nil, func(t *testing.T, s *site) {
		s.addManagement()
		s.put("edge1", plain)
		s.bringUp("edge1")
		result := s.putPool("edge1", "NP1", poolBody)
		p := s.pool("edge1", "np1")
		require.Equal(t, record.Accepted, p.State)
		s.report(p.Bundle, waiting("NodePool", "AllMachinesReady", "no agents"))
		p = s.pool("edge1", "np1")
		require.Equal(t, record.Provisioning, p.State)
		contains(t, p.Reason, "0 of 2 nodes", "profile large", "namespace hall-2", "no agents")
		s.report(p.Bundle, nodes(1, 1))
		contains(t, s.pool("edge1", "np1").Reason, "1 of 2 nodes")
		s.report(p.Bundle, nodes(1, 2))
		p = s.pool("edge1", "np1")
		require.Equal(t, record.Succeeded, p.State)
		require.EqualValues(t, 2, p.Observed.NodesReady)
		require.Equal(t, record.Succeeded, s.operation(result.Operation.ID).Status)
	}},
	{"47 CIDR overlap with the management cluster: refused at PUT", nil, func(t *testing.T, s *site) {
		s.addManagement()
		result := s.put("edge1", plain)
		require.Equal(t, "10.132.0.0/14", result.Resource.Text("properties.network.podCidr"))
		require.Equal(t, "172.31.0.0/16", result.Resource.Text("properties.network.serviceCidr"))
		require.Equal(t, "192.168.1.0/24", result.Resource.Text("properties.network.machineCidr"))
		_, err := s.PutCluster(t.Context(), s.caller, s.id("edge2"),
			document(`{"location":"site","properties":{"network":{"podCidr":"10.128.0.0/14"}}}`))
		require.Equal(t, fault.Invalid, fault.KindOf(err))
		contains(t, err.Error(), "overlaps", "management cluster mc1")
		require.Nil(t, s.cluster("edge2"))
	}},
	{"48 credential request while revoking: 409 with Retry-After", nil, func(t *testing.T, s *site) {
		s.addManagement()
		s.put("edge1", plain)
		s.bringUp("edge1")
		operation, err := s.RequestCredential(t.Context(), s.caller, s.id("edge1"), "")
		require.NoError(t, err)
		credential := s.credential("edge1")
		s.report(credential.Bundle, feedback{kind: "CertificateSigningRequest",
			texts: map[string]string{"certificate": "Q0VSVA=="}})
		require.Equal(t, record.Accepted, s.operation(operation.ID).Status, "the CA is missing")
		s.report(credential.Bundle, feedback{kind: "CertificateSigningRequest",
			texts: map[string]string{"certificate": "Q0VSVA=="}},
			feedback{kind: "Secret", texts: map[string]string{"ca": "Q0E="}})
		require.Equal(t, record.Succeeded, s.operation(operation.ID).Status)
		result, err := s.Result(s.subscription, operation.ID, s.caller)
		require.NoError(t, err)
		contains(t, result.Credential.Kubeconfig, "https://api.edge1.hosted.example.com:30123", "Q0VSVA==", "Q0E=",
			"client-key-data")
		require.Equal(t, start.Add(credentialTime), result.Credential.Expires)
		require.True(t, s.bundle(credential.Bundle).Deleting(), "it is not needed any more")
		require.Equal(t, controlplane.OrphanOption(), s.bundle(credential.Bundle).DeleteOption)

		revocation, err := s.RevokeCredentials(t.Context(), s.caller, s.id("edge1"))
		require.NoError(t, err)
		for _, again := range []func() error{
			func() error { _, err := s.RevokeCredentials(t.Context(), s.caller, s.id("edge1")); return err },
			func() error { _, err := s.RequestCredential(t.Context(), s.caller, s.id("edge1"), ""); return err },
		} {
			err := again()
			require.Equal(t, arm.CodeConflict, code(err))
			_, ok := errors.AsType[*RevokingError](err)
			require.True(t, ok)
		}
		c := s.cluster("edge1")
		s.report(c.Revocation, feedback{kind: "CertificateRevocationRequest", generation: 1,
			status: `{"conditions":[{"type":"PreviousCertificatesRevoked","status":"True"}]}`})
		require.Equal(t, record.Succeeded, s.operation(revocation.ID).Status)
		require.Equal(t, "revoked", s.credential("edge1").Status)
		require.Empty(t, s.credential("edge1").Kubeconfig)
	}},
}

func TestFaults(t *testing.T) {
	for _, test := range faults {
		t.Run(test.name, func(t *testing.T) {
			s := newSite(t)
			test.run(t, s)
			s.requireDeleted(test.deleted...)
		})
	}
}
