package hosted

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"landfall/appliance/hosted/maestro"
)

func TestConnection_sentenceOfClock(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	require.Equal(t, "Its clock was set back to 2026-03-01T12:00:00Z. Its reports count again when it shows "+
		"2026-03-02T12:00:00Z; the missed ones are asked for then.",
		problemOfClock(maestro.ClockFault{Agent: at, Until: at.Add(24 * time.Hour)}))
}
