package workagent

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/util/jsonpath"
	workv1 "open-cluster-management.io/api/work/v1"

	"landfall/appliance/hosted/controlplane"
	"landfall/appliance/kube/objects"
	"landfall/appliance/simulate/hypershift"
	"landfall/store"
	"landfall/web/kube"
)

// management is a management cluster: Landfall's own Kubernetes API with HyperShift's kinds. Its
// operator is a stand-in.
type management struct {
	t        *testing.T
	client   dynamic.Interface
	operator *hypershift.Operator
	local    map[string]*appliedWork // what the cluster's own work agent has applied, by UID
	deletes  atomic.Int64            // requests that delete HostedClusters
}

// kinds are the custom resources of the management cluster.
var kinds = []struct {
	group, version, kind, plural string
	scope                        string
}{
	{"work.open-cluster-management.io", "v1", "AppliedManifestWork", "appliedmanifestworks", "Cluster"},
	{"work.open-cluster-management.io", "v1", "ManifestWork", "manifestworks", "Namespaced"},
	{"cluster.open-cluster-management.io", "v1", "ManagedCluster", "managedclusters", "Cluster"},
	{"hypershift.openshift.io", "v1beta1", "HostedCluster", "hostedclusters", "Namespaced"},
	{"hypershift.openshift.io", "v1beta1", "NodePool", "nodepools", "Namespaced"},
	{"certificates.k8s.io", "v1", "CertificateSigningRequest", "certificatesigningrequests", "Cluster"},
	{"certificates.hypershift.openshift.io", "v1alpha1", "CertificateSigningRequestApproval",
		"certificatesigningrequestapprovals", "Namespaced"},
}

func resourceOf(kind string) schema.GroupVersionResource {
	for _, k := range kinds {
		if k.kind == kind {
			return schema.GroupVersionResource{Group: k.group, Version: k.version, Resource: k.plural}
		}
	}
	return schema.GroupVersionResource{Version: "v1", Resource: strings.ToLower(kind) + "s"}
}

// counting counts the requests that delete HostedClusters.
type counting struct {
	next    http.RoundTripper
	deletes *atomic.Int64
}

func (c counting) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodDelete && strings.Contains(r.URL.Path, "/hostedclusters") {
		c.deletes.Add(1)
	}
	return c.next.RoundTrip(r)
}

func newManagement(t *testing.T) *management {
	t.Helper()
	db, err := store.Open(t.Context(), t.TempDir(), store.Options{Versioned: kube.Bucket, NoSync: true})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	server := kube.New(kube.Options{DB: db, Objects: objects.New(nil, nil), Address: "mc1.example:6443",
		Clock: clockwork.NewRealClock(), Logger: slog.New(slog.DiscardHandler), Open: true})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- server.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-ended)
	})
	select {
	case <-server.Ready():
	case err := <-ended:
		ended <- nil
		require.NoError(t, err)
	}
	m := &management{t: t, local: map[string]*appliedWork{}}
	config := server.Client()
	config.Transport = counting{config.Transport, &m.deletes}
	m.client, err = dynamic.NewForConfig(config)
	require.NoError(t, err)
	m.operator, err = hypershift.New(3)
	require.NoError(t, err)
	for _, k := range kinds {
		m.define(k.group, k.version, k.kind, k.plural, k.scope)
	}
	for _, k := range kinds {
		require.Eventually(t, func() bool {
			_, err := m.client.Resource(resourceOf(k.kind)).List(t.Context(), metav1.ListOptions{})
			return err == nil
		}, patience, 20*time.Millisecond, k.kind)
	}
	_, err = m.client.Resource(resourceOf("Namespace")).Create(t.Context(), &unstructured.Unstructured{
		Object: map[string]any{"apiVersion": "v1", "kind": "Namespace",
			"metadata": map[string]any{"name": controlplane.LocalCluster}}}, metav1.CreateOptions{})
	require.NoError(t, err)
	return m
}

// define writes the definition of a kind.
func (m *management) define(group, version, kind, plural, scope string) {
	m.t.Helper()
	type object = map[string]any
	definition := &unstructured.Unstructured{Object: object{"apiVersion": "apiextensions.k8s.io/v1",
		"kind": "CustomResourceDefinition", "metadata": object{"name": plural + "." + group,
			"annotations": object{"api-approved.kubernetes.io": "unapproved, for a test"}},
		"spec": object{"group": group, "scope": scope, "names": object{"kind": kind, "listKind": kind + "List",
			"plural": plural, "singular": strings.ToLower(kind)},
			"versions": []any{object{"name": version, "served": true, "storage": true,
				"subresources": object{"status": object{}}, "schema": object{"openAPIV3Schema": object{
					"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}}}}}
	_, err := m.client.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1",
		Resource: "customresourcedefinitions"}).Create(m.t.Context(), definition, metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) { // Landfall has ManagedClusters of its own
		require.NoError(m.t, err)
	}
}

func (m *management) at(at schema.GroupVersionResource, namespace string) dynamic.ResourceInterface {
	if namespace == "" {
		return m.client.Resource(at)
	}
	return m.client.Resource(at).Namespace(namespace)
}

// list returns the objects of a kind.
func (m *management) list(kind string) []unstructured.Unstructured {
	found, err := m.client.Resource(resourceOf(kind)).List(context.Background(), metav1.ListOptions{})
	require.NoError(m.t, err)
	return found.Items
}

// head is how far the stand-ins are already when they see an object, so that the tests are short.
const head = 11 * time.Second

// operate does once what HyperShift's operator and the multicluster engine do.
func (m *management) operate(ctx context.Context) error {
	for _, kind := range []string{"HostedCluster", "NodePool", "ManagedCluster", "CertificateSigningRequest"} {
		found, err := m.client.Resource(resourceOf(kind)).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for i := range found.Items {
			object := &found.Items[i]
			for _, owned := range m.operator.Owned(object.Object) {
				secret := &unstructured.Unstructured{Object: owned}
				_, err := m.at(resourceOf("Secret"), secret.GetNamespace()).Create(ctx, secret, metav1.CreateOptions{})
				if err != nil && !apierrors.IsAlreadyExists(err) && !apierrors.IsNotFound(err) {
					return err
				}
			}
			if kind == "CertificateSigningRequest" && object.Object["status"] != nil {
				continue
			}
			status := m.operator.Reconcile(object.Object, time.Now().Add(head))
			if reflect.DeepEqual(status, object.Object["status"]) {
				continue
			}
			object.Object["status"] = status
			if _, err := m.at(resourceOf(kind), object.GetNamespace()).UpdateStatus(ctx, object,
				metav1.UpdateOptions{}); err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
				return err
			}
		}
	}
	return nil
}

// manifest is a manifest with its resource and rules.
type manifest struct {
	object   *unstructured.Unstructured
	resource schema.GroupVersionResource
	readOnly bool
	rules    []workv1.JsonPath
}

// manifestsOf returns the manifests of a ManifestWork.
func manifestsOf(w *workv1.ManifestWork) (all []manifest, err error) {
	for _, raw := range w.Spec.Workload.Manifests {
		m := manifest{object: new(unstructured.Unstructured)}
		if err := json.Unmarshal(raw.Raw, &m.object.Object); err != nil {
			return nil, err
		}
		kind := m.object.GroupVersionKind()
		for _, config := range w.Spec.ManifestConfigs {
			id := config.ResourceIdentifier
			if id.Group != kind.Group || id.Name != m.object.GetName() || id.Namespace != m.object.GetNamespace() ||
				id.Resource != resourceOf(kind.Kind).Resource {
				continue
			}
			m.readOnly = config.UpdateStrategy.Type == workv1.UpdateStrategyTypeReadOnly
			for _, rule := range config.FeedbackRules {
				m.rules = append(m.rules, rule.JsonPaths...)
			}
		}
		m.resource = schema.GroupVersionResource{Group: kind.Group, Version: kind.Version,
			Resource: resourceOf(kind.Kind).Resource}
		all = append(all, m)
	}
	return all, nil
}

// appliedWork is what a work agent knows about a ManifestWork that it has applied.
type appliedWork struct {
	generation int64
	manifests  []manifest
	status     []byte // that was reported last
}

// applyOn applies the manifests of a new generation on the server's side.
func (a *appliedWork) applyOn(ctx context.Context, cluster *management, w *workv1.ManifestWork) error {
	if a.generation == w.Generation {
		return nil
	}
	manifests, err := manifestsOf(w)
	if err != nil {
		return err
	}
	for _, m := range manifests {
		if m.readOnly {
			continue
		}
		if _, err := cluster.at(m.resource, m.object.GetNamespace()).Apply(ctx, m.object.GetName(), m.object,
			metav1.ApplyOptions{FieldManager: "work-agent", Force: true}); err != nil {
			return err
		}
	}
	a.manifests, a.generation = manifests, w.Generation
	return nil
}

// statusOn returns the status of the ManifestWork with the values that its rules read, and whether
// it is another one than the last. Only Maestro's agent reports objects and lists.
func (a *appliedWork) statusOn(ctx context.Context, cluster *management,
	objects bool) (status workv1.ManifestWorkStatus, changed bool, err error) {
	meta.SetStatusCondition(&status.Conditions, metav1.Condition{Type: workv1.WorkApplied,
		Status: metav1.ConditionTrue, Reason: "Applied", ObservedGeneration: a.generation})
	status.Conditions[0].LastTransitionTime = metav1.Unix(1e9, 0)
	for i, m := range a.manifests {
		found := workv1.ManifestCondition{ResourceMeta: workv1.ManifestResourceMeta{Ordinal: int32(i),
			Group: m.resource.Group, Version: m.resource.Version, Resource: m.resource.Resource,
			Kind: m.object.GetKind(), Name: m.object.GetName(), Namespace: m.object.GetNamespace()},
			Conditions: status.Conditions}
		live, err := cluster.at(m.resource, m.object.GetNamespace()).Get(ctx, m.object.GetName(), metav1.GetOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return status, false, err
		}
		if err == nil {
			for _, rule := range m.rules {
				value, err := read(live.Object, rule)
				if err != nil {
					return status, false, err
				}
				if value != nil && (objects || value.Value.Type != workv1.JsonRaw) {
					found.StatusFeedbacks.Values = append(found.StatusFeedbacks.Values, *value)
				}
			}
		}
		status.ResourceStatus.Manifests = append(status.ResourceStatus.Manifests, found)
	}
	text, err := json.Marshal(status)
	changed = !slices.Equal(text, a.status)
	return status, changed, err
}

// reported notes that a status was reported.
func (a *appliedWork) reported(status workv1.ManifestWorkStatus) (err error) {
	a.status, err = json.Marshal(status)
	return err
}

// removeOn deletes the objects of a ManifestWork in reverse order, one in each round. It returns
// true when all are gone.
func removeOn(ctx context.Context, cluster *management, w *workv1.ManifestWork) (gone bool, err error) {
	if w.Spec.DeleteOption != nil &&
		w.Spec.DeleteOption.PropagationPolicy == workv1.DeletePropagationPolicyTypeOrphan {
		return true, nil
	}
	manifests, err := manifestsOf(w)
	if err != nil {
		return false, err
	}
	for _, m := range slices.Backward(manifests) {
		if m.readOnly {
			continue
		}
		at := cluster.at(m.resource, m.object.GetNamespace())
		live, err := at.Get(ctx, m.object.GetName(), metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			continue
		case err != nil || live.GetDeletionTimestamp() != nil:
			return false, err
		}
		err = at.Delete(ctx, m.object.GetName(), metav1.DeleteOptions{})
		return false, unlessGone(err) // the next round looks whether it is gone
	}
	return true, nil
}

// unlessGone returns an error unless it says that the object does not exist.
func unlessGone(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// manifestWorks does once what the cluster's own work agent does with the ManifestWorks in its API.
func (m *management) manifestWorks(ctx context.Context) error {
	found, err := m.client.Resource(resourceOf("ManifestWork")).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range found.Items {
		err = errors.Join(err, m.manifestWork(ctx, &found.Items[i]))
	}
	return err
}

func (m *management) manifestWork(ctx context.Context, object *unstructured.Unstructured) error {
	w := new(workv1.ManifestWork)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, w); err != nil {
		return err
	}
	at := m.at(resourceOf("ManifestWork"), w.Namespace)
	if w.DeletionTimestamp != nil {
		gone, err := removeOn(ctx, m, w)
		if err != nil || !gone {
			return err
		}
		delete(m.local, string(w.UID))
		object.SetFinalizers(nil)
		_, err = at.Update(ctx, object, metav1.UpdateOptions{})
		return unlessGone(err)
	}
	if len(w.Finalizers) == 0 {
		object.SetFinalizers([]string{workv1.ManifestWorkFinalizer})
		updated, err := at.Update(ctx, object, metav1.UpdateOptions{})
		if err != nil {
			return unlessGone(err)
		}
		object = updated
	}
	held := m.local[string(w.UID)]
	if held == nil {
		held = &appliedWork{}
		m.local[string(w.UID)] = held
	}
	if err := held.applyOn(ctx, m, w); err != nil {
		return err
	}
	status, changed, err := held.statusOn(ctx, m, false)
	if err != nil || !changed {
		return err
	}
	object.Object["status"], err = runtime.DefaultUnstructuredConverter.ToUnstructured(&status)
	if err != nil {
		return err
	}
	if _, err := at.UpdateStatus(ctx, object, metav1.UpdateOptions{}); err != nil {
		return unlessGone(err)
	}
	return held.reported(status)
}

// controller does with the ManifestWorks of the SDK's client what the controllers of the work agent
// do: it applies the manifests on the server's side, records what it has applied, and reports. What
// fails, because an object was changed or removed meanwhile, is done in the next round.
type controller struct {
	*agent
	cluster *management
	applied map[string]*appliedWork
}

// reconcile processes all ManifestWorks once.
func (c *controller) reconcile(ctx context.Context) error {
	works, err := c.works.List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range works.Items {
		w := &works.Items[i]
		if w.DeletionTimestamp != nil {
			err = errors.Join(err, c.remove(ctx, w))
			continue
		}
		err = errors.Join(err, c.applyWork(ctx, w))
	}
	return err
}

func (c *controller) applyWork(ctx context.Context, w *workv1.ManifestWork) (err error) {
	held := c.applied[w.Name]
	if held == nil {
		record := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "work.open-cluster-management.io/v1",
			"kind": "AppliedManifestWork", "metadata": map[string]any{"name": w.Name}, "spec": map[string]any{}}}
		if _, err := c.cluster.at(resourceOf("AppliedManifestWork"), "").Apply(ctx, w.Name, record,
			metav1.ApplyOptions{FieldManager: "work-agent", Force: true}); err != nil {
			return err
		}
		held = &appliedWork{}
		c.applied[w.Name] = held
	}
	if len(w.Finalizers) == 0 {
		if w, err = c.tryPatch(ctx, w, func(w *workv1.ManifestWork) {
			w.Finalizers = []string{workv1.ManifestWorkFinalizer}
		}); err != nil {
			return err
		}
	}
	if err := held.applyOn(ctx, c.cluster, w); err != nil {
		return err
	}
	status, changed, err := held.statusOn(ctx, c.cluster, true)
	if err != nil || !changed {
		return err
	}
	if _, err := c.tryPatch(ctx, w, func(w *workv1.ManifestWork) { w.Status = status }, "status"); err != nil {
		return err
	}
	return held.reported(status)
}

// read returns the value of a feedback rule, or nil.
func read(object map[string]any, rule workv1.JsonPath) (*workv1.FeedbackValue, error) {
	parser := jsonpath.New(rule.Name).AllowMissingKeys(true)
	if err := parser.Parse("{" + rule.Path + "}"); err != nil {
		return nil, err
	}
	found, err := parser.FindResults(object)
	if err != nil || len(found) == 0 || len(found[0]) == 0 || !found[0][0].IsValid() {
		return nil, err
	}
	value := &workv1.FeedbackValue{Name: rule.Name}
	switch v := found[0][0].Interface().(type) {
	case nil:
		return nil, nil
	case string:
		value.Value = workv1.FieldValue{Type: workv1.String, String: &v}
	case int64:
		value.Value = workv1.FieldValue{Type: workv1.Integer, Integer: &v}
	default:
		text, err := json.Marshal(v)
		if err != nil {
			return nil, err
		}
		raw := string(text)
		value.Value = workv1.FieldValue{Type: workv1.JsonRaw, JsonRaw: &raw}
	}
	return value, nil
}

// remove deletes the objects of a ManifestWork, and then its finalizer.
func (c *controller) remove(ctx context.Context, w *workv1.ManifestWork) error {
	gone, err := removeOn(ctx, c.cluster, w)
	if err != nil || !gone {
		return err
	}
	if err := c.cluster.at(resourceOf("AppliedManifestWork"), "").Delete(ctx, w.Name,
		metav1.DeleteOptions{}); unlessGone(err) != nil {
		return err
	}
	delete(c.applied, w.Name)
	_, err = c.tryPatch(ctx, w, func(w *workv1.ManifestWork) { w.Finalizers = []string{} })
	return unlessGone(err)
}
