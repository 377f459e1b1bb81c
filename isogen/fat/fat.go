// Package fat reads the files of FAT file systems in memory, such as the EFI system partition of a
// live ISO (Microsoft Extensible Firmware Initiative FAT32 File System Specification 1.03). It
// finds files by their short names.
package fat

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
)

// ErrFormat is the error of data that is no FAT file system, or a damaged one.
var ErrFormat = errors.New("the data is not a FAT file system, or is damaged")

// limits of a file system; those of EFI system partitions are far lower.
const (
	maxEntries = 4096 // files and directories
	maxDepth   = 16
)

// FS is a FAT file system.
type FS struct {
	data        []byte
	bits        int // of an entry of the table: 12, 16 or 32
	clusterSize int
	table       []byte // file allocation table
	first       int    // offset of the cluster 2
	clusters    int
	root        []byte // root directory of FAT12 and FAT16; nil for FAT32
	rootCluster int    // of FAT32
	budget      int    // bytes that may still be read; files that share clusters would need more
}

// Open opens a file system. It keeps the data.
func Open(data []byte) (*FS, error) {
	const bootSector = 512
	if len(data) < bootSector || data[510] != 0x55 || data[511] != 0xaa {
		return nil, ErrFormat
	}
	word := func(at int) int { return int(binary.LittleEndian.Uint16(data[at:])) }
	double := func(at int) int { return int(binary.LittleEndian.Uint32(data[at:])) }
	sector, perCluster, reserved, tables, rootEntries := word(11), int(data[13]), word(14), int(data[16]), word(17)
	total, tableSectors := word(19), word(22)
	if total == 0 {
		total = double(32)
	}
	wide := tableSectors == 0
	if wide {
		tableSectors = double(36)
	}
	if sector < 512 || sector > 4096 || sector&(sector-1) != 0 || perCluster == 0 || tables == 0 || reserved == 0 {
		return nil, ErrFormat
	}
	rootAt := (reserved + tables*tableSectors) * sector
	rootSize := (rootEntries*entrySize + sector - 1) / sector * sector
	f := &FS{data: data, clusterSize: perCluster * sector, first: rootAt + rootSize}
	tableAt, tableSize := reserved*sector, tableSectors*sector
	if tableSize <= 0 || f.first <= 0 || f.first > len(data) || tableAt+tableSize > len(data) {
		return nil, ErrFormat
	}
	f.table = data[tableAt : tableAt+tableSize]
	f.clusters = (min(total*sector, len(data)) - f.first) / f.clusterSize
	switch { // the number of clusters alone decides (section 3.5)
	case wide:
		f.bits, f.rootCluster = 32, double(44)
	case f.clusters < 4085:
		f.bits, f.root = 12, data[rootAt:f.first]
	default:
		f.bits, f.root = 16, data[rootAt:f.first]
	}
	return f, nil
}

// Fields of a directory entry.
const (
	entrySize         = 32
	attributesAt      = 11
	highClusterAt     = 20
	lowClusterAt      = 26
	sizeAt            = 28
	attributeVolume   = 0x08 // also set in the entries of long names
	attributeFolder   = 0x10
	entryDeleted      = 0xe5
	endOfChain        = 0x0ffffff8
	clusterMask       = 0x0fffffff
	firstCluster      = 2
	nameSize, extSize = 8, 3
)

// Files returns the contents of all files by their paths in lower case, such as
// efi/boot/bootx64.efi.
func (f *FS) Files() (map[string][]byte, error) {
	root := f.root
	f.budget = len(f.data)
	if root == nil {
		var err error
		if root, err = f.chain(f.rootCluster, -1); err != nil {
			return nil, err
		}
	}
	files, entries := map[string][]byte{}, 0
	return files, f.walk(root, "", 0, &entries, files)
}

func (f *FS) walk(directory []byte, path string, depth int, entries *int, files map[string][]byte) error {
	if depth > maxDepth {
		return fmt.Errorf("%w: the directory %s is too deep", ErrFormat, path)
	}
	for ; len(directory) >= entrySize && directory[0] != 0; directory = directory[entrySize:] {
		entry := directory[:entrySize]
		if entry[0] == entryDeleted || entry[attributesAt]&attributeVolume != 0 || entry[0] == '.' {
			continue
		}
		if *entries++; *entries > maxEntries {
			return fmt.Errorf("%w: it has more than %d files", ErrFormat, maxEntries)
		}
		name := path + shortName(entry)
		cluster := int(binary.LittleEndian.Uint16(entry[highClusterAt:]))<<16 |
			int(binary.LittleEndian.Uint16(entry[lowClusterAt:]))
		if entry[attributesAt]&attributeFolder != 0 {
			content, err := f.chain(cluster, -1)
			if err != nil {
				return err
			}
			if err := f.walk(content, name+"/", depth+1, entries, files); err != nil {
				return err
			}
			continue
		}
		content, err := f.chain(cluster, int(binary.LittleEndian.Uint32(entry[sizeAt:])))
		if err != nil {
			return fmt.Errorf("read %s: %w", name, err)
		}
		files[name] = content
	}
	return nil
}

func shortName(entry []byte) string {
	name := strings.TrimRight(string(entry[:nameSize]), " ")
	if extension := strings.TrimRight(string(entry[nameSize:nameSize+extSize]), " "); extension != "" {
		name += "." + extension
	}
	return strings.ToLower(name)
}

// chain returns the content of a chain of clusters, up to a size; -1 means the whole chain.
func (f *FS) chain(cluster, size int) ([]byte, error) {
	var content []byte
	for steps := 0; size != 0 && (size < 0 || len(content) < size); steps++ {
		if size < 0 && cluster >= f.endOfChain() {
			return content, nil
		}
		at := f.first + (cluster-firstCluster)*f.clusterSize
		if steps > f.clusters || cluster < firstCluster || cluster >= firstCluster+f.clusters ||
			at+f.clusterSize > len(f.data) || f.budget < f.clusterSize {
			return nil, ErrFormat
		}
		f.budget -= f.clusterSize
		content = append(content, f.data[at:at+f.clusterSize]...)
		var err error
		if cluster, err = f.next(cluster); err != nil {
			return nil, err
		}
	}
	if size >= 0 {
		content = content[:size]
	}
	return content, nil
}

func (f *FS) endOfChain() int { return endOfChain & (1<<min(f.bits, 28) - 1) }

// next returns the cluster after another one.
func (f *FS) next(cluster int) (int, error) {
	at, size := cluster*f.bits/8, (f.bits+7)/8
	if at+size > len(f.table) {
		return 0, ErrFormat
	}
	switch f.bits {
	case 12:
		pair := int(binary.LittleEndian.Uint16(f.table[at:]))
		if cluster%2 == 1 {
			return pair >> 4, nil
		}
		return pair & 0xfff, nil
	case 16:
		return int(binary.LittleEndian.Uint16(f.table[at:])), nil
	}
	return int(binary.LittleEndian.Uint32(f.table[at:])) & clusterMask, nil
}
