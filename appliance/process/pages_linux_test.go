package process

import (
	"os"
	"regexp"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReleaseProgramPages_programGoesOn(t *testing.T) {
	resident := func() int {
		status, err := os.ReadFile("/proc/self/status")
		require.NoError(t, err)
		found := regexp.MustCompile(`RssFile:\s+(\d+) kB`).FindSubmatch(status)
		require.NotNil(t, found, "the kernel says how much of a file is resident since Linux 4.5")
		kibibytes, err := strconv.Atoi(string(found[1]))
		require.NoError(t, err)
		return kibibytes
	}
	before := resident()
	require.NoError(t, releaseProgramPages())
	require.Less(t, resident(), before)
	require.NoError(t, releaseProgramPages(), "again, with what it needed since")
}
