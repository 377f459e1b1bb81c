package process

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAddThreads_undo(t *testing.T) {
	before := runtime.GOMAXPROCS(0)
	undo := AddThreads()
	require.Equal(t, before+spareThreads, runtime.GOMAXPROCS(0))
	undo()
	require.Equal(t, before, runtime.GOMAXPROCS(0))
}
