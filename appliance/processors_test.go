package appliance

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMoreThreadsThanProcessorsRunUntilThatIsUndone(t *testing.T) {
	before := runtime.GOMAXPROCS(0)
	undo := SpareThreads()
	require.Equal(t, before+spareThreads, runtime.GOMAXPROCS(0))
	undo()
	require.Equal(t, before, runtime.GOMAXPROCS(0))
}
