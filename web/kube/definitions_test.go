package kube_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"landfall/appliance/kube/objects"
	"landfall/store"
	"landfall/web/kube"
)

func TestDefinitions_ownAreNotDeleted(t *testing.T) {
	s := newSite(t)
	s.create(t, objects.InfraEnvs, "default", "pool", `"spec":{"pullSecretRef":{"name":"pull"}}`)
	all := s.of(definitionKind, "")
	for name, err := range map[string]error{
		"one": all.Delete(t.Context(), objects.InfraEnvs.String(), metav1.DeleteOptions{}),
		"all": all.DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}),
	} {
		require.True(t, apierrors.IsForbidden(err), "%s: %v", name, err)
		require.ErrorContains(t, err, "the appliance needs this definition")
	}
	for _, kind := range objects.Kinds() {
		if kind.Group != "" {
			require.Nil(t, s.get(t, definitionKind, "", kind.String()).GetDeletionTimestamp(), kind)
		}
	}
	s.get(t, objects.InfraEnvs, "default", "pool")
}

// TestDefinitions_missingIsWritten starts on the data of an earlier version, which let clients
// delete a definition.
func TestDefinitions_missingIsWritten(t *testing.T) {
	s := newSite(t)
	_, err := s.of(definitionKind, "").Patch(t.Context(), objects.InfraEnvs.String(), types.MergePatchType,
		[]byte(`{"metadata":{"labels":{"own":"x"}}}`), metav1.PatchOptions{})
	require.NoError(t, err)
	s.stop(t)
	require.NoError(t, s.db.Update(t.Context(), func(tx *store.Tx) error {
		return kube.Rows().Delete(tx, definitionKind.Key("", objects.AgentClassifications.String()))
	}))
	s.start(t)
	s.create(t, objects.AgentClassifications, "default", "large",
		`"spec":{"labelKey":"size","labelValue":"large","query":"true"}`)
	require.Equal(t, "x", s.get(t, definitionKind, "", objects.InfraEnvs.String()).GetLabels()["own"],
		"the other definitions are not written again")
}
