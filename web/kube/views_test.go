package kube_test

import (
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"

	"landfall/appliance/hosted/arm"
	"landfall/appliance/hosted/bundle"
	"landfall/appliance/hosted/controlplane"
	"landfall/appliance/hosted/provider"
	"landfall/appliance/hosted/record"
	"landfall/appliance/hosted/views"
	"landfall/appliance/kube/objects"
	"landfall/store"
	"landfall/web/kube"
)

// hostedSite is a site with hosted clusters.
type hostedSite struct {
	*site
	provider     *provider.Service
	subscription string
}

func (hostedSite) Releases() []provider.Release {
	return []provider.Release{{Version: "4.19.7", Image: "q/r@sha256:7", Default: true}}
}

func (hostedSite) HostedSite() (controlplane.Site, error) {
	return controlplane.Site{PullSecret: `{"auths":{"secret":{}}}`}, nil
}

func newHostedSite(t testing.TB) *hostedSite {
	s := &hostedSite{site: newSite(t, func(o *kube.Options) { o.Views = views.Kinds(true) })}
	var err error
	s.provider, err = provider.Open(t.Context(), provider.Options{DB: s.db, Site: s, Clock: clockwork.NewRealClock(),
		Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	seeded, err := s.provider.Seeded()
	require.NoError(t, err)
	s.subscription = seeded.ID
	return s
}

func (s *hostedSite) addManagement(t testing.TB) {
	_, err := s.provider.AddManagement(t.Context(), record.Management{Consumer: "mc1",
		BaseDomain: "hosted.example.com", Address: "192.168.1.10"})
	require.NoError(t, err)
}

func (s *hostedSite) id(name string) arm.ID {
	return arm.ID{Subscription: s.subscription, Group: "Hall-2", Cluster: name}
}

// put creates a hosted cluster with the node pool workers and returns its row.
func (s *hostedSite) put(t testing.TB, name string) *record.Cluster {
	pool := arm.Document{"location": "site"}
	pool.Set("properties.platform.vmSize", "large")
	pool.Set("properties.replicas", int64(2))
	_, err := s.provider.CreateCluster(t.Context(), s.caller(), s.id(name), arm.Document{"location": "site"},
		[]provider.NewNodePool{{Name: "Workers", Body: pool}})
	require.NoError(t, err)
	return s.row(t, name)
}

func (*hostedSite) caller() provider.Caller {
	return provider.Caller{Name: "ana", Version: arm.DefaultVersion}
}

func (s *hostedSite) row(t testing.TB, name string) (c *record.Cluster) {
	require.NoError(t, s.db.View(func(tx *store.Tx) (err error) {
		c, err = record.FindCluster(tx, s.id(name))
		return err
	}))
	require.NotNil(t, c)
	return c
}

// report writes a report about a bundle.
func (s *hostedSite) report(t testing.TB, id, kind, status string) {
	require.NoError(t, s.db.Update(t.Context(), func(tx *store.Tx) error {
		b, err := bundle.Get(tx, id)
		if err != nil {
			return err
		}
		text, err := json.Marshal(status)
		if err != nil {
			return err
		}
		return bundle.PutStatus(tx, id, &bundle.Status{ResourceVersion: b.Version, Received: time.Unix(1e9, 0),
			Data: json.RawMessage(`{"conditions":[{"type":"Applied","status":"True","observedGeneration":1}],
				"resourceStatus":[{"resourceMeta":{"kind":"` + kind + `"},"statusFeedback":{"values":[
				{"name":"status","fieldValue":{"type":"JsonRaw","jsonRaw":` + string(text) + `}}]}}]}`)})
	}))
}

var hostedKind = objects.Kind{Group: "hypershift.openshift.io", Version: "v1beta1", Kind: "HostedCluster",
	Resource: "hostedclusters", Namespaced: true}

// The ManifestWork of a nested bundle is the one that the management cluster shows.
func TestViews_nestedManifestWork(t *testing.T) {
	s := newHostedSite(t)
	_, err := s.provider.AddManagement(t.Context(), record.Management{Consumer: "mc1",
		BaseDomain: "hosted.example.com", Address: "192.168.1.10", Layout: controlplane.Nested})
	require.NoError(t, err)
	c := s.put(t, "Edge1")
	s.report(t, c.Control, "ManifestWork", `{"conditions":[{"type":"Applied","status":"True"}],"resourceStatus":
		{"manifests":[{"resourceMeta":{"kind":"HostedCluster"},"statusFeedback":{"values":[
		{"name":"conditions.Available.status","fieldValue":{"type":"String","string":"True"}}]}}]}}`)
	k := newKubectl(t, s.site)
	works := k.run(t, "", "get", "manifestwork", "-l", "api.openshift.com/id="+c.CID, "-n", "local-cluster")
	require.Equal(t, 5, strings.Count(works, "\n"), "%s", works)
	require.Contains(t, works, c.CID+"-managed-cluster ")
	require.Equal(t, "Namespace", k.run(t, "", "get", "manifestwork", c.CID+"-00-namespaces", "-n", "local-cluster",
		"-o", "jsonpath={.spec.workload.manifests[0].kind}"))
	require.Equal(t, "HostedCluster", k.run(t, "", "get", "manifestwork", c.CID, "-n", "local-cluster", "-o",
		"jsonpath={.status.resourceStatus.manifests[0].resourceMeta.kind}"))
	require.NotContains(t, k.run(t, "", "get", "manifestwork", c.CID, "-n", "local-cluster", "-o", "yaml"), "auths",
		"without the values of Secrets")
	require.Regexp(t, `(?m)^ocm-landfall-`+c.CID+` +edge1 .* True `, k.run(t, "", "get", "hostedclusters", "-A"))

	// A bundle that was adopted from another source may have no name.
	require.NoError(t, s.db.Update(t.Context(), func(tx *store.Tx) error {
		return bundle.Create(tx, &bundle.Bundle{Consumer: "mc1", Labels: map[string]string{bundle.LabelCluster: "7x"},
			Manifests: []json.RawMessage{json.RawMessage(`{"apiVersion":"work.open-cluster-management.io/v1",` +
				`"kind":"ManifestWork","metadata":{"namespace":"local-cluster","name":"7x-pool"}}`)}}, time.Unix(1e9, 0))
	}))
	require.Equal(t, "7x-pool", k.run(t, "", "get", "manifestwork", "7x-pool", "-n", "local-cluster",
		"-o", "jsonpath={.metadata.name}"))
}

// kubectl tells what the page and the commands tell, by the lines of the document on a cluster's
// creation.
func TestViews_kubectlShowsHostedClusters(t *testing.T) {
	s := newHostedSite(t)
	waiting := s.put(t, "Alone")
	k := newKubectl(t, s.site)
	require.Regexp(t, `(?m)^ocm-landfall-`+waiting.CID+` +alone .* Accepted +No management cluster`,
		k.run(t, "", "get", "hostedclusters", "-A"))
	s.addManagement(t)
	c := s.put(t, "Edge1")
	s.report(t, c.Control, "HostedCluster", `{"conditions":[{"type":"Available","status":"True"}],
		"kubeconfig":{"name":"edge1-admin-kubeconfig"},"version":{"history":[{"state":"Completed","version":"4.19.7"}]}}`)

	require.Regexp(t, `(?m)^ocm-landfall-`+c.CID+` +edge1 +4\.19\.7 +edge1-admin-kubeconfig +Completed +True `,
		k.run(t, "", "get", "hostedclusters", "-A"))
	require.Regexp(t, `(?m)^ocm-landfall-`+c.CID+` +edge1-workers +edge1 +2 `, k.run(t, "", "get", "nodepools", "-A"))
	works := k.run(t, "", "get", "manifestwork", "-l", "api.openshift.com/id="+c.CID, "-n", "local-cluster")
	require.Equal(t, 4, strings.Count(works, "\n"), "%s", works)
	require.Regexp(t, `(?m)^`+c.Control+` +`+c.CID+` +mc1 +1 +1 +True +applied `, works)
	require.Regexp(t, `(?m)^`+c.Namespaces+` +`+c.CID+`-00-namespaces +mc1 +1 +waiting `, works)
	require.Equal(t, 4, strings.Count(k.run(t, "", "get", "manifestwork", "-l", "api.openshift.com/id="+c.CID, "-A"),
		"\n"))

	require.Equal(t, "True", k.run(t, "", "get", "manifestwork", c.Control, "-n", "local-cluster", "-o",
		`jsonpath={.status.conditions[?(@.type=="Applied")].status}`))
	require.Contains(t, k.run(t, "", "get", "manifestwork", c.Control, "-n", "local-cluster", "-o",
		"jsonpath={.status.resourceStatus.manifests[0].statusFeedback.values[0].fieldValue.jsonRaw}"), "Available")
	content := k.run(t, "", "get", "manifestwork", c.Control, "-n", "local-cluster", "-o", "json")
	require.Contains(t, content, bundle.Hidden)
	require.NotContains(t, content, `auths`, "the pull secret is hidden")
	require.Equal(t, "q/r@sha256:7", k.run(t, "", "get", "hc", "edge1", "-n", "ocm-landfall-"+c.CID, "-o",
		"jsonpath={.spec.release.image}"))
	require.Empty(t, k.run(t, "", "get", "hc", "-n", "elsewhere", "-o", "name"))
}

func TestViews_refuseWrites(t *testing.T) {
	s := newHostedSite(t)
	c := s.put(t, "edge1")
	at := s.of(hostedKind, controlplane.Namespace(c.CID))
	shown := s.get(t, hostedKind, controlplane.Namespace(c.CID), "edge1")
	var errs []error
	_, err := at.Create(t.Context(), shown, metav1.CreateOptions{})
	errs = append(errs, err)
	_, err = at.Update(t.Context(), shown, metav1.UpdateOptions{})
	errs = append(errs, err, at.Delete(t.Context(), "edge1", metav1.DeleteOptions{}),
		at.DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}))
	for _, err := range errs {
		require.True(t, apierrors.IsMethodNotSupported(err), "%v", err)
		require.ErrorContains(t, err, "landfall hcp")
	}
	_, err = at.Get(t.Context(), "absent", metav1.GetOptions{})
	require.True(t, apierrors.IsNotFound(err), "%v", err)
	require.Equal(t, record.Accepted, s.row(t, "edge1").State)
}

func TestViews_watchFollowsRows(t *testing.T) {
	s := newHostedSite(t)
	first := s.put(t, "edge1")
	list, err := s.of(hostedKind, "").List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	require.Len(t, list.Items, 1)
	w, err := s.of(hostedKind, "").Watch(t.Context(), metav1.ListOptions{ResourceVersion: list.GetResourceVersion()})
	require.NoError(t, err)
	defer w.Stop()
	next := func() (watch.EventType, string, string) {
		select {
		case event := <-w.ResultChan():
			object := event.Object.(*unstructured.Unstructured)
			return event.Type, object.GetName(), object.GetAnnotations()["landfall.io/state"]
		case <-time.After(time.Minute):
			require.Fail(t, "the watch sends no event")
			return "", "", ""
		}
	}
	expect := func(kind watch.EventType, name, state string) {
		t.Helper()
		k, n, s := next()
		require.Equal(t, []string{string(kind), name, state}, []string{string(k), n, s})
	}
	second := s.put(t, "edge2")
	expect(watch.Added, "edge2", record.Accepted)
	_, err = s.provider.DeleteCluster(t.Context(), s.caller(), s.id("edge1"))
	require.NoError(t, err)
	expect(watch.Deleted, "edge1", record.Accepted)

	// A client that resumes from before a deletion can't be told the name of the deleted object.
	resumed, err := s.of(hostedKind, "").Watch(t.Context(),
		metav1.ListOptions{ResourceVersion: list.GetResourceVersion()})
	require.NoError(t, err)
	defer resumed.Stop()
	require.Equal(t, watch.Error, last(t, resumed).Type)

	yes := true
	initial, err := s.of(hostedKind, "").Watch(t.Context(), metav1.ListOptions{SendInitialEvents: &yes,
		AllowWatchBookmarks: true, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan})
	require.NoError(t, err)
	defer initial.Stop()
	event := <-initial.ResultChan()
	require.Equal(t, second.Prefix, event.Object.(*unstructured.Unstructured).GetName())
	event = <-initial.ResultChan()
	require.Equal(t, watch.Bookmark, event.Type)
	require.NotEqual(t, first.CID, second.CID)
}

// last reads a watch to its end and returns the last event.
func last(t *testing.T, w watch.Interface) (event watch.Event) {
	for {
		select {
		case next, ok := <-w.ResultChan():
			if !ok {
				return event
			}
			event = next
		case <-time.After(time.Minute):
			require.Fail(t, "the watch does not end")
		}
	}
}

// A definition of a client is kept; those of views are removed when hosted clusters are disabled.
func TestViews_definitionsFollowConfiguration(t *testing.T) {
	s := newHostedSite(t)
	_, err := s.of(hostedKind, "").List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	s.stop(t)
	s.options.Views = nil
	s.start(t)
	_, err = s.of(hostedKind, "").List(t.Context(), metav1.ListOptions{})
	require.True(t, apierrors.IsNotFound(err), "%v", err)
	definition := objects.Kind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition",
		Resource: "customresourcedefinitions"}
	const name = "hostedclusters.hypershift.openshift.io"
	s.create(t, definition, "", name, `"spec":{"group":"hypershift.openshift.io","scope":"Namespaced",
		"names":{"plural":"hostedclusters","kind":"HostedCluster"},"versions":[{"name":"v1beta1","served":true,
		"storage":true,"schema":{"openAPIV3Schema":{"type":"object","description":"mine"}}}]}`)
	s.stop(t)
	s.options.Views = views.Kinds(true)
	s.start(t)
	kept, err := json.Marshal(s.get(t, definition, "", name).Object)
	require.NoError(t, err)
	require.Contains(t, string(kept), "mine")
}
