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
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/util/jsonpath"
	workv1 "open-cluster-management.io/api/work/v1"

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
	deletes  atomic.Int64 // requests that delete HostedClusters
}

// kinds are the custom resources of the management cluster.
var kinds = []struct {
	group, version, kind, plural string
	scope                        string
}{
	{"work.open-cluster-management.io", "v1", "AppliedManifestWork", "appliedmanifestworks", "Cluster"},
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
	m := &management{t: t}
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
	require.NoError(m.t, err)
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

// operate does what HyperShift's operator does once.
func (m *management) operate(ctx context.Context) error {
	for _, kind := range []string{"HostedCluster", "NodePool", "CertificateSigningRequest"} {
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
			status := m.operator.Reconcile(object.Object, time.Now())
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

// controller does with the ManifestWorks of the SDK's client what the controllers of the work agent
// do: it applies the manifests on the server's side, records what it has applied, and reports.
type controller struct {
	*agent
	cluster *management
	applied map[string]*appliedWork
}

// appliedWork is what the controller knows about a ManifestWork.
type appliedWork struct {
	generation int64
	manifests  []manifest
	status     []byte
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

func (c *controller) applyWork(ctx context.Context, w *workv1.ManifestWork) error {
	held := c.applied[w.Name]
	if held == nil {
		held = &appliedWork{}
		c.applied[w.Name] = held
		record := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "work.open-cluster-management.io/v1",
			"kind": "AppliedManifestWork", "metadata": map[string]any{"name": w.Name}, "spec": map[string]any{}}}
		if _, err := c.cluster.at(resourceOf("AppliedManifestWork"), "").Apply(ctx, w.Name, record,
			metav1.ApplyOptions{FieldManager: "work-agent", Force: true}); err != nil {
			return err
		}
	}
	if len(w.Finalizers) == 0 {
		w = c.patch(w, func(w *workv1.ManifestWork) { w.Finalizers = []string{workv1.ManifestWorkFinalizer} })
	}
	if held.generation != w.Generation {
		manifests, err := manifestsOf(w)
		if err != nil {
			return err
		}
		for _, m := range manifests {
			if m.readOnly {
				continue
			}
			if _, err := c.cluster.at(m.resource, m.object.GetNamespace()).Apply(ctx, m.object.GetName(), m.object,
				metav1.ApplyOptions{FieldManager: "work-agent", Force: true}); err != nil {
				return err
			}
		}
		held.manifests, held.generation = manifests, w.Generation
	}
	status, err := c.status(ctx, held)
	if err != nil {
		return err
	}
	text, err := json.Marshal(status)
	if err != nil || slices.Equal(text, held.status) {
		return err
	}
	held.status = text
	c.patch(w, func(w *workv1.ManifestWork) { w.Status = status }, "status")
	return nil
}

// status returns the status of a ManifestWork with the values that its rules read.
func (c *controller) status(ctx context.Context, held *appliedWork) (status workv1.ManifestWorkStatus, err error) {
	applied := metav1.Condition{Type: workv1.WorkApplied, Status: metav1.ConditionTrue, Reason: "Applied",
		ObservedGeneration: held.generation}
	meta.SetStatusCondition(&status.Conditions, applied)
	status.Conditions[0].LastTransitionTime = metav1.Unix(1e9, 0)
	for i, m := range held.manifests {
		found := workv1.ManifestCondition{ResourceMeta: workv1.ManifestResourceMeta{Ordinal: int32(i),
			Group: m.resource.Group, Version: m.resource.Version, Resource: m.resource.Resource,
			Kind: m.object.GetKind(), Name: m.object.GetName(), Namespace: m.object.GetNamespace()}}
		live, err := c.cluster.at(m.resource, m.object.GetNamespace()).Get(ctx, m.object.GetName(), metav1.GetOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return status, err
		}
		if err == nil {
			for _, rule := range m.rules {
				value, err := read(live.Object, rule)
				if err != nil {
					return status, err
				}
				if value != nil {
					found.StatusFeedbacks.Values = append(found.StatusFeedbacks.Values, *value)
				}
			}
		}
		status.ResourceStatus.Manifests = append(status.ResourceStatus.Manifests, found)
	}
	return status, nil
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

// remove deletes the objects of a ManifestWork in reverse order, and then its finalizer.
func (c *controller) remove(ctx context.Context, w *workv1.ManifestWork) error {
	manifests, err := manifestsOf(w)
	if err != nil {
		return err
	}
	orphan := w.Spec.DeleteOption != nil &&
		w.Spec.DeleteOption.PropagationPolicy == workv1.DeletePropagationPolicyTypeOrphan
	for _, m := range slices.Backward(manifests) {
		if m.readOnly || orphan {
			continue
		}
		at := c.cluster.at(m.resource, m.object.GetNamespace())
		if _, err := at.Get(ctx, m.object.GetName(), metav1.GetOptions{}); apierrors.IsNotFound(err) {
			continue
		} else if err != nil {
			return err
		}
		if err := at.Delete(ctx, m.object.GetName(), metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
		return nil // the next round looks whether it is gone
	}
	if err := c.cluster.at(resourceOf("AppliedManifestWork"), "").Delete(ctx, w.Name,
		metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	delete(c.applied, w.Name)
	c.patch(w, func(w *workv1.ManifestWork) { w.Finalizers = []string{} })
	return nil
}
