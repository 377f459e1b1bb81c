package hosts

import (
	"testing"

	"github.com/go-openapi/strfmt"
	"github.com/go-openapi/swag/conv"
	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"landfall/appliance/kube/kubetest"
	"landfall/appliance/kube/objects"
	"landfall/appliance/kube/objects/agentinstall"
	"landfall/appliance/kube/projection"
	"landfall/store"
)

// objectNames lists all objects except Events and namespaces that are being deleted.
func (b *testSite) objectNames() []string {
	b.Helper()
	var names []string
	require.NoError(b, b.DB.View(func(tx *store.Tx) error {
		for _, kind := range objects.Kinds() {
			if kind == objects.Events {
				continue
			}
			if err := b.Objects.Each(tx, kind, "", func(u *unstructured.Unstructured) error {
				if kind == objects.Namespaces && u.GetDeletionTimestamp() != nil {
					return nil // the garbage collector of the API deletes it
				}
				names = append(names, kind.Kind+" "+u.GetNamespace()+"/"+u.GetName())
				return nil
			}); err != nil {
				return err
			}
		}
		return nil
	}))
	return names
}

func TestProjector_infraEnvMadeByREST(t *testing.T) {
	b := newSite(t)
	env, err := b.Engine.RegisterInfraEnv(t.Context(), &models.InfraEnvCreateParams{
		Name: conv.Pointer("Depot_7"), PullSecret: conv.Pointer(kubetest.PullSecret), OpenshiftVersion: "4.20.8",
		ImageType: models.ImageTypeFullIso,
		Proxy:     &models.Proxy{HTTPProxy: conv.Pointer("http://proxy.site.test:3128")},
	})
	require.NoError(t, err)
	b.WaitIdle()
	var object agentinstall.InfraEnv
	require.True(t, b.Get(objects.InfraEnvs, "depot-7", "depot-7", &object))
	require.Equal(t, "full-iso", object.Spec.ImageType)
	require.Equal(t, "http://proxy.site.test:3128", object.Spec.Proxy.HTTPProxy)
	require.Contains(t, object.Status.ISODownloadURL, "/full.iso")
	require.EqualValues(t, 1, object.Generation)
	held, err := b.Engine.InfraEnv(env.ID.String())
	require.NoError(t, err)
	require.Equal(t, env.UpdatedAt, held.UpdatedAt, "its reconcile changes nothing")

	m := b.Machine(env.ID.String(), 1)
	m.Register()
	m.Report()
	var agent agentinstall.Agent
	require.True(t, b.Get(objects.Agents, "depot-7", m.ID, &agent))
	require.Equal(t, "node-1", agent.Status.Inventory.Hostname)

	require.NoError(t, b.Engine.DeregisterHost(t.Context(), m.InfraEnv, m.ID))
	require.NoError(t, b.Engine.DeregisterInfraEnv(t.Context(), m.InfraEnv))
	b.WaitIdle()
	require.Empty(t, b.objectNames())
}

func TestProjector_infraEnvInNamespaceOfCluster(t *testing.T) {
	b := newSite(t)
	id := strfmt.UUID(b.RegisterCluster("one"))
	env, err := b.Engine.RegisterInfraEnv(t.Context(), &models.InfraEnvCreateParams{Name: conv.Pointer("one_infra-env"),
		PullSecret: conv.Pointer(kubetest.PullSecret), ClusterID: &id})
	require.NoError(t, err)
	b.WaitIdle()
	require.Equal(t, clusterReference("one"), b.InfraEnv("one").Spec.ClusterRef)
	require.Equal(t, env.ID.String(), b.InfraEnvID("one"))
	b.Boot("one", 1)
	require.NoError(t, b.Engine.DeregisterCluster(t.Context(), id.String(), false))
	b.WaitIdle()
	require.Equal(t, []string{"ClusterDeployment site/one"}, b.objectNames(), "the controller of clusters deletes it")
}

func TestCatchUp_infraEnvsBeforeFirstEnable(t *testing.T) {
	b := newSite(t)
	b.stop()
	b.OpenEngine(b.engineOptions())
	env, err := b.Engine.RegisterInfraEnv(t.Context(), &models.InfraEnvCreateParams{Name: conv.Pointer("pool"),
		PullSecret: conv.Pointer(kubetest.PullSecret), OpenshiftVersion: "4.20.8"})
	require.NoError(t, err)
	m := b.Machine(env.ID.String(), 1)
	m.Register()
	m.Report()
	b.open()
	b.Run()
	for _, program := range []string{"1.0", "1.1"} {
		require.NoError(t, projection.NewCatchUp(projection.Options{DB: b.Site.DB, Engine: b.Site.Engine,
			Rows: b.Projector, Deferred: projection.NewDeferred(b.Projector), Program: program, URL: kubetest.URL,
			Clock: b.Site.Clock}).Start(t.Context()))
		b.WaitIdle()
		require.Equal(t, []string{"Namespace /pool", "Secret pool/pool-infra-env-pull-secret", "InfraEnv pool/pool",
			"Agent pool/" + m.ID}, b.objectNames())
	}
}
