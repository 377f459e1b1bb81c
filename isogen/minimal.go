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

// NoMinimalError says why no minimal image can be made of a base.
type NoMinimalError struct {
	Reason string // half a sentence, as "it has no table for one"
	Remedy string // what to do, half a sentence
}

func (e *NoMinimalError) Error() string {
	return fmt.Sprintf("there is no minimal image of this base ISO: %s: %s", e.Reason, e.Remedy)
}

// tablePath is where a live ISO keeps the table for its minimal ISO.
const tablePath = "coreos/miniso.dat"

// TablePath returns where the table for the minimal ISO of the base at path is kept if the base
// itself has none: beside it.
func TablePath(path string) string { return path + ".miniso" }

// Kernel arguments that make the difference between a live system that has its root file system on
// its medium, found by the volume identifier, and one that fetches it.
const (
	liveArgument   = "coreos.liveiso="
	rootfsArgument = "coreos.live.rootfs_url="
)

// minimal is the minimal ISO of a base, before a payload and kernel arguments are put into it.
type minimal struct {
	table       *table
	where       string // the table was found
	layout      []extent
	iso         *Base    // its index: tree, embed area, areas for kernel arguments; it is no file
	description []extent // what to lay over its description of kernel arguments
}

// minimalOnce finds out about a base's minimal ISO when it is first asked for: unpacking the table
// takes longer than opening a base should.
type minimalOnce struct {
	sync.Mutex
	done  bool
	found *minimal
	err   error
}

// Minimal returns the image without a root file system, which the live system fetches from
// rootfsURL instead (http, https or tftp): 100 to 150 MB in place of more than a gigabyte. It boots
// wherever the base does. The payload and the arguments are as for Full, and so are the errors;
// besides, a *NoMinimalError says that the base does not allow it and what can be done.
//
// It is put together by the table in the base's coreos/miniso.dat, or the one that MakeTable left
// beside the base.
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

// rootfsKernelArgument tells the live system where to fetch its root file system. Quotes are only
// put around an URL that GRUB would take apart, since isolinux hands them on to the kernel.
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

// VerifyMinimal reads the base's minimal ISO, as it is before anything is put into it, and compares
// its SHA-256 with the table's. The error is a *TableError if they differ: then the base was
// changed after it was published, or its copy is damaged.
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

// MakeTable makes the table for the base's minimal ISO and keeps it beside the base, at TablePath,
// where every later Open finds it. It takes about a second; where a table is, nothing is done.
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

// writeFile writes a file that is either there completely or not at all.
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

// minimalISO finds the table and indexes what it describes. Its errors, too, are found but once.
func (b *Base) minimalISO() (*minimal, error) {
	b.minimal.Lock()
	defer b.minimal.Unlock()
	if !b.minimal.done {
		b.minimal.found, b.minimal.err = b.findMinimal()
		b.minimal.done = true
	}
	return b.minimal.found, b.minimal.err
}

// cannotMinimal is why there is no minimal image, "" if there is.
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

// allowsMinimal returns a *NoMinimalError if no table could help.
func (b *Base) allowsMinimal() error {
	if e := b.volume.Find(rootfsPath); e == nil || e.Dir || e.Size == 0 {
		return &NoMinimalError{"it has no root file system itself", "use the live ISO of a CoreOS release"}
	}
	if b.kargs == nil {
		return &NoMinimalError{"it has no areas for kernel arguments, which would have to say where the root file " +
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
		return nil, &NoMinimalError{(&TableError{where, "what it describes is no live ISO: " + err.Error()}).Error(),
			"download the base ISO again"}
	}
	return m, nil
}

// findTable reads the table in the base, or else the one beside it.
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
		return nil, "", &NoMinimalError{err.Error(), "remove that file and have the table made anew"}
	}
	return t, where, nil
}

// tableBeside reads a table that MakeTable left; one that was made for another base is refused.
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

// indexMinimal looks at the minimal ISO in r as Open does at a base. Its command line does not name
// the medium any more.
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

func withoutLive(line string) string {
	var kept []string
	for _, argument := range strings.Fields(line) {
		if !strings.HasPrefix(argument, liveArgument) {
			kept = append(kept, argument)
		}
	}
	return strings.Join(kept, " ")
}

// shortenedDefault rewrites the default command line in coreos/kargs.json, to which
// coreos-installer goes back when arguments are reset: with the medium's name in it, the live
// system would wait for that. The file keeps its length.
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
