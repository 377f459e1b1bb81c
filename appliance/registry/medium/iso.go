package medium

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"path"

	"landfall/isogen/iso9660"
)

// listISO lists an ISO file, such as the data.iso of the appliance ISO, whose root is the root of a
// registry. The files of an ISO are contiguous.
func listISO(ctx context.Context, location Location, open Opener) (*listing, error) {
	file, err := open(location.Path)
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	l := &listing{files: []string{""}, close: func() { _ = file.Close() }, // it was only read
		readAt: func(_ int, p []byte, offset int64) error {
			_, err := file.ReadAt(p, offset)
			return err
		}}
	volume, err := iso9660.Open(file, info.Size())
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		l.close()
		return nil, fmt.Errorf("read the ISO file %s: %w", location.Path, err)
	}
	headers := sha256.New()
	for name, file := range volume.Files() {
		fmt.Fprintf(headers, "%s\n%d\n%d\n", name, file.Size, file.Offset)
		if end := file.Offset + file.Size; end > info.Size() {
			if len(l.problems) == 0 {
				l.problems = append(l.problems, Problem{Cut: true, Text: fmt.Sprintf("%s is cut off at byte %d, "+
					"before the end of %s. Copy it again; the files before it are served", path.Base(location.Path),
					info.Size(), name)})
			}
			continue
		}
		l.entries = append(l.entries, entry{name: cleanName(name), modified: info.ModTime(),
			extent: Extent{Offset: file.Offset, Size: file.Size}})
	}
	l.identity = hex.EncodeToString(headers.Sum(nil))
	return l, nil
}
