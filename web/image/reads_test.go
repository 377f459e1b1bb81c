package image_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"

	"landfall/web/image"
	"landfall/web/image/progress"
)

// TestReads_ofAllMembers asks for the reads of images at this and at two other members. One of them
// gives an answer that can't be read.
func TestReads_ofAllMembers(t *testing.T) {
	t.Parallel()
	clock := clockwork.NewFakeClock()
	own := progress.NewRecorder(clock)
	own.Request("10.0.0.1", "bmc", progress.Image{InfraEnvID: infraEnv, Kind: "full", Size: 100}, false)
	at := clock.Now().UTC()
	other, err := json.Marshal(map[string][]progress.Report{
		infraEnv: {{Client: "10.0.0.2", LastRead: at.Add(time.Second)},
			{Client: "10.0.0.3", LastRead: at.Add(-time.Second)}},
		"another": {{Client: "10.0.0.4"}},
	})
	require.NoError(t, err)
	asked := 0
	service := image.New(image.Options{Source: &source{}, Clock: clock, Progress: own,
		Elsewhere: func(context.Context) [][]byte {
			asked++
			return [][]byte{[]byte("<html>"), other}
		}})
	clients := func() (clients []string) {
		reports, err := service.Reads(t.Context(), infraEnv)
		require.NoError(t, err)
		for _, report := range reports {
			clients = append(clients, report.Client)
		}
		return clients
	}
	require.Equal(t, []string{"10.0.0.2", "10.0.0.1", "10.0.0.3"}, clients(), "the newest read comes first")
	clients()
	require.Equal(t, 1, asked, "the others are asked once a second")
	clock.Advance(time.Second)
	clients()
	require.Equal(t, 2, asked)

	mine, err := service.OwnReads()
	require.NoError(t, err)
	require.Len(t, mine, 1, "others learn only of what was read here")
	require.Equal(t, "10.0.0.1", mine[infraEnv][0].Client)
}
