package scenario

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEachKindOfSiteOfTheExampleLivesWithEveryInvariantHeld(t *testing.T) {
	s, err := Example("year")
	require.NoError(t, err)
	for _, site := range []int{1, 121, 181} {
		report, err := Run(t.Context(), s, Options{Site: site, Days: 60, Seed: 3})
		require.NoError(t, err)
		require.Positive(t, report.Total.Installed)
		require.Positive(t, report.Total.Checks)
		var out strings.Builder
		require.NoError(t, report.Write(&out))
		require.Contains(t, out.String(), "each time they held")
	}
}
