package wal

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/cespare/xxhash/v2"
)

// AcknowledgedName is the name of the file with the number of the newest acknowledged commit.
//
// The end of the log alone does not tell a record that was damaged later from one whose write was
// interrupted, nor a lost log from an empty one. So the writer notes each commit in this file after
// the sync of the log and before it acknowledges the commit. The note itself is not synced: it is
// exact after a kill of the process, and may be up to half a minute old after a power cut.
//
// The content: magic (4 bytes), CRC-32C of the rest (4), epoch (8), commit (8), hash of the ID of
// the boot of the system (8).
const AcknowledgedName = "landfall.committed"

const (
	acknowledgedMagic = 0x4c464301 // "LFC", version 1
	acknowledgedSize  = 32
)

// acknowledged is the newest acknowledged commit.
type acknowledged struct {
	epoch, commit, boot uint64
}

// ackFile writes the newest acknowledged commit.
type ackFile struct {
	*os.File
	last acknowledged
}

func createAckFile(dir string, epoch uint64) (*ackFile, error) {
	file, err := os.OpenFile(filepath.Join(dir, AcknowledgedName), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	return &ackFile{file, acknowledged{epoch: epoch, boot: bootHash()}}, nil
}

// note writes the number of a commit. It ignores errors: an older note claims less.
func (f *ackFile) note(commit uint64) {
	f.last.commit = commit
	_, _ = f.WriteAt(f.last.encode(), 0)
}

func (a acknowledged) encode() []byte {
	text := binary.BigEndian.AppendUint32(make([]byte, 0, acknowledgedSize), acknowledgedMagic)
	text = append(text, 0, 0, 0, 0)
	for _, number := range []uint64{a.epoch, a.commit, a.boot} {
		text = binary.BigEndian.AppendUint64(text, number)
	}
	binary.BigEndian.PutUint32(text[4:], crc32.Checksum(text[8:], crcTable))
	return text
}

// readAcknowledged returns the note. ok is false if it is missing or damaged.
func readAcknowledged(dir string) (a acknowledged, ok bool, err error) {
	text, err := os.ReadFile(filepath.Join(dir, AcknowledgedName))
	if errors.Is(err, fs.ErrNotExist) {
		return a, false, nil
	}
	if err != nil {
		return a, false, err
	}
	if len(text) != acknowledgedSize || binary.BigEndian.Uint32(text) != acknowledgedMagic ||
		crc32.Checksum(text[8:], crcTable) != binary.BigEndian.Uint32(text[4:]) {
		return a, false, nil
	}
	return acknowledged{epoch: binary.BigEndian.Uint64(text[8:]), commit: binary.BigEndian.Uint64(text[16:]),
		boot: binary.BigEndian.Uint64(text[24:])}, true, nil
}

// bootHash identifies the boot of the system. It is 0 if the system does not tell.
func bootHash() uint64 {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return 0
	}
	return xxhash.Sum64String(strings.TrimSpace(string(id)))
}
