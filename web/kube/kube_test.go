package kube_test

import (
	"context"
	"log/slog"
	"testing"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"landfall/appliance/objects"
	"landfall/store"
	"landfall/web/kube"
)

// site is an API server over a store of its own.
type site struct {
	db     *store.DB
	server *kube.Server
	client dynamic.Interface
}

func newSite(t testing.TB, options ...func(*kube.Options)) *site {
	db, err := store.Open(t.Context(), t.TempDir(), store.Options{Versioned: kube.Bucket, NoSync: true})
	require.NoError(t, err)
	o := kube.Options{
		DB: db, Objects: objects.New(nil, nil), Address: "site.example:8090", Clock: clockwork.NewRealClock(), Logger: slog.New(slog.NewTextHandler(t.Output(), nil)),
	}
	for _, option := range options {
		option(&o)
	}
	server := kube.New(o)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- server.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-ended)
		require.NoError(t, db.Close())
	})
	select {
	case <-server.Ready():
	case err := <-ended:
		ended <- nil
		require.NoError(t, err)
	}
	client, err := dynamic.NewForConfig(server.Client())
	require.NoError(t, err)
	return &site{db, server, client}
}

func TestX(t *testing.T) {
	s := newSite(t)
	res := s.client.Resource(metav1GVR(objects.ClusterImageSets))
	_, err := res.Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "hive.openshift.io/v1", "kind": "ClusterImageSet", "metadata": map[string]any{"name": "one"}, "spec": map[string]any{"releaseImage": "x"},
	}}, metav1.CreateOptions{})
	require.NoError(t, err)
	list, err := res.List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	t.Log(list)
}

func metav1GVR(k objects.Kind) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: k.Group, Version: k.Version, Resource: k.Resource}
}
