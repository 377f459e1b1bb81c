package engine

import (
	"encoding/json"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"

	"landfall/appliance/engine/validationcache"
)

// BenchmarkInventoryOfOneHost measures the CPU time of a changed inventory of one host, with and
// without the cached validation results of the other hosts of its cluster.
func BenchmarkInventoryOfOneHost(b *testing.B) {
	for _, cached := range []bool{true, false} {
		b.Run(fmt.Sprintf("cached=%t", cached), func(b *testing.B) {
			s := newHarness(b)
			_, hosts := s.threeNodes(true)
			before := cpuTime(b)
			for i := range b.N {
				h := hosts[i%len(hosts)]
				h.memory = 64<<30 + int64(i+1)<<20
				text, err := json.Marshal(h.inventory())
				require.NoError(b, err)
				if !cached {
					s.validationCache = new(validationcache.Cache)
				}
				require.NoError(b, h.reply(&models.StepReply{StepType: models.StepTypeInventory, Output: string(text)}))
			}
			b.ReportMetric(float64((cpuTime(b)-before).Microseconds())/float64(b.N), "µs-CPU/op")
		})
	}
}

func cpuTime(tb testing.TB) time.Duration {
	var usage syscall.Rusage
	require.NoError(tb, syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
