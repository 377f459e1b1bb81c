package isogen

import (
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"sync"

	"landfall/isogen/fat"
)

// maxPartition is the size of the largest EFI system partition that is read, in bytes. Those of
// CoreOS have about 10 MB.
const maxPartition = 64 << 20

const partitionPath = "images/efiboot.img"

// BootLoaders are the boot loaders of UEFI for network boot, as the base contains them: signed for
// Secure Boot.
type BootLoaders struct {
	First string            // name of the loader that the firmware starts: shim, or GRUB without one
	Files map[string][]byte // by name, such as shimx64.efi and grubx64.efi
}

// efiNames maps an architecture to the ending of the names of its boot loaders (UEFI specification
// 2.10, 3.5.1.1).
func efiNames() map[string]string { return map[string]string{X86_64: "x64", AArch64: "aa64"} }

// loadersOnce are the boot loaders of a base. They are read at their first use. An error is not
// kept, because a medium may fail for a while.
type loadersOnce struct {
	sync.Mutex
	found *BootLoaders
}

// BootLoaders returns the boot loaders of UEFI in the base.
func (b *Base) BootLoaders() (*BootLoaders, error) {
	b.loaders.Lock()
	defer b.loaders.Unlock()
	if b.loaders.found == nil {
		loaders, err := b.readLoaders()
		if err != nil {
			return nil, err
		}
		b.loaders.found = loaders
	}
	return b.loaders.found, nil
}

func (b *Base) readLoaders() (*BootLoaders, error) {
	suffix, ok := efiNames()[b.architecture]
	if !ok {
		return nil, fmt.Errorf("the base ISO %s has no boot loaders of UEFI for %s", b.path, b.architecture)
	}
	entry, err := b.networkFile(partitionPath)
	if err != nil {
		return nil, err
	}
	if entry.Size > maxPartition {
		return nil, fmt.Errorf("%s of the base ISO %s has %d bytes, more than %d", partitionPath, b.path, entry.Size,
			maxPartition)
	}
	data := make([]byte, entry.Size)
	if _, err := io.ReadFull(io.NewSectionReader(b.file, entry.Offset, entry.Size), data); err != nil {
		return nil, b.readError(err)
	}
	partition, err := fat.Open(data)
	if err != nil {
		return nil, fmt.Errorf("read %s of the base ISO %s: %w", partitionPath, b.path, err)
	}
	files, err := partition.Files()
	if err != nil {
		return nil, fmt.Errorf("read %s of the base ISO %s: %w", partitionPath, b.path, err)
	}
	loaders := loadersIn(files, suffix)
	if loaders == nil {
		return nil, &NetworkBootError{b.path, partitionPath + " with shim" + suffix + ".efi"}
	}
	return loaders, nil
}

// loadersIn returns the boot loaders among the files of an EFI system partition, or nil. If several
// directories have one, as EFI/BOOT and EFI/redhat, it is that of the last in alphabetical order.
func loadersIn(files map[string][]byte, suffix string) *BootLoaders {
	shim, grub, removable := "shim"+suffix+".efi", "grub"+suffix+".efi", "boot"+suffix+".efi"
	loaders := &BootLoaders{Files: map[string][]byte{}}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		switch base := path.Base(name); base {
		case shim, grub, removable, "mm" + suffix + ".efi":
			loaders.Files[base] = files[name]
		}
	}
	for _, name := range []string{shim, removable, grub} {
		if loaders.Files[name] != nil {
			loaders.First = name
			return loaders
		}
	}
	return nil
}
