package appliance

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// ReleaseProgramPages has the system take back the pages of this program's file that only its start needed: some tens of MiB of code
// and constants, which count as the process's memory although nothing reads them again. Those that are needed after all come back from the page cache by
// themselves. Only mappings that nobody can have written to are given back.
func ReleaseProgramPages() error {
	self, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	maps, err := os.Open("/proc/self/maps")
	if err != nil {
		return fmt.Errorf("find this program's pages: %w", err)
	}
	defer maps.Close()
	// <from>-<to> <permissions> <offset> <device> <inode> <file>: proc_pid_maps(5).
	for lines := bufio.NewScanner(maps); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) < 6 || strings.Join(fields[5:], " ") != self || strings.Contains(fields[1], "w") {
			continue
		}
		from, to, _ := strings.Cut(fields[0], "-")
		start, err := strconv.ParseUint(from, 16, 64)
		if err != nil {
			return fmt.Errorf("read the pages %s: %w", fields[0], err)
		}
		end, err := strconv.ParseUint(to, 16, 64)
		if err != nil {
			return fmt.Errorf("read the pages %s: %w", fields[0], err)
		}
		if _, _, errno := unix.Syscall(unix.SYS_MADVISE, uintptr(start), uintptr(end-start), unix.MADV_DONTNEED); errno != 0 {
			return fmt.Errorf("give back the pages %s: %w", fields[0], errno)
		}
	}
	return nil
}
