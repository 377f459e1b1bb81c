package kube_test

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"

	"landfall/appliance/kube/objects"
	"landfall/appliance/sitekey"
	"landfall/logtest"
	"landfall/store"
	"landfall/web"
	"landfall/web/kube"
)

// site is an API server over its own store.
type site struct {
	db      *store.DB
	options kube.Options
	server  *kube.Server
	client  dynamic.Interface
	cancel  context.CancelFunc
	ended   chan error
}

func newSite(t testing.TB, options ...func(*kube.Options)) *site {
	db, err := store.Open(t.Context(), t.TempDir(), store.Options{Versioned: kube.Bucket, NoSync: true})
	require.NoError(t, err)
	o := kube.Options{
		DB: db, Objects: objects.New(nil, nil), Address: "site.example:8090", Clock: clockwork.NewRealClock(),
		Logger: logtest.New(t, slog.LevelInfo), Open: true,
	}
	for _, option := range options {
		option(&o)
	}
	s := &site{db: db, options: o}
	s.start(t)
	t.Cleanup(func() {
		s.stop(t)
		require.NoError(t, db.Close())
	})
	return s
}

// start starts to serve the API; stop ends it. The stored objects stay.
func (s *site) start(t testing.TB) {
	s.server = kube.New(s.options)
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel, s.ended = cancel, make(chan error, 1)
	go func() { s.ended <- s.server.Run(ctx) }()
	select {
	case <-s.server.Ready():
	case err := <-s.ended:
		s.ended <- nil
		require.NoError(t, err)
	}
	client, err := dynamic.NewForConfig(s.server.Client())
	require.NoError(t, err)
	s.client = client
}

func (s *site) stop(t testing.TB) {
	if s.cancel != nil {
		s.cancel()
		require.NoError(t, <-s.ended)
	}
	s.cancel = nil
}

// of returns a client of a kind's objects.
func (s *site) of(kind objects.Kind, namespace string) dynamic.ResourceInterface {
	at := s.client.Resource(schema.GroupVersionResource{Group: kind.Group, Version: kind.Version,
		Resource: kind.Resource})
	if kind.Namespaced {
		return at.Namespace(namespace)
	}
	return at
}

// create creates an object from a JSON manifest and returns the created object.
func (s *site) create(t testing.TB, kind objects.Kind, namespace, name, content string) *unstructured.Unstructured {
	t.Helper()
	made, err := s.of(kind, namespace).Create(t.Context(), object(t, kind, namespace, name, content),
		metav1.CreateOptions{})
	require.NoError(t, err)
	return made
}

func object(t testing.TB, kind objects.Kind, namespace, name, content string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{Object: map[string]any{}}
	require.NoError(t, json.Unmarshal([]byte("{"+content+"}"), &u.Object))
	u.SetAPIVersion(kind.APIVersion())
	u.SetKind(kind.Kind)
	u.SetNamespace(namespace)
	u.SetName(name)
	return u
}

// gone waits until an object is deleted.
func (s *site) gone(t testing.TB, kind objects.Kind, namespace, name string) {
	t.Helper()
	require.Eventually(t, func() bool {
		_, err := s.of(kind, namespace).Get(t.Context(), name, metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	}, time.Minute, 5*time.Millisecond, "%s %s/%s still exists", kind, namespace, name)
}

func (s *site) get(t testing.TB, kind objects.Kind, namespace, name string) *unstructured.Unstructured {
	t.Helper()
	u, err := s.of(kind, namespace).Get(t.Context(), name, metav1.GetOptions{})
	require.NoError(t, err)
	return u
}

// overHTTP serves a site as the appliance does and returns its URL.
func overHTTP(t testing.TB, s *site) string {
	server := web.New(web.Options{})
	require.NoError(t, server.Register(s.server.Operations(true)...))
	listening := httptest.NewServer(server)
	t.Cleanup(func() {
		listening.CloseClientConnections()
		listening.Close()
	})
	return listening.URL
}

func getText(t testing.TB, url, accept string) string {
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	require.NoError(t, err)
	request.Header.Set("Accept", accept)
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	text, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.Equal(t, http.StatusOK, response.StatusCode, string(text))
	return string(text)
}

// eventOf reads the next event of a watch.
func eventOf(t *testing.T, w watch.Interface) watch.Event {
	t.Helper()
	defer w.Stop()
	select {
	case event, ok := <-w.ResultChan():
		require.True(t, ok, "the watch ended")
		return event
	case <-time.After(10 * time.Second):
		require.Fail(t, "the watch sends no event")
		return watch.Event{}
	}
}

// sealedSite returns a site that seals Secrets, as the appliance does.
func sealedSite(t testing.TB) *site {
	key, err := sitekey.LoadOrCreate(t.TempDir())
	require.NoError(t, err)
	box, err := key.Box("a test", nil)
	require.NoError(t, err)
	return newSite(t, func(o *kube.Options) { o.Box, o.Objects = box, objects.New(box, nil) })
}

// events watches a URL and returns a function that reads the next event.
func events(t testing.TB, url, accept string) func() []byte {
	if accept == asProtobuf {
		accept += ";stream=watch"
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	require.NoError(t, err)
	request.Header.Set("Accept", accept)
	response, err := (&http.Client{Transport: &http.Transport{DisableCompression: true}}).Do(request)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, response.Body.Close()) })
	require.Equal(t, http.StatusOK, response.StatusCode)
	reader := bufio.NewReader(response.Body)
	return func() []byte {
		if !strings.HasPrefix(accept, asProtobuf) {
			line, err := reader.ReadBytes('\n')
			require.NoError(t, err)
			return line
		}
		var length uint32
		require.NoError(t, binary.Read(reader, binary.BigEndian, &length))
		event := make([]byte, length)
		_, err := io.ReadFull(reader, event)
		require.NoError(t, err)
		return event
	}
}
