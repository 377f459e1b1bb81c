package rehearse

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"landfall/appliance/rehearsal"
)

func TestRehearsalReport_fitsOnePage(t *testing.T) {
	report := &rehearsal.Rehearsal{
		Cluster: "edge", Release: "4.20.8", Shape: "3 hosts, by numbers", Started: time.Date(2026, 3, 1, 12, 0,
			0, 0, time.UTC), Seconds: 83.25,
		Steps: []rehearsal.Step{
			{Name: "site", Result: rehearsal.Warning, Seconds: 3, Message: strings.Repeat("A name that nobody knows. ",
				12)},
			{Name: "mirror", Result: rehearsal.Failed, Seconds: 12.5, Message: "1 of 190 images are not available.",
				Advice: "Bring it."},
		},
		NotProven: []string{"that machines boot", "the rest"},
	}
	var page bytes.Buffer
	require.NoError(t, writeRehearsal(&page, report))
	lines := strings.Split(page.String(), "\n")
	require.Less(t, len(lines), 60)
	for _, line := range lines {
		require.LessOrEqual(t, len([]rune(line)), pageWidth)
	}
	require.Equal(t, "Rehearsal of cluster edge: FAILED", lines[0])
	require.Equal(t, "2026-03-01 12:00:00 UTC, 83.2 s; OpenShift 4.20.8; 3 hosts, by numbers", lines[1])
	require.Contains(t, page.String(),
		"failed   mirror                12.5 s\n         1 of 190 images are not available.\n         → Bring it.\n")
	require.Contains(t, page.String(), "Not proven: that machines boot; the rest.\n")
}
