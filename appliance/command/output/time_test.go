package output

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestTime_namesItsZone(t *testing.T) {
	east := time.FixedZone("", 2*60*60)
	require.Equal(t, "2026-03-01 12:00:00 UTC", Time(time.Date(2026, 3, 1, 14, 0, 0, 0, east)))
	require.Empty(t, Time(time.Time{}))
	require.Empty(t, Time(time.Time{}.In(east)))
}
