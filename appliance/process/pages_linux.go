package process

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// releaseProgramPages releases the pages of this program's file that only the start needed: tens of
// MiB of code and constants, which count as memory of the process. If the program needs a page
// again, the kernel reads it from the page cache. Modified pages are not released; the loader
// modifies constants before it makes them read-only.
func releaseProgramPages() error {
	self, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return fmt.Errorf("find this program's file: %w", err)
	}
	maps, err := os.Open("/proc/self/smaps")
	if err != nil {
		return fmt.Errorf("read this program's memory map: %w", err)
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
			return fmt.Errorf("release the pages %x-%x: %w", from, to, errno)
		}
	}
	return nil
}

// addresses parses the range "<from>-<to>" at the beginning of a mapping's line: proc_pid_smaps(5).
func addresses(text string) (from, to uint64, err error) {
	first, last, _ := strings.Cut(text, "-")
	if from, err = strconv.ParseUint(first, 16, 64); err == nil {
		to, err = strconv.ParseUint(last, 16, 64)
	}
	if err != nil {
		err = fmt.Errorf("parse the address range %s: %w", text, err)
	}
	return from, to, err
}

// resident returns the resident size of the process in bytes, or 0 if it cannot be read. The second
// field of proc_pid_statm(5) counts pages.
func resident() int64 {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0 // with size 0, the process never returns memory
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
