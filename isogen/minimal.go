package isogen

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"landfall/isogen/iso9660"
)

// NoMinimalError reports why no minimal image of a base can be generated.
type NoMinimalError struct {
	Reason string // a clause such as "it has no table for one"
	Remedy string // a clause with the advice
}

func (e *NoMinimalError) Error() string {
	return fmt.Sprintf("there is no minimal image of this base ISO: %s: %s", e.Reason, e.Remedy)
}

// tablePath is the path of the table for the minimal ISO in a live ISO.
const tablePath = "coreos/miniso.dat"

// TablePath returns the path of the table for the minimal ISO of a base that does not contain one:
// a file beside the base at path.
func TablePath(path string) string { return path + ".miniso" }

// The kernel arguments that select the root file system of a live system: on the medium with a
// volume identifier, or from a URL.
const (
	liveArgument   = "coreos.liveiso="
	rootfsArgument = "coreos.live.rootfs_url="
)

// minimal is the minimal ISO of a base, before a payload and kernel arguments are put into it.
type minimal struct {
	table       *table
	where       string // the path of the table
	layout      []extent
	iso         *Base    // the index: tree, embed area, areas for kernel arguments; it has no file
	description []extent // patches of the description of kernel arguments
}

// minimalOnce is the minimal ISO of a base, indexed at the first use: decompressing the table would
// make Open slow.
type minimalOnce struct {
	sync.Mutex
	done  bool
	found *minimal
	err   error
}

// Minimal returns the image without a root file system. The live system fetches that from rootfsURL
// (http, https or tftp). The image has 100 to 150 MB instead of more than a gigabyte, and boots in
// every way in which the base boots. Payload, arguments and errors are those of Full. In addition,
// a *NoMinimalError reports that the base does not support it.
//
// The layout comes from the table in coreos/miniso.dat of the base, or from the table that
// MakeTable wrote beside the base.
func (b *Base) Minimal(p Payload, rootfsURL string, args ...KernelArgument) (*Image, error) {
	rootfs, err := rootfsKernelArgument(rootfsURL)
	if err != nil {
		return nil, err
	}
	m, err := b.minimalISO()
	if err != nil {
		return nil, err
	}
	patches, err := m.iso.edits(p, append([]KernelArgument{rootfs}, args...))
	if err != nil {
		return nil, err
	}
	layout := overlay(m.layout, append(patches, m.description...))
	return newImage(b, layout, m.iso.segments(layout)), nil
}

// rootfsKernelArgument returns the kernel argument with the URL of the root file system. It quotes
// only a URL that GRUB would split, because isolinux passes quotes on to the kernel.
func rootfsKernelArgument(rootfsURL string) (KernelArgument, error) {
	u, err := url.Parse(rootfsURL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" && u.Scheme != "tftp" ||
		strings.ContainsAny(rootfsURL, " \t\r\n\"'\\$`") {
		return KernelArgument{},
			fmt.Errorf("the live system cannot fetch its root file system from %q: give an http, https or tftp URL "+
				"without blanks and quotes", rootfsURL)
	}
	if strings.ContainsAny(rootfsURL, ";&|<>{}") {
		rootfsURL = `"` + rootfsURL + `"`
	}
	return KernelArgument{Append, rootfsArgument + rootfsURL}, nil
}

// VerifyMinimal reads the minimal ISO of the base, without a payload, and compares its SHA-256 with
// that in the table. It returns a *TableError if they differ: then the base was changed after it
// was published, or the file is damaged.
func (b *Base) VerifyMinimal(ctx context.Context) error {
	m, err := b.minimalISO()
	if err != nil {
		return err
	}
	have, err := newImage(b, m.layout, nil).SHA256(ctx)
	if err != nil {
		return err
	}
	if want := hex.EncodeToString(m.table.sum[:]); have != want {
		return &TableError{m.where,
			fmt.Sprintf("the minimal ISO would have the SHA-256 %s instead of %s: download the base ISO again",
				have, want)}
	}
	return nil
}

// MakeTable generates the table for the minimal ISO of the base and writes it to TablePath, where
// later calls of Open find it. It takes about a second. It does nothing if there is a table.
func (b *Base) MakeTable(ctx context.Context) error {
	if err := errors.Join(b.Intact(), b.allowsMinimal()); err != nil {
		return err
	}
	var none *NoMinimalError
	if _, err := b.minimalISO(); !errors.As(err, &none) {
		return err
	}
	data, err := MakeTable(ctx, b.file, b.size)
	if err != nil {
		return err
	}
	if err := writeFile(TablePath(b.path), data); err != nil {
		return fmt.Errorf("cannot keep the table for the minimal ISO beside the base ISO: %w", err)
	}
	b.minimal.Lock()
	b.minimal.done = false
	b.minimal.Unlock()
	_, err = b.minimalISO()
	return err
}

// writeFile writes a file atomically.
func writeFile(path string, data []byte) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	_, err = f.Write(data)
	if err = errors.Join(err, f.Chmod(0o644), f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// minimalISO returns the minimal ISO of the base, or the error of the first attempt to index it.
func (b *Base) minimalISO() (*minimal, error) {
	b.minimal.Lock()
	defer b.minimal.Unlock()
	if !b.minimal.done {
		b.minimal.found, b.minimal.err = b.findMinimal()
		b.minimal.done = true
	}
	return b.minimal.found, b.minimal.err
}

// cannotMinimal returns the reason why there is no minimal image; "" if there is one.
func (b *Base) cannotMinimal() string {
	_, err := b.minimalISO()
	var none *NoMinimalError
	switch {
	case err == nil:
		return ""
	case errors.As(err, &none):
		return none.Reason + ": " + none.Remedy
	}
	return err.Error()
}

// allowsMinimal returns a *NoMinimalError if the base has no minimal image even with a table.
func (b *Base) allowsMinimal() error {
	if e := b.volume.Find(rootfsPath); e == nil || e.Dir || e.Size == 0 {
		return &NoMinimalError{"it has no root file system itself", "use the live ISO of a CoreOS release"}
	}
	if b.kargs == nil {
		return &NoMinimalError{"it has no areas for kernel arguments, which would have to contain the URL of the " +
			"root file " +
			"system is", "use a live ISO of OpenShift 4.8 or later, or boot the full image"}
	}
	return nil
}

func (b *Base) findMinimal() (*minimal, error) {
	if err := b.allowsMinimal(); err != nil {
		return nil, err
	}
	t, where, err := b.findTable()
	if err != nil {
		return nil, err
	}
	m := &minimal{table: t, where: where, layout: t.layout()}
	r := newImage(b, m.layout, nil).NewReader()
	if m.iso, err = b.indexMinimal(t.size, r); err == nil {
		m.description, err = shortenedDefault(r, m.iso.volume)
	}
	if err = errors.Join(err, r.Close()); err != nil {
		return nil, &NoMinimalError{(&TableError{where, "the result is not a live ISO: " + err.Error()}).Error(),
			"download the base ISO again"}
	}
	return m, nil
}

// findTable reads the table in the base, or else the table beside it.
func (b *Base) findTable() (t *table, where string, err error) {
	inside := errors.New("it has no " + tablePath)
	if e := b.volume.Find(tablePath); e != nil && !e.Dir {
		data := make([]byte, min(e.Size, maxTable))
		if n, err := b.file.ReadAt(data, e.Offset); n < len(data) {
			return nil, "", b.readError(err)
		}
		if len(bytes.Trim(data, "\x00")) == 0 {
			inside = errors.New("its " + tablePath + " is empty")
		} else if t, err := parseTable(data, b.size); err == nil {
			return t, tablePath, nil
		} else {
			inside = &TableError{tablePath, err.Error()}
		}
	}
	where = TablePath(b.path)
	t, err = b.tableBeside(where)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, "", &NoMinimalError{inside.Error(),
			"import the base ISO with a table made for it, or use a full image"}
	}
	if err != nil {
		return nil, "", &NoMinimalError{err.Error(), "remove that file and generate the table again"}
	}
	return t, where, nil
}

// tableBeside reads a table that MakeTable wrote. It returns an error if the table is for another
// base.
func (b *Base) tableBeside(path string) (*table, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(f, maxTable+1))
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	t, err := parseTable(data, b.size)
	if err != nil {
		return nil, &TableError{path, err.Error()}
	}
	maker, err := tableMaker(b.file, b.size, b.volume)
	if err != nil {
		return nil, b.readError(err)
	}
	if t.maker != maker {
		return nil, &TableError{path, "it was made for another base ISO"}
	}
	return t, nil
}

// indexMinimal indexes the minimal ISO in r, as Open does for a base. It removes the medium from
// the default command line.
func (b *Base) indexMinimal(size int64, r *Reader) (*Base, error) {
	v, err := iso9660.Open(r, size)
	if err != nil {
		return nil, err
	}
	m := &Base{path: b.path, size: size, volume: v, volumeID: v.ID, architecture: b.architecture}
	if m.area, m.kargs, err = findAreas(r, v, size); err != nil {
		return nil, err
	}
	if m.kargs == nil {
		return nil, errors.New("it has no areas for kernel arguments")
	}
	m.kargs.standard = withoutLive(m.kargs.standard)
	return m, nil
}

// withoutLive removes the argument with the medium from a command line.
func withoutLive(line string) string {
	var kept []string
	for _, argument := range strings.Fields(line) {
		if !strings.HasPrefix(argument, liveArgument) {
			kept = append(kept, argument)
		}
	}
	return strings.Join(kept, " ")
}

// shortenedDefault returns the patch that removes the medium from the default command line in
// coreos/kargs.json. coreos-installer restores that default when arguments are reset, and a live
// system with the medium in its command line would wait for it. The file keeps its length.
func shortenedDefault(r io.ReaderAt, v *iso9660.Volume) ([]extent, error) {
	e := v.Find(kargsDescription)
	if e == nil || e.Dir || e.Size > maxDescription {
		return nil, nil
	}
	data := make([]byte, e.Size)
	if n, err := r.ReadAt(data, e.Offset); n < len(data) {
		return nil, fmt.Errorf("reading %s: %w", kargsDescription, err)
	}
	at := bytes.Index(data, []byte(liveArgument))
	length := 0
	if at > 0 {
		length = bytes.IndexAny(data[at:], " \"\\")
	}
	if length <= 0 {
		return nil, nil
	}
	end := at + length
	switch {
	case data[end] == ' ':
		end++
	case data[at-1] == ' ':
		at--
	}
	shorter := append(bytes.Clone(data[:at]), data[end:]...)
	return []extent{patch(e.Offset, append(shorter, bytes.Repeat([]byte(" "), end-at)...))}, nil
}
