package kube_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/admission"

	"landfall/appliance/kube/objects"
	"landfall/store"
	"landfall/web/kube"
)

func ownedBy(owners ...*unstructured.Unstructured) string {
	text := ""
	for i, o := range owners {
		if i > 0 {
			text += ","
		}
		text += fmt.Sprintf(`{"apiVersion":%q,"kind":%q,"name":%q,"uid":%q,"blockOwnerDeletion":true}`,
			o.GetAPIVersion(), o.GetKind(), o.GetName(), o.GetUID())
	}
	return `"metadata":{"ownerReferences":[` + text + `]}`
}

func deleting(policy metav1.DeletionPropagation) metav1.DeleteOptions {
	return metav1.DeleteOptions{PropagationPolicy: &policy}
}

const deployment = `"spec":{"clusterName":"one","baseDomain":"site.example","platform":{"agentBareMetal":{"agentSelector":{}}}}`

func TestGarbageCollector_propagationPolicies(t *testing.T) {
	s := newSite(t)
	s.create(t, objects.Namespaces, "", "site", "")
	family := func(name string) {
		parent := s.create(t, objects.ClusterDeployments, "site", name, deployment)
		child := s.create(t, objects.ConfigMaps, "site", name+"-child", ownedBy(parent))
		s.create(t, objects.Secrets, "site", name+"-grandchild", ownedBy(child))
	}
	for policy, stays := range map[metav1.DeletionPropagation]bool{
		metav1.DeletePropagationBackground: false, metav1.DeletePropagationForeground: false,
		metav1.DeletePropagationOrphan: true,
	} {
		t.Run(string(policy), func(t *testing.T) {
			name := map[metav1.DeletionPropagation]string{"Background": "back", "Foreground": "front",
				"Orphan": "none"}[policy]
			family(name)
			require.NoError(t, s.of(objects.ClusterDeployments, "site").Delete(t.Context(), name, deleting(policy)))
			s.gone(t, objects.ClusterDeployments, "site", name)
			if !stays {
				s.gone(t, objects.ConfigMaps, "site", name+"-child")
				s.gone(t, objects.Secrets, "site", name+"-grandchild")
				return
			}
			require.Empty(t, s.get(t, objects.ConfigMaps, "site", name+"-child").GetOwnerReferences())
			require.Len(t, s.get(t, objects.Secrets, "site", name+"-grandchild").GetOwnerReferences(), 1)
		})
	}
}

func TestGarbageCollector_foreground(t *testing.T) {
	s := newSite(t)
	parent := s.create(t, objects.ClusterDeployments, "default", "parent", deployment)
	child := object(t, objects.ConfigMaps, "default", "child", ownedBy(parent))
	child.SetFinalizers([]string{"example.com/held"})
	_, err := s.of(objects.ConfigMaps, "default").Create(t.Context(), child, metav1.CreateOptions{})
	require.NoError(t, err)
	require.NoError(t, s.of(objects.ClusterDeployments, "default").Delete(t.Context(), "parent",
		deleting(metav1.DeletePropagationForeground)))
	require.Eventually(t, func() bool {
		return s.get(t, objects.ConfigMaps, "default", "child").GetDeletionTimestamp() != nil
	}, time.Minute, time.Millisecond)
	require.NotNil(t, s.get(t, objects.ClusterDeployments, "default", "parent").GetDeletionTimestamp())
	_, err = s.of(objects.ConfigMaps, "default").Patch(t.Context(), "child", types.MergePatchType,
		[]byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	require.NoError(t, err)
	s.gone(t, objects.ConfigMaps, "default", "child")
	s.gone(t, objects.ClusterDeployments, "default", "parent")
}

func TestGarbageCollector_secondOwner(t *testing.T) {
	s := newSite(t)
	first, second := s.create(t, objects.ConfigMaps, "default", "first", ""), s.create(t, objects.ConfigMaps,
		"default", "second", "")
	s.create(t, objects.Secrets, "default", "child", ownedBy(first, second))
	require.NoError(t, s.of(objects.ConfigMaps, "default").Delete(t.Context(), "first", metav1.DeleteOptions{}))
	require.Eventually(t, func() bool {
		owners := s.get(t, objects.Secrets, "default", "child").GetOwnerReferences()
		return len(owners) == 1 && owners[0].UID == second.GetUID()
	}, time.Minute, time.Millisecond)
	orphan := second.DeepCopy()
	orphan.SetUID("00000000-0000-0000-0000-000000000000")
	s.create(t, objects.Secrets, "default", "lost", ownedBy(orphan))
	s.gone(t, objects.Secrets, "default", "lost")
}

func TestGarbageCollector_start(t *testing.T) {
	s := newSite(t)
	owner := s.create(t, objects.ConfigMaps, "default", "owner", "")
	s.create(t, objects.Secrets, "default", "child", ownedBy(owner))
	s.stop(t)
	require.NoError(t, s.db.Update(t.Context(), func(tx *store.Tx) error {
		return kube.Rows().Delete(tx, objects.ConfigMaps.Key("default", "owner"))
	}))
	s.start(t)
	s.gone(t, objects.Secrets, "default", "child")
}

// TestGarbageCollector_startWithManyObjects holds that the first check reads all of its batches,
// and keeps the objects whose owners exist.
func TestGarbageCollector_startWithManyObjects(t *testing.T) {
	s := newSite(t)
	owner := s.create(t, objects.ConfigMaps, "default", "owner", "")
	lost := s.create(t, objects.ConfigMaps, "default", "lost", "")
	for i := range 12 {
		s.create(t, objects.ConfigMaps, "default", fmt.Sprint("large-", i), `"data":{"text":"`+
			strings.Repeat("x", 900<<10)+`"}`)
	}
	s.create(t, objects.Secrets, "default", "kept", ownedBy(owner))
	s.create(t, objects.Secrets, "default", "of-both", ownedBy(owner, lost))
	s.create(t, objects.Secrets, "default", "orphan", ownedBy(lost))
	s.stop(t)
	require.NoError(t, s.db.Update(t.Context(), func(tx *store.Tx) error {
		return kube.Rows().Delete(tx, objects.ConfigMaps.Key("default", "lost"))
	}))
	kept := s.db.Revision()
	s.start(t)
	s.gone(t, objects.Secrets, "default", "orphan")
	require.Eventually(t, func() bool {
		return len(s.get(t, objects.Secrets, "default", "of-both").GetOwnerReferences()) == 1
	}, time.Minute, time.Millisecond)
	require.NotEmpty(t, s.get(t, objects.Secrets, "default", "kept").GetOwnerReferences())
	require.NoError(t, s.db.View(func(tx *store.Tx) error {
		row, err := kube.Rows().Get(tx, objects.Secrets.Key("default", "kept"))
		require.Less(t, row.Modified, kept)
		return err
	}))
}

func TestNamespace_deletion(t *testing.T) {
	s := newSite(t)
	s.create(t, objects.Namespaces, "", "site", "")
	s.create(t, objects.Namespaces, "", "site-2", "")
	for i := range 300 {
		s.create(t, objects.Secrets, "site", fmt.Sprint("secret-", i), `"stringData":{"a":"b"}`)
	}
	s.create(t, objects.ClusterDeployments, "site", "one", deployment)
	s.create(t, objects.ConfigMaps, "site-2", "neighbour", "")
	require.NoError(t, s.of(objects.Namespaces, "").Delete(t.Context(), "site", metav1.DeleteOptions{}))
	s.gone(t, objects.Namespaces, "", "site")
	require.NoError(t, s.db.View(func(tx *store.Tx) error {
		rows, _, _, err := kube.Rows().Range(tx, store.Range{KeysOnly: true})
		for _, row := range rows {
			require.NotContains(t, row.Key, "/site/")
			require.NotEqual(t, "core/namespaces/site", row.Key)
		}
		return err
	}))
	s.get(t, objects.ConfigMaps, "site-2", "neighbour")
}

func TestNamespace_createdAgainKeepsObjects(t *testing.T) {
	s := newSite(t)
	for round := range 20 {
		name := fmt.Sprint("site-", round)
		s.create(t, objects.Namespaces, "", name, "")
		s.create(t, objects.Secrets, name, "first", "")
		require.NoError(t, s.of(objects.Namespaces, "").Delete(t.Context(), name, metav1.DeleteOptions{}))
		s.gone(t, objects.Namespaces, "", name)
		s.create(t, objects.Namespaces, "", name, "")
		s.create(t, objects.Secrets, name, "second", "")
	}
	for round := range 20 {
		s.get(t, objects.Secrets, fmt.Sprint("site-", round), "second")
	}
}

// beforeWrite is called when all checks of a request have passed, and before its object is written.
type beforeWrite func(a admission.Attributes)

func (beforeWrite) Handles(operation admission.Operation) bool { return operation == admission.Create }

func (fn beforeWrite) Validate(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	fn(a)
	return nil
}

func TestNamespace_deletedDuringRequest(t *testing.T) {
	var s *site
	removed := false
	s = newSite(t, func(o *kube.Options) {
		o.Admission = append(o.Admission, beforeWrite(func(a admission.Attributes) {
			if a.GetKind().Kind != "Secret" {
				return
			}
			require.NoError(t, s.of(objects.Namespaces, "").Delete(t.Context(), "site", metav1.DeleteOptions{}))
			if removed {
				s.gone(t, objects.Namespaces, "", "site")
			}
		}))
	})
	create := func() error {
		_, err := s.of(objects.Secrets, "site").Create(t.Context(), object(t, objects.Secrets, "site", "late", ""),
			metav1.CreateOptions{})
		return err
	}
	s.create(t, objects.Namespaces, "", "site", `"metadata":{"finalizers":["example.com/held"]}`)
	require.ErrorContains(t, create(), "unable to create new content in namespace site because it is being terminated")
	_, err := s.of(objects.Namespaces, "").Patch(t.Context(), "site", types.MergePatchType,
		[]byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	require.NoError(t, err)
	s.gone(t, objects.Namespaces, "", "site")

	s.create(t, objects.Namespaces, "", "site", "")
	removed = true
	require.ErrorContains(t, create(), `namespaces "site" not found`)
	left, err := s.of(objects.Secrets, "").List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	require.Empty(t, left.Items)
}

func TestNamespace_finalizersRemaining(t *testing.T) {
	s := newSite(t)
	s.create(t, objects.Namespaces, "", "site", "")
	held := object(t, objects.ConfigMaps, "site", "held-2", "")
	held.SetFinalizers([]string{"example.com/held"})
	_, err := s.of(objects.ConfigMaps, "site").Create(t.Context(), held, metav1.CreateOptions{})
	require.NoError(t, err)
	require.NoError(t, s.of(objects.Namespaces, "").Delete(t.Context(), "site", metav1.DeleteOptions{}))
	require.Eventually(t, func() bool {
		conditions, _, err := unstructured.NestedSlice(s.get(t, objects.Namespaces, "", "site").Object, "status",
			"conditions")
		require.NoError(t, err)
		return len(conditions) == 2
	}, time.Minute, time.Millisecond)
	namespace := s.get(t, objects.Namespaces, "", "site")
	require.Contains(t, fmt.Sprint(namespace.Object["status"]), "kubectl -n site patch configmaps held-2 --type=merge")
	_, err = s.of(objects.Secrets, "site").Create(t.Context(), object(t, objects.Secrets, "site", "new", ""),
		metav1.CreateOptions{})
	require.ErrorContains(t, err, "unable to create new content in namespace site because it is being terminated")
	_, err = s.of(objects.ConfigMaps, "site").Patch(t.Context(), "held-2", types.MergePatchType,
		[]byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	require.NoError(t, err)
	s.gone(t, objects.Namespaces, "", "site")
}
