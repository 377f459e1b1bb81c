package kube_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/admission"

	"landfall/appliance/kube/clusters"
	"landfall/appliance/kube/objects"
	"landfall/appliance/sitekey"
	"landfall/store"
	"landfall/web/kube"
)

func TestAPI_notReady(t *testing.T) {
	server := kube.New(kube.Options{})
	w := httptest.NewRecorder()
	server.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/api/v1/namespaces", nil))
	require.Equal(t, http.StatusServiceUnavailable, w.Code)
	var status metav1.Status
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &status))
	require.Equal(t, "the Kubernetes API of this appliance is starting; try again in a second", status.Message)
}

func TestAPI_discovery(t *testing.T) {
	s := newSite(t)
	url := overHTTP(t, s)
	old := getText(t, url+"/apis", "application/json")
	aggregated := getText(t, url+"/apis", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList")
	for _, kind := range objects.Kinds() {
		if kind.Group == "" {
			require.Contains(t, getText(t, url+"/api/v1", "application/json"), `"kind":"`+kind.Kind+`"`)
			continue
		}
		require.Contains(t, old, `"groupVersion":"`+kind.APIVersion()+`"`)
		require.Contains(t, aggregated, `"kind":"`+kind.Kind+`"`)
	}
	require.Regexp(t, `"gitVersion":\s*"v1\.\d+\.0"`, getText(t, url+"/version", "application/json"))
	require.Eventually(t, func() bool {
		return strings.Contains(getText(t, url+"/openapi/v3", "application/json"), "apis/hive.openshift.io/v1")
	}, time.Minute, 10*time.Millisecond)
	require.Contains(t, getText(t, url+"/readyz", "text/plain"), "ok")
}

// TestAPI_emptyResources reads and writes resources of which the API has no objects.
func TestAPI_emptyResources(t *testing.T) {
	url := overHTTP(t, newSite(t))
	for _, path := range []string{
		"/api/v1/nodes", "/api/v1/persistentvolumes", "/api/v1/namespaces/default/persistentvolumeclaims",
		"/api/v1/namespaces/default/pods", "/api/v1/namespaces/default/replicationcontrollers",
		"/api/v1/namespaces/default/services", "/apis/apps/v1/namespaces/default/daemonsets",
		"/apis/apps/v1/namespaces/default/replicasets", "/apis/apps/v1/namespaces/default/statefulsets",
		"/api/v1/namespaces/default/endpoints", "/apis/batch/v1/namespaces/default/cronjobs",
		"/apis/batch/v1/namespaces/default/jobs", "/apis/networking.k8s.io/v1/namespaces/default/ingresses",
	} {
		t.Run(path, func(t *testing.T) {
			var list struct {
				Kind  string `json:"kind"`
				Items []any  `json:"items"`
			}
			require.NoError(t, json.Unmarshal([]byte(getText(t, url+path, "application/json")), &list))
			require.NotNil(t, list.Items)
			require.Empty(t, list.Items)
			var table metav1.Table
			require.NoError(t, json.Unmarshal([]byte(getText(t, url+path,
				"application/json;as=Table;v=v1;g=meta.k8s.io")), &table))
			require.Empty(t, table.Rows)
			version := "v1"
			if group, isGroup := strings.CutPrefix(path, "/apis/"); isGroup {
				version, _, _ = strings.Cut(group, "/namespaces/")
			}
			require.Equal(t, http.StatusNotFound, statusOf(t, http.MethodGet, url+path+"/none", "", nil))
			require.Equal(t, http.StatusForbidden, statusOf(t, http.MethodPost, url+path, `{"kind":"`+
				strings.TrimSuffix(list.Kind, "List")+`","apiVersion":"`+version+`","metadata":{"name":"a"}}`, nil))
		})
	}
	getText(t, url+"/api/v1/pods?fieldSelector=status.phase%21%3DRunning%2Cspec.nodeName%3Da", "application/json")
}

func TestAPI_objectsAreNotStoredByClients(t *testing.T) {
	url := overHTTP(t, newSite(t))
	for path, want := range map[string]string{
		"/api/v1/secrets": "no-store", "/apis/agent-install.openshift.io/v1beta1/infraenvs": "no-store",
		"/apis": "no-cache, private",
	} {
		response, err := http.Get(url + path)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		require.Equal(t, want, response.Header.Get("Cache-Control"), path)
	}
}

// TestAPI_wrongTypeNamesField writes values of other types than those of the schema.
func TestAPI_wrongTypeNamesField(t *testing.T) {
	s := newSite(t, func(o *kube.Options) { o.Admission = []admission.Interface{clusters.Admission{}} })
	for name, c := range map[string]struct{ spec, field string }{
		"text for a number": {`"provisionRequirements":{"controlPlaneAgents":"three"}`,
			"spec.provisionRequirements.controlPlaneAgents"},
		"number for a text": {`"provisionRequirements":{"controlPlaneAgents":3},"sshPublicKey":5`, "spec.sshPublicKey"},
		"text for a list": {`"provisionRequirements":{"controlPlaneAgents":3},"apiVIPs":"192.0.2.1"`,
			"spec.apiVIPs"},
		"object for a truth value": {`"provisionRequirements":{"controlPlaneAgents":3},"holdInstallation":{}`,
			"spec.holdInstallation"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := s.of(objects.AgentClusterInstalls, "default").Create(t.Context(), object(t,
				objects.AgentClusterInstalls, "default", "one",
				`"spec":{"clusterDeploymentRef":{"name":"one"},"networking":{},`+c.spec+`}`), metav1.CreateOptions{})
			require.True(t, apierrors.IsInvalid(err), err)
			var status *apierrors.StatusError
			require.ErrorAs(t, err, &status)
			require.Equal(t, c.field, status.ErrStatus.Details.Causes[0].Field)
		})
	}
}

func TestAPI_tables(t *testing.T) {
	s := newSite(t)
	s.create(t, objects.Secrets, "default", "bmc", `"stringData":{"username":"a","password":"b"}`)
	s.create(t, objects.ConfigMaps, "default", "manifests", `"data":{"a.yaml":"b"}`)
	s.create(t, objects.ClusterDeployments, "default", "one", deployment)
	url := overHTTP(t, s)
	row := func(path string) string {
		var table metav1.Table
		require.NoError(t, json.Unmarshal([]byte(getText(t, url+path, "application/json;as=Table;v=v1;g=meta.k8s.io")),
			&table))
		var columns []string
		for _, c := range table.ColumnDefinitions {
			columns = append(columns, c.Name)
		}
		cells := fmt.Sprint(table.Rows[0].Cells[:len(table.Rows[0].Cells)-1])
		return strings.Join(columns, " ") + ": " + cells
	}
	require.Equal(t, "Name Type Data Age: [bmc Opaque 2]", row("/api/v1/namespaces/default/secrets"))
	require.Equal(t, "Name Data Age: [manifests 1]", row("/api/v1/namespaces/default/configmaps"))
	require.Equal(t, "Name Status Age: [default Active]", row("/api/v1/namespaces"))
	require.Equal(t, "Name InfraID Platform Region Version ClusterType ProvisionStatus PowerState Age: [one <nil> "+
		"<nil> <nil> <nil> <nil> <nil> <nil>]",
		row("/apis/hive.openshift.io/v1/namespaces/default/clusterdeployments"))
}

func TestAPI_refusals(t *testing.T) {
	s := newSite(t)
	immutable := s.create(t, objects.ConfigMaps, "default", "fixed", `"data":{"a":"b"},"immutable":true`)
	cases := map[string]struct {
		kind                     objects.Kind
		namespace, name, content string
		code                     int
		want                     string
	}{
		"missing namespace": {objects.Secrets, "nowhere", "a", "", http.StatusNotFound,
			`namespaces "nowhere" not found`},
		"name in capitals": {objects.ConfigMaps, "default", "BADNAME", "", http.StatusUnprocessableEntity,
			"a lowercase RFC 1123 subdomain must consist of"},
		"name of a custom resource in capitals": {objects.ClusterDeployments, "default", "BADNAME", deployment,
			http.StatusUnprocessableEntity, "a lowercase RFC 1123 subdomain must consist of"},
		"namespace with a dot": {objects.Namespaces, "", "a.b", "", http.StatusUnprocessableEntity,
			"must not contain dots"},
		"invalid label": {objects.ConfigMaps, "default", "a", `"metadata":{"labels":{"a b":"c"}}`,
			http.StatusUnprocessableEntity, "Invalid value"},
		"key with a slash": {objects.ConfigMaps, "default", "a", `"data":{"a/b":"c"}`,
			http.StatusUnprocessableEntity, "a valid config key must consist of"},
		"data larger than a mebibyte": {objects.ConfigMaps, "default", "a", `"data":{"a":"` +
			strings.Repeat("x", 1<<20+1) + `"}`, http.StatusUnprocessableEntity, "may not be more than 1048576 bytes"},
		"body larger than three mebibytes": {objects.ConfigMaps, "default", "a", `"data":{"a":"` +
			strings.Repeat("x", 3<<20) + `"}`, http.StatusRequestEntityTooLarge, "limit is 3145728"},
		"pull secret without its key": {objects.Secrets, "default", "a", `"type":"kubernetes.io/dockerconfigjson"`,
			http.StatusUnprocessableEntity, "data[.dockerconfigjson]: Required value"},
		"custom resource without a required field": {
			objects.ClusterDeployments, "default", "a", `"spec":{}`, http.StatusUnprocessableEntity,
			"spec.baseDomain: Required value",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := s.of(c.kind, c.namespace).Create(t.Context(), object(t, c.kind, c.namespace, c.name, c.content),
				metav1.CreateOptions{})
			require.Error(t, err)
			var status apierrors.APIStatus
			require.ErrorAs(t, err, &status)
			require.Equal(t, c.code, int(status.Status().Code), err)
			require.ErrorContains(t, err, c.want)
		})
	}
	t.Run("change of an immutable field", func(t *testing.T) {
		immutable.Object["data"] = map[string]any{"a": "c"}
		_, err := s.of(objects.ConfigMaps, "default").Update(t.Context(), immutable, metav1.UpdateOptions{})
		require.ErrorContains(t, err, "data: Forbidden: field is immutable when `immutable` is set")
	})
	t.Run("change of an older version", func(t *testing.T) {
		first := s.create(t, objects.ConfigMaps, "default", "contended", "")
		_, err := s.of(objects.ConfigMaps, "default").Patch(t.Context(), "contended", types.MergePatchType,
			[]byte(`{"data":{"a":"b"}}`), metav1.PatchOptions{})
		require.NoError(t, err)
		_, err = s.of(objects.ConfigMaps, "default").Update(t.Context(), first, metav1.UpdateOptions{})
		require.True(t, apierrors.IsConflict(err), err)
	})
	t.Run("unknown field with strict validation", func(t *testing.T) {
		_, err := s.of(objects.ClusterDeployments, "default").Create(t.Context(),
			object(t, objects.ClusterDeployments, "default", "typo", strings.Replace(deployment, "baseDomain",
				"baseDomian", 1)),
			metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict})
		require.ErrorContains(t, err, `unknown field "spec.baseDomian"`)
	})
	t.Run("write of a read-only resource", func(t *testing.T) {
		response, err := http.Post(overHTTP(t, s)+"/apis/apps/v1/namespaces/default/deployments", "application/json",
			strings.NewReader(`{"metadata":{"name":"a"}}`))
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		require.Equal(t, http.StatusForbidden, response.StatusCode)
	})
}

func TestAPI_serverSideApply(t *testing.T) {
	s := newSite(t)
	apply := func(manager, content string, force bool) error {
		_, err := s.of(objects.ConfigMaps, "default").Patch(t.Context(), "shared", types.ApplyPatchType,
			[]byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"shared"},"data":`+content+`}`),
			metav1.PatchOptions{FieldManager: manager, Force: &force})
		return err
	}
	require.NoError(t, apply("one", `{"a":"1"}`, false))
	require.NoError(t, apply("two", `{"b":"2"}`, false))
	require.True(t, apierrors.IsConflict(apply("two", `{"a":"2","b":"2"}`, false)))
	require.NoError(t, apply("two", `{"a":"2"}`, true))
	require.Equal(t, map[string]any{"a": "2"}, s.get(t, objects.ConfigMaps, "default", "shared").Object["data"])
}

func TestAPI_secretsAreSealed(t *testing.T) {
	key, err := sitekey.LoadOrCreate(t.TempDir())
	require.NoError(t, err)
	box, err := key.Box("a test", nil)
	require.NoError(t, err)
	sealed := objects.New(box, nil)
	s := newSite(t, func(o *kube.Options) { o.Box, o.Objects = box, sealed })
	s.create(t, objects.Secrets, "default", "pull", `"stringData":{"password":"a-secret-word"}`)
	require.NoError(t, s.db.Update(t.Context(), func(tx *store.Tx) error {
		row, err := kube.Rows().Get(tx, objects.Secrets.Key("default", "pull"))
		require.NoError(t, err)
		require.NotContains(t, string(row.Value), "a-secret-word")
		require.NotContains(t, string(row.Value), "YS1zZWNyZXQtd29yZA")
		var secret corev1.Secret
		require.NoError(t, sealed.Get(tx, objects.Secrets, "default", "pull", &secret))
		require.Equal(t, "a-secret-word", string(secret.Data["password"]))
		return sealed.Create(tx, objects.Secrets, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default",
			Name: "made"}, Data: map[string][]byte{"a": []byte("b")}}, time.Now())
	}))
	require.Equal(t, map[string]any{"a": "Yg=="}, s.get(t, objects.Secrets, "default", "made").Object["data"])
}

// refusing is an admission rule that rejects objects.
type refusing struct{}

func (refusing) Handles(operation admission.Operation) bool { return operation == admission.Create }

func (refusing) Validate(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if a.GetKind().Kind == "ClusterImageSet" {
		return admission.NewForbidden(a, fmt.Errorf("not at this site"))
	}
	return nil
}

func TestAPI_admission(t *testing.T) {
	s := newSite(t, func(o *kube.Options) { o.Admission = []admission.Interface{refusing{}} })
	_, err := s.of(objects.ClusterImageSets, "").Create(t.Context(), object(t, objects.ClusterImageSets, "", "one",
		`"spec":{"releaseImage":"x"}`), metav1.CreateOptions{})
	require.ErrorContains(t, err, "not at this site")
	s.create(t, objects.ClusterDeployments, "default", "one", deployment)
}

func TestWatch_unusedKind(t *testing.T) {
	s := newSite(t)
	for range 3 {
		require.NoError(t, s.of(objects.NMStateConfigs, "default").DeleteCollection(t.Context(), metav1.DeleteOptions{},
			metav1.ListOptions{}))
		w, err := s.of(objects.NMStateConfigs, "default").Watch(t.Context(),
			metav1.ListOptions{AllowWatchBookmarks: true})
		require.NoError(t, err)
		const count = 100
		for i := range count {
			s.create(t, objects.NMStateConfigs, "default", fmt.Sprint("n-", i),
				`"spec":{"interfaces":[{"name":"eth0","macAddress":"02:00:00:00:00:01"}],"config":{}}`)
		}
		seen := 0
		for event := range w.ResultChan() {
			if event.Type == watch.Added {
				seen++
			}
			if seen == count {
				break
			}
		}
		w.Stop()
		require.Equal(t, count, seen)
	}
}

func TestWatch_futureRevision(t *testing.T) {
	s := newSite(t)
	w, err := s.of(objects.ConfigMaps, "default").Watch(t.Context(), metav1.ListOptions{ResourceVersion: "1000000"})
	if err == nil {
		event := <-w.ResultChan()
		err = apierrors.FromObject(event.Object)
	}
	require.True(t, apierrors.IsResourceExpired(err), err)
}

func TestWatch_engineRevision(t *testing.T) {
	s := newSite(t)
	s.create(t, objects.InfraEnvs, "default", "one", `"spec":{"pullSecretRef":{"name":"pull"}}`)
	list, err := s.of(objects.InfraEnvs, "default").List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	w, err := s.of(objects.InfraEnvs, "default").Watch(t.Context(),
		metav1.ListOptions{ResourceVersion: list.GetResourceVersion()})
	require.NoError(t, err)
	defer w.Stop()
	other := store.NewBucket[string]("other", 1)
	value := "x"
	require.NoError(t, s.db.Update(t.Context(), func(tx *store.Tx) error {
		require.NoError(t, other.Put(tx, "row", &value))
		return s.options.Objects.Update(tx, objects.InfraEnvs, "default", "one",
			func(u *unstructured.Unstructured) error {
				u.Object["status"] = map[string]any{"isoDownloadURL": "http://site/iso"}
				return nil
			})
	}))
	event := <-w.ResultChan()
	require.Equal(t, watch.Modified, event.Type)
	changed := event.Object.(*unstructured.Unstructured)
	require.Equal(t, fmt.Sprint(s.db.Revision()), changed.GetResourceVersion())
	stale := &list.Items[0]
	_, err = s.of(objects.InfraEnvs, "default").Update(t.Context(), stale, metav1.UpdateOptions{})
	require.True(t, apierrors.IsConflict(err), err)
}

func TestAPI_customResourceDefinition(t *testing.T) {
	s := newSite(t)
	definitions := s.client.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1",
		Resource: "customresourcedefinitions"})
	kind := objects.Kind{Group: "example.com", Version: "v1", Kind: "Rack", Resource: "racks", Namespaced: true}
	_, err := definitions.Create(t.Context(), object(t, objects.Kind{Group: "apiextensions.k8s.io", Version: "v1",
		Kind: "CustomResourceDefinition"}, "", "racks.example.com",
		`"spec":{"group":"example.com","names":{"kind":"Rack","plural":"racks"},"scope":"Namespaced","versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}]}`),
		metav1.CreateOptions{})
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		_, err := s.of(kind, "default").Create(t.Context(), object(t, kind, "default", "one", `"height":42`),
			metav1.CreateOptions{})
		return err == nil
	}, time.Minute, 50*time.Millisecond)
	url := overHTTP(t, s)
	require.Contains(t, getText(t, url+"/apis", "application/json"), `"example.com/v1"`)
	require.NoError(t, definitions.Delete(t.Context(), "racks.example.com", metav1.DeleteOptions{}))
	require.Eventually(t, func() bool {
		var left []store.KeyValue
		require.NoError(t, s.db.View(func(tx *store.Tx) (err error) {
			left, _, _, err = kube.Rows().Range(tx, store.Range{From: "example.com/",
				End: kube.Rows().End("example.com/")})
			return err
		}))
		return len(left) == 0
	}, time.Minute, 20*time.Millisecond)
}

func TestAPI_pagedList(t *testing.T) {
	s := newSite(t)
	const count = 2000
	for from := 0; from < count; from += 1000 {
		require.NoError(t, s.db.Update(t.Context(), func(tx *store.Tx) error {
			for i := from; i < from+1000; i++ {
				if err := s.options.Objects.Create(tx, objects.Secrets, &corev1.Secret{
					ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprintf("secret-%05d", i)},
					Data:       map[string][]byte{"a": []byte("b")},
				}, time.Now()); err != nil {
					return err
				}
			}
			return nil
		}))
	}
	seen, next := 0, ""
	for page := 0; ; page++ {
		list, err := s.of(objects.Secrets, "default").List(t.Context(), metav1.ListOptions{Limit: 100, Continue: next})
		require.NoError(t, err)
		for _, item := range list.Items {
			require.Equal(t, fmt.Sprintf("secret-%05d", seen), item.GetName())
			seen++
		}
		if next = list.GetContinue(); next == "" {
			break
		}
		if page%5 == 0 { // changes during a paged list are not in the list
			require.NoError(t, s.of(objects.Secrets, "default").Delete(t.Context(),
				fmt.Sprintf("secret-%05d", count-1-page), metav1.DeleteOptions{}))
			s.create(t, objects.Secrets, "default", fmt.Sprintf("secret-%05d-late", count-1-page), "")
		}
	}
	require.Equal(t, count, seen)
}
