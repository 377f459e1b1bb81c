package process

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// programPages are the address ranges of this program's file that nothing has modified. They hold
// tens of MiB of code and constants that only the start needs. These count as memory of the
// process.
type programPages [][2]uint64

// findProgramPages reads the ranges from the memory map. The loader modifies some constants before
// it makes them read-only, and nothing modifies them afterwards, so that the ranges stay the same.
func findProgramPages() (pages programPages, err error) {
	self, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return nil, fmt.Errorf("find this program's file: %w", err)
	}
	maps, err := os.Open("/proc/self/smaps")
	if err != nil {
		return nil, fmt.Errorf("read this program's memory map: %w", err)
	}
	defer maps.Close()
	var from, to uint64
	for lines := bufio.NewScanner(maps); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) >= 6 && !strings.HasSuffix(fields[0], ":") {
			from, to = 0, 0
			if strings.Join(fields[5:], " ") == self && !strings.Contains(fields[1], "w") {
				if from, to, err = addresses(fields[0]); err != nil {
					return nil, err
				}
			}
			continue
		}
		if from != to && len(fields) >= 2 && fields[0] == "Anonymous:" && fields[1] == "0" {
			pages = append(pages, [2]uint64{from, to})
		}
	}
	return pages, nil
}

// release releases the pages. If the program needs one again, the kernel reads it from the page
// cache.
func (p programPages) release() error {
	for _, at := range p {
		if _, _, errno := unix.Syscall(unix.SYS_MADVISE, uintptr(at[0]), uintptr(at[1]-at[0]),
			unix.MADV_DONTNEED); errno != 0 {
			return fmt.Errorf("release the pages %x-%x: %w", at[0], at[1], errno)
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

// resident returns the resident size of the process in bytes, or 0 if it cannot be read: with size
// 0, the process never returns memory.
func resident() int64 {
	pages, _ := pagesInUse(1)
	return pages * int64(os.Getpagesize())
}

// pagesInUse returns a field of proc_pid_statm(5), which counts pages.
func pagesInUse(field int) (int64, error) {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(text))
	if len(fields) <= field {
		return 0, errors.New("/proc/self/statm has too few fields")
	}
	return strconv.ParseInt(fields[field], 10, 64)
}

// LimitMemory ends this process when it needs more bytes of memory than it has now. What it has now
// counts apart, because the race detector reserves much.
func LimitMemory(more uint64) error {
	const data = 5 // the field with the pages to which the process can write
	pages, err := pagesInUse(data)
	if err == nil {
		limit := uint64(pages)*uint64(os.Getpagesize()) + more
		err = unix.Setrlimit(unix.RLIMIT_DATA, &unix.Rlimit{Cur: limit, Max: limit})
	}
	if err != nil {
		return fmt.Errorf("limit the memory: %w", err)
	}
	return nil
}
