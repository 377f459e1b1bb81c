package command

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"landfall/appliance/abi"
	"landfall/appliance/command/outcome"
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

func TestWriteDirectory_onlyIfEmpty(t *testing.T) {
	files := []abi.File{{Name: "cluster-manifests/a.yaml", Data: []byte("a")}, {Name: "b.yaml", Data: []byte("b")}}
	dir := filepath.Join(t.TempDir(), "new")
	require.NoError(t, writeDirectory(dir, files))
	info, err := os.Stat(filepath.Join(dir, "cluster-manifests", "a.yaml"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode(), "the pull secret may be in it")
	require.ErrorContains(t, writeDirectory(dir, files), "is not empty; choose another one with -o")
	require.Error(t, writeDirectory(filepath.Join(t.TempDir(), "out"), []abi.File{{Name: "../a.yaml"}}))
}

func TestUsage_clusterRequired(t *testing.T) {
	for _, arguments := range [][]string{{"rehearse"}, {"export", "abi"}, {"import", "abi"}} {
		var out, errOut bytes.Buffer
		require.Equal(t, outcome.Usage, run(t.Context(), arguments, &out, &errOut), arguments)
		require.Equal(t, 1, strings.Count(errOut.String(), "\n"))
	}
	var out, errOut bytes.Buffer
	require.Equal(t, outcome.Failure, run(t.Context(), []string{"import", "abi", t.TempDir()}, &out, &errOut))
	require.Contains(t, errOut.String(), "has neither install-config.yaml nor cluster-manifests")
}
