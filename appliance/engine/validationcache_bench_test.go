package engine

import (
	"encoding/json"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"
)

// BenchmarkInventoryOfOneHost lets one host of a cluster report a changed inventory and measures
// the CPU time of the change: with the cached validation results of the other hosts, and without.
func BenchmarkInventoryOfOneHost(b *testing.B) {
	for _, remembered := range []bool{true, false} {
		b.Run(fmt.Sprintf("remembered=%t", remembered), func(b *testing.B) {
			s := newHarness(b)
			_, hosts := s.threeNodes(true)
			before := cpuTime(b)
			for i := range b.N {
				h := hosts[i%len(hosts)]
				h.memory = 64<<30 + int64(i+1)<<20
				text, err := json.Marshal(h.inventory())
				require.NoError(b, err)
				if !remembered {
					s.validationCache.held = nil
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
