package maestro

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"

	"landfall/appliance/hosted/bundle"
	"landfall/appliance/hosted/cloudevent"
	"landfall/appliance/simulate/workagent"
	"landfall/store"
)

var began = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// site is an appliance, and a management cluster with the agent stand-in. Messages are passed on by
// the test, one after the other.
type site struct {
	t       testing.TB
	clock   *clockwork.FakeClock
	dir     string
	db      *store.DB
	service *Service

	cluster *workagent.Cluster
	agent   *workagent.Agent
	link    *Steps // nil: not connected
	// toAgent and toService change the messages on their way: they lose, repeat or reorder them.
	toAgent, toService func([]cloudevent.Message) []cloudevent.Message
	specs              int // number of specs that arrived at the agent
	deletes            int // number of specs that delete
	identity           string
}

func newSite(t testing.TB) *site {
	t.Helper()
	s := &site{t: t, clock: clockwork.NewFakeClockAt(began), dir: t.TempDir(),
		cluster: workagent.NewCluster(operator{}), identity: "first"}
	s.agent = workagent.NewAgent("mc1", s.cluster, s.clock, 0)
	s.open()
	t.Cleanup(func() { require.NoError(t, s.db.Close()) })
	s.update(func(tx *store.Tx) error {
		return bundle.CreateConsumer(tx, &bundle.Consumer{Name: "mc1"}, s.clock.Now())
	})
	return s
}

// operator is a stand-in for HyperShift's operator.
type operator struct{}

func (operator) Owned(map[string]any) []map[string]any { return nil }

func (operator) Reconcile(object map[string]any, _ time.Time) map[string]any {
	if object["kind"] != "HostedCluster" {
		return nil
	}
	return map[string]any{"conditions": []any{map[string]any{"type": "Available", "status": "True"}},
		"release": object["spec"]}
}

func (s *site) open() {
	s.t.Helper()
	var err error
	s.db, err = store.Open(context.Background(), s.dir, store.Options{NoSync: true, Clock: s.clock,
		Floor: uint64(s.clock.Now().UnixMicro())})
	require.NoError(s.t, err)
	s.service, err = New(context.Background(), Options{DB: s.db, Clock: s.clock, Identity: s.identity})
	require.NoError(s.t, err)
}

// restart ends the appliance and starts it again.
func (s *site) restart() {
	s.t.Helper()
	s.cut()
	require.NoError(s.t, s.db.Close())
	s.clock.Advance(time.Second)
	s.open()
}

// backup copies the data directory of the stopped appliance.
func (s *site) backup() (dir string) {
	s.t.Helper()
	s.cut()
	require.NoError(s.t, s.db.Close())
	dir = s.t.TempDir()
	copyDir(s.t, s.dir, dir)
	s.clock.Advance(time.Second)
	s.open()
	return dir
}

// restore replaces the data directory with a backup.
func (s *site) restore(dir string) {
	s.t.Helper()
	s.cut()
	require.NoError(s.t, s.db.Close())
	require.NoError(s.t, os.RemoveAll(s.dir))
	copyDir(s.t, dir, s.dir)
	s.clock.Advance(time.Second)
	s.open()
}

func copyDir(t testing.TB, from, to string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rest, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		if entry.IsDir() {
			return os.MkdirAll(filepath.Join(to, rest), 0o700)
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, rest), content, 0o600)
	}))
}

// fullDisk makes writes to files fail, as on a full disk, until free is called.
func fullDisk(t testing.TB) (free func()) {
	t.Helper()
	signal.Ignore(syscall.SIGXFSZ)
	limit := new(syscall.Rlimit)
	require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_FSIZE, limit))
	free = func() { require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, limit)) }
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 0, Max: limit.Max}))
	return free
}

func (s *site) update(fn func(*store.Tx) error) {
	s.t.Helper()
	require.NoError(s.t, s.db.Update(context.Background(), fn))
}

func (s *site) view(fn func(*store.Tx) error) {
	s.t.Helper()
	require.NoError(s.t, s.db.View(fn))
}

// manifests are those of a hosted cluster with a release.
func manifests(cluster, release string) []json.RawMessage {
	return []json.RawMessage{
		json.RawMessage(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"ocm-` + cluster + `"}}`),
		json.RawMessage(`{"apiVersion":"hypershift.openshift.io/v1beta1","kind":"HostedCluster","metadata":{"name":"` +
			cluster + `","namespace":"ocm-` + cluster + `"},"spec":{"release":"` + release + `"}}`),
	}
}

// configs let the agent report the status of a hosted cluster.
func configs(cluster string) []json.RawMessage {
	return []json.RawMessage{json.RawMessage(`{"resourceIdentifier":{"group":"hypershift.openshift.io",` +
		`"resource":"hostedclusters","namespace":"ocm-` + cluster + `","name":"` + cluster + `"},` +
		`"updateStrategy":{"type":"ServerSideApply"},` +
		`"feedbackRules":[{"type":"JSONPaths","jsonPaths":[{"name":"status","path":".status"}]}]}`)}
}

// create creates the bundle of a hosted cluster.
func (s *site) create(cluster string) (id string) {
	s.t.Helper()
	b := &bundle.Bundle{Name: cluster, Consumer: "mc1", Labels: map[string]string{bundle.LabelCluster: cluster},
		Manifests: manifests(cluster, "1"), Configs: configs(cluster)}
	s.update(func(tx *store.Tx) error { return bundle.Create(tx, b, s.clock.Now()) })
	return b.ID
}

// edit changes the release of a hosted cluster.
func (s *site) edit(id, release string) {
	s.t.Helper()
	s.update(func(tx *store.Tx) error {
		_, err := bundle.Update(tx, id, 0, s.clock.Now(), func(b *bundle.Bundle) error {
			b.Manifests = manifests(b.Name, release)
			return nil
		})
		return err
	})
}

// remove deletes a bundle, as a person does.
func (s *site) remove(id string) {
	s.t.Helper()
	s.update(func(tx *store.Tx) error { return bundle.Delete(tx, id, "anna", s.clock.Now()) })
}

// connect starts a session of the agent, and passes messages on until both sides are silent.
func (s *site) connect() {
	s.t.Helper()
	s.dial()
	s.settle()
}

// dial starts a session of the agent.
func (s *site) dial() {
	s.t.Helper()
	s.cut()
	s.link = s.service.Step("mc1")
	s.send(s.agent.Hello())
}

// cut ends the session. Messages on their way are lost.
func (s *site) cut() {
	if s.link != nil {
		s.link.End()
		s.link = nil
	}
}

// send passes messages of the agent on.
func (s *site) send(messages ...cloudevent.Message) {
	s.t.Helper()
	if s.toService != nil {
		messages = s.toService(messages)
	}
	if s.link == nil {
		return
	}
	for _, err := range s.link.Receive(context.Background(), messages...) {
		require.NoError(s.t, err)
	}
}

// settle passes messages on until both sides are silent.
func (s *site) settle() {
	s.t.Helper()
	for range 100 {
		if s.link == nil {
			return
		}
		messages, err := s.link.Send(context.Background())
		require.NoError(s.t, err)
		if len(messages) == 0 {
			return
		}
		if s.toAgent != nil {
			messages = s.toAgent(messages)
		}
		s.handle(messages)
	}
	s.t.Fatal("the two sides never come to rest")
}

// handle passes messages on to the agent, and its replies to the service.
func (s *site) handle(messages []cloudevent.Message) {
	s.t.Helper()
	for _, m := range messages {
		s.count(m)
		s.clock.Advance(time.Millisecond)
		s.send(s.agent.Handle(m)...)
	}
}

func (s *site) count(m cloudevent.Message) {
	event, err := cloudevent.Parse(m)
	require.NoError(s.t, err)
	if event.SubResource == cloudevent.Spec {
		s.specs++
		if !event.Deleted.IsZero() {
			s.deletes++
		}
	}
}

// poll lets the agent report changed statuses.
func (s *site) poll() {
	s.t.Helper()
	s.clock.Advance(10 * time.Second)
	s.send(s.agent.Poll(1 << 62)...)
	s.settle()
}

// restartAgent replaces the agent by one that knows nothing. The cluster stays.
func (s *site) restartAgent(clockError time.Duration) {
	s.cut()
	s.agent = workagent.NewAgent("mc1", s.cluster, s.clock, clockError)
}

// status returns the stored status of a bundle.
func (s *site) status(id string) (status *bundle.Status) {
	s.t.Helper()
	s.view(func(tx *store.Tx) (err error) {
		status, err = bundle.GetStatus(tx, id)
		return err
	})
	return status
}

// row returns a bundle, or nil.
func (s *site) row(id string) (b *bundle.Bundle) {
	s.t.Helper()
	s.view(func(tx *store.Tx) error {
		var err error
		if b, err = bundle.Get(tx, id); err != nil {
			b = nil
		}
		return nil
	})
	return b
}

// held returns the hold and the open findings.
func (s *site) held() (hold *Hold, open []*Finding) {
	s.t.Helper()
	s.view(func(tx *store.Tx) (err error) {
		if hold, err = GetHold(tx, "mc1"); err != nil {
			return err
		}
		return EachFinding(tx, "mc1", func(f *Finding) error {
			if f.isOpen() {
				open = append(open, f)
			}
			return nil
		})
	})
	return hold, open
}

// decide decides about a bundle.
func (s *site) decide(id string, decision Decision, name string) error {
	return s.service.Decide(context.Background(), "mc1", id, decision, name, "anna")
}

// release returns the release of a hosted cluster on the management cluster, or "".
func (s *site) release(cluster string) string {
	text := s.cluster.Object(workagent.Ref{Group: "hypershift.openshift.io", Version: "v1beta1", Kind: "HostedCluster",
		Namespace: "ocm-" + cluster, Name: cluster})
	if text == nil {
		return ""
	}
	var object struct {
		Spec struct {
			Release string `json:"release"`
		} `json:"spec"`
	}
	require.NoError(s.t, json.Unmarshal(text, &object))
	return object.Spec.Release
}

// requireDeleted requires that the management cluster got HostedClusters, and that exactly those
// were deleted there that somebody deleted.
func (s *site) requireDeleted(clusters ...string) {
	s.t.Helper()
	there, deleted := s.cluster.HostedClusters()
	require.NotEmpty(s.t, append(there, deleted...))
	require.ElementsMatch(s.t, clusters, deleted, "deleted HostedClusters")
}

// statusOf returns a status that an agent could send.
func statusOf(id string, version int64, change func(*cloudevent.Event)) cloudevent.Message {
	event := &cloudevent.Event{ID: "1", Source: "mc1-work-agent", SubResource: cloudevent.Status,
		Action: cloudevent.Update, Time: began, Consumer: "mc1", OriginalSource: "maestro", ResourceID: id,
		ResourceVersion: version, StatusHash: "ab",
		SequenceID: fmt.Sprint(uint64(began.Add(24*time.Hour).UnixMilli()-snowflakeEpoch) << 22),
		Data:       json.RawMessage(`{"conditions":[],"resourceStatus":[]}`)}
	change(event)
	return event.Message()
}
