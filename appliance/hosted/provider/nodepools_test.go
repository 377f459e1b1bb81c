package provider

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"landfall/appliance/fault"
	"landfall/appliance/hosted/arm"
	"landfall/appliance/hosted/broker"
	"landfall/appliance/hosted/bundle"
	"landfall/appliance/hosted/controlplane"
	"landfall/appliance/hosted/record"
	"landfall/store"
)

func TestNodePool_scaling(t *testing.T) {
	s := withCluster(t)
	s.putPool("edge1", "np1", poolBody)
	p := s.pool("edge1", "np1")
	s.report(p.Bundle, nodes(1, 2))
	patch := func(body string) {
		t.Helper()
		_, err := s.PatchNodePool(t.Context(), s.caller, s.poolID("edge1", "NP1"), document(body))
		require.NoError(t, err)
	}
	patch(`{"properties":{"replicas":3}}`)
	require.EqualValues(t, 2, s.bundle(p.Bundle).Version)
	s.report(p.Bundle, nodes(2, 2))
	require.Equal(t, record.Updating, s.pool("edge1", "np1").State)
	s.report(p.Bundle, nodes(2, 3))
	require.Equal(t, record.Succeeded, s.pool("edge1", "np1").State)
	patch(`{"properties":{"autoScaling":{"min":1,"max":5}}}`)
	require.Nil(t, s.pool("edge1", "np1").Document["properties"].(map[string]any)["replicas"])
	s.report(p.Bundle, nodes(3, 3))
	patch(`{"properties":{"replicas":1}}`)
	require.Nil(t, s.pool("edge1", "np1").Document["properties"].(map[string]any)["autoScaling"])
}

// The site has three hosts.
func TestNodePool_changeSupersedesRunningOne(t *testing.T) {
	s := withCluster(t)
	scale := func(replicas int) *record.Operation {
		t.Helper()
		result, err := s.PatchNodePool(t.Context(), s.caller, s.poolID("edge1", "np1"), document(fmt.Sprintf(
			`{"properties":{"replicas":%d}}`, replicas)))
		require.NoError(t, err)
		return result.Operation
	}
	requireSuperseded := func(o *record.Operation) {
		t.Helper()
		require.Equal(t, record.Canceled, s.operation(o.ID).Status)
		contains(t, s.operation(o.ID).Error.Message, "superseded by a newer change")
	}
	created := s.putPool("edge1", "np1", poolBody).Operation
	first := scale(1)
	requireSuperseded(created)
	p := s.pool("edge1", "np1")
	s.report(p.Bundle, nodes(2, 1))
	require.Equal(t, record.Succeeded, s.operation(first.ID).Status)
	second := scale(50)
	s.report(p.Bundle, nodes(3, 3))
	require.Equal(t, record.Updating, s.pool("edge1", "np1").State)
	third := scale(1)
	requireSuperseded(second)
	s.report(p.Bundle, nodes(4, 1))
	require.Equal(t, record.Succeeded, s.pool("edge1", "np1").State)
	require.Equal(t, record.Succeeded, s.operation(third.ID).Status)
	_, err := s.DeleteNodePool(t.Context(), s.caller, s.poolID("edge1", "np1"))
	require.NoError(t, err)
	_, err = s.PutNodePool(t.Context(), s.caller, s.poolID("edge1", "np1"), document(poolBody))
	require.Equal(t, arm.CodeConflict, code(err))
}

func TestNodePool_keepsReleaseWithoutVersion(t *testing.T) {
	s := withCluster(t)
	s.putPool("edge1", "np1", poolBody)
	p := s.pool("edge1", "np1")
	s.report(p.Bundle, nodes(1, 2))
	s.put("edge1", `{"location":"site","properties":{"version":{"id":"4.20"}}}`)
	s.report(s.cluster("edge1").Control, available(2, "4.20.1"))
	s.putPool("edge1", "np1", poolBody)
	require.Equal(t, p.Release, s.pool("edge1", "np1").Release)
	_, err := s.PatchNodePool(t.Context(), s.caller, s.poolID("edge1", "np1"),
		document(`{"properties":{"version":null}}`))
	require.NoError(t, err)
	require.Equal(t, p.Release, s.pool("edge1", "np1").Release)
	require.EqualValues(t, 1, s.bundle(p.Bundle).Version)
}

func TestNodePool_newOneOfSameNameHasNewBundle(t *testing.T) {
	s := withManagement(t)
	s.put("edge1", plain)
	s.putPool("edge1", "np1", poolBody)
	first := s.pool("edge1", "np1").Bundle
	_, err := s.DeleteNodePool(t.Context(), s.caller, s.poolID("edge1", "np1"))
	require.NoError(t, err)
	_, err = s.DeleteNodePool(t.Context(), s.caller, s.poolID("edge1", "np1"))
	require.Equal(t, arm.CodeConflict, code(err))
	s.remove(first)
	require.Nil(t, s.pool("edge1", "np1"))
	s.putPool("edge1", "np1", poolBody)
	require.NotEqual(t, first, s.pool("edge1", "np1").Bundle, "the ID of a tombstone is never used again")
	none, err := s.DeleteNodePool(t.Context(), s.caller, s.poolID("absent", "np1"))
	require.NoError(t, err)
	require.Nil(t, none)
}

func TestNodePool_badRequests(t *testing.T) {
	s := withManagement(t)
	s.put("edge1", `{"location":"site","properties":{"version":{"id":"4.19.3"}}}`)
	put := func(cluster, body string) error {
		_, err := s.PutNodePool(t.Context(), s.caller, s.poolID(cluster, "np1"), document(body))
		return err
	}
	contains(t, put("edge1", `{"location":"a","properties":{"platform":{"vmSize":"huge"}}}`).Error(), "large, small")
	contains(t, put("edge1", `{"location":"a","properties":{"platform":{"vmSize":"large"},"version":{"id":"4.19.7"}}}`).
		Error(), "update the cluster first")
	require.Equal(t, arm.CodeResourceNotFound, code(put("absent", poolBody)))
	c := s.cluster("edge1")
	s.report(c.Namespaces)
	s.report(c.Control)
	require.Equal(t, arm.CodeConflict, code(put("edge1", poolBody)), "the cluster is being provisioned")
	require.Nil(t, s.pool("edge1", "np1"))
}

const authBody = `{"properties":{"issuer":{"url":"https://sso.example.com","audiences":["a"]},
	"claim":{"mappings":{"username":{"claim":"email","prefixPolicy":"Prefix","prefix":"sso:"},
		"groups":{"claim":"groups","prefix":"sso-"}}}}}`

func TestExternalAuth_changesHostedCluster(t *testing.T) {
	s := withCluster(t)
	id := s.id("edge1")
	id.Child, id.ChildType = "sso", arm.ExternalAuths
	result, err := s.PutExternalAuth(t.Context(), s.caller, id, document(authBody))
	require.NoError(t, err)
	require.True(t, result.Created)
	c := s.cluster("edge1")
	control := s.bundle(c.Control)
	require.EqualValues(t, 2, control.Version)
	contains(t, string(control.Manifests[len(control.Manifests)-1]), "https://sso.example.com",
		`"claimMappings":{"groups":{"claim":"groups","prefix":"sso-"},"username":{"claim":"email",`+
			`"prefix":{"prefixString":"sso:"},"prefixPolicy":"Prefix"}}`)
	s.report(c.Control, available(2, "4.19.7"))
	second := id
	second.Child = "second"
	_, err = s.PutExternalAuth(t.Context(), s.caller, second, document(authBody))
	require.Equal(t, arm.CodeConflict, code(err))
	require.ErrorContains(t, err, "already has the external auth sso")
	shown, err := s.ShowChild(id)
	require.NoError(t, err)
	require.Equal(t, record.Succeeded, shown.Text("properties.provisioningState"))
	_, err = s.DeleteExternalAuth(t.Context(), s.caller, id)
	require.NoError(t, err)
	require.EqualValues(t, 3, s.bundle(c.Control).Version)
	s.report(c.Control, available(3, "4.19.7"))
	_, err = s.ShowChild(id)
	require.Equal(t, arm.CodeResourceNotFound, code(err))
}

func TestDeletion_ofChildrenWithoutManagementCluster(t *testing.T) {
	s := newSite(t)
	s.put("edge1", plain)
	s.putPool("edge1", "np1", poolBody)
	auth := s.id("edge1")
	auth.Child, auth.ChildType = "sso", arm.ExternalAuths
	_, err := s.PutExternalAuth(t.Context(), s.caller, auth, document(authBody))
	require.NoError(t, err)
	pool, err := s.DeleteNodePool(t.Context(), s.caller, s.poolID("edge1", "np1"))
	require.NoError(t, err)
	deleted, err := s.DeleteExternalAuth(t.Context(), s.caller, auth)
	require.NoError(t, err)
	for id, operation := range map[arm.ID]*record.Operation{s.poolID("edge1", "np1"): pool.Operation,
		auth: deleted.Operation} {
		require.Equal(t, record.Succeeded, s.operation(operation.ID).Status, id)
		_, err := s.ShowChild(id)
		require.Equal(t, arm.CodeResourceNotFound, code(err))
	}
}

// credential returns the last request for a credential.
func (s *site) credential(cluster string) (found *record.Credential) {
	s.t.Helper()
	c := s.cluster(cluster)
	require.NoError(s.t, s.DB.View(func(tx *store.Tx) error {
		all, err := record.Credentials(tx, c.CID)
		if len(all) > 0 {
			found = all[len(all)-1]
		}
		return err
	}))
	return found
}

func TestCredential_expiresWithItsCertificate(t *testing.T) {
	s := withCluster(t)
	operation, err := s.RequestCredential(t.Context(), s.caller, s.id("edge1"), "")
	require.NoError(t, err)
	first := s.credential("edge1")
	s.clock.Advance(30 * 24 * time.Hour) // the management cluster was away
	signed := s.clock.Now()
	s.report(first.Bundle, feedback{kind: "CertificateSigningRequest",
		texts: map[string]string{"certificate": certificate(t, signed.Add(credentialTime))}},
		feedback{kind: "Secret", texts: map[string]string{"ca": "Q0E="}})
	result, err := s.Result(s.subscription, operation.ID, s.caller)
	require.NoError(t, err)
	require.Equal(t, signed.Add(credentialTime), result.Credential.Expires)

	request := func() (rows int) {
		t.Helper()
		_, err := s.RequestCredential(t.Context(), s.caller, s.id("edge1"), "")
		require.NoError(t, err)
		require.NoError(t, s.DB.View(func(tx *store.Tx) error {
			all, err := record.Credentials(tx, first.CID)
			rows = len(all)
			return err
		}))
		return rows
	}
	s.clock.Advance(credentialTime + record.OperationsKept)
	require.Equal(t, 2, request(), "its bundle is not removed yet")
	s.remove(first.Bundle)
	require.Equal(t, 2, request(), "the expired one is removed")
}

// certificate returns a certificate in PEM, in base64.
func certificate(t *testing.T, end time.Time) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: start, NotAfter: end}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	return encode64(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw}))
}

func TestCredential_waitingRequestIsReturnedAgain(t *testing.T) {
	s := withCluster(t)
	request := func(caller Caller) string {
		operation, err := s.RequestCredential(t.Context(), caller, s.id("edge1"), "")
		require.NoError(t, err)
		return operation.ID
	}
	first := request(s.caller)
	bundle := s.credential("edge1").Bundle
	require.Equal(t, first, request(s.caller))
	other := s.caller
	other.Client = "other"
	require.NotEqual(t, first, request(other), "it is of another client")
	other = s.caller
	other.Name = "person ben"
	require.NotEqual(t, first, request(other), "it is of another person")
	s.clock.Advance(credentialTime)
	second := request(s.caller)
	require.NotEqual(t, first, second)
	o := s.operation(first)
	require.Equal(t, record.Failed, o.Status)
	require.Contains(t, o.Error.Message, "within a day")
	require.True(t, s.bundle(bundle).Deleting())
	s.clock.Advance(credentialTime)
	s.settleAll(t.Context())
	require.Equal(t, record.Failed, s.operation(second).Status)
}

func TestCredential_requestIsCanceledByRevocation(t *testing.T) {
	s := withCluster(t)
	nothing, err := s.RevokeCredentials(t.Context(), s.caller, s.id("edge1"))
	require.NoError(t, err)
	require.Equal(t, record.Succeeded, s.operation(nothing.ID).Status, "there is none to revoke")
	operation, err := s.RequestCredential(t.Context(), s.caller, s.id("edge1"), "")
	require.NoError(t, err)
	_, err = s.RevokeCredentials(t.Context(), s.caller, s.id("edge1"))
	require.NoError(t, err)
	require.Equal(t, record.Canceled, s.operation(operation.ID).Status)
}

func TestCredential_refusedRequestLeavesNoBundle(t *testing.T) {
	s := withCluster(t)
	operation, err := s.RequestCredential(t.Context(), s.caller, s.id("edge1"), "")
	require.NoError(t, err)
	s.report(s.credential("edge1").Bundle, feedback{kind: "CertificateSigningRequest", generation: 1,
		status: `{"conditions":[{"type":"Denied","status":"True","message":"not approved"}]}`})
	refused := s.operation(operation.ID)
	require.Equal(t, record.Failed, refused.Status)
	contains(t, refused.Error.Message, "not approved")
	require.True(t, s.bundle(s.credential("edge1").Bundle).Deleting())
}

// deleteBundle deletes a bundle as a person does by the documented operation, and settles.
func (s *site) deleteBundle(id string) {
	s.t.Helper()
	revision := s.DB.Revision()
	require.NoError(s.t, s.DB.Update(s.t.Context(), func(tx *store.Tx) error {
		return bundle.Delete(tx, id, "ana", s.now())
	}))
	_, ids := s.affected([]store.Change{{Key: bundle.Prefix() + id, Revision: revision + 1}})
	s.settle(s.t.Context(), ids)
}

func TestCredential_failsWithoutItsBundle(t *testing.T) {
	s := withCluster(t)
	operation, err := s.RequestCredential(t.Context(), s.caller, s.id("edge1"), "")
	require.NoError(t, err)
	s.deleteBundle(s.credential("edge1").Bundle)
	failed := s.operation(operation.ID)
	require.Equal(t, record.Failed, failed.Status)
	contains(t, failed.Error.Message, "The bundle of the request was deleted.")
	s.remove(s.credential("edge1").Bundle)
	require.Equal(t, credentialFailed, s.credential("edge1").Status)
}

func TestCredential_revocationGetsNewBundle(t *testing.T) {
	s := withCluster(t)
	_, err := s.RequestCredential(t.Context(), s.caller, s.id("edge1"), "")
	require.NoError(t, err)
	operation, err := s.RevokeCredentials(t.Context(), s.caller, s.id("edge1"))
	require.NoError(t, err)
	first := s.cluster("edge1").Revocation
	s.deleteBundle(first)
	require.Equal(t, first, s.cluster("edge1").Revocation, "something of it can be left")
	s.remove(first)
	second := s.cluster("edge1").Revocation
	require.NotEqual(t, first, second)
	require.Equal(t, s.bundle(s.cluster("edge1").Control).Consumer, s.bundle(second).Consumer)
	s.report(second, feedback{kind: "CertificateRevocationRequest", generation: 1,
		status: `{"conditions":[{"type":"PreviousCertificatesRevoked","status":"True"}]}`})
	require.Equal(t, record.Succeeded, s.operation(operation.ID).Status)
	require.Empty(t, s.cluster("edge1").Revocation)
	_, err = s.RequestCredential(t.Context(), s.caller, s.id("edge1"), "")
	require.NoError(t, err)
}

func csr(t *testing.T, name string) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	raw, err := x509.CreateCertificateRequest(rand.Reader,
		&x509.CertificateRequest{Subject: pkix.Name{CommonName: name}}, key)
	require.NoError(t, err)
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: raw}))
}

func TestCredential_ofClientsKeyHasNoPrivateKey(t *testing.T) {
	s := withCluster(t)
	for _, bad := range []string{"x", csr(t, "system:admin"), csr(t, controlplane.CredentialUser+"a") + "x"} {
		_, err := s.RequestCredential(t.Context(), s.caller, s.id("edge1"), bad)
		require.Equal(t, arm.CodeInvalidContent, code(err))
	}
	operation, err := s.RequestCredential(t.Context(), s.caller, s.id("edge1"), csr(t, controlplane.CredentialUser+"a"))
	require.NoError(t, err)
	s.report(s.credential("edge1").Bundle, feedback{kind: "CertificateSigningRequest",
		texts: map[string]string{"certificate": "Q0VSVA=="}}, feedback{kind: "Secret",
		texts: map[string]string{"ca": "Q0E="}})
	result, err := s.Result(s.subscription, operation.ID, s.caller)
	require.NoError(t, err)
	require.NotContains(t, result.Credential.Kubeconfig, "client-key-data")
}

func TestManagement_keepsImageAndBrokerOfAgent(t *testing.T) {
	s := withManagement(t)
	_, _, err := s.AgentOf(t.Context(), "mc1", Broker{Address: "a.example.com:8883"}, "")
	contains(t, err.Error(), "The image of the agent is not known.")
	for _, c := range []struct{ address, image, used string }{
		{"b.example.com:8883", "registry.example.com/maestro:v1", "registry.example.com/maestro:v1"},
		{"c.example.com:8883", "", "registry.example.com/maestro:v1"},
		{"d.example.com:8883", "registry.example.com/maestro:v2", "registry.example.com/maestro:v2"},
		{"d.example.com:8883", "", "registry.example.com/maestro:v2"},
	} {
		address, image, err := s.AgentOf(t.Context(), "mc1", Broker{Address: c.address}, c.image)
		require.NoError(t, err)
		require.Equal(t, []string{"b.example.com:8883", c.used}, []string{address, image})
	}
	_, _, err = s.AgentOf(t.Context(), "mc1", Broker{Address: "e.example.com:8883"}, "registry.example.com/maestro")
	contains(t, err.Error(), "can change unnoticed")
	_, image, err := s.AgentOf(t.Context(), "mc1", Broker{Address: "e.example.com:8883"}, "")
	require.NoError(t, err)
	require.Equal(t, "registry.example.com/maestro:v2", image, "a refused image is not kept")
	_, _, err = s.AgentOf(t.Context(), "mc2", Broker{Address: "e.example.com:8883"}, "registry.example.com/maestro:v2")
	require.Equal(t, fault.NotFound, fault.KindOf(err))
}

// TestManagement_correctsBrokerOfAgent replaces a name that an agent elsewhere can't have used.
func TestManagement_correctsBrokerOfAgent(t *testing.T) {
	s := withManagement(t)
	agentOf := func(candidate Broker) (name string) {
		name, _, err := s.AgentOf(t.Context(), "mc1", candidate, "registry.example.com/maestro:v1")
		require.NoError(t, err)
		return name
	}
	issued := broker.Credential{Consumer: "mc1", Serial: "1", Issued: start}
	note := func() {
		require.NoError(t, s.DB.Update(t.Context(), func(tx *store.Tx) error {
			return store.NewBucket[broker.Credential]("hosted-credentials", 1).Put(tx, "mc1/1", &issued)
		}))
	}
	revoked := func() bool {
		var all []broker.Credential
		require.NoError(t, s.DB.View(func(tx *store.Tx) (err error) {
			all, err = broker.ListCredentials(tx, "mc1")
			return err
		}))
		return !all[0].Revoked.IsZero()
	}
	local, other := Broker{Address: "127.0.0.1:8883"}, Broker{Address: "a.example.com:8883"}
	right, later := Broker{"right.example.com:8883", true}, Broker{"later.example.com:8883", true}
	note()
	require.Equal(t, "127.0.0.1:8883", agentOf(local))
	require.False(t, revoked())
	require.Equal(t, "localhost:8883", agentOf(Broker{Address: "localhost:8883"}))
	issued.Used = start
	note()
	require.Equal(t, "localhost:8883", agentOf(other), "an agent on this machine uses it")
	require.Equal(t, "localhost:8883", agentOf(right))
	require.False(t, revoked())
	issued.Used = time.Time{}
	note()
	require.Equal(t, "a.example.com:8883", agentOf(other))
	require.Equal(t, "a.example.com:8883", agentOf(local))
	note()
	require.Equal(t, "right.example.com:8883", agentOf(right))
	require.True(t, revoked(), "an agent could connect later by the former name")
	require.Equal(t, "right.example.com:8883", agentOf(other))
	note()
	require.Equal(t, "right.example.com:8883", agentOf(right))
	require.False(t, revoked(), "the name is the same")
	issued.Used = start
	note()
	require.Equal(t, "right.example.com:8883", agentOf(later), "an agent uses it")
	require.Equal(t, "right.example.com:8883", agentOf(Broker{Address: "a.example.com:44259"}), "an agent uses it")
	issued.Used = time.Time{}
	note()
	require.Equal(t, "right.example.com:44259", agentOf(Broker{Address: "a.example.com:44259"}))
	require.True(t, revoked())
}

func TestManagement_unusableFields(t *testing.T) {
	s := newSite(t)
	for _, test := range []struct {
		name     string
		change   func(*record.Management)
		sentence string
	}{
		{"URL as the address", func(m *record.Management) { m.Address = "https://a.example.com" },
			"is not an IP address"},
		{"port in the address", func(m *record.Management) { m.Address = "192.168.1.10:443" }, "is not an IP address"},
		{"network as the address", func(m *record.Management) { m.Address = "192.168.1.0/24" }, "is not an IP address"},
		{"too large number", func(m *record.Management) { m.Address = "192.168.1.300" }, "is not an IP address"},
		{"no machine", func(m *record.Management) { m.Address = "0.0.0.0" }, "is not an IP address"},
		{"this machine", func(m *record.Management) { m.Address = "::1" }, "is not an IP address"},
		{"space in the address", func(m *record.Management) { m.Address = "a b" }, `"a b"`},
		{"profile with a space", func(m *record.Management) { m.Profiles = []string{"large", "very large"} },
			`"very large" is not a label value`},
		{"empty profile", func(m *record.Management) { m.Profiles = []string{""} }, `"" is not a label value`},
		{"namespace", func(m *record.Management) { m.AgentNamespace = "Hall 2" }, `"Hall 2" of the Agents is not a name`},
		{"storage class", func(m *record.Management) { m.StorageClass = "a/b" }, `"a/b" is not a name`},
		{"", func(m *record.Management) { m.Address = "2001:db8::1" }, ""},
		{"", func(m *record.Management) { m.Address, m.StorageClass = "nodes-1.Example.com", "lvms.vg1" }, ""},
		{"", func(m *record.Management) { m.Address, m.Publish = "", controlplane.LoadBalancer }, ""},
	} {
		m := record.Management{Consumer: "mc1", BaseDomain: "a.example.com", Address: "192.168.1.10",
			Profiles: []string{"large", "GPU_1"}}
		test.change(&m)
		_, err := s.AddManagement(t.Context(), m)
		if test.sentence == "" {
			require.NoError(t, err)
			require.NoError(t, s.RemoveManagement(t.Context(), "mc1"))
			continue
		}
		require.Equal(t, fault.Invalid, fault.KindOf(err), test.name)
		contains(t, err.Error(), test.sentence)
	}
}

func TestManagement_isNotRemovedWithClusters(t *testing.T) {
	s := withManagement(t)
	s.put("edge1", plain)
	err := s.RemoveManagement(t.Context(), "mc1")
	contains(t, err.Error(), "edge1")
	_, err = s.AddManagement(t.Context(), record.Management{Consumer: "mc1", BaseDomain: "a.b", Address: "x"})
	contains(t, err.Error(), "already")
	for _, bad := range []record.Management{{Consumer: "mc2", BaseDomain: "x"}, {Consumer: "mc2", BaseDomain: "a.b"},
		{Consumer: "mc2", BaseDomain: "a.b", Publish: "x"}, {Consumer: "MC", BaseDomain: "a.b", Address: "x"},
		{Consumer: "mc2", BaseDomain: "a.b", Address: "x", PodNetworks: []string{"1.2.3.4"}},
		{Consumer: "mc2", BaseDomain: "a.b", Address: "x", Layout: "x"},
		{Consumer: "mc2", BaseDomain: "a.b", Address: "x", AgentImage: "registry.example.com/maestro:latest"}} {
		_, err := s.AddManagement(t.Context(), bad)
		require.Error(t, err)
	}
	_, err = s.DeleteCluster(t.Context(), s.caller, s.id("edge1"))
	require.NoError(t, err)
	c := s.cluster("edge1")
	s.remove(c.Control)
	s.remove(c.Namespaces)
	require.NoError(t, s.RemoveManagement(t.Context(), "mc1"))
	require.NoError(t, s.DB.View(func(tx *store.Tx) error {
		_, err := bundle.GetConsumer(tx, "mc1")
		require.ErrorIs(t, err, bundle.ErrNotFound)
		return nil
	}))
}
