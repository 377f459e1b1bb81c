package provider

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"

	"landfall/appliance/hosted/arm"
	"landfall/appliance/hosted/bundle"
	"landfall/appliance/hosted/controlplane"
	"landfall/appliance/hosted/maestro"
	"landfall/appliance/hosted/record"
	"landfall/appliance/simulate/workagent"
	"landfall/store"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// site is a resource provider with the management cluster mc1, whose reports the test writes.
type site struct {
	*Service
	t            testing.TB
	clock        *clockwork.FakeClock
	subscription string
	releases     []Release
	connected    bool
	clockWrong   bool
	caller       Caller
	// applied counts the versions of each bundle that the management cluster has reported.
	generations map[string]int64
	// simulated is the API of mc1, to which agent applies the bundles.
	simulated *workagent.Cluster
	agent     *workagent.Agent
}

func (s *site) Releases() []Release { return s.releases }

func (s *site) HostedSite() (controlplane.Site, error) {
	return controlplane.Site{PullSecret: `{"auths":{}}`, SSHPublicKey: "ssh-ed25519 A", CABundle: "CA",
		Mirrors: []arm.ImageMirror{{Source: "quay.io/x", Mirrors: []string{"mirror.example.com/x"}}}}, nil
}

// newSite returns a site without a management cluster.
func newSite(t testing.TB) *site {
	t.Helper()
	db, err := store.Open(context.Background(), t.TempDir(), store.Options{NoSync: true})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	s := &site{t: t, clock: clockwork.NewFakeClockAt(start), caller: Caller{Name: "person ana",
		Version: arm.DefaultVersion},
		generations: map[string]int64{}, releases: []Release{{Version: "4.19.7", Image: "q/r@sha256:7", Default: true},
			{Version: "4.19.3", Image: "q/r@sha256:3"}, {Version: "4.20.1", Image: "q/r@sha256:1"}}}
	s.simulated = workagent.NewCluster(nil)
	s.agent = workagent.NewAgent("mc1", s.simulated, s.clock, 0)
	s.Service, err = Open(t.Context(), Options{DB: db, Site: s, Clock: s.clock, Logger: slog.New(slog.DiscardHandler),
		Connected:  func(string) bool { return s.connected },
		ClockWrong: func(string) bool { return s.clockWrong }})
	require.NoError(t, err)
	t.Cleanup(s.requireNoUnaskedDeletion)
	seeded, err := s.Seeded()
	require.NoError(t, err)
	s.subscription = seeded.ID
	return s
}

// requireNoUnaskedDeletion checks that the management cluster is not told to delete the
// HostedCluster of a cluster that nobody deleted.
func (s *site) requireNoUnaskedDeletion() {
	s.t.Helper()
	require.NoError(s.t, s.DB.View(func(tx *store.Tx) error {
		return record.EachCluster(tx, "", "", func(c *record.Cluster) error {
			if c.State == record.Deleting || c.Control == "" {
				return nil
			}
			b, err := bundle.Get(tx, c.Control)
			if err == nil {
				require.False(s.t, b.Deleting(), "nobody deleted %s", c.ID.Cluster)
			}
			return err
		})
	}))
}

// deliver applies the bundles to the simulated API of the management cluster.
func (s *site) deliver() {
	s.t.Helper()
	require.NoError(s.t, s.DB.View(func(tx *store.Tx) error {
		_, err := s.agent.Deliver(tx)
		return err
	}))
}

// requireDeleted requires that the management cluster got HostedClusters, and that exactly those
// were deleted there that somebody deleted.
func (s *site) requireDeleted(names ...string) {
	s.t.Helper()
	s.deliver()
	there, deleted := s.simulated.HostedClusters()
	require.NotEmpty(s.t, append(there, deleted...))
	require.ElementsMatch(s.t, names, deleted, "deleted HostedClusters")
}

// withManagement returns a site with the management cluster mc1, which has default networks.
func withManagement(t testing.TB) *site {
	t.Helper()
	s := newSite(t)
	s.addManagement()
	return s
}

// withCluster returns a site with the hosted cluster edge1, which is available.
func withCluster(t testing.TB) *site {
	t.Helper()
	s := withManagement(t)
	s.put("edge1", plain)
	s.bringUp("edge1")
	return s
}

func (s *site) addManagement() {
	s.t.Helper()
	_, err := s.AddManagement(context.Background(), record.Management{Consumer: "mc1", BaseDomain: "hosted.example.com",
		Publish: controlplane.NodePort, Address: "192.168.1.10", PodNetworks: []string{"10.128.0.0/14"},
		ServiceNetworks: []string{"172.30.0.0/16"}, MachineNetworks: []string{"192.168.1.0/24"},
		AgentNamespace: "hall-2", Profiles: []string{"large", "small"}})
	require.NoError(s.t, err)
	s.settleAll(context.Background())
}

// hold holds mc1, or ends its hold.
func (s *site) hold(held bool) {
	s.t.Helper()
	holds := store.NewBucket[maestro.Hold]("hosted-holds", 1)
	require.NoError(s.t, s.DB.Update(context.Background(), func(tx *store.Tx) error {
		if !held {
			return holds.Delete(tx, "mc1")
		}
		return holds.Put(tx, "mc1", &maestro.Hold{Consumer: "mc1", Cause: maestro.HoldPerson, Since: s.now()})
	}))
}

// damagedHold is like hold, with a row that can't be read.
func (s *site) damagedHold(held bool) {
	s.t.Helper()
	s.hold(false)
	if held {
		broken := json.RawMessage("5")
		require.NoError(s.t, s.DB.Update(context.Background(), func(tx *store.Tx) error {
			return store.NewBucket[json.RawMessage]("hosted-holds", 1).Put(tx, "mc1", &broken)
		}))
	}
}

func (s *site) id(cluster string) arm.ID {
	return arm.ID{Subscription: s.subscription, Group: "Hall-2", Cluster: cluster}
}

func (s *site) poolID(cluster, pool string) arm.ID {
	id := s.id(cluster)
	id.Child, id.ChildType = pool, arm.NodePools
	return id
}

func document(text string) arm.Document {
	d, err := arm.Decode([]byte(text))
	if err != nil {
		panic(err)
	}
	return d
}

func (s *site) put(cluster, body string) *Result {
	s.t.Helper()
	result, err := s.PutCluster(context.Background(), s.caller, s.id(cluster), document(body))
	require.NoError(s.t, err)
	return result
}

func (s *site) putPool(cluster, pool, body string) *Result {
	s.t.Helper()
	result, err := s.PutNodePool(context.Background(), s.caller, s.poolID(cluster, pool), document(body))
	require.NoError(s.t, err)
	return result
}

const (
	plain    = `{"location":"site"}`
	poolBody = `{"location":"site","properties":{"platform":{"vmSize":"large"},"replicas":2}}`
)

// cluster returns the row of a cluster, or nil.
func (s *site) cluster(name string) (c *record.Cluster) {
	s.t.Helper()
	require.NoError(s.t, s.DB.View(func(tx *store.Tx) (err error) {
		c, err = record.FindCluster(tx, s.id(name))
		return err
	}))
	return c
}

func (s *site) pool(cluster, name string) (p *record.NodePool) {
	s.t.Helper()
	c := s.cluster(cluster)
	require.NoError(s.t, s.DB.View(func(tx *store.Tx) (err error) {
		p, err = record.GetNodePool(tx, c.CID, name)
		return err
	}))
	return p
}

func (s *site) operation(id string) *record.Operation {
	s.t.Helper()
	o, err := s.Operation(s.subscription, id, s.caller)
	require.NoError(s.t, err)
	require.NotNil(s.t, o)
	return o
}

func (s *site) bundle(id string) (b *bundle.Bundle) {
	s.t.Helper()
	require.NoError(s.t, s.DB.View(func(tx *store.Tx) (err error) {
		b, err = bundle.Get(tx, id)
		if errors.Is(err, bundle.ErrNotFound) {
			b, err = nil, nil
		}
		return err
	}))
	return b
}

// feedback is what the agent reads from an object: its status and generation, or single texts.
type feedback struct {
	kind, name string
	status     string // JSON
	generation int64
	texts      map[string]string
	refused    string // why the object was not applied
	unsynced   string // why a value could not be read
}

// report writes a report of the management cluster about the present version of a bundle, and
// settles its cluster.
func (s *site) report(id string, objects ...feedback) {
	s.t.Helper()
	s.deliver()
	b := s.bundle(id)
	require.NotNil(s.t, b)
	s.reportAs(b, b.Version, b.Version, objects...)
}

// reportAs writes a report about a version of a bundle whose conditions are about another one.
func (s *site) reportAs(b *bundle.Bundle, version, observed int64, objects ...feedback) {
	s.t.Helper()
	condition := func(ok bool, message string) map[string]any {
		status := "True"
		if !ok {
			status = "False"
		}
		return map[string]any{"type": "Applied", "status": status, "message": message, "observedGeneration": observed}
	}
	var resources []any
	all := true
	for _, o := range objects {
		values := []any{}
		if o.status != "" {
			values = append(values, map[string]any{"name": "status", "fieldValue": map[string]any{"type": "JsonRaw",
				"jsonRaw": o.status}}, map[string]any{"name": "generation",
				"fieldValue": map[string]any{"type": "Integer",
					"integer": o.generation}})
		}
		for name, text := range o.texts {
			values = append(values, map[string]any{"name": name, "fieldValue": map[string]any{"type": "String",
				"string": text}})
		}
		all = all && o.refused == ""
		conditions := []any{condition(o.refused == "", o.refused)}
		if o.unsynced != "" {
			conditions = append(conditions, map[string]any{"type": "StatusFeedbackSynced", "status": "False",
				"message": o.unsynced})
		}
		resources = append(resources, map[string]any{"resourceMeta": map[string]any{"kind": o.kind, "name": o.name},
			"statusFeedback": map[string]any{"values": values}, "conditions": conditions})
	}
	data, err := json.Marshal(map[string]any{"conditions": []any{condition(all, "")}, "resourceStatus": resources})
	require.NoError(s.t, err)
	require.NoError(s.t, s.DB.Update(context.Background(), func(tx *store.Tx) error {
		return bundle.PutStatus(tx, b.ID, &bundle.Status{ResourceVersion: version, SequenceID: "1", Received: s.now(),
			Data: data})
	}))
	s.settle(context.Background(), []string{b.Labels[bundle.LabelCluster]})
}

// remove is the report that nothing of a deleted bundle is left.
func (s *site) remove(id string) {
	s.t.Helper()
	b := s.bundle(id)
	require.NotNil(s.t, b)
	require.True(s.t, b.Deleting(), "the bundle %s is deleted", b.Name)
	s.deliver()
	require.NoError(s.t, s.DB.Update(context.Background(), func(tx *store.Tx) error { return bundle.Remove(tx, id) }))
	s.settle(context.Background(), []string{b.Labels[bundle.LabelCluster]})
}

// available is the status of a HostedCluster that is available.
func available(generation int64, version string) feedback {
	return feedback{kind: "HostedCluster", generation: generation, status: fmt.Sprintf(`{
		"conditions":[{"type":"Available","status":"True","observedGeneration":%d},
			{"type":"ValidConfiguration","status":"True","observedGeneration":%d}],
		"version":{"history":[{"state":"Completed","version":"%s"}]},
		"controlPlaneEndpoint":{"host":"192.168.1.10","port":30123},
		"kubeconfig":{"name":"edge1-admin-kubeconfig"}}`, generation, generation, version)}
}

// waiting is the status of a HostedCluster or NodePool with a false condition.
func waiting(kind, condition, message string) feedback {
	return feedback{kind: kind, generation: 1, status: fmt.Sprintf(
		`{"conditions":[{"type":"%s","status":"False","message":"%s","observedGeneration":1}]}`, condition, message)}
}

func nodes(generation int64, replicas int) feedback {
	return feedback{kind: "NodePool", generation: generation, status: fmt.Sprintf(
		`{"replicas":%d,"version":"4.19.7","conditions":[{"type":"Ready","status":"True","observedGeneration":%d}]}`,
		replicas, generation)}
}

// bringUp reports a cluster as available.
func (s *site) bringUp(name string) {
	s.t.Helper()
	c := s.cluster(name)
	s.report(c.Namespaces)
	s.report(c.Control, available(1, c.Release.Version))
	require.Equal(s.t, record.Succeeded, s.cluster(name).State)
}

// code returns the code of an error of the resource provider, or "".
func code(err error) string {
	if failure, ok := errors.AsType[*arm.Error](err); ok {
		return failure.Code
	}
	return ""
}

func contains(t testing.TB, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		require.True(t, strings.Contains(text, part), "%q contains %q", text, part)
	}
}
