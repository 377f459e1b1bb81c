package mirror

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"landfall/appliance/mirror/prover"
	"landfall/appliance/mirror/site"
)

func TestWrite_countsOfImages(t *testing.T) {
	report := &prover.ReleaseReport{Report: prover.Report{Faults: []prover.Fault{
		{Text: "mirror.example.com does not answer.", Images: 1},
		{Text: "The certificate of other.example.com expired.", Images: 2},
	}}}
	out := new(bytes.Buffer)
	require.NoError(t, Write(out, &site.Proof{Report: report}))
	require.Contains(t, out.String(), "FAULT mirror.example.com does not answer. (1 image)\n")
	require.Contains(t, out.String(), "FAULT The certificate of other.example.com expired. (2 images)\n")
}
