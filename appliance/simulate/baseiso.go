package simulate

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"landfall/isogen"
	"landfall/isogen/skeleton"
)

// BaseISO describes a generated live ISO. Zero fields select defaults.
type BaseISO struct {
	VolumeID     string // such as "rhcos-9.6.20250523-0", at most 32 characters
	Architecture string // "x86_64", "aarch64", "ppc64le" or "s390x"
	RootFSSize   int    // number of random bytes in place of the live system
}

// WriteBaseISO writes an ISO with the structure of a CoreOS live ISO. The ISO cannot boot;
// simulated sites install from it. WriteBaseISO returns the file's SHA-256 in hex. Equal
// descriptions result in equal files. The file gets its name after it is complete.
func WriteBaseISO(path string, iso BaseISO) (sum string, err error) {
	f, err := os.CreateTemp(filepath.Dir(path), ".base-*.iso")
	if err != nil {
		return "", fmt.Errorf("write the base ISO %s: %w", path, err)
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("write the base ISO %s: %w", path, err)
			if e := os.Remove(f.Name()); e != nil {
				err = fmt.Errorf("%w; the incomplete file could not be removed: %w", err, e)
			}
		}
	}()
	h := sha256.New()
	err = skeleton.Write(io.MultiWriter(f, h), skeleton.ISO{VolumeID: iso.VolumeID, Architecture: iso.Architecture,
		RootFSSize: iso.RootFSSize, Table: isogen.MakeTable})
	if e := f.Close(); err == nil {
		err = e
	}
	if err != nil {
		return "", err
	}
	if err := os.Chmod(f.Name(), 0o644); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), os.Rename(f.Name(), path)
}
