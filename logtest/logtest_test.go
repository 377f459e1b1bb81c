package logtest

import (
	"io"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// test is a test with an end that is called.
type test struct {
	testing.TB
	printed strings.Builder
	end     func()
}

func (t *test) Output() io.Writer { return &t.printed }

func (t *test) Cleanup(fn func()) { t.end = fn }

func TestNew_untilTheEnd(t *testing.T) {
	of := &test{TB: t}
	logger := New(of, slog.LevelInfo)
	logger.Debug("too little")
	logger.Info("during the test")
	of.end()
	logger.Info("after the test")
	require.Contains(t, of.printed.String(), "during the test")
	require.NotContains(t, of.printed.String(), "too little")
	require.NotContains(t, of.printed.String(), "after the test")
}
