package overview

import (
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/go-openapi/strfmt"
	"github.com/jonboulle/clockwork"
	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"

	"landfall/appliance/backup"
	"landfall/appliance/bmc"
	"landfall/appliance/engine/record"
	"landfall/appliance/hosted/bundle"
	"landfall/appliance/hosted/maestro"
	"landfall/appliance/hosted/workers"
	"landfall/appliance/replica"
	"landfall/appliance/storage"
	"landfall/store"
	"landfall/store/wal/waltest"
)

const clusterID = "0a5d0f3e-0000-4000-8000-000000000001"

// site is a store with rows, and its reader.
type site struct {
	*Reader
	t     *testing.T
	db    *store.DB
	dir   string
	clock *clockwork.FakeClock
	hosts int
	// replica is the state of the replica; nil: there is none
	replica *replica.State
	// backups is the state of the scheduled backups; nil: there are none
	backups *backup.State
}

func newSite(t *testing.T, servers ...*bmc.Server) *site {
	s := &site{t: t, dir: t.TempDir(), clock: clockwork.NewFakeClockAt(time.Unix(1_700_000_000, 0))}
	var err error
	s.db, err = store.Open(t.Context(), filepath.Join(s.dir, "store"), store.Options{NoSync: true, Clock: s.clock})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.db.Close()) })
	s.Reader = NewReader(s.db, func() ([]*bmc.Server, error) { return servers, nil },
		storage.NewUsage(s.dir, s.clock), func() *replica.State { return s.replica },
		func() *backup.State { return s.backups }, s.clock)
	return s
}

func (s *site) addCluster(id, name, status string) {
	row := &record.Cluster{}
	row.API.Name, row.API.Status, row.API.OpenshiftVersion = name, &status, "4.20.8"
	info := "about " + name
	row.API.StatusInfo = &info
	row.API.Progress = &models.ClusterProgressInfo{TotalPercentage: 40}
	err := s.db.Update(s.t.Context(), func(tx *store.Tx) error { return record.Clusters.Put(tx, id, row) })
	require.NoError(s.t, err)
}

func (s *site) addHost(name, status, cluster string) {
	s.hosts++
	id, env := strfmt.UUID("host-"+strconv.Itoa(s.hosts)), strfmt.UUID("env")
	row := &record.Host{Hostname: name}
	row.API.ID, row.API.InfraEnvID, row.API.Status = &id, env, &status
	if cluster != "" {
		of := strfmt.UUID(cluster)
		row.API.ClusterID = &of
	}
	err := s.db.Update(s.t.Context(), func(tx *store.Tx) error {
		return record.Hosts.Put(tx, record.HostKey(row), row)
	})
	require.NoError(s.t, err)
}

func (s *site) overview() *Overview {
	shown, err := s.Overview()
	require.NoError(s.t, err)
	return shown
}

func TestOverview_emptySite(t *testing.T) {
	shown := newSite(t).overview()
	require.Empty(t, shown.Clusters)
	require.Empty(t, shown.Hosts)
	require.NotNil(t, shown.Installations)
	require.NotNil(t, shown.Attention)
}

func TestOverview_countsByStatus(t *testing.T) {
	s := newSite(t)
	s.addCluster("a", "north", "installed")
	s.addCluster("b", "south", "installed")
	s.addCluster("c", "east", "installing")
	s.addHost("one", "installed", "a")
	s.addHost("two", "installing-in-progress", "c")
	shown := s.overview()
	require.Equal(t, map[string]int{"installed": 2, "installing": 1}, shown.Clusters)
	require.Equal(t, map[string]int{"installed": 1, "installing-in-progress": 1}, shown.Hosts)
	require.Equal(t, []Installation{{ID: "c", Name: "east", Version: "4.20.8", Status: "installing",
		Info: "about east", Percent: 40}}, shown.Installations)
	require.Empty(t, shown.Attention)
}

func TestOverview_attentionMostUrgentFirst(t *testing.T) {
	failed := &bmc.Server{ID: "s", Error: &bmc.ErrorStatus{Type: bmc.RegistrationError, Message: "wrong password"}}
	failed.Name = "rack1"
	s := newSite(t, failed, &bmc.Server{ID: "fine"})
	s.addCluster("a", "ready", "ready")
	s.addCluster("b", "waiting", "installing-pending-user-action")
	s.addCluster(clusterID, "failed", "error")
	s.addHost("away", "disconnected", clusterID)
	s.addHost("free", "known-unbound", "")
	s.addHost("poor", "insufficient", clusterID)
	shown := s.overview()
	var names []string
	for _, item := range shown.Attention {
		names = append(names, item.Kind+" "+item.Name)
	}
	require.Equal(t, []string{"cluster failed", "cluster waiting", "server rack1", "host away", "cluster ready",
		"host free"}, names)
	require.Equal(t, 6, shown.AttentionTotal)
	require.Equal(t, []string{clusterID, "env"}, []string{shown.Attention[3].Cluster, shown.Attention[3].InfraEnv})
	require.Equal(t, "env", shown.Attention[5].InfraEnv)
	require.Equal(t, []int{2, 1}, []int{shown.Servers, shown.FailedServers})
}

// Nothing is sent to a held management cluster until a person has decided.
func TestOverview_showsHolds(t *testing.T) {
	s := newSite(t)
	service, err := maestro.New(t.Context(), maestro.Options{DB: s.db, Clock: s.clock,
		Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	require.NoError(t, s.db.Update(t.Context(), func(tx *store.Tx) error {
		return bundle.CreateConsumer(tx, &bundle.Consumer{Name: "mc1"}, s.clock.Now())
	}))
	s.addCluster("a", "ready", "ready")
	require.NoError(t, service.HoldConsumer(t.Context(), "mc1", "ana"))
	shown := s.overview()
	require.Len(t, shown.Attention, 2)
	require.Equal(t, "management-cluster mc1 held", shown.Attention[0].Kind+" "+shown.Attention[0].Name+" "+
		shown.Attention[0].Status)
	require.Contains(t, shown.Attention[0].Info, "landfall hcp connection mc1")
	require.NoError(t, service.Release(t.Context(), "mc1", "ana"))
	require.Len(t, s.overview().Attention, 1)
}

func TestClusters_rowsOfTheWantedClusters(t *testing.T) {
	s := newSite(t)
	s.addCluster("a", "north", "installed")
	s.addCluster("b", "south", "installing")
	s.addCluster("c", "east", "ready")
	rows, err := s.Clusters(func(id string) bool { return id != "c" })
	require.NoError(t, err)
	require.Len(t, rows, 2)
	require.Equal(t, Cluster{ID: "b", Name: "south", Version: "4.20.8", Status: "installing", Info: "about south",
		Percent: 40}, rows[1])
}

func TestOverview_limitsTheLists(t *testing.T) {
	s := newSite(t)
	for i := range listLimit + 5 {
		s.addHost("host", "disconnected", strconv.Itoa(i))
	}
	shown := s.overview()
	require.Len(t, shown.Attention, listLimit)
	require.Equal(t, listLimit+5, shown.AttentionTotal)
}

func TestDisk_measuresPartsOncePerMinute(t *testing.T) {
	s := newSite(t)
	write := func(bytes int) {
		dir := filepath.Join(s.dir, "os-images")
		require.NoError(t, os.MkdirAll(dir, 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "live.iso"), make([]byte, bytes), 0o600))
	}
	images := func() int64 {
		for _, part := range s.overview().Disk.Parts {
			if part.Name == "os-images" {
				return part.Bytes
			}
		}
		return 0
	}
	write(100)
	require.EqualValues(t, 100, images())
	write(200)
	require.EqualValues(t, 100, images(), "the first measurement is still valid")
	s.clock.Advance(time.Minute)
	require.EqualValues(t, 200, images())
	require.Positive(t, s.overview().Disk.Total)
}

func TestOverview_replicaBehindNeedsAPerson(t *testing.T) {
	s := newSite(t)
	s.replica = &replica.State{Place: "/disk", Shipped: time.Unix(1_700_000_000, 0).UTC(), Failure: "it is full"}
	shown, err := s.Overview()
	require.NoError(t, err)
	require.Empty(t, shown.Attention, "it has lacked changes for a short time only")
	s.replica.Behind = true
	shown, err = s.Overview()
	require.NoError(t, err)
	require.Equal(t, []Item{{Kind: "replica", ID: "/disk", Name: "/disk", Status: "behind",
		Info: "It may lack all changes since 2023-11-14T22:13:20Z. It is full."}}, shown.Attention)
}

func TestOverview_failingBackupsNeedAPerson(t *testing.T) {
	s := newSite(t)
	s.backups = &backup.State{Dir: "/stick", Last: time.Unix(1_700_000_000, 0).UTC()}
	require.Empty(t, s.overview().Attention)
	s.backups.PruneFailure = "Remove old backups: a list is damaged."
	item := Item{Kind: "backups", ID: "/stick", Name: "/stick", Status: "failing",
		Info: "Old backups stay, so the directory fills up. Remove old backups: a list is damaged."}
	require.Equal(t, []Item{item}, s.overview().Attention)
	s.backups.Failure = "No space is left."
	item.Info = "The last attempt failed, and the newest backup was written at 2023-11-14T22:13:20Z. No space is left."
	require.Equal(t, []Item{item}, s.overview().Attention)
}

// A held management cluster is listed once, also if its workers are not followed because of it.
func TestOverview_showsWorkersThatAreNotFollowed(t *testing.T) {
	s := newSite(t)
	put := func(state workers.State) {
		require.NoError(t, s.db.Update(t.Context(), func(tx *store.Tx) error {
			return store.NewBucket[workers.State]("hosted-worker-states", 1).Put(tx, "mc1", &state)
		}))
	}
	put(workers.State{})
	require.Empty(t, s.overview().Attention)
	put(workers.State{Hosts: map[string]string{"h2": "Later", "h1": "It runs the discovery image again"}})
	shown := s.overview().Attention
	require.Len(t, shown, 1)
	require.Equal(t, Item{Kind: "management-cluster", ID: "mc1", Name: "mc1", Status: "workers-not-followed",
		Info: "2 hosts wait for a person. The host h1: It runs the discovery image again. landfall hcp consumers " +
			"workers mc1 shows all hosts."}, shown[0])
	put(workers.State{Problem: "The cluster does not answer."})
	require.Contains(t, s.overview().Attention[0].Info, "The cluster does not answer. landfall hcp")

	service, err := maestro.New(t.Context(), maestro.Options{DB: s.db, Clock: s.clock})
	require.NoError(t, err)
	require.NoError(t, s.db.Update(t.Context(), func(tx *store.Tx) error {
		return bundle.CreateConsumer(tx, &bundle.Consumer{Name: "mc1"}, s.clock.Now())
	}))
	require.NoError(t, service.HoldConsumer(t.Context(), "mc1", "ana"))
	shown = s.overview().Attention
	require.Len(t, shown, 1)
	require.Equal(t, "held", shown[0].Status)
}

func TestOverview_saysWhetherTheMachineIsInAFleet(t *testing.T) {
	s := newSite(t)
	s.addCluster("a", "one", models.ClusterStatusReady)
	alone, err := s.Overview()
	require.NoError(t, err)
	require.False(t, alone.Fleet)
	leader, err := store.Open(t.Context(), t.TempDir(), store.Options{NoSync: true, Clock: s.clock,
		Shared: new(waltest.Log)})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, leader.Close()) })
	s.db = leader
	s.Reader = NewReader(s.db, func() ([]*bmc.Server, error) { return nil, nil },
		storage.NewUsage(s.dir, s.clock), func() *replica.State { return nil }, func() *backup.State { return nil },
		s.clock)
	s.addCluster("a", "one", models.ClusterStatusReady)
	member, err := s.Overview()
	require.NoError(t, err)
	require.True(t, member.Fleet)
}
