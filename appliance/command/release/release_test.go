package release

import (
	"bytes"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"landfall/appliance/release/trust"
)

func TestWrite_releaseOfMedium(t *testing.T) {
	cmd, out := new(cobra.Command), new(bytes.Buffer)
	cmd.SetOut(out)
	require.NoError(t, write(cmd, &trust.List{Releases: []trust.Release{{Source: trust.SourceMedium,
		Path: "/media/stick", Allowed: trust.Allowed{Digest: "sha256:ab", PullSpec: "quay.io/release@sha256:ab",
			By: "ana", At: time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)}}}}))
	require.Equal(t, "DIGEST     ALLOWED BY             SINCE                    PULL SPEC\n"+
		"sha256:ab  ana with /media/stick  2026-11-01 12:00:00 UTC  quay.io/release@sha256:ab\n", out.String())
}
