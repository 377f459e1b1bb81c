package kube_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"landfall/appliance/kube/objects"
)

func TestNamespaces_areNotDeletedAsCollection(t *testing.T) {
	s := newSite(t)
	s.create(t, objects.Namespaces, "", "site", `"metadata":{"labels":{"group":"x"}}`)
	s.create(t, objects.ConfigMaps, "site", "one", "")
	for name, selected := range map[string]metav1.ListOptions{
		"all": {}, "with a label": {LabelSelector: "group=x"},
	} {
		err := s.of(objects.Namespaces, "").DeleteCollection(t.Context(), metav1.DeleteOptions{}, selected)
		require.True(t, apierrors.IsMethodNotSupported(err), "%s: %v", name, err)
	}
	for _, name := range []string{"site", "default"} {
		require.Nil(t, s.get(t, objects.Namespaces, "", name).GetDeletionTimestamp())
	}
	require.NoError(t, s.of(objects.Namespaces, "").Delete(t.Context(), "site", metav1.DeleteOptions{}))
	s.gone(t, objects.ConfigMaps, "site", "one")
	s.gone(t, objects.Namespaces, "", "site")
}
