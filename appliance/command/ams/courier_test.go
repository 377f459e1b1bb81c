package ams

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"landfall/appliance/ams"
)

func TestPush_answerAboutUnknownSite(t *testing.T) {
	for answer, accepted := range map[string]bool{"yes\n": true, "yes": true, "no\n": false, "\n": false, "": false} {
		known := ams.NewKnownSites(t.TempDir())
		var question bytes.Buffer
		cmd := &cobra.Command{}
		cmd.SetIn(strings.NewReader(answer))
		cmd.SetErr(&question)
		err := confirmSite(cmd, known, "SHA256:site", "", true)
		require.Contains(t, question.String(), "SHA256:site")
		isKnown, readErr := known.Contains("SHA256:site")
		require.NoError(t, readErr)
		require.Equal(t, accepted, isKnown, answer)
		require.Equal(t, accepted, err == nil, answer)
	}
	cmd := &cobra.Command{}
	cmd.SetIn(strings.NewReader("yes\n"))
	err := confirmSite(cmd, ams.NewKnownSites(t.TempDir()), "SHA256:site", "", false)
	require.ErrorContains(t, err, "--site SHA256:site", "standard input holds the credentials")
}

// An export holds back the updates of its clusters, so its file is checked before.
func TestExport_nothingIsExportedForABadFile(t *testing.T) {
	appliance := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		t.Error("the appliance was asked")
	}))
	defer appliance.Close()
	t.Setenv("LANDFALL_URL", appliance.URL)
	cmd := newExport()
	cmd.SetArgs([]string{"-o", t.TempDir()})
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	require.ErrorContains(t, cmd.ExecuteContext(t.Context()), "is a directory")
}
