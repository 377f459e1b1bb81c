package kube_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"landfall/appliance/kube/objects"
	"landfall/store"
)

// owned returns the managers of an object and the fields that each of them owns.
func owned(u *unstructured.Unstructured) map[string]string {
	all := map[string]string{}
	for _, entry := range u.GetManagedFields() {
		all[entry.Manager+" "+string(entry.Operation)] = string(entry.FieldsV1.GetRawBytes())
	}
	return all
}

func TestManagedFields_controllers(t *testing.T) {
	s := newSite(t)
	apply := func(kind objects.Kind, content string, force bool) error {
		_, err := s.of(kind, "default").Patch(t.Context(), "one", types.ApplyPatchType,
			[]byte(`{"apiVersion":"`+kind.APIVersion()+`","kind":"`+kind.Kind+`",`+content+`}`),
			metav1.PatchOptions{FieldManager: "person", Force: &force})
		return err
	}
	write := func(fn func(tx *store.Tx) error) { require.NoError(t, s.db.Update(t.Context(), fn)) }
	alter := func(kind objects.Kind, fn func(u *unstructured.Unstructured) error) {
		write(func(tx *store.Tx) error { return s.options.Objects.Update(tx, kind, "default", "one", fn) })
	}

	owner := s.create(t, objects.ConfigMaps, "default", "owner", "")
	reference := metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "owner", UID: owner.GetUID()}
	write(func(tx *store.Tx) error {
		return s.options.Objects.Create(tx, objects.Secrets, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "one",
				OwnerReferences: []metav1.OwnerReference{reference}},
			Data: map[string][]byte{"kubeconfig": []byte("old")},
		}, time.Now())
	})
	require.Equal(t, map[string]string{
		"landfall-controllers Update": `{"f:data":{".":{},"f:kubeconfig":{}},"f:metadata":{"f:ownerReferences":{".":{},"k:{\"uid\":\"` + string(owner.GetUID()) + `\"}":{}}}}`,
	}, owned(s.get(t, objects.Secrets, "default", "one")))
	require.NoError(t, apply(objects.Secrets,
		`"metadata":{"name":"one","labels":{"mine":"yes"}},"data":{"note":"aGk="}`, false),
		"a field without an owner causes no conflict")
	err := apply(objects.Secrets, `"metadata":{"name":"one"},"data":{"kubeconfig":"aGk="}`, false)
	require.True(t, apierrors.IsConflict(err), err)
	require.ErrorContains(t, err, `conflict with "landfall-controllers"`)
	require.NoError(t, apply(objects.Secrets, `"metadata":{"name":"one"},"data":{"kubeconfig":"aGk="}`, true))
	require.Equal(t, map[string]any{"kubeconfig": "aGk="}, s.get(t, objects.Secrets, "default", "one").Object["data"])
	alter(objects.Secrets, func(u *unstructured.Unstructured) error {
		return unstructured.SetNestedField(u.Object, "bmV3", "data", "kubeconfig")
	})
	require.True(t, apierrors.IsConflict(apply(objects.Secrets,
		`"metadata":{"name":"one"},"data":{"kubeconfig":"aGk="}`, false)), "the Secret was replaced in the meantime")

	require.NoError(t, apply(objects.ClusterDeployments, `"metadata":{"name":"one","finalizers":["person/holds"]},`+
		deployment, false))
	alter(objects.ClusterDeployments, func(u *unstructured.Unstructured) error {
		objects.AddFinalizer(u, "controller/holds")
		return unstructured.SetNestedField(u.Object, "half", "status", "powerState")
	})
	cd := s.get(t, objects.ClusterDeployments, "default", "one")
	require.Equal(t, `{"f:metadata":{"f:finalizers":{"v:\"controller/holds\"":{}}}}`,
		owned(cd)["landfall-controllers Update"])
	require.Contains(t, owned(cd)["person Apply"], `"v:\"person/holds\""`)
	require.NoError(t, apply(objects.ClusterDeployments, `"metadata":{"name":"one"},`+deployment, false))
	require.Equal(t, []string{"controller/holds"}, s.get(t, objects.ClusterDeployments, "default",
		"one").GetFinalizers(), "each manager keeps its own finalizer")

	managed := len(cd.GetManagedFields())
	alter(objects.ClusterDeployments, func(u *unstructured.Unstructured) error {
		return unstructured.SetNestedField(u.Object, "full", "status", "powerState")
	})
	require.Len(t, s.get(t, objects.ClusterDeployments, "default", "one").GetManagedFields(), managed,
		"status fields have no manager")
}

// A Secret keeps no stringData. If a manager owned it, each other manager that applies the same
// manifest would get a conflict.
func TestManagedFields_ofStringData(t *testing.T) {
	s := newSite(t)
	created := s.create(t, objects.Secrets, "default", "one", `"stringData":{"password":"word"}`)
	for manager, fields := range owned(created) {
		require.Contains(t, fields, `"f:data":{".":{},"f:password":{}}`, manager)
		require.NotContains(t, fields, "stringData", manager)
	}
	apply := func(manager, password string) error {
		_, err := s.of(objects.Secrets, "default").Patch(t.Context(), "one", types.ApplyPatchType,
			[]byte(`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"one"},"stringData":{"password":"`+
				password+`"}}`), metav1.PatchOptions{FieldManager: manager})
		return err
	}
	require.NoError(t, apply("person", "word"))
	require.NoError(t, apply("person", "other"))
	secret := s.get(t, objects.Secrets, "default", "one")
	require.Equal(t, map[string]any{"password": "b3RoZXI="}, secret.Object["data"])
	require.NotContains(t, secret.Object, "stringData")

	_, err := s.of(objects.Secrets, "default").Patch(t.Context(), "one", types.MergePatchType,
		[]byte(`{"stringData":{"password":"third"}}`), metav1.PatchOptions{})
	require.NoError(t, err)
	require.Equal(t, map[string]any{"password": "dGhpcmQ="}, s.get(t, objects.Secrets, "default", "one").Object["data"])
}
