package controlplane_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"

	"landfall/appliance/hosted/arm"
	"landfall/appliance/hosted/bundle"
	"landfall/appliance/hosted/cloudevent"
	"landfall/appliance/hosted/controlplane"
	"landfall/appliance/hosted/record"
	"landfall/appliance/simulate/hypershift"
	"landfall/appliance/simulate/workagent"
)

// nested is a hosted cluster on a management cluster of stand-ins with the nested layout.
type nested struct {
	t       *testing.T
	clock   *clockwork.FakeClock
	agent   *workagent.Agent
	cluster *workagent.Cluster
	in      controlplane.Input
}

func newNested(t *testing.T) *nested {
	operator, err := hypershift.New(2)
	require.NoError(t, err)
	n := &nested{t: t, clock: clockwork.NewFakeClock(), cluster: workagent.NewCluster(operator)}
	n.agent = workagent.NewAgent("mc1", n.cluster, n.clock, 0)
	n.in = controlplane.Input{Properties: &arm.ClusterProperties{}, Management: &record.Management{Consumer: "mc1",
		BaseDomain: "hosted.example.com", Publish: controlplane.NodePort, Address: "192.0.2.1",
		Layout: controlplane.Nested},
		Cluster: &record.Cluster{CID: "1a2b", Prefix: "edge1", Release: record.Release{Version: "4.19.7",
			Image: "registry/release:4.19.7"}}}
	n.in.Cluster.ID.Cluster = "Edge1"
	return n
}

// apply gives a version of a bundle to the agent and returns it.
func (n *nested) apply(version int64, content controlplane.Content, err error) *bundle.Bundle {
	n.t.Helper()
	require.NoError(n.t, err)
	b := &bundle.Bundle{ID: content.Name, Name: content.Name, Consumer: "mc1", Version: version,
		Manifests: content.Manifests, Configs: content.Configs}
	data, err := json.Marshal(cloudevent.BundleData{Manifests: b.Manifests, Configs: b.Configs})
	require.NoError(n.t, err)
	n.agent.Handle((&cloudevent.Event{ID: "1", Source: "maestro", SubResource: cloudevent.Spec,
		Action: cloudevent.Create, Time: n.clock.Now(), Consumer: "mc1", ResourceID: b.ID, ResourceVersion: version,
		Data: data}).Message())
	return b
}

// status returns the last status of a bundle.
func (n *nested) status(b *bundle.Bundle) *bundle.Status {
	n.t.Helper()
	n.clock.Advance(time.Minute)
	n.agent.Poll(time.Hour) // the operators work
	ask := &cloudevent.Event{ID: "1", Source: "maestro", SubResource: cloudevent.Status,
		Action: cloudevent.ResyncRequest, Time: n.clock.Now(), Consumer: "mc1", Data: json.RawMessage(`{"statusHashes":[]}`)}
	for _, message := range n.agent.Handle(ask.Message()) {
		event, err := cloudevent.Parse(message)
		require.NoError(n.t, err)
		if event.ResourceID == b.ID {
			return &bundle.Status{ResourceVersion: event.ResourceVersion, Data: event.Data}
		}
	}
	require.FailNow(n.t, "no status of "+b.Name)
	return nil
}

func (n *nested) report(b *bundle.Bundle) controlplane.Report {
	n.t.Helper()
	report, err := controlplane.ReadReport(b, n.status(b))
	require.NoError(n.t, err)
	return report
}

func (n *nested) control() (controlplane.Content, error) { return controlplane.Control(n.in) }

func TestNested_becomesReadyBySingleValues(t *testing.T) {
	n := newNested(t)
	content, err := controlplane.Namespaces(n.in.Cluster, n.in.Management)
	namespaces := n.apply(1, content, err)
	content, err = n.control()
	control := n.apply(1, content, err)
	require.Len(t, control.Manifests, 1)
	name, isNested := controlplane.Work(control)
	require.True(t, isNested)
	require.Equal(t, "1a2b", name)
	require.Len(t, controlplane.Manifests(control), 4)
	content, err = controlplane.ManagedCluster(n.in.Cluster, n.in.Management)
	managed := n.apply(1, content, err)

	applied := n.report(namespaces)
	require.True(t, applied.Current)
	status := n.status(control)
	report, err := controlplane.ReadReport(control, status)
	require.NoError(t, err)
	found := controlplane.ObserveCluster(n.in.Cluster, n.in.Management, applied, report)
	require.Equal(t, controlplane.Ready, found.State, found.Reason)
	require.Regexp(t, `^https://api\.edge1\.hosted\.example\.com:\d+$`, found.APIURL)
	require.Equal(t, "4.19.7", found.Version)
	require.Equal(t, "edge1-admin-kubeconfig", found.KubeconfigRef)
	require.NotContains(t, string(status.Data), "StatusFeedbackSynced", "the agent reports single values")
	hosted, ok := controlplane.LastStatus(status, "HostedCluster")
	require.True(t, ok)
	require.NotEmpty(t, hosted["conditions"])

	require.Len(t, n.report(managed).ManagedCluster(), 3)
}

// A report of the cluster's own agent about older manifests does not count, although Maestro's
// agent has applied the ManifestWork around the present ones.
func TestNested_olderContentIsNotCurrent(t *testing.T) {
	n := newNested(t)
	content, err := n.control()
	first := n.apply(1, content, err)
	old := n.status(first)
	n.in.Cluster.Release.Image = "registry/release:4.19.8"
	content, err = n.control()
	second := n.apply(2, content, err)
	stale := &bundle.Status{ResourceVersion: 2, Data: json.RawMessage(strings.ReplaceAll(string(old.Data),
		`"observedGeneration":1`, `"observedGeneration":2`))}
	report, err := controlplane.ReadReport(second, stale)
	require.NoError(t, err)
	require.False(t, report.Current)
	require.True(t, n.report(second).Current)
}

func TestNested_workWithoutStatusIsNotCurrent(t *testing.T) {
	n := newNested(t)
	content, err := n.control()
	b := n.apply(1, content, err)
	for _, resources := range []string{`[]`, `[{"resourceMeta":{"kind":"ManifestWork"}}]`,
		`[{"resourceMeta":{"kind":"ManifestWork"},"statusFeedback":{"values":[{"name":"status","fieldValue":{"jsonRaw":"{"}}]}}]`,
		`[{"resourceMeta":{"kind":"ManifestWork"},"statusFeedback":{"values":[{"name":"status","fieldValue":{"jsonRaw":"{}"}}]}}]`,
	} {
		report, err := controlplane.ReadReport(b, &bundle.Status{ResourceVersion: 1, Data: json.RawMessage(
			`{"conditions":[{"type":"Applied","status":"True","observedGeneration":1}],"resourceStatus":` + resources + `}`)})
		require.NoError(t, err)
		require.False(t, report.Current, resources)
		require.Empty(t, report.Refused())
	}
	report, err := controlplane.ReadReport(b, &bundle.Status{ResourceVersion: 1, Data: json.RawMessage(
		`{"conditions":[{"type":"Applied","status":"False","observedGeneration":1}],"resourceStatus":[{"resourceMeta":` +
			`{"kind":"ManifestWork","name":"1a2b"},"conditions":[{"type":"Applied","status":"False","message":` +
			`"no matches for kind ManifestWork"}]}]}`)})
	require.NoError(t, err)
	require.Contains(t, report.Refused(), "install the multicluster engine operator there")
}
