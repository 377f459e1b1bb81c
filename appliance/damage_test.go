package appliance_test

import (
	"bytes"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	bolt "go.etcd.io/bbolt"

	"landfall/appliance/bmc"
	"landfall/appliance/engine/event"
	"landfall/appliance/integrity"
	"landfall/appliance/keyring"
	"landfall/appliance/overview"
	"landfall/appliance/siteservice"
	"landfall/store"
	"landfall/web/console"
)

// damageRow flips a bit of the first row with a prefix in the database of a stopped appliance. It
// returns the key of the row.
func damageRow(t *testing.T, dir, prefix string) (key string) {
	t.Helper()
	db, err := bolt.Open(filepath.Join(dir, store.FileName), 0o600, &bolt.Options{Timeout: time.Second})
	require.NoError(t, err)
	require.NoError(t, db.Update(func(tx *bolt.Tx) error {
		rows := tx.Bucket([]byte("data"))
		found, value := rows.Cursor().Seek([]byte(prefix))
		require.True(t, bytes.HasPrefix(found, []byte(prefix)), prefix)
		key, value = string(found), bytes.Clone(value)
		value[len(value)/2+20] ^= 1
		return rows.Put([]byte(key), value)
	}))
	require.NoError(t, db.Close())
	return key
}

// awaitKubernetes waits until the Kubernetes API has an object for each row.
func awaitKubernetes(t *testing.T, address string) {
	t.Helper()
	awaitReady(t, func() answer { return call(t, http.MethodGet, address+"/readyz", nil) })
	objects := call(t, http.MethodGet, address+"/apis/agent-install.openshift.io/v1beta1/infraenvs", nil)
	require.Equal(t, http.StatusOK, objects.status)
}

// TestDamage_eachRowAffectsOnlyItself damages one row of each kind. The appliance starts, lists
// everything else, and names the row. Its services for the site run.
func TestDamage_eachRowAffectsOnlyItself(t *testing.T) {
	s := newSite(t)
	s.config.Kubernetes.Enabled = true
	s.config.Site.DNS.Interfaces = []string{"lo"}
	address, stop := s.start(t)
	ids := map[string]bool{}
	for _, name := range []string{"a", "b"} {
		ids[create(t, address+apiPath+"/clusters", s.newCluster(name))] = true
		infraEnv := create(t, address+apiPath+"/infra-envs", s.newInfraEnv(name))
		ids[infraEnv] = true
		// the first reader of a recipe stores it
		config := address + apiPath + "/infra-envs/" + infraEnv + "/downloads/files?file_name=discovery.ign"
		require.Equal(t, http.StatusOK, call(t, http.MethodGet, config, nil).status)
		require.Equal(t, http.StatusCreated, addBMC(t, address, name).status)
	}
	awaitKubernetes(t, address) // it writes rows of its own
	changed := call(t, http.MethodPatch, address+settingsPath, object{"ssh_public_key": siteKeyLine})
	require.Equal(t, http.StatusOK, changed.status)
	require.Equal(t, http.StatusOK, call(t, http.MethodGet, address+console.DoctorRoute, nil).status)
	stop()
	whole := s.config.DataDir
	for _, prefix := range []string{"/clusters/", "/infra-envs/", "/validations/", "/events/", "/recipes/",
		"/subscriptions/", "/kubernetes/", "/shown/", "/kubernetes-seeded/", "/settings/site", "/settings/doctor",
		"/audit-trail/head", "/bmcs/"} {
		t.Run(prefix, func(t *testing.T) {
			s.config.DataDir = filepath.Join(t.TempDir(), "data")
			require.NoError(t, os.CopyFS(s.config.DataDir, os.DirFS(whole)))
			require.NoError(t, filepath.WalkDir(s.config.DataDir, func(path string, _ os.DirEntry, err error) error {
				return errors.Join(err, os.Chmod(path, 0o700)) // a copy has other modes
			}))
			damaged := damageRow(t, s.config.DataDir, prefix)
			address, stop := s.start(t)
			defer stop()
			var listed []struct{ ID string } // clusters
			for _, list := range []string{"infra-envs", "clusters"} {
				var shown []struct{ ID string }
				call(t, http.MethodGet, address+apiPath+"/"+list, nil).read(t, http.StatusOK, &shown)
				want := 2
				if prefix == "/"+list+"/" {
					want = 1
				}
				require.Len(t, shown, want, list)
				for _, each := range shown {
					require.True(t, ids[each.ID])
				}
				listed = shown
			}
			awaitKubernetes(t, address)
			for _, path := range []string{console.HostsRoute, settingsPath, setupPath} {
				require.Equal(t, http.StatusOK, call(t, http.MethodGet, address+path, nil).status, path)
			}
			eventually(t, "the DNS service has the zones of the other clusters", func() bool {
				var shown siteservice.Overview
				call(t, http.MethodGet, address+console.SiteServicesRoute, nil).read(t, http.StatusOK, &shown)
				return len(shown.DNS.Zones) == len(listed)
			})
			servers := listBMCs(t, address)
			if prefix == "/bmcs/" {
				require.Len(t, servers, 1)
				requireFreeName(t, address, servers[0].Name)
				return
			}
			require.Len(t, servers, 2)
			switch prefix {
			case "/clusters/", "/infra-envs/":
				eventually(t, "the damage is on the overview", func() bool {
					var shown overview.Overview
					call(t, http.MethodGet, address+console.OverviewRoute, nil).read(t, http.StatusOK, &shown)
					return len(shown.Damage) == 1 && shown.Damage[0].Key == damaged
				})
				kind := map[string]string{"/clusters/": "cluster_id", "/infra-envs/": "infra_env_id"}[prefix]
				id := strings.TrimPrefix(damaged, prefix)
				eventually(t, "there is an event", func() bool {
					events := call(t, http.MethodGet, address+apiPath+"/events?"+kind+"="+id, nil)
					return bytes.Contains(events.body, []byte(integrity.Event))
				})
				got := call(t, http.MethodGet, address+apiPath+prefix+id, nil)
				requireRefusal(t, got, http.StatusInternalServerError, damaged, "landfall check")
			case "/audit-trail/head":
				trail := call(t, http.MethodGet, address+console.AuditRoute, nil)
				require.Contains(t, string(trail.body), "this start did not check whether records are missing")
			}
		})
	}
}

// addBMC adds a server whose BMC does not respond.
func addBMC(t *testing.T, address, name string) answer {
	t.Helper()
	return call(t, http.MethodPost, address+console.BMCsRoute, &console.BMCCreate{Name: name, Username: "root",
		Address: "redfish-virtualmedia+http://127.0.0.1:1/redfish/v1/Systems/" + name, Password: "secret"})
}

func listBMCs(t *testing.T, address string) []*bmc.Server {
	t.Helper()
	var list struct{ BMCs []*bmc.Server }
	call(t, http.MethodGet, address+console.BMCsRoute, nil).read(t, http.StatusOK, &list)
	return list.BMCs
}

// requireFreeName repairs the database. The name of the damaged server, "a" or "b", is then free.
func requireFreeName(t *testing.T, address, other string) {
	t.Helper()
	name := map[string]string{"a": "b", "b": "a"}[other]
	require.Equal(t, http.StatusConflict, addBMC(t, address, name).status)
	repaired := call(t, http.MethodPost, address+console.IntegrityRoute+"/repairs", nil)
	require.Equal(t, http.StatusOK, repaired.status)
	require.Equal(t, http.StatusCreated, addBMC(t, address, name).status)
	require.Len(t, listBMCs(t, address), 2)
}

// TestDamage_objectWithPendingEvents damages an object, as if the appliance had ended before it
// projected any event. The Kubernetes API starts, and shows the events of other objects.
func TestDamage_objectWithPendingEvents(t *testing.T) {
	s := newSite(t)
	s.config.Kubernetes.Enabled = true
	address, stop := s.start(t)
	for _, name := range []string{"a", "b"} {
		create(t, address+apiPath+"/infra-envs", s.newInfraEnv(name))
	}
	awaitKubernetes(t, address)
	stop()
	keys := keyring.New(s.config.DataDir, keyring.Options{})
	db, err := store.Open(t.Context(), s.config.DataDir, store.Options{NoSync: true, Keys: keys.Open})
	require.NoError(t, err)
	pending := store.NewBucket[map[string]string]("missed", 1)
	require.NoError(t, db.Update(t.Context(), func(tx *store.Tx) error {
		return pending.Put(tx, "events/first", &map[string]string{"object": event.ID{}.String()})
	}))
	require.NoError(t, db.Close())
	damageRow(t, s.config.DataDir, "/kubernetes/agent-install.openshift.io/infraenvs/a")
	address, _ = s.start(t)
	awaitKubernetes(t, address)
	var shown struct {
		Items []struct{ InvolvedObject struct{ Name string } }
	}
	call(t, http.MethodGet, address+"/api/v1/events", nil).read(t, http.StatusOK, &shown)
	require.NotEmpty(t, shown.Items)
}

// TestDamage_checkNamesAndRepairs damages a cluster and checks the running appliance.
func TestDamage_checkNamesAndRepairs(t *testing.T) {
	s := newSite(t)
	address, stop := s.start(t)
	create(t, address+apiPath+"/clusters", s.newCluster("a"))
	var report integrity.Report
	call(t, http.MethodGet, address+console.IntegrityRoute, nil).read(t, http.StatusOK, &report)
	require.True(t, report.Whole, report)
	stop()
	damaged := damageRow(t, s.config.DataDir, "/clusters/")
	address, _ = s.start(t)
	call(t, http.MethodGet, address+console.IntegrityRoute, nil).read(t, http.StatusOK, &report)
	require.False(t, report.Whole)
	require.Equal(t, damaged, report.Problems[0].Where)
	require.NotEmpty(t, report.Problems[0].Meaning)
	var repaired integrity.Report
	call(t, http.MethodPost, address+console.IntegrityRoute+"/repairs", nil).read(t, http.StatusOK, &repaired)
	require.True(t, repaired.Whole, repaired)
	requireNothing(t, address+apiPath+"/clusters")
}
