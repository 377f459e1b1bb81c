package appliance_test

import (
	"context"
	"errors"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	metal3 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	hive "github.com/openshift/hive/apis/hive/v1"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"landfall/appliance/keyring"
	"landfall/appliance/kube/objects"
	"landfall/appliance/kube/objects/agentinstall"
	"landfall/randtest"
	"landfall/store"
)

const (
	// hubStates is the number of states of the store that are checked as if the appliance had been
	// killed.
	hubStates = 200
	// hubKills is the number of actual kills with a restart. Every second kill directly follows an
	// event of a watch.
	hubKills = 6
)

// TestHub_consistentAfterEveryKill applies a site, boots its server by its BMC, installs it and
// deletes it again. At random times the appliance is stopped and its database copied. The copy
// equals what SIGKILL would leave, because the kernel has all written data. At some of these times
// the appliance is killed.
// Each copy is opened and must be consistent. The site must still be installed and deleted
// completely. Clients watch all the time: each copy must contain what they observed until then, and
// in the end they must have observed each change of an object once, in order, and nothing else.
func TestHub_consistentAfterEveryKill(t *testing.T) {
	chance := randtest.New(t, 1)
	s := newSite(t)
	s.config.Kubernetes.Enabled, s.config.Kubernetes.ImageSettles = true, 300*time.Millisecond
	s.config.AMS.Enabled = chance.IntN(2) == 0 // with AMS, rows for AMS must remain; without AMS, none
	v := newApplianceProcess(t, s)
	d := &hub{site: s, connection: openConnection(v.address), dir: t.TempDir()}
	d.prepareKubectl(t)
	v.start(t)
	server := newMachine(t, "supermicro-x12", "sno1", "94:40:c9:1f:bf:64")

	siteEnded := make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	watchers := newWatchers(t, v.address)
	watchers.watch(ctx, t)
	secrets := ""
	go func() { siteEnded <- d.runSite(ctx, server, &secrets) }()
	copies, states, killed := t.TempDir(), 0, 0
	for alive := true; alive || states < hubStates; states++ {
		kill := killed < hubKills && (chance.IntN(hubStates/hubKills) == 0 ||
			states >= (killed+1)*hubStates/hubKills)
		if kill {
			if killed%2 == 0 {
				watchers.next()
			}
			v.kill(t)
			killed++
		} else {
			v.stop(t)
		}
		at := filepath.Join(copies, "copy")
		require.NoError(t, os.MkdirAll(at, 0o700))
		logs, err := filepath.Glob(filepath.Join(s.config.DataDir, "landfall-*.wal"))
		require.NoError(t, err)
		for _, file := range append(logs, filepath.Join(s.config.DataDir, "landfall.db"),
			filepath.Join(s.config.DataDir, "data.key"), filepath.Join(s.config.DataDir, "seal.key")) {
			copyFile(t, file, filepath.Join(at, filepath.Base(file)))
		}
		observed := watchers.newObservations(t)
		if kill {
			v.start(t)
		} else {
			require.NoError(t, v.process.Process.Signal(syscall.SIGCONT))
		}
		verifyState(t, at, observed)
		require.NoError(t, os.RemoveAll(at))
		select {
		case err := <-siteEnded:
			require.NoError(t, err, v.tail(t))
			alive = false
		case <-time.After(time.Duration(chance.IntN(maxPause(states))) * time.Millisecond):
		}
		require.Less(t, states, 20*hubStates, "the site does not end: %s", v.tail(t))
	}
	watchers.catchUp(t)
	left := newTraces("sno1")
	left.secretsOf(t, secrets)
	v.kill(t)
	cancel()
	t.Logf("%d states, %d of them after kills; %s", states, killed, watchers.verify(t, s.config.DataDir))
	for _, o := range watchers.clients {
		left.idsOf(o.seen)
	}
	requireNoTrace(t, s.config.DataDir, left, s.config.AMS.Enabled)
}

// maxPause returns the maximum number of milliseconds until the next copy. Later copies are rarer,
// so that the site can finish.
func maxPause(states int) int {
	if states < hubStates/2 {
		return 30
	}
	return 250
}

// runSite applies, installs and deletes the site like a user, and stores the site's Secrets. It
// repeats commands while the appliance is down.
func (d *hub) runSite(ctx context.Context, server *machine, secrets *string) error {
	documents, err := d.documents("single-node.yaml", siteValues{BMC: server.address}, "sno1")
	if err != nil {
		return err
	}
	for _, step := range []struct {
		stdin string
		args  []string
		take  *string
	}{
		{stdin: documents, args: []string{"apply", "-f", "-"}},
		{args: []string{"wait", "-n", "sno1", "--for=condition=Completed", "agentclusterinstall/sno1",
			"--timeout=60s"}},
		{args: []string{"wait", "-n", "sno1", "--for=jsonpath={.status.operationalStatus}=detached",
			"baremetalhost/sno1", "--timeout=60s"}},
		{args: []string{"get", "secrets", "-n", "sno1", "-o", "json"}, take: secrets},
		{args: []string{"delete", "namespace", "sno1", "--ignore-not-found", "--timeout=60s"}},
		{args: []string{"delete", "managedcluster", "sno1", "--ignore-not-found"}},
	} {
		end := time.NewTimer(2 * time.Minute)
		for done := false; !done; {
			output, err := d.try(ctx, step.stdin, step.args...)
			if done = err == nil; done {
				if step.take != nil {
					*step.take = output
				}
				break
			}
			select {
			case <-end.C:
				return err
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(100 * time.Millisecond):
			}
		}
		end.Stop()
	}
	return nil
}

// stop stops all threads of the process with SIGSTOP.
func (v *applianceProcess) stop(t *testing.T) {
	t.Helper()
	require.NoError(t, v.process.Process.Signal(syscall.SIGSTOP))
	var status syscall.WaitStatus
	_, err := syscall.Wait4(v.process.Process.Pid, &status, syscall.WUNTRACED, nil)
	require.NoError(t, err)
	require.True(t, status.Stopped(), "the appliance ended without a kill: %s", v.tail(t))
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	source, err := os.Open(from)
	require.NoError(t, err)
	defer source.Close()
	target, err := os.OpenFile(to, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	require.NoError(t, err)
	_, err = io.Copy(target, source)
	require.NoError(t, err)
	require.NoError(t, target.Close())
}

// engineRow is a row of the engine with the Kubernetes object that it belongs to.
type engineRow struct {
	API struct {
		ID     string `json:"id"`
		Status string `json:"status"`
	} `json:"api"`
	Object struct {
		Key string `json:"key"`
	} `json:"object"`
}

// verifyState opens a copy of the database. The engine and the objects must agree, except for rows
// whose changes are recorded to be projected later. The copy must contain what the watches
// observed.
func verifyState(t *testing.T, dir string, observed []observation) {
	t.Helper()
	var db *store.DB
	var err error
	// a starting kubectl briefly inherits the open files of this process
	eventually(t, "no process has the copy open", func() bool {
		var held *store.HeldError
		db, err = store.Open(t.Context(), dir, store.Options{
			NoSync: true, Keys: keyring.New(dir, keyring.Options{}).Open,
		})
		return !errors.As(err, &held)
	})
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	o := objects.New(nil, nil)
	require.NoError(t, db.View(func(tx *store.Tx) error {
		verifyObserved(t, tx, observed)
		recorded := map[string]bool{} // ids of rows that are projected later
		errs := store.NewBucket[struct{}]("missed", 1).Keys(tx, "", func(key string) error {
			recorded[path.Base(key)] = true
			return nil
		})
		hosts := map[string]string{} // state by ID
		errs = errors.Join(errs, store.NewBucket[engineRow]("hosts", 1).Each(tx, "",
			func(_ string, host *engineRow) error {
				hosts[host.API.ID] = host.API.Status
				return nil
			}))
		deleted := map[string]bool{}
		errs = errors.Join(errs, o.Each(tx, objects.Agents, "", func(u *unstructured.Unstructured) error {
			var agent agentinstall.Agent
			require.NoError(t, objects.Into(u, &agent))
			deleted[agent.Name] = agent.DeletionTimestamp != nil
			state, there := hosts[agent.Name]
			if agent.DeletionTimestamp == nil {
				require.True(t, there, "the Agent %s has no host", agent.Name)
			}
			if there && agent.Status.DebugInfo.State != "" && !recorded[agent.Name] {
				require.Equal(t, state, agent.Status.DebugInfo.State,
					"the Agent %s shows a state other than that of its host", agent.Name)
			}
			delete(hosts, agent.Name)
			return nil
		}))
		maps.DeleteFunc(hosts, func(id, _ string) bool { return recorded[id] })
		require.Empty(t, hosts, "hosts without an Agent")
		errs = errors.Join(errs, store.NewBucket[engineRow]("clusters", 1).Each(tx, "",
			func(_ string, cluster *engineRow) error {
				if cluster.Object.Key == "" || recorded[cluster.API.ID] {
					return nil
				}
				namespace, name := filepath.Dir(cluster.Object.Key), filepath.Base(cluster.Object.Key)
				deployment := &hive.ClusterDeployment{}
				if err := o.Get(tx, objects.ClusterDeployments, namespace, name, deployment); err != nil {
					return err
				}
				install := &unstructured.Unstructured{}
				err := o.Get(tx, objects.AgentClusterInstalls, namespace, deployment.Spec.ClusterInstallRef.Name,
					install)
				if errors.Is(err, store.ErrNotFound) {
					return nil // the AgentClusterInstall was deleted before its ClusterDeployment
				}
				observed, _, _ := unstructured.NestedString(install.Object, "status", "debugInfo", "state")
				require.Equal(t, cluster.API.Status, observed,
					"the AgentClusterInstall shows a state other than that of its cluster")
				return err
			}))
		return errors.Join(errs, o.Each(tx, objects.BareMetalHosts, "", func(u *unstructured.Unstructured) error {
			var host metal3.BareMetalHost
			require.NoError(t, objects.Into(u, &host))
			if host.Status.Provisioning.State == metal3.StateProvisioned {
				require.NotEmpty(t, host.Status.Provisioning.Image.URL)
			}
			return nil
		}))
	}))
}
