package objects_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"landfall/appliance/kube/objects"
	"landfall/appliance/kube/objects/agentinstall"
	"landfall/appliance/sitekey"
	"landfall/store"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func open(t *testing.T) *store.DB {
	t.Helper()
	db, err := store.Open(context.Background(), t.TempDir(), store.Options{NoSync: true})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db
}

func update(t *testing.T, db *store.DB, fn func(tx *store.Tx) error) {
	t.Helper()
	require.NoError(t, db.Update(context.Background(), fn))
}

func TestKinds_keys(t *testing.T) {
	for _, kind := range objects.Kinds() {
		namespace := ""
		if kind.Namespaced {
			namespace = "site"
		}
		found, ns, name, ok := objects.ParseKey(objects.Prefix() + kind.Key(namespace, "one"))
		require.True(t, ok, kind)
		require.Equal(t, kind, found)
		require.Equal(t, namespace, ns)
		require.Equal(t, "one", name)
	}
	for _, key := range []string{"/hosts/one", "/kubernetes/", "/kubernetes/core/pods/a/b",
		"/kubernetes/core/secrets/a", "/kubernetes/core/namespaces/"} {
		_, _, _, ok := objects.ParseKey(key)
		require.False(t, ok, key)
	}
}

func TestObjects_sameFormAsAPIServer(t *testing.T) {
	db, o := open(t), objects.New(nil, nil)
	update(t, db, func(tx *store.Tx) error {
		return o.Create(tx, objects.InfraEnvs, &agentinstall.InfraEnv{
			ObjectMeta: metav1.ObjectMeta{Namespace: "site", Name: "one"},
			Spec:       agentinstall.InfraEnvSpec{PullSecretRef: &corev1.LocalObjectReference{Name: "pull"}},
		}, noon)
	})
	require.ErrorIs(t, db.Update(context.Background(), func(tx *store.Tx) error {
		return o.Create(tx, objects.InfraEnvs, &agentinstall.InfraEnv{ObjectMeta: metav1.ObjectMeta{Namespace: "site",
			Name: "one"}}, noon)
	}), objects.ErrExists)

	change := func(fn func(u *unstructured.Unstructured) error) (read agentinstall.InfraEnv) {
		update(t, db, func(tx *store.Tx) error { return o.Update(tx, objects.InfraEnvs, "site", "one", fn) })
		require.NoError(t, db.View(func(tx *store.Tx) error {
			return o.Get(tx, objects.InfraEnvs, "site", "one",
				&read)
		}))
		return read
	}
	created := change(func(*unstructured.Unstructured) error { return nil })
	require.Equal(t, "InfraEnv", created.Kind)
	require.EqualValues(t, 1, created.Generation)
	require.Equal(t, "1", created.ResourceVersion, "reading does not change the object")
	require.NotEmpty(t, created.UID)
	require.Equal(t, noon, created.CreationTimestamp.UTC())

	labelled := change(func(u *unstructured.Unstructured) error {
		u.SetLabels(map[string]string{"a": "b"})
		return nil
	})
	require.EqualValues(t, 1, labelled.Generation, "a label does not change the generation")
	reported := change(func(u *unstructured.Unstructured) error {
		return unstructured.SetNestedField(u.Object, "http://site/one.iso", "status", "isoDownloadURL")
	})
	require.EqualValues(t, 1, reported.Generation)
	require.Equal(t, "http://site/one.iso", reported.Status.ISODownloadURL)
	wished := change(func(u *unstructured.Unstructured) error {
		return unstructured.SetNestedField(u.Object, "ssh-ed25519 AAAA", "spec", "sshAuthorizedKey")
	})
	require.EqualValues(t, 2, wished.Generation)
	require.Equal(t, "pull", wished.Spec.PullSecretRef.Name)
}

func TestEditing_isSavedOnce(t *testing.T) {
	db, o := open(t), objects.New(nil, nil)
	edit := func(tx *store.Tx) *objects.Editing[agentinstall.InfraEnv] {
		e, err := objects.Edit[agentinstall.InfraEnv](o, tx, objects.InfraEnvs, "site", "one")
		require.NoError(t, err)
		return e
	}
	save := func(tx *store.Tx, e *objects.Editing[agentinstall.InfraEnv], generation int64) {
		is, err := e.Save(o, tx, noon)
		require.NoError(t, err)
		require.Equal(t, generation, is)
	}
	update(t, db, func(tx *store.Tx) error {
		draft, err := objects.Draft(o, objects.InfraEnvs, &agentinstall.InfraEnv{ObjectMeta: metav1.ObjectMeta{
			Namespace: "site", Name: "one"}})
		require.NoError(t, err)
		require.NotEmpty(t, draft.Object.UID, "other objects may refer to it before it is saved")
		draft.Object.Spec.SSHAuthorizedKey = "ssh-ed25519 AAAA"
		save(tx, draft, 1)
		require.Equal(t, draft.Object.UID, edit(tx).Object.UID)
		return o.Update(tx, objects.InfraEnvs, "site", "one", func(u *unstructured.Unstructured) error {
			return unstructured.SetNestedField(u.Object, "kept", "spec", "fieldOfANewerVersion")
		})
	})
	before := db.Revision()
	update(t, db, func(tx *store.Tx) error { save(tx, edit(tx), 2); return nil })
	require.Equal(t, before, db.Revision(), "an unchanged object is not written")

	update(t, db, func(tx *store.Tx) error {
		e := edit(tx)
		e.Object.Status.ISODownloadURL = "http://site/one.iso"
		save(tx, e, 2)
		e = edit(tx)
		e.Object.Spec.SSHAuthorizedKey = ""
		save(tx, e, 3)
		return nil
	})
	require.NoError(t, db.View(func(tx *store.Tx) error {
		u, err := o.Shared(tx, objects.InfraEnvs, "site", "one")
		require.NoError(t, err)
		require.Subset(t, u.Object["spec"], map[string]any{"fieldOfANewerVersion": "kept"})
		require.NotContains(t, u.Object["spec"], "sshAuthorizedKey")
		url, _, err := unstructured.NestedString(u.Object, "status", "isoDownloadURL")
		require.Equal(t, "http://site/one.iso", url)
		return err
	}))
}

func TestObjects_readerOwnsItsCopy(t *testing.T) {
	db, o := open(t), objects.New(nil, nil)
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "site", Name: "one"},
		Data: map[string]string{"a": "1"}}
	update(t, db, func(tx *store.Tx) error { return o.Create(tx, objects.ConfigMaps, config, noon) })
	for range 3 {
		require.NoError(t, db.View(func(tx *store.Tx) error {
			var typed corev1.ConfigMap
			require.NoError(t, o.Get(tx, objects.ConfigMaps, "site", "one", &typed))
			require.Equal(t, map[string]string{"a": "1"}, typed.Data)
			typed.Data["a"] = "altered"
			var u unstructured.Unstructured
			require.NoError(t, o.Get(tx, objects.ConfigMaps, "site", "one", &u))
			require.Equal(t, map[string]any{"a": "1"}, u.Object["data"])
			return unstructured.SetNestedField(u.Object, "altered", "data", "a")
		}))
	}
}

func TestDelete_lastFinalizer(t *testing.T) {
	db, o := open(t), objects.New(nil, nil)
	exists := func() (there bool) {
		require.NoError(t, db.View(func(tx *store.Tx) error {
			there = o.Exists(tx, objects.Agents,
				"site", "one")
			return nil
		}))
		return there
	}
	update(t, db, func(tx *store.Tx) error {
		return o.Create(tx, objects.Agents, &agentinstall.Agent{ObjectMeta: metav1.ObjectMeta{Namespace: "site",
			Name: "one", Finalizers: []string{"a", "b"}}}, noon)
	})
	for range 2 {
		update(t, db, func(tx *store.Tx) error { return o.Delete(tx, objects.Agents, "site", "one", noon) })
		require.True(t, exists())
	}
	drop := func(finalizer string) {
		update(t, db, func(tx *store.Tx) error {
			return o.Update(tx, objects.Agents, "site", "one", func(u *unstructured.Unstructured) error {
				require.Equal(t, noon, u.GetDeletionTimestamp().UTC())
				objects.RemoveFinalizer(u, finalizer)
				return nil
			})
		})
	}
	drop("a")
	require.True(t, exists())
	drop("b")
	require.False(t, exists())
	update(t, db, func(tx *store.Tx) error { return o.Delete(tx, objects.Agents, "site", "one", noon) })
}

func TestSecrets_sealed(t *testing.T) {
	dir := t.TempDir()
	key, err := sitekey.LoadOrCreate(dir)
	require.NoError(t, err)
	box, err := key.Box("a test", nil)
	require.NoError(t, err)
	db, o := open(t), objects.New(box, nil)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "site", Name: "bmc"},
		StringData: map[string]string{"password": "calvin"}}
	update(t, db, func(tx *store.Tx) error { return o.Create(tx, objects.Secrets, secret, noon) })
	require.NoError(t, db.View(func(tx *store.Tx) error {
		var read corev1.Secret
		require.NoError(t, o.Get(tx, objects.Secrets, "site", "bmc", &read))
		require.Equal(t, "calvin", read.StringData["password"])
		require.NoError(t, tx.Rows(objects.Prefix(), false, func(_ string, row store.Row) error {
			require.NotContains(t, string(row.JSON), "calvin")
			require.Contains(t, string(row.JSON), `"sealed:1:`)
			return nil
		}))
		require.ErrorIs(t, objects.New(nil, nil).Get(tx, objects.Secrets, "site", "bmc", &read), sitekey.ErrSealed)
		return nil
	}))
}

func TestEvent_countsRepetitions(t *testing.T) {
	db, o := open(t), objects.New(nil, nil)
	about := &unstructured.Unstructured{Object: map[string]any{}}
	about.SetKind("BareMetalHost")
	about.SetNamespace("site")
	about.SetName("node-0")
	for i := range 3 {
		update(t, db, func(tx *store.Tx) error {
			return o.Event(tx, about, objects.EventContent{Component: "metal3-baremetal-controller", Warning: true,
				Reason: "PowerManagementError", Message: "busy"}, noon.Add(time.Duration(i)*time.Minute))
		})
	}
	require.NoError(t, db.View(func(tx *store.Tx) error {
		count := 0
		require.NoError(t, o.Each(tx, objects.Events, "site", func(u *unstructured.Unstructured) error {
			count++
			var event corev1.Event
			require.NoError(t, objects.Into(u, &event))
			require.EqualValues(t, 3, event.Count)
			require.Equal(t, "Warning", event.Type)
			require.Equal(t, noon.Add(2*time.Minute), event.LastTimestamp.UTC())
			at, ok := objects.Expiry().At(tx, objects.Events.Key("site", event.Name))
			require.True(t, ok)
			require.Equal(t, noon.Add(2*time.Minute+objects.EventLife), at)
			return nil
		}))
		require.Equal(t, 1, count)
		return nil
	}))
}
