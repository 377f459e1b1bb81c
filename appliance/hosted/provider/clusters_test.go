package provider

import (
	"testing"

	"github.com/stretchr/testify/require"

	"landfall/appliance/fault"
	"landfall/appliance/hosted/arm"
	"landfall/appliance/hosted/bundle"
	"landfall/appliance/hosted/controlplane"
	"landfall/appliance/hosted/record"
	"landfall/store"
)

func TestCluster_isStoredWithOperationAndBundles(t *testing.T) {
	s := withManagement(t)
	s.connected = true
	result := s.put("Edge1", plain)
	require.True(t, result.Created)
	require.Equal(t, record.Accepted, result.Resource.Text("properties.provisioningState"))
	require.Equal(t, "hosted.example.com", result.Resource.Text("properties.dns.baseDomain"))
	require.Empty(t, result.Resource.Text("properties.api.url"), "nobody knows the port yet")
	require.Equal(t, record.Accepted, s.operation(result.Operation.ID).Status)
	c := s.cluster("eDGE1")
	require.Len(t, c.CID, 32)
	namespaces, control := s.bundle(c.Namespaces), s.bundle(c.Control)
	require.Equal(t, c.CID+"-00-namespaces", namespaces.Name)
	require.Equal(t, "mc1", control.Consumer)
	require.Equal(t, c.CID, control.Labels[bundle.LabelCluster])
	require.Len(t, control.Configs, len(control.Manifests), "each manifest has its rules")
	contains(t, c.Reason, "mc1 has not reported yet")
}

func TestCluster_waitsForManagementCluster(t *testing.T) {
	s := newSite(t)
	s.put("edge1", plain)
	contains(t, s.cluster("edge1").Reason, "No management cluster")
	s.putPool("edge1", "np1", poolBody)
	s.addManagement()
	c := s.cluster("edge1")
	require.Equal(t, "mc1", c.Consumer)
	require.NotNil(t, s.bundle(c.Control))
	require.NotNil(t, s.bundle(s.pool("edge1", "np1").Bundle))
}

// The networks that the request omits are chosen again for the management cluster.
func TestCluster_networksFitLaterManagementCluster(t *testing.T) {
	s := newSite(t)
	shown := s.put("edge1", `{"location":"site","properties":{"network":{"hostPrefix":24}}}`).Resource
	require.Equal(t, "10.128.0.0/14", shown.Text("properties.network.podCidr"))
	s.addManagement()
	c := s.cluster("edge1")
	require.Equal(t, "mc1", c.Consumer)
	require.Equal(t, "10.132.0.0/14", c.Document.Text("properties.network.podCidr"))
	require.Equal(t, "172.31.0.0/16", c.Document.Text("properties.network.serviceCidr"))
	require.Equal(t, "192.168.1.0/24", c.Document.Text("properties.network.machineCidr"))
	require.Empty(t, c.Chosen)
	contains(t, string(s.bundle(c.Control).Manifests[len(s.bundle(c.Control).Manifests)-1]), "10.132.0.0/14")
	s.bringUp("edge1")
	_, err := s.PatchCluster(t.Context(), s.caller, s.id("edge1"), document(`{"tags":{"a":"b"}}`))
	require.NoError(t, err)
}

func TestCluster_waitsForFittingManagementCluster(t *testing.T) {
	for _, test := range []struct{ name, body, pool, reason string }{
		{"network", `{"location":"site","properties":{"network":{"podCidr":"10.128.0.0/14"}}}`, poolBody,
			"10.128.0.0/14 of properties.network.podCidr overlaps 10.128.0.0/14, the pod network of the management"},
		{"profile", plain, `{"location":"site","properties":{"platform":{"vmSize":"huge"},"replicas":2}}`,
			`the node pool np1: The management cluster mc1 has no hosts with the hardware profile "huge"`},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newSite(t)
			result := s.put("edge1", test.body)
			s.putPool("edge1", "np1", test.pool)
			s.addManagement()
			c := s.cluster("edge1")
			require.Empty(t, c.Consumer+c.Namespaces+c.Control+s.pool("edge1", "np1").Bundle)
			contains(t, c.Reason, "The cluster does not fit the management cluster mc1: ", test.reason, "Delete what")
			contains(t, s.pool("edge1", "np1").Reason, test.reason)
			require.Equal(t, record.Accepted, s.operation(result.Operation.ID).Status)
			_, err := s.AddManagement(t.Context(), record.Management{Consumer: "mc2", BaseDomain: "b.example.com",
				Publish: controlplane.LoadBalancer})
			require.NoError(t, err)
			s.settleAll(t.Context())
			require.Equal(t, "mc2", s.cluster("edge1").Consumer)
			require.NotNil(t, s.bundle(s.pool("edge1", "np1").Bundle))
			s.put("edge2", test.body)
			require.Equal(t, map[bool]string{true: "mc2", false: "mc1"}[test.name == "network"],
				s.cluster("edge2").Consumer)
		})
	}
}

func TestCluster_succeedsWhenItIsAvailable(t *testing.T) {
	s := withManagement(t)
	result := s.put("edge1", plain)
	c := s.cluster("edge1")
	s.report(c.Namespaces)
	s.report(c.Control, waiting("HostedCluster", "EtcdAvailable", "no volume"))
	c = s.cluster("edge1")
	require.Equal(t, record.Provisioning, c.State)
	require.Equal(t, "EtcdAvailable: no volume.", c.Reason)
	require.Equal(t, record.Provisioning, s.operation(result.Operation.ID).Status)
	s.report(c.Control, available(1, "4.19.7"))
	c = s.cluster("edge1")
	require.Equal(t, record.Succeeded, c.State)
	require.Empty(t, c.Reason)
	shown, err := s.ShowCluster(s.id("EDGE1"))
	require.NoError(t, err)
	require.Equal(t, "https://api.edge1.hosted.example.com:30123", shown.Text("properties.api.url"))
	operation := s.operation(result.Operation.ID)
	require.Equal(t, record.Succeeded, operation.Status)
	require.False(t, operation.End.IsZero())
}

// Reports that must not make a cluster available.
func TestCluster_oldOrIncompleteReportsAreNotEnough(t *testing.T) {
	for name, report := range map[string]func(*site, *bundle.Bundle){
		"old resourceversion": func(s *site, b *bundle.Bundle) {
			s.reportAs(b, b.Version-1, b.Version-1, available(1, "4.19.7"))
		},
		"conditions of an older HostedCluster": func(s *site, b *bundle.Bundle) {
			o := available(1, "4.19.7")
			o.generation = 2
			s.reportAs(b, b.Version, b.Version, o)
		},
		"another version": func(s *site, b *bundle.Bundle) {
			s.reportAs(b, b.Version, b.Version, available(1, "4.18.0"))
		},
		"broken status": func(s *site, b *bundle.Bundle) {
			s.reportAs(b, b.Version, b.Version, feedback{kind: "HostedCluster", status: "{", generation: 1})
		},
		"refused manifest": func(s *site, b *bundle.Bundle) {
			s.reportAs(b, b.Version, b.Version, available(1, "4.19.7"),
				feedback{kind: "Secret", name: "pull-secret", refused: "forbidden"})
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := withManagement(t)
			s.put("edge1", plain)
			s.isNotEnough(func(b *bundle.Bundle) { report(s, b) })
			s.requireDeleted()
		})
	}
}

// isNotEnough requires that a report about the bundle of edge1 does not make it available.
func (s *site) isNotEnough(report func(*bundle.Bundle)) {
	s.t.Helper()
	c := s.cluster("edge1")
	s.report(c.Namespaces)
	report(s.bundle(c.Control))
	c = s.cluster("edge1")
	require.NotEqual(s.t, record.Succeeded, c.State)
	require.NotEmpty(s.t, c.Reason)
}

func TestCluster_timeWithObstacleDoesNotCount(t *testing.T) {
	for _, test := range []struct {
		name     string
		set      func(s *site, on bool)
		reason   string
		deleting string
	}{
		{"not connected", func(s *site, on bool) { s.connected = !on }, "mc1 is not connected.",
			"mc1 is not connected. It deletes"},
		{"held", (*site).hold, "mc1 is held, so nothing is sent to it. Show why with landfall hcp connection mc1.",
			"mc1 is held"},
		{"damaged hold", (*site).damagedHold, "mc1 is held, so nothing is sent to it.", "mc1 is held"},
		{"wrong clock", func(s *site, on bool) { s.clockWrong = on },
			"The clock of the management cluster mc1 was set back",
			"was set back"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := withManagement(t)
			s.connected = true
			obstacles := s.check(t.Context(), nil)
			test.set(s, true)
			result := s.put("edge1", plain)
			s.putPool("edge1", "np1", poolBody)
			contains(t, s.cluster("edge1").Reason, test.reason)
			contains(t, s.pool("edge1", "np1").Reason, test.reason)
			for range int(creationTime/watchInterval) + 5 {
				obstacles = s.check(t.Context(), obstacles)
				s.clock.Advance(watchInterval)
			}
			require.Equal(t, record.Accepted, s.cluster("edge1").State)
			test.set(s, false)
			obstacles = s.check(t.Context(), obstacles)
			contains(t, s.cluster("edge1").Reason, "mc1 has not reported yet")
			contains(t, s.pool("edge1", "np1").Reason, "mc1 has not reported yet")
			s.bringUp("edge1")
			require.Equal(t, record.Succeeded, s.operation(result.Operation.ID).Status)
			_, err := s.DeleteCluster(t.Context(), s.caller, s.id("edge1"))
			require.NoError(t, err)
			contains(t, s.cluster("edge1").Reason, "mc1 has not reported yet that it deleted")
			test.set(s, true)
			s.check(t.Context(), obstacles)
			contains(t, s.cluster("edge1").Reason, test.deleting)
		})
	}
}

func TestCluster_invalidConfigurationFails(t *testing.T) {
	s := withManagement(t)
	result := s.put("edge1", plain)
	c := s.cluster("edge1")
	s.report(c.Namespaces)
	s.report(c.Control, waiting("HostedCluster", "ValidConfiguration", "bad network"))
	require.Equal(t, record.Failed, s.cluster("edge1").State)
	operation := s.operation(result.Operation.ID)
	require.Equal(t, record.Failed, operation.Status)
	require.Equal(t, "ValidConfiguration", operation.Error.Code)
}

func TestCluster_changeIsReportedAgain(t *testing.T) {
	s := withCluster(t)
	result := s.put("edge1", `{"location":"site","properties":{"version":{"id":"4.20"}}}`)
	c := s.cluster("edge1")
	require.Equal(t, record.Accepted, c.State)
	require.EqualValues(t, 2, s.bundle(c.Control).Version)
	s.reportAs(s.bundle(c.Control), 2, 1, available(1, "4.19.7"))
	require.Equal(t, record.Accepted, s.cluster("edge1").State, "the conditions are about the version before")
	s.report(c.Control, available(2, "4.19.7"))
	require.Equal(t, record.Updating, s.cluster("edge1").State, "the upgrade has not ended")
	s.report(c.Control, available(2, "4.20.1"))
	require.Equal(t, record.Succeeded, s.cluster("edge1").State)
	require.Equal(t, record.Succeeded, s.operation(result.Operation.ID).Status)
	_, err := s.PutCluster(t.Context(), s.caller, s.id("edge1"), document(
		`{"location":"site","properties":{"version":{"id":"4.19"}}}`))
	contains(t, err.Error(), "can't go back")
}

func TestCluster_deletionEndsRunningCreation(t *testing.T) {
	s := withManagement(t)
	created := s.put("edge1", plain)
	s.putPool("edge1", "np1", poolBody)
	c, p := s.cluster("edge1"), s.pool("edge1", "np1")
	deleted, err := s.DeleteCluster(t.Context(), s.caller, s.id("edge1"))
	require.NoError(t, err)
	operation := s.operation(created.Operation.ID)
	require.Equal(t, record.Canceled, operation.Status)
	contains(t, operation.Error.Message, "superseded")
	require.True(t, s.operation(s.pool("edge1", "np1").Operation).Implicit)

	require.True(t, s.bundle(p.Bundle).Deleting())
	require.False(t, s.bundle(c.Control).Deleting(), "the node pools go first")
	contains(t, s.cluster("edge1").Reason, "np1 is being deleted")
	s.remove(p.Bundle)
	require.True(t, s.bundle(c.Control).Deleting())
	require.False(t, s.bundle(c.Namespaces).Deleting(), "the namespaces go last")
	s.remove(c.Control)
	s.remove(c.Namespaces)
	require.Nil(t, s.cluster("edge1"))
	require.Equal(t, record.Succeeded, s.operation(deleted.Operation.ID).Status)
	_, err = s.ShowCluster(s.id("edge1"))
	require.Equal(t, arm.CodeResourceNotFound, code(err))
	require.NoError(t, s.DB.View(func(tx *store.Tx) error {
		return bundle.Each(tx, func(b *bundle.Bundle) error {
			require.Fail(t, "a bundle is left over", b.Name)
			return nil
		})
	}))
}

func TestCluster_deletionWithoutManagementCluster(t *testing.T) {
	s := newSite(t)
	s.put("edge1", plain)
	deleted, err := s.DeleteCluster(t.Context(), s.caller, s.id("edge1"))
	require.NoError(t, err)
	require.Nil(t, s.cluster("edge1"), "nobody has received it")
	require.Equal(t, record.Succeeded, s.operation(deleted.Operation.ID).Status)
}

func TestCluster_unknownReleaseNamesTheKnownOnes(t *testing.T) {
	s := withManagement(t)
	_, err := s.PutCluster(t.Context(), s.caller, s.id("edge1"),
		document(`{"location":"site","properties":{"version":{"id":"4.17"}}}`))
	contains(t, err.Error(), "4.17", "4.20.1, 4.19.7, 4.19.3")
}

// The cluster keeps its release when the settings of the site have lost it.
func TestCluster_keepsReleaseThatSiteNoLongerOffers(t *testing.T) {
	s := withManagement(t)
	s.put("edge1", `{"location":"site","properties":{"version":{"id":"4.19"}}}`)
	s.bringUp("edge1")
	s.releases = []Release{{Version: "4.19.8", Image: "q/r@sha256:8", Default: true}}
	s.put("edge1", `{"location":"site","tags":{"a":"b"},"properties":{"version":{"id":"4.19"}}}`)
	require.Equal(t, record.Release{Version: "4.19.7", Image: "q/r@sha256:7"}, s.cluster("edge1").Release)
	s.put("edge1", `{"location":"site","properties":{"version":{"id":"4.19.8"}}}`)
	require.Equal(t, "4.19.8", s.cluster("edge1").Release.Version)
}

// A request that names no version asks for no other release.
func TestCluster_keepsReleaseWithoutVersion(t *testing.T) {
	s := withManagement(t)
	s.put("edge1", `{"location":"site","properties":{"version":{"id":"4.20.1"}}}`)
	s.bringUp("edge1")
	wanted := s.cluster("edge1").Release
	requireKept := func(shown arm.Document) {
		t.Helper()
		require.Equal(t, wanted, s.cluster("edge1").Release)
		require.Equal(t, minorOf(wanted.Version), shown.Text("properties.version.id"))
	}
	requireKept(s.put("edge1", plain).Resource)
	patched, err := s.PatchCluster(t.Context(), s.caller, s.id("edge1"), document(`{"properties":{"version":null}}`))
	require.NoError(t, err)
	requireKept(patched.Resource)
	s.releases = append(s.releases, Release{Version: "4.21.0", Image: "q/r@sha256:0"})
	for i := range s.releases {
		s.releases[i].Default = s.releases[i].Version == "4.21.0"
	}
	requireKept(s.put("edge1", plain).Resource)
	require.EqualValues(t, 1, s.bundle(s.cluster("edge1").Control).Version)
}

func TestCluster_prefixIsUnique(t *testing.T) {
	s := withManagement(t)
	s.put("edge1", plain)
	other := s.id("edge1")
	other.Group = "other"
	result, err := s.PutCluster(t.Context(), s.caller, other, document(plain))
	require.NoError(t, err)
	require.Regexp(t, "^edge1-[0-9a-v]{4}$", result.Resource.Text("properties.dns.baseDomainPrefix"))
	_, err = s.PutCluster(t.Context(), s.caller, s.id("edge3"),
		document(`{"location":"site","properties":{"dns":{"baseDomainPrefix":"edge1"}}}`))
	contains(t, err.Error(), "edge1 already has the domain prefix")
}

func TestList_pagesAreStableUnderInserts(t *testing.T) {
	s := newSite(t)
	for _, name := range []string{"a1", "a2", "b1", "b2", "b3"} {
		s.put(name, plain)
	}
	first, next, err := s.ListClusters(s.id(""), "", 2)
	require.NoError(t, err)
	require.Len(t, first, 2)
	s.put("a0", plain)
	s.put("a3", plain)
	var names []string
	for next != "" {
		var page []arm.Document
		page, next, err = s.ListClusters(s.id(""), next, 2)
		require.NoError(t, err)
		for _, d := range page {
			names = append(names, d.Text("name"))
		}
	}
	require.Equal(t, []string{"a3", "b1", "b2", "b3"}, names)
}

func TestSubscription_states(t *testing.T) {
	s := newSite(t)
	unknown := s.id("edge1")
	unknown.Subscription = "11111111-1111-1111-1111-111111111111"
	_, err := s.PutCluster(t.Context(), s.caller, unknown, document(plain))
	require.Equal(t, arm.CodeInvalidSubscriptionState, code(err))
	require.Equal(t, fault.Invalid, fault.KindOf(err))
	contains(t, err.Error(), "Use the subscription of this appliance, "+s.subscription+".")
	_, created, err := s.PutSubscription(t.Context(), unknown.Subscription, &SubscriptionDocument{State: "Registered"})
	require.NoError(t, err)
	require.True(t, created)
	_, err = s.PutCluster(t.Context(), s.caller, unknown, document(plain))
	require.NoError(t, err)
	for _, state := range []string{"Warned", "Suspended"} {
		_, _, err = s.PutSubscription(t.Context(), unknown.Subscription, &SubscriptionDocument{State: state})
		require.NoError(t, err)
		_, err = s.PutCluster(t.Context(), s.caller, unknown, document(plain))
		require.Equal(t, fault.Conflict, fault.KindOf(err))
		_, err = s.ShowCluster(unknown)
		require.NoError(t, err)
	}
	_, err = s.DeleteCluster(t.Context(), s.caller, unknown)
	require.NoError(t, err, "a suspended subscription can be emptied")
	_, _, err = s.PutSubscription(t.Context(), unknown.Subscription, &SubscriptionDocument{State: "x"})
	require.Equal(t, fault.Invalid, fault.KindOf(err))
}
