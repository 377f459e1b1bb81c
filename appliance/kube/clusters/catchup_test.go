package clusters

import (
	"context"
	"log/slog"
	"testing"

	"github.com/go-openapi/swag/conv"
	hiveext "github.com/openshift/assisted-service/api/hiveextension/v1beta1"
	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"

	"landfall/appliance/engine"
	"landfall/appliance/kube/kubetest"
	"landfall/appliance/kube/objects"
	"landfall/appliance/kube/objects/agentinstall"
	"landfall/appliance/kube/projection"
	"landfall/logtest"
	"landfall/store"
)

// disable restarts the appliance with the Kubernetes API disabled.
func (b *testSite) disable() {
	b.Helper()
	b.stop()
	var projector engine.Projector
	require.NoError(b, b.DB.View(func(tx *store.Tx) error {
		any, err := projection.EverEnabled(tx)
		if any {
			projector = projection.Recorder{}
		}
		return err
	}))
	b.Current = nil
	b.OpenEngine(b.engineOptions(projector))
}

// enable restarts the appliance with the Kubernetes API enabled, as a version of the program.
func (b *testSite) enable(program string) {
	b.Helper()
	b.open()
	require.NoError(b, b.catchUp(program).Start(b.Context()))
	require.NoError(b, b.DB.View(func(tx *store.Tx) error {
		count, err := projection.PendingChanges(tx)
		require.Zero(b, count, "changes that are not projected yet")
		return err
	}))
	b.run()
	b.WaitIdle()
}

func (b *testSite) catchUp(program string) *projection.CatchUp {
	return projection.NewCatchUp(projection.Options{DB: b.DB, Engine: b.Engine, Rows: b.projector,
		Events: projection.EventsOf(b.Objects), Deferred: b.deferred, Program: program, URL: kubetest.URL,
		Clock: b.Clock, Logger: logtest.New(b, slog.LevelInfo)})
}

func TestCatchUp_changesWhileDisabled(t *testing.T) {
	type life struct {
		*testSite
		machines []*kubetest.Machine
		id       string
	}
	register := func(b *life) {
		cluster, err := b.Engine.RegisterCluster(b.Context(), &models.ClusterCreateParams{
			Name: conv.Pointer("rest"), BaseDNSDomain: "site.test", OpenshiftVersion: conv.Pointer("4.20.8"),
			PullSecret: conv.Pointer(kubetest.PullSecret),
		})
		require.NoError(b, err)
		env, err := b.Engine.RegisterInfraEnv(b.Context(),
			&models.InfraEnvCreateParams{Name: conv.Pointer("rest_infra-env"),
				PullSecret: conv.Pointer(kubetest.PullSecret),
				ClusterID:  cluster.ID})
		require.NoError(b, err)
		b.id = cluster.ID.String()
		m := b.Machine(env.ID.String(), 7)
		m.Register()
		m.Report()
	}
	late := `
kind: InfraEnv
metadata: {name: pool, namespace: site}
spec: {pullSecretRef: {name: pull}}`
	for name, test := range map[string]struct {
		open, shut, after func(b *life)
	}{
		"cluster, infra-env and host created": {
			shut: register,
			after: func(b *life) {
				aci := object[hiveext.AgentClusterInstall](b.testSite, objects.AgentClusterInstalls, "rest", "rest")
				require.Equal(b, "rest", aci.Spec.ClusterDeploymentRef.Name)
				env := object[agentinstall.InfraEnv](b.testSite, objects.InfraEnvs, "rest", "rest")
				require.Equal(b, "rest", env.Spec.ClusterRef.Name)
				agent := object[agentinstall.Agent](b.testSite, objects.Agents, "rest",
					"00000000-0000-4000-8000-000000000007")
				require.Equal(b, "node-7", agent.Status.Inventory.Hostname)
				require.Equal(b, "rest", agent.Spec.ClusterDeploymentName.Name)
			},
		},
		"cluster created and deleted": {
			shut: func(b *life) {
				register(b)
				require.NoError(b, b.Engine.DeregisterCluster(b.Context(), b.id, false))
			},
			after: func(b *life) { require.False(b, b.exists(objects.Namespaces, "", "rest")) },
		},
		"cluster updated": {
			open: func(b *life) { b.applyInstall(threeNodesManifest, nil) },
			shut: func(b *life) {
				_, err := b.Engine.UpdateCluster(b.Context(), b.id, &models.V2ClusterUpdateParams{
					APIVips:   []*models.APIVip{{IP: "192.168.10.44"}},
					HTTPProxy: conv.Pointer("http://proxy.site.test:3128"),
				})
				require.NoError(b, err)
			},
			after: func(b *life) {
				require.Equal(b, []string{"192.168.10.44"}, b.aci().Spec.APIVIPs)
				require.Equal(b, "http://proxy.site.test:3128", b.aci().Spec.Proxy.HTTPProxy)
				require.EqualValues(b, "192.168.10.44", b.cluster().APIVips[0].IP,
					"the controller does not revert it")
			},
		},
		"infra-env updated": {
			open: func(b *life) { b.Apply(kubetest.InfraEnvManifest("pool", "additionalNTPSources: [old.site.test]")) },
			shut: func(b *life) {
				_, err := b.Engine.UpdateInfraEnv(b.Context(), b.InfraEnvID("pool"),
					&models.InfraEnvUpdateParams{AdditionalNtpSources: conv.Pointer("ntp.site.test")})
				require.NoError(b, err)
			},
			after: func(b *life) {
				env := object[agentinstall.InfraEnv](b.testSite, objects.InfraEnvs, "site", "pool")
				require.Equal(b, []string{"ntp.site.test"}, env.Spec.AdditionalNTPSources)
				held, err := b.Engine.InfraEnv(b.InfraEnvID("pool"))
				require.NoError(b, err)
				require.Equal(b, "ntp.site.test", held.AdditionalNtpSources)
			},
		},
		"host registered": {
			open: func(b *life) { b.Apply(kubetest.PullSecretManifest, late) },
			shut: func(b *life) { b.machines = []*kubetest.Machine{b.Boot("pool", 3)} },
			after: func(b *life) {
				require.Equal(b, "node-3", b.Agent(b.machines[0]).Status.Inventory.Hostname)
			},
		},
		"host renamed": {
			open: func(b *life) {
				b.Apply(kubetest.PullSecretManifest, late)
				b.machines = []*kubetest.Machine{b.Boot("pool", 3)}
			},
			shut: func(b *life) {
				_, err := b.Engine.UpdateHost(b.Context(), b.machines[0].InfraEnv, b.machines[0].ID,
					&models.HostUpdateParams{HostName: conv.Pointer("node-x")})
				require.NoError(b, err)
			},
			after: func(b *life) {
				require.Equal(b, "node-x", b.Agent(b.machines[0]).Spec.Hostname)
			},
		},
		"host deleted": {
			open: func(b *life) {
				b.Apply(kubetest.PullSecretManifest, late)
				b.machines = []*kubetest.Machine{b.Boot("pool", 3), b.Boot("pool", 4)}
			},
			shut: func(b *life) {
				require.NoError(b, b.Engine.DeregisterHost(b.Context(), b.machines[0].InfraEnv, b.machines[0].ID))
			},
			after: func(b *life) {
				require.False(b, b.exists(objects.Agents, "site", b.machines[0].ID),
					"the Agent is deleted and restores no host")
				require.True(b, b.exists(objects.Agents, "site", b.machines[1].ID))
				ids := []string{}
				require.NoError(b, b.DB.View(func(tx *store.Tx) (err error) {
					ids,
						err = b.Engine.Rows(tx).HostKeys()
					return err
				}))
				require.Len(b, ids, 1)
			},
		},
		"host moved to another infra-env": {
			open: func(b *life) {
				b.Apply(kubetest.PullSecretManifest, late, kubetest.InfraEnvManifest("other"))
				b.machines = []*kubetest.Machine{b.Boot("other", 3)}
				b.approve(b.machines...)
			},
			shut: func(b *life) {
				b.machines[0].InfraEnv = b.InfraEnvID("pool")
				b.machines[0].Register()
				b.machines[0].Report()
			},
			after: func(b *life) {
				require.Equal(b, "pool", b.Agent(b.machines[0]).Labels["infraenvs.agent-install.openshift.io"])
			},
		},
		"infra-env deleted": {
			open:  func(b *life) { b.Apply(kubetest.PullSecretManifest, late) },
			shut:  func(b *life) { require.NoError(b, b.Engine.DeregisterInfraEnv(b.Context(), b.InfraEnvID("pool"))) },
			after: func(b *life) { require.False(b, b.exists(objects.InfraEnvs, "site", "pool")) },
		},
		"installation completed": {
			open: func(b *life) { b.machines = b.installingSingleNode() },
			shut: func(b *life) {
				b.finish(b.machines...)
				require.False(b, b.cd().Spec.Installed, "nothing is projected while the Kubernetes API is disabled")
			},
			after: func(b *life) {
				require.True(b, b.cd().Spec.Installed)
				b.requireCondition(hiveext.ClusterCompletedCondition, "True", "InstallationCompleted", "")
				require.True(b, b.exists(objects.Secrets, "site", "one-admin-password"))
				require.Equal(b, models.HostStageDone, b.Agent(b.machines[0]).Status.Progress.CurrentStage)
			},
		},
		"cluster deleted": {
			open: func(b *life) { b.machines = b.installingSingleNode() },
			shut: func(b *life) {
				_, err := b.Engine.CancelInstallation(b.Context(), b.id)
				require.NoError(b, err)
				require.NoError(b, b.Engine.DeregisterCluster(b.Context(), b.id, false))
			},
			after: func(b *life) { b.requireNothingLeft() },
		},
		"REST cluster deleted": {
			open: register,
			shut: func(b *life) { require.NoError(b, b.Engine.DeregisterCluster(b.Context(), b.id, false)) },
			after: func(b *life) {
				b.requireNothingLeft()
				require.NotNil(b, object[agentinstall.InfraEnv](b.testSite, objects.Namespaces, "",
					"rest").DeletionTimestamp, "its generated namespace is deleted")
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := &life{testSite: newSite(t)}
			require.NoError(t, b.catchUp("1.0").Start(t.Context()), "the Kubernetes API is enabled for the first time")
			if test.open != nil {
				test.open(b)
			}
			if made := b.cluster(); made != nil {
				b.id = made.ID.String()
			}
			b.disable()
			test.shut(b)
			b.enable("1.0")
			test.after(b)
			before := b.DB.Revision()
			require.NoError(t, b.catchUp("1.0").Start(t.Context()))
			require.LessOrEqual(t, b.DB.Revision(), before, "a second run writes nothing")
			b.stop()
			b.enable("1.1")
			test.after(b)
			b.requireAllProjected()
		})
	}
}

// requireAllProjected asserts that every row of the engine has its object, and every object its
// row.
func (b *testSite) requireAllProjected() {
	b.Helper()
	require.NoError(b, b.DB.View(func(tx *store.Tx) error {
		rows := b.Engine.Rows(tx)
		for _, each := range []struct {
			kind objects.Kind
			of   func(string) (string, error)
			ids  func() ([]string, error)
		}{
			{objects.ClusterDeployments, rows.ClusterOf, rows.ClusterIDs}, {objects.InfraEnvs, rows.InfraEnvOf,
				rows.InfraEnvIDs}, {objects.Agents, rows.HostOf, rows.HostKeys},
		} {
			var found []string
			require.NoError(b, objects.Names(tx, each.kind, "", func(namespace, name string) error {
				id, err := each.of(namespace + "/" + name)
				if id == "" && each.kind == objects.InfraEnvs {
					waiting := object[agentinstall.InfraEnv](b, each.kind, namespace, name)
					require.Empty(b, waiting.Status.ISODownloadURL, "InfraEnv %s/%s shows an image", namespace, name)
					return err // the InfraEnv waits for a cluster
				}
				require.NotEmpty(b, id, "%s %s/%s shows nothing", each.kind, namespace, name)
				found = append(found, id)
				return err
			}))
			ids, err := each.ids()
			require.NoError(b, err)
			require.ElementsMatch(b, ids, found, "%s", each.kind)
		}
		return nil
	}))
}

// endingContext is a context that ends after a number of transactions.
type endingContext struct {
	context.Context
	left int
}

func (e *endingContext) Err() error {
	if e.left == 0 {
		return context.Canceled
	}
	e.left--
	return nil
}

func TestCatchUp_interrupted(t *testing.T) {
	b := newSite(t)
	require.NoError(t, b.catchUp("1.0").Start(t.Context()))
	b.Apply(kubetest.InfraEnvManifest("pool"))
	b.disable()
	const hosts = 2*projection.BatchRows + 3
	for number := range hosts {
		b.Boot("pool", number+1)
	}
	_, err := b.Engine.RegisterCluster(t.Context(), &models.ClusterCreateParams{
		Name: conv.Pointer("rest"), BaseDNSDomain: "site.test", OpenshiftVersion: conv.Pointer("4.20.8"),
		PullSecret: conv.Pointer(kubetest.PullSecret),
	})
	require.NoError(t, err)
	agents := func() (count int) {
		require.NoError(t, b.DB.View(func(tx *store.Tx) error {
			return objects.Names(tx, objects.Agents, "", func(_, _ string) error { count++; return nil })
		}))
		return count
	}
	b.open()
	c := b.catchUp("1.0")
	transactions := 0
	for ; ; transactions++ {
		if err := c.Start(&endingContext{t.Context(), transactions}); err == nil {
			break
		}
	}
	require.GreaterOrEqual(t, transactions, 3, "the size of each transaction is limited")
	b.enable("1.0")
	require.Equal(t, hosts, agents())
	b.requireAllProjected()
}
