package kube_test

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"landfall/web/kube"
)

func TestCurrent_beforeEachRequestForObjects(t *testing.T) {
	var updates, watches, ended atomic.Int64
	s := newSite(t, func(o *kube.Options) {
		o.Current = func(context.Context) error { updates.Add(1); return nil }
		o.Watching = func() func() { watches.Add(1); return func() { ended.Add(1) } }
	})
	for _, test := range []struct {
		path  string
		wants int64
	}{
		{"/version", 0},
		{"/api/v1", 0},
		{"/apis", 0},
		{"/apis/agent-install.openshift.io/v1beta1", 0},
		{"/apis/apiextensions.k8s.io/v1/customresourcedefinitions", 0},
		{"/api/v1/secrets", 1},
		{"/api/v1/namespaces/site/events", 1},
		{"/apis/agent-install.openshift.io/v1beta1/agents", 1},
	} {
		before := updates.Load()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://in-process"+test.path, nil)
		require.NoError(t, err)
		response, err := s.server.RoundTrip(request)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		require.Equal(t, test.wants, updates.Load()-before, test.path)
	}

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://in-process/api/v1/secrets?watch=1", nil)
	require.NoError(t, err)
	response, err := s.server.RoundTrip(request)
	require.NoError(t, err)
	require.Equal(t, []int64{1, 0}, []int64{watches.Load(), ended.Load()})
	cancel()
	require.NoError(t, response.Body.Close())
	require.Eventually(t, func() bool { return ended.Load() == 1 }, time.Minute, time.Millisecond)
}
