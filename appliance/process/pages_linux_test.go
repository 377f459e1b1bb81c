package process

import (
	"os"
	"regexp"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReleaseProgramPages_programContinues(t *testing.T) {
	resident := func() int {
		status, err := os.ReadFile("/proc/self/status")
		require.NoError(t, err)
		found := regexp.MustCompile(`RssFile:\s+(\d+) kB`).FindSubmatch(status)
		require.NotNil(t, found, "since Linux 4.5, the kernel reports the resident size of files")
		kibibytes, err := strconv.Atoi(string(found[1]))
		require.NoError(t, err)
		return kibibytes
	}
	before := resident()
	require.NoError(t, releaseProgramPages())
	require.Less(t, resident(), before)
	require.NoError(t, releaseProgramPages(), "a second release")
}
