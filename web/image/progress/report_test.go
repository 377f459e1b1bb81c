package progress

import (
	"testing"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"

	"landfall/isogen"
)

func TestParts_onceInBootOrder(t *testing.T) {
	recorder := NewRecorder(clockwork.NewFakeClock())
	read, _ := recorder.Request("10.0.0.7", "", Image{InfraEnvID: "i", Kind: "full", Size: 1000,
		Segments: []isogen.Segment{
			{Name: "boot loader", Start: 0, End: 100},
			{Name: "directory", Start: 100, End: 200},
			{Name: "boot loader", Start: 200, End: 300},
			{Name: "rootfs", Start: 300, End: 900},
			{Name: "kernel", Start: 900, End: 1000},
		}}, false)
	read.Sent(0, 150)
	read.Sent(900, 50)
	require.Equal(t, []Share{{"boot loader", 50}, {"kernel", 50}, {"rootfs", 0}},
		read.report(read.clock.Now(), nil).Segments)
	read.Sent(300, 600)
	read.Sent(900, 100)
	require.Contains(t, read.report(read.clock.Now(), nil).Sentence, "; it has read kernel and rootfs.")
}
