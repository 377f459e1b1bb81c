package readiness

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"landfall/appliance/hosted/record"
)

// cluster has lists as JSON by the names of their resources. A missing list is a missing kind.
type cluster map[string]string

func (c cluster) List(_ context.Context, kind schema.GroupVersionResource, _, _ string, into any) error {
	text, there := c[kind.Resource]
	if !there {
		return apierrors.NewNotFound(kind.GroupResource(), "")
	}
	if text == "" {
		return errors.New("connection refused")
	}
	return json.Unmarshal([]byte(text), into)
}

func capable() cluster {
	return cluster{
		"hostedclusters": `{}`,
		"deployments":    `{"items":[{"metadata":{"name":"operator"},"status":{"availableReplicas":1}}]}`,
		"agents":         `{"items":[{}]}`,
		"storageclasses": `{"items":[{"metadata":{"name":"lvms","annotations":
			{"storageclass.kubernetes.io/is-default-class":"true"}}}]}`,
		"nodes": `{"items":[{"metadata":{"name":"a"},"status":{"allocatable":{"memory":"32Gi"}}},
			{"metadata":{"name":"b"},"spec":{"taints":[{"effect":"NoSchedule"}]},
			"status":{"allocatable":{"memory":"64Gi"}}}]}`,
		"pods": `{"items":[{"spec":{"nodeName":"a","containers":[{"resources":{"requests":{"memory":"20Gi"}}}]}},
			{"spec":{"nodeName":"a","containers":[{"resources":{"requests":{"memory":"20Gi"}}}]},
			"status":{"phase":"Succeeded"}}]}`,
	}
}

// manageItself adds the kinds of the multicluster engine, with a ManagedCluster.
func (c cluster) manageItself(name string) {
	c["managedclusters"], c["manifestworks"] = `{"items":[{"metadata":{"name":"`+name+`"}}]}`, `{}`
}

func TestLayout_followsFromTheCluster(t *testing.T) {
	c := capable()
	layout := func() string {
		found, err := Layout(t.Context(), c)
		require.NoError(t, err)
		return found
	}
	require.Equal(t, "flat", layout())
	c.manageItself("other")
	require.Equal(t, "flat", layout())
	c.manageItself("local-cluster")
	require.Equal(t, "nested", layout())
	c["managedclusters"] = ""
	_, err := Layout(t.Context(), c)
	require.ErrorContains(t, err, "connection refused")
}

func TestCheck_saysWhatIsMissing(t *testing.T) {
	for _, c := range []struct {
		name     string
		change   func(cluster, *record.Management)
		id       string // "" for no finding
		severity Severity
		says     string
	}{
		{"nothing", func(cluster, *record.Management) {}, "", "", ""},
		{"no operator", func(c cluster, _ *record.Management) { delete(c, "hostedclusters") }, "hypershift", Error,
			"no HyperShift operator"},
		{"operator without a pod", func(c cluster, _ *record.Management) { c["deployments"] = `{"items":[]}` },
			"hypershift", Error, "no available pod"},
		{"no assisted service", func(c cluster, _ *record.Management) { delete(c, "agents") }, "agents", Error,
			"no assisted service"},
		{"no agents", func(c cluster, m *record.Management) { c["agents"], m.Profiles = `{}`, []string{"large"} },
			"agents", Warning, "landfall.io/hardware-profile in (large)"},
		{"no default class", func(c cluster, _ *record.Management) {
			c["storageclasses"] = `{"items":[{"metadata":{"name":"nfs"}}]}`
		}, "storage-class", Error, "it has the storage classes nfs"},
		{"no such class", func(_ cluster, m *record.Management) { m.StorageClass = "ceph" }, "storage-class", Error,
			"no storage class ceph"},
		{"named class", func(_ cluster, m *record.Management) { m.StorageClass = "lvms" }, "", "", ""},
		{"no memory", func(c cluster, _ *record.Management) {
			c["nodes"] = `{"items":[{"metadata":{"name":"a"},"status":{"allocatable":{"memory":"24Gi"}}}]}`
		}, "memory", Error, "needs 6.3 GiB of memory; the pods of the cluster leave 4.0 GiB"},
		{"no node", func(c cluster, _ *record.Management) {
			c["nodes"] = `{"items":[{"metadata":{"name":"a"},"spec":{"unschedulable":true}}]}`
		}, "memory", Error, "no node on which pods can run"},
		{"nested layout", func(c cluster, m *record.Management) {
			c.manageItself("local-cluster")
			m.Layout = "nested"
		}, "", "", ""},
		{"no multicluster engine", func(_ cluster, m *record.Management) { m.Layout = "nested" }, "layout", Error,
			"needs the multicluster engine operator"},
		{"not managed by itself", func(c cluster, m *record.Management) {
			c.manageItself("other")
			m.Layout = "nested"
		}, "layout", Error, "manages the cluster itself as local-cluster"},
		{"no answer", func(c cluster, _ *record.Management) { c["storageclasses"] = "" }, "storage-class", Warning,
			"could not be checked: connection refused."},
	} {
		t.Run(c.name, func(t *testing.T) {
			api, m := capable(), &record.Management{AgentNamespace: "hall-2"}
			c.change(api, m)
			found := Check(t.Context(), api, m)
			if c.id == "" {
				require.Empty(t, found)
				return
			}
			require.Len(t, found, 1)
			require.Equal(t, c.id, found[0].ID)
			require.Equal(t, c.severity, found[0].Severity)
			require.Contains(t, found[0].Sentence, c.says)
			require.Len(t, Errors(found), map[Severity]int{Error: 1}[c.severity])
		})
	}
}

func TestCheck_highlyAvailableNeedsNodes(t *testing.T) {
	found := Check(t.Context(), capable(), &record.Management{HighlyAvailable: true})
	require.Len(t, found, 2)
	require.Contains(t, found[0].Sentence, "needs 3 nodes")
	require.Contains(t, found[1].Sentence, "needs 19.0 GiB")
}
