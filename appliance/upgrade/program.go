package upgrade

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// Program is a file with a Landfall program for this platform.
type Program struct {
	Path    string
	Version string
	Data    int  // version of the data that it writes
	Notes   bool // it notes its version in the data directory
	SHA256  string
}

// askLimit limits the time in which a program must say its version.
const askLimit = 30 * time.Second

// Inspect reads a program and asks it for its version. The file must be for this platform.
func Inspect(ctx context.Context, path string) (*Program, error) {
	program, err := read(path, io.Discard)
	if err != nil {
		return nil, err
	}
	return program, program.ask(ctx, program.Path)
}

// read reads a program without running it, and copies it. The file must be for this platform.
func read(path string, to io.Writer) (*Program, error) {
	absolute, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	file, err := os.Open(absolute)
	if err != nil {
		return nil, fmt.Errorf("read the program: %w", err)
	}
	defer file.Close()
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, errors.Join(fmt.Errorf("%s is no regular file; name the program itself", path), err)
	}
	begin := make([]byte, 20)
	n, err := io.ReadFull(file, begin)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	if err := checkPlatform(path, begin[:n]); err != nil {
		return nil, err
	}
	hash := sha256.New()
	if _, err := io.Copy(io.MultiWriter(to, hash), io.MultiReader(bytes.NewReader(begin[:n]), file)); err != nil {
		return nil, fmt.Errorf("copy %s: %w", path, err)
	}
	return &Program{Path: absolute, SHA256: hex.EncodeToString(hash.Sum(nil))}, nil
}

// checkPlatform compares the header of a program with this platform.
func checkPlatform(path string, begin []byte) error {
	here := runtime.GOOS + "/" + runtime.GOARCH
	found := platform(begin)
	switch {
	case found == "":
		return fmt.Errorf("%s is no program: it has neither the header of Linux nor that of macOS; unpack it "+
			"first if it is an archive or a package", path)
	case found != here:
		return fmt.Errorf("%s is a program for %s, and this machine needs one for %s", path, found, here)
	}
	return nil
}

// platform returns the platform in the header of a program (ELF or Mach-O), or "".
func platform(begin []byte) string {
	switch {
	case len(begin) < 20:
		return ""
	case bytes.HasPrefix(begin, []byte("\x7fELF")):
		machines := map[uint16]string{62: "amd64", 183: "arm64"}
		machine := binary.LittleEndian.Uint16(begin[18:])
		if name, ok := machines[machine]; ok {
			return "linux/" + name
		}
		return fmt.Sprintf("another machine (ELF %d)", machine)
	case binary.LittleEndian.Uint32(begin) == 0xfeedfacf:
		types := map[uint32]string{0x01000007: "amd64", 0x0100000c: "arm64"}
		if name, ok := types[binary.LittleEndian.Uint32(begin[4:])]; ok {
			return "darwin/" + name
		}
	}
	return ""
}

// ask runs the program, or a copy of it, and reads its version. A program that says no version of
// its data is older than these versions, and writes version 1.
func (p *Program) ask(ctx context.Context, path string) error {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, "version", "--json")
	cmd.Env, cmd.Dir = []string{}, os.TempDir()
	text, err := cmd.Output()
	if errors.Is(err, os.ErrPermission) {
		return fmt.Errorf("%s may not be run: make it executable (chmod +x), or copy it to a directory without noexec",
			path)
	}
	notLandfall := fmt.Errorf("%s is not Landfall: %q did not write its version", p.Path, p.Path+" version --json")
	if err != nil {
		return fmt.Errorf("%w (%w)", notLandfall, err)
	}
	answer := struct {
		Version     *string `json:"version"`
		Platform    string  `json:"platform"`
		DataVersion int     `json:"data_version"`
	}{}
	if err := json.Unmarshal(text, &answer); err != nil || answer.Version == nil || answer.Platform == "" {
		return notLandfall
	}
	p.Version, p.Data, p.Notes = *answer.Version, max(1, answer.DataVersion), answer.DataVersion > 0
	return nil
}

// String returns the name and the version for messages.
func (p *Program) String() string { return fmt.Sprintf("Landfall %s", strings.TrimSpace(p.Version)) }
