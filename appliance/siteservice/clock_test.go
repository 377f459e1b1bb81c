package siteservice

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"landfall/appliance/fault"
)

// Case 51: a clock that is before the live ISO was built: no installation begins.
func TestFault51_clockBeforeLiveISO(t *testing.T) {
	at := func(text string) time.Time {
		parsed, err := time.Parse(time.DateOnly, text)
		require.NoError(t, err)
		return parsed
	}
	err := CheckClock(at("2025-05-22"), []string{"", "9.4.20240101-0", "9.6.20250523-0"})
	require.Equal(t, fault.Conflict, fault.KindOf(err))
	require.ErrorContains(t, err, "9.6.20250523-0 was built on 2025-05-23")
	require.Error(t, CheckClock(at("2025-01-21"), []string{"418.94.202501221327-0"}))
	require.NoError(t, CheckClock(at("2025-05-23"),
		[]string{"9.6.20250523-0", "418.94.202501221327-0", "4.20", "1.99999999-0"}))
}

// Case 51: an appliance whose clock is before the newest time on the media begins no installation.
// Hosts whose clock differs are not ready; see "a clock behind" in the tests of validations.
func TestFault51_clockBeforeMedium(t *testing.T) {
	written := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	err := CheckClockOfMedium(written.AddDate(0, 0, -1), "stick", written)
	require.Equal(t, fault.Conflict, fault.KindOf(err))
	require.ErrorContains(t, err, "the medium stick was written at 2026-11-01 12:00:00")
	require.NoError(t, CheckClockOfMedium(written.Add(-13*time.Hour), "stick", written), "local times of a stick")
	require.NoError(t, CheckClockOfMedium(written, "", time.Time{}), "no medium")
}
