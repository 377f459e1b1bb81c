package link

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// bindToLink limits a socket to the packets of an interface and lets it send broadcasts.
func bindToLink(fd uintptr, name string) error {
	return errors.Join(unix.BindToDevice(int(fd), name),
		unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_BROADCAST, 1))
}

// holderOf returns the program that has a port, with its process ID. It returns "" if the program
// belongs to another user and this process may not see it.
func holderOf(network Network, port uint16) string {
	inodes := map[string]bool{}
	for _, table := range []string{string(network), string(network) + "6"} {
		text, err := os.ReadFile("/proc/net/" + table)
		if err != nil {
			continue
		}
		for _, inode := range inodesOf(string(text), port) {
			inodes["socket:["+inode+"]"] = true
		}
	}
	files, err := filepath.Glob("/proc/[0-9]*/fd/*")
	if err != nil || len(inodes) == 0 {
		return ""
	}
	for _, file := range files {
		target, err := os.Readlink(file)
		if err != nil || !inodes[target] {
			continue
		}
		process := filepath.Dir(filepath.Dir(file))
		name, err := os.ReadFile(process + "/comm")
		if err != nil {
			continue
		}
		return fmt.Sprintf("%s (process %s)", strings.TrimSpace(string(name)), filepath.Base(process))
	}
	return ""
}

// inodesOf returns the inodes of the sockets of a port in a table of /proc/net (proc(5)).
func inodesOf(table string, port uint16) []string {
	var inodes []string
	for lines := bufio.NewScanner(strings.NewReader(table)); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		const local, inode = 1, 9
		if len(fields) <= inode {
			continue
		}
		_, digits, _ := strings.Cut(fields[local], ":")
		if number, err := strconv.ParseUint(digits, 16, 16); err == nil && uint16(number) == port {
			inodes = append(inodes, fields[inode])
		}
	}
	return inodes
}
