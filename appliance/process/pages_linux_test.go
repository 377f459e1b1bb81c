package process

import (
	"os"
	"regexp"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestProgramPages_programContinues(t *testing.T) {
	resident := func() int {
		status, err := os.ReadFile("/proc/self/status")
		require.NoError(t, err)
		found := regexp.MustCompile(`RssFile:\s+(\d+) kB`).FindSubmatch(status)
		require.NotNil(t, found, "since Linux 4.5, the kernel reports the resident size of files")
		kibibytes, err := strconv.Atoi(string(found[1]))
		require.NoError(t, err)
		return kibibytes
	}
	pages, err := findProgramPages()
	require.NoError(t, err)
	before := resident()
	require.NoError(t, pages.release())
	require.Less(t, resident(), before)
	again, err := findProgramPages()
	require.NoError(t, err)
	require.Equal(t, pages, again, "the ranges stay the same")
	require.NoError(t, pages.release(), "a second release")
}
