package hive

import (
	"testing"

	"github.com/go-openapi/strfmt"
	"github.com/go-openapi/swag/conv"
	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"landfall/appliance/kube/objects"
	"landfall/appliance/kube/objects/agentinstall"
	"landfall/store"
)

// traces lists the objects that there are, but for Events and namespaces that are going.
func (b *hostsBench) traces() []string {
	b.Helper()
	var names []string
	require.NoError(b, b.DB.View(func(tx *store.Tx) error {
		for _, kind := range objects.Kinds() {
			if kind == objects.Events {
				continue
			}
			if err := b.Objects.Each(tx, kind, "", func(u *unstructured.Unstructured) error {
				if kind == objects.Namespaces && u.GetDeletionTimestamp() != nil {
					return nil // the API's purger takes it away
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

func TestAnInfraEnvMadeByRESTHasTheObjectsItWouldHaveBeenMadeBy(t *testing.T) {
	b := newHostsBench(t)
	env, err := b.engine.RegisterInfraEnv(t.Context(), &models.InfraEnvCreateParams{
		Name: conv.Pointer("Depot_7"), PullSecret: conv.Pointer(sitePullSecret), OpenshiftVersion: "4.20.8",
		ImageType: models.ImageTypeFullIso,
		Proxy:     &models.Proxy{HTTPProxy: conv.Pointer("http://proxy.site.test:3128")},
	})
	require.NoError(t, err)
	b.quiet()
	var object agentinstall.InfraEnv
	require.True(t, b.get(objects.InfraEnvs, "depot-7", "depot-7", &object))
	require.Equal(t, "full-iso", object.Spec.ImageType)
	require.Equal(t, "http://proxy.site.test:3128", object.Spec.Proxy.HTTPProxy)
	require.Contains(t, object.Status.ISODownloadURL, "/full.iso")
	require.EqualValues(t, 1, object.Generation)
	held, err := b.engine.InfraEnv(env.ID.String())
	require.NoError(t, err)
	require.Equal(t, env.UpdatedAt, held.UpdatedAt, "its controller finds nothing to do")

	m := &machine{b: b, env: env.ID.String(), number: 1, id: "00000000-0000-4000-8000-000000000001"}
	m.register()
	m.report()
	var agent agentinstall.Agent
	require.True(t, b.get(objects.Agents, "depot-7", m.id, &agent))
	require.Equal(t, "node-1", agent.Status.Inventory.Hostname)

	require.NoError(t, b.engine.DeregisterHost(t.Context(), m.env, m.id))
	require.NoError(t, b.engine.DeregisterInfraEnv(t.Context(), m.env))
	b.quiet()
	require.Empty(t, b.traces())
}

func TestAnInfraEnvOfAClusterMadeByRESTLivesInTheClustersNamespaceAndGoesWithIt(t *testing.T) {
	b := newHostsBench(t)
	id := strfmt.UUID(b.cluster("one"))
	env, err := b.engine.RegisterInfraEnv(t.Context(), &models.InfraEnvCreateParams{Name: conv.Pointer("one_infra-env"),
		PullSecret: conv.Pointer(sitePullSecret), ClusterID: &id})
	require.NoError(t, err)
	b.quiet()
	require.Equal(t, clusterReference("one"), b.infraEnv("one").Spec.ClusterRef)
	require.Equal(t, env.ID.String(), b.envID("one"))
	b.boot("one", 1)
	require.NoError(t, b.engine.DeregisterCluster(t.Context(), id.String()))
	b.quiet()
	require.Equal(t, []string{"ClusterDeployment site/one"}, b.traces(), "that is the clusters' own to remove")
}

func TestInfraEnvsThatWereThereBeforeTheDoorWasOpenedAreShown(t *testing.T) {
	b := newHostsBench(t)
	b.engine.Projector = nil
	env, err := b.engine.RegisterInfraEnv(t.Context(), &models.InfraEnvCreateParams{Name: conv.Pointer("pool"),
		PullSecret: conv.Pointer(sitePullSecret), OpenshiftVersion: "4.20.8"})
	require.NoError(t, err)
	m := &machine{b: b, env: env.ID.String(), number: 1, id: "00000000-0000-4000-8000-000000000001"}
	m.register()
	m.report()
	b.engine.Projector = b.Hosts
	clusters := NewClusters(ClustersOptions{DB: b.DB, Objects: b.Objects, URL: b.URL, Clock: b.clock, Logger: b.Logger})
	clusters.Use(b.engine)
	for _, program := range []string{"1.0", "1.1"} {
		require.NoError(t, CatchUp{DB: b.DB, Engine: b.engine, Clusters: clusters, Hosts: b.Hosts, Program: program,
			Clock: b.clock}.Run(t.Context()))
		b.quiet()
		require.Equal(t, []string{"Namespace /pool", "Secret pool/pool-infra-env-pull-secret", "InfraEnv pool/pool",
			"Agent pool/" + m.id}, b.traces())
	}
}
