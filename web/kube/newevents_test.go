package kube_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
	eventsclient "k8s.io/client-go/kubernetes/typed/events/v1"
	recording "k8s.io/client-go/tools/events"

	"landfall/appliance/kube/objects"
	"landfall/store"
)

var newEvents = objects.Kind{Group: "events.k8s.io", Version: "v1", Kind: "Event", Resource: "events", Namespaced: true}

const newEvent = `"eventTime":"2026-03-01T12:00:00.000001Z","type":"Normal","reason":"Chosen","action":"Choosing","note":"It was chosen.",
	"reportingController":"example.com/chooser","reportingInstance":"chooser-0","regarding":{"apiVersion":"v1","kind":"ConfigMap","namespace":"default","name":"a"},
	"series":{"count":3,"lastObservedTime":"2026-03-01T12:00:05.000001Z"}`

func TestEvents_bothGroups(t *testing.T) {
	s := newSite(t)
	url := overHTTP(t, s)
	watched, err := s.of(objects.Events, "default").Watch(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	defer watched.Stop()
	s.create(t, newEvents, "default", "new", newEvent)
	seen := <-watched.ResultChan()
	require.Equal(t, watch.Added, seen.Type)

	old := s.get(t, objects.Events, "default", "new")
	require.Equal(t, "v1", old.GetAPIVersion())
	require.Equal(t, "It was chosen.", old.Object["message"])
	require.Equal(t, "a", old.Object["involvedObject"].(map[string]any)["name"])
	require.Equal(t, int64(3), old.Object["series"].(map[string]any)["count"])
	require.Contains(t, getText(t, url+"/apis/events.k8s.io/v1/namespaces/default/events",
		"application/json;as=Table;v=v1;g=meta.k8s.io"), `"configmap/a"`)
	require.Regexp(t, `"name":"Last Seen".*"name":"Message".*"name":"Name"`, getText(t, url+"/api/v1/events",
		"application/json;as=Table;v=v1;g=meta.k8s.io"), "the name is the last column, only with -o wide")

	require.NoError(t, s.db.Update(t.Context(), func(tx *store.Tx) error {
		return s.options.Objects.Event(tx, object(t, objects.ConfigMaps, "default", "b", ""),
			objects.EventContent{Component: "somebody", Reason: "Seen", Message: "It was seen."}, time.Now())
	}))
	list, err := s.of(newEvents, "default").List(t.Context(),
		metav1.ListOptions{FieldSelector: "regarding.name=b,reportingController=somebody"})
	require.NoError(t, err)
	require.Equal(t, "events.k8s.io/v1", list.GetAPIVersion())
	require.Len(t, list.Items, 1)
	require.Equal(t, "It was seen.", list.Items[0].Object["note"])
	require.EqualValues(t, 1, list.Items[0].Object["deprecatedCount"])
	_, err = s.of(newEvents, "default").List(t.Context(), metav1.ListOptions{FieldSelector: "involvedObject.name=b"})
	require.ErrorContains(t, err, "not a known field selector")

	require.NoError(t, s.of(newEvents, "default").DeleteCollection(t.Context(), metav1.DeleteOptions{},
		metav1.ListOptions{}))
	left, err := s.of(objects.Events, "default").List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	require.Empty(t, left.Items)
}

func TestEvents_newRecorder(t *testing.T) {
	s := newSite(t)
	config := s.server.Client()
	// controller-runtime requests this format for built-in kinds.
	config.ContentType = "application/vnd.kubernetes.protobuf"
	client, err := eventsclient.NewForConfig(config)
	require.NoError(t, err)
	recorders := recording.NewBroadcaster(&recording.EventSinkImpl{Interface: client})
	defer recorders.Shutdown()
	require.NoError(t, recorders.StartRecordingToSinkWithContext(t.Context()))
	about := &corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "default", UID: "u"}}
	recorder := recorders.NewRecorder(scheme.Scheme, "site-controller")
	recorder.Eventf(about, nil, corev1.EventTypeWarning, "Late", "Waiting", "It is %d days late.", 3)
	require.Eventually(t, func() bool {
		list, err := s.of(objects.Events, "default").List(t.Context(),
			metav1.ListOptions{FieldSelector: "involvedObject.name=a,type=Warning"})
		return err == nil && len(list.Items) == 1 && list.Items[0].Object["message"] == "It is 3 days late."
	}, time.Minute, 5*time.Millisecond)
}

func TestEvents_validation(t *testing.T) {
	s := newSite(t)
	for instead, refusal := range map[string]string{
		`"type":"Loud"`: "type: Invalid value", `"action":""`: "action: Required value",
		`"eventTime":null`:            "eventTime: Required value",
		`"reportingController":"a b"`: "reportingController: Invalid value", `"note":"` + strings.Repeat("x", 1025) +
			`"`: "note: Invalid value",
		`"reason":"` + strings.Repeat("x", 129) + `"`: "at most 128 characters",
	} {
		_, err := s.of(newEvents, "default").Create(t.Context(), object(t, newEvents, "default", "bad",
			newEvent+","+instead), metav1.CreateOptions{})
		require.ErrorContains(t, err, refusal)
	}
	s.create(t, objects.Events, "default", "old", `"involvedObject":{"namespace":"default"},"reason":"x"`)
}
