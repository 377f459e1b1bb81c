package appliance

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// releaseProgramPages has the system take back the pages of this program's file that only its start
// needed: some tens of MiB of code and constants, which count as the process's memory although
// nothing reads them again. Those that are needed after all come back from the page cache by
// themselves. What was ever written to stays, as a loader does to constants that it makes read-only
// afterwards.
func releaseProgramPages() error {
	self, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	maps, err := os.Open("/proc/self/smaps")
	if err != nil {
		return fmt.Errorf("find this program's pages: %w", err)
	}
	defer maps.Close()
	var from, to uint64
	for lines := bufio.NewScanner(maps); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) >= 6 && !strings.HasSuffix(fields[0], ":") {
			from, to = 0, 0
			if strings.Join(fields[5:], " ") == self && !strings.Contains(fields[1], "w") {
				if from, to, err = addresses(fields[0]); err != nil {
					return err
				}
			}
			continue
		}
		if from == to || len(fields) < 2 || fields[0] != "Anonymous:" || fields[1] != "0" {
			continue
		}
		if _, _, errno := unix.Syscall(unix.SYS_MADVISE, uintptr(from), uintptr(to-from),
			unix.MADV_DONTNEED); errno != 0 {
			return fmt.Errorf("give back the pages %x-%x: %w", from, to, errno)
		}
	}
	return nil
}

// addresses reads the "<from>-<to>" that the line of a mapping begins with: proc_pid_smaps(5).
func addresses(text string) (from, to uint64, err error) {
	first, last, _ := strings.Cut(text, "-")
	if from, err = strconv.ParseUint(first, 16, 64); err == nil {
		to, err = strconv.ParseUint(last, 16, 64)
	}
	if err != nil {
		err = fmt.Errorf("read the pages %s: %w", text, err)
	}
	return from, to, err
}

// resident is how many bytes of memory the process has: proc_pid_statm(5), whose second field
// counts pages.
func resident() int64 {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0 // it is never too much then
	}
	fields := strings.Fields(string(text))
	if len(fields) < 2 {
		return 0
	}
	pages, err := strconv.ParseInt(fields[1], 10, 64)
	if err != nil {
		return 0
	}
	return pages * int64(os.Getpagesize())
}
