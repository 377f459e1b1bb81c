package kube_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"landfall/appliance/kube/objects"
	"landfall/store"
	"landfall/web/kube"
)

// synced is a site whose commits are synced to the disk, with clients over HTTP.
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
		client, err := dynamic.NewForConfig(&rest.Config{Host: url, QPS: -1,
			Transport: &http.Transport{MaxIdleConnsPerHost: 1}})
		require.NoError(b, err)
		return client
	}
}

func resourceOf(kind objects.Kind) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: kind.Group, Version: kind.Version, Resource: kind.Resource}
}

var infraEnvSpec = `"spec":{"pullSecretRef":{"name":"pull"},"sshAuthorizedKey":"` + strings.Repeat("k", 400) + `"}`

// BenchmarkCreate creates InfraEnvs. Each one takes a request and is on disk before the answer.
func BenchmarkCreate(b *testing.B) {
	for _, clients := range []int{1, 8} {
		b.Run(fmt.Sprintf("clients=%d", clients), func(b *testing.B) {
			_, dial := synced(b)
			made := make([]dynamic.ResourceInterface, clients)
			for i := range made {
				made[i] = dial().Resource(resourceOf(objects.InfraEnvs)).Namespace("default")
			}
			_, err := made[0].Create(b.Context(), object(b, objects.InfraEnvs, "default", "warm", infraEnvSpec),
				metav1.CreateOptions{})
			require.NoError(b, err)
			b.ResetTimer()
			start := time.Now()
			var group sync.WaitGroup
			for c, client := range made {
				group.Go(func() {
					for i := c; i < b.N; i += clients {
						if _, err := client.Create(b.Context(), object(b, objects.InfraEnvs, "default",
							fmt.Sprint("i-", i), infraEnvSpec), metav1.CreateOptions{}); err != nil {
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
