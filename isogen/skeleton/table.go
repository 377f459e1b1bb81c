package skeleton

import (
	"context"
	"fmt"
	"io"
	"slices"
	"sort"

	"landfall/isogen/iso9660"
)

const tableFile = "coreos/miniso.dat"

// addTable adds the table for the minimal ISO. The table describes the finished image, in which the
// space for the table is still empty.
func (iso ISO) addTable(img iso9660.Image) error {
	at := slices.IndexFunc(img.Files, func(f iso9660.File) bool { return f.Path == tableFile })
	if iso.Table == nil || at < 0 {
		return nil
	}
	var written pieces
	if err := iso9660.Write(&written, img); err != nil {
		return err
	}
	if _, err := written.Write(make([]byte, iso.Trailing)); err != nil {
		return err
	}
	table, err := iso.Table(context.Background(), &written, written.size)
	if err != nil {
		return err
	}
	if len(table) > tableSize {
		return fmt.Errorf("the table for the minimal ISO has %d bytes, but its space has %d", len(table), tableSize)
	}
	img.Files[at].Data = append(table, make([]byte, tableSize-len(table))...)
	return nil
}

// pieces is a written image, stored as the slices that were written. It does not copy them.
type pieces struct {
	list []piece
	size int64
}

type piece struct {
	at   int64
	data []byte
}

func (p *pieces) Write(b []byte) (int, error) {
	if len(b) > 0 {
		p.list = append(p.list, piece{p.size, b})
		p.size += int64(len(b))
	}
	return len(b), nil
}

func (p *pieces) ReadAt(b []byte, off int64) (n int, err error) {
	i := sort.Search(len(p.list), func(i int) bool { return p.list[i].at+int64(len(p.list[i].data)) > off })
	for ; n < len(b) && i < len(p.list); i++ {
		n += copy(b[n:], p.list[i].data[off+int64(n)-p.list[i].at:])
	}
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}
