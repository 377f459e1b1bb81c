package kube_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"landfall/appliance/kube/objects"
	"landfall/store"
)

func TestKeys_sameAsControllers(t *testing.T) {
	s := newSite(t)
	for _, o := range []struct {
		kind      objects.Kind
		namespace string
		spec      map[string]any
	}{
		{objects.Namespaces, "", map[string]any{}},
		{objects.ConfigMaps, "one", nil},
		{objects.Secrets, "one", nil},
		{objects.ClusterImageSets, "", map[string]any{"releaseImage": "x"}},
		{objects.NMStateConfigs, "one", map[string]any{"config": map[string]any{}}},
	} {
		metadata := map[string]any{"name": "one"}
		if o.namespace != "" {
			metadata["namespace"] = o.namespace
		}
		content := map[string]any{"apiVersion": o.kind.APIVersion(), "kind": o.kind.Kind, "metadata": metadata}
		if o.spec != nil {
			content["spec"] = o.spec
		}
		_, err := s.of(o.kind, o.namespace).Create(t.Context(), &unstructured.Unstructured{Object: content},
			metav1.CreateOptions{})
		require.NoError(t, err, o.kind)
		var stored unstructured.Unstructured
		require.NoError(t, s.db.View(func(tx *store.Tx) error {
			return objects.New(nil, nil).Get(tx,
				o.kind, o.namespace, "one", &stored)
		}), o.kind)
		require.Equal(t, "one", stored.GetName())
	}
}
