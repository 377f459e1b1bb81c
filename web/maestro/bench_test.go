package maestro_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"landfall/appliance/hosted/bundle"
	"landfall/store"
	api "landfall/web/maestro"
)

// BenchmarkSearch_tenThousandBundles sends searches over HTTP: by the label of a cluster, which
// reads an index, and by a pattern, which reads all rows.
func BenchmarkSearch_tenThousandBundles(b *testing.B) {
	s := newSite(b)
	require.NoError(b, s.db.Update(b.Context(), func(tx *store.Tx) error {
		if err := bundle.CreateConsumer(tx, &bundle.Consumer{Name: "mc1"}, s.clock.Now()); err != nil {
			return err
		}
		for i := range 10_000 {
			name := fmt.Sprintf("c%d", i)
			if err := bundle.Create(tx, &bundle.Bundle{Name: name, Consumer: "mc1",
				Labels: map[string]string{bundle.LabelCluster: name}, Manifests: []json.RawMessage{json.RawMessage(
					`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"` + name + `"}}`)}},
				s.clock.Now()); err != nil {
				return err
			}
		}
		return nil
	}))
	for name, search := range map[string]string{
		"label":    "payload->'metadata'->'labels'->>'api.openshift.com/id'='c%d'",
		"all-rows": "payload->'metadata'->>'name' like 'c%d'",
	} {
		b.Run(name, func(b *testing.B) {
			var took []time.Duration
			for i := 0; b.Loop(); i++ {
				begin := time.Now()
				status, list := s.call("GET", api.Root+"/resource-bundles?"+find(fmt.Sprintf(search, i%10_000)), "")
				took = append(took, time.Since(begin))
				require.Equal(b, http.StatusOK, status)
				require.EqualValues(b, 1, list["total"])
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
		})
	}
}
