package fleet

import (
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestLevel_warnsOnceInAMinute(t *testing.T) {
	var l level
	start := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	for after, want := range []slog.Level{slog.LevelWarn, slog.LevelDebug, slog.LevelDebug, slog.LevelWarn,
		slog.LevelDebug} {
		require.Equal(t, want, l.at(start.Add(time.Duration(after)*20*time.Second)), "after %d s", after*20)
	}
}
