package objects_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"landfall/appliance/kube/objects"
	"landfall/appliance/kube/objects/agentinstall"
	"landfall/store"
)

// The set of fields that is read from the text equals that of structured-merge-diff, which records
// the fields of objects in the unstructured form.
func TestManagedFields_textAndStructuredMergeDiff(t *testing.T) {
	type env = agentinstall.InfraEnv
	owner := []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "owner", UID: "uid-2"}}
	cases := map[string]func(e *env){
		"empty":       func(*env) {},
		"nested":      func(e *env) { e.Spec.ClusterRef = &agentinstall.ClusterReference{Name: "one"} },
		"empty map":   func(e *env) { e.Spec.ClusterRef = &agentinstall.ClusterReference{} },
		"finalizers":  func(e *env) { e.Finalizers = []string{"z/last", "a/first"} },
		"owner":       func(e *env) { e.OwnerReferences = owner },
		"status":      func(e *env) { e.Status.ISODownloadURL = "http://site/one.iso" },
		"labels":      func(e *env) { e.Labels = map[string]string{"b/1": "", "a.b/c": "x", "B": "}"} },
		"escaped":     func(e *env) { e.Annotations = map[string]string{`a"\b`: "x", "é<>&": "y"} },
		"lists":       func(e *env) { e.Spec.AdditionalNTPSources = []string{"a", "b"} },
		"quoted text": func(e *env) { e.Spec.IgnitionConfigOverride = `{"a":"\\","b":["\"]"]}` },
		"selector": func(e *env) {
			e.Spec.NMStateConfigLabelSelector = metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
		},
	}
	db, o := open(t), objects.New(nil, nil)
	fields := func(tx *store.Tx, name string) string {
		var u unstructured.Unstructured
		require.NoError(t, o.Get(tx, objects.InfraEnvs, "site", name, &u))
		entries := u.GetManagedFields()
		require.Len(t, entries, 1)
		require.WithinDuration(t, metav1.Now().Time, entries[0].Time.Time, 1e11)
		return fmt.Sprint(entries[0].Manager, entries[0].Operation, entries[0].APIVersion, entries[0].FieldsType,
			string(entries[0].FieldsV1.GetRawBytes()))
	}
	named := func(name string, fill func(*env)) *env {
		e := &env{ObjectMeta: metav1.ObjectMeta{Namespace: "site", Name: name}}
		fill(e)
		return e
	}
	for name, fill := range cases {
		t.Run(name, func(t *testing.T) {
			name := strings.ReplaceAll(name, " ", "-")
			u, err := objects.From(objects.InfraEnvs, named(name+"-unstructured", fill))
			require.NoError(t, err)
			update(t, db, func(tx *store.Tx) error { return o.Create(tx, objects.InfraEnvs, u, noon) })
			update(t, db, func(tx *store.Tx) error {
				return o.Create(tx, objects.InfraEnvs, named(name+"-typed", fill), noon)
			})
			update(t, db, func(tx *store.Tx) error {
				return o.Create(tx, objects.InfraEnvs, named(name+"-filled", func(*env) {}), noon)
			})
			update(t, db, func(tx *store.Tx) error {
				return objects.UpdateAs(o, tx, objects.InfraEnvs, "site", name+"-filled",
					func(e *env) error { fill(e); return nil })
			})
			require.NoError(t, db.View(func(tx *store.Tx) error {
				want := fields(tx, name+"-unstructured")
				require.Equal(t, want, fields(tx, name+"-typed"))
				if name != "escaped" { // structured-merge-diff adds the metadata itself to a changed set
					require.Equal(t, want, fields(tx, name+"-filled"))
				}
				return nil
			}))
		})
	}
}
