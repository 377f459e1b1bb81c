package kube_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"landfall/appliance/objects"
	"landfall/store"
	"landfall/web/kube"
)

// synced is a site whose commits reach the disk, and clients that talk to it over HTTP.
func synced(b *testing.B) (*site, func() dynamic.Interface) {
	s := newSite(b, func(o *kube.Options) {
		db, err := store.Open(context.Background(), b.TempDir(), store.Options{Versioned: kube.Bucket})
		require.NoError(b, err)
		require.NoError(b, o.DB.Close())
		b.Cleanup(func() { require.NoError(b, db.Close()) })
		o.DB = db
	})
	url := overHTTP(b, s)
	return s, func() dynamic.Interface {
		client, err := dynamic.NewForConfig(&rest.Config{Host: url, QPS: -1, Transport: &http.Transport{MaxIdleConnsPerHost: 1}})
		require.NoError(b, err)
		return client
	}
}

func resourceOf(kind objects.Kind) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: kind.Group, Version: kind.Version, Resource: kind.Resource}
}

var infraEnvSpec = `"spec":{"pullSecretRef":{"name":"pull"},"sshAuthorizedKey":"` + strings.Repeat("k", 400) + `"}`

// BenchmarkCreate makes InfraEnvs, each by a request of its own and safe on the disk before it is answered.
func BenchmarkCreate(b *testing.B) {
	for _, clients := range []int{1, 8} {
		b.Run(fmt.Sprintf("clients=%d", clients), func(b *testing.B) {
			_, dial := synced(b)
			made := make([]dynamic.ResourceInterface, clients)
			for i := range made {
				made[i] = dial().Resource(resourceOf(objects.InfraEnvs)).Namespace("default")
			}
			_, err := made[0].Create(b.Context(), object(b, objects.InfraEnvs, "default", "warm", infraEnvSpec), metav1.CreateOptions{})
			require.NoError(b, err)
			b.ResetTimer()
			start := time.Now()
			var group sync.WaitGroup
			for c, client := range made {
				group.Go(func() {
					for i := c; i < b.N; i += clients {
						if _, err := client.Create(b.Context(), object(b, objects.InfraEnvs, "default", fmt.Sprint("i-", i), infraEnvSpec), metav1.CreateOptions{}); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			group.Wait()
			b.ReportMetric(float64(b.N)/time.Since(start).Seconds(), "creates/s")
		})
	}
}

// BenchmarkWatch commits status changes as the engine does, and tells how long they take from the commit to clients that watch; and what a commit with its delivery
// to all of them costs, for one watcher and for a hundred.
func BenchmarkWatch(b *testing.B) {
	for _, watchers := range []int{1, 100} {
		b.Run(fmt.Sprintf("watchers=%d", watchers), func(b *testing.B) {
			s, dial := synced(b)
			s.create(b, objects.InfraEnvs, "default", "one", infraEnvSpec)
			ctx, cancel := context.WithCancel(b.Context())
			defer cancel()
			arrived := make(chan time.Time, watchers*16)
			var group sync.WaitGroup
			for range watchers {
				w, err := dial().Resource(resourceOf(objects.InfraEnvs)).Namespace("default").Watch(ctx, metav1.ListOptions{ResourceVersion: fmt.Sprint(s.options.DB.Revision())})
				require.NoError(b, err)
				group.Go(func() {
					defer w.Stop()
					for {
						select {
						case _, ok := <-w.ResultChan():
							if !ok {
								return
							}
							arrived <- time.Now()
						case <-ctx.Done():
							return
						}
					}
				})
			}
			var took []time.Duration
			b.ResetTimer()
			for i := 0; i < b.N; i++ {
				require.NoError(b, s.options.DB.Update(ctx, func(tx *store.Tx) error {
					return s.options.Objects.Update(tx, objects.InfraEnvs, "default", "one", func(u *unstructured.Unstructured) error {
						u.Object["status"] = map[string]any{"createdTime": time.Unix(int64(i), 0).UTC().Format(time.RFC3339)}
						return nil
					})
				}))
				committed := time.Now()
				for range watchers {
					took = append(took, (<-arrived).Sub(committed))
				}
			}
			b.StopTimer()
			cancel()
			group.Wait()
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
		})
	}
}
