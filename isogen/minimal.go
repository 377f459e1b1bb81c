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
	"time"

	"landfall/isogen/iso9660"
)

// NoMinimalError reports why no minimal image can be generated for a base.
type NoMinimalError struct {
	Reason string // a clause such as "the ISO has no root file system"
	Remedy string // a clause with the advice
}

func (e *NoMinimalError) Error() string {
	return fmt.Sprintf("the base ISO has no minimal image: %s: %s", e.Reason, e.Remedy)
}

// tablePath is the path of the table for the minimal ISO in a live ISO.
const tablePath = "coreos/miniso.dat"

// TablePath returns the path of the file, next to a base, with the table for its minimal ISO. The
// file is used for a base that does not contain a table.
func TablePath(path string) string { return path + ".miniso" }

// Kernel arguments that select the root file system of a live system: the volume identifier of a
// medium, or a URL.
const (
	liveArgument   = "coreos.liveiso="
	rootfsArgument = "coreos.live.rootfs_url="
)

// minimal is the minimal ISO of a base, without a payload and without edited kernel arguments.
type minimal struct {
	table  *table
	where  string // path of the table
	layout []extent
	// index of the tree, the embed area and the areas for kernel arguments; the index has no file
	iso         *Base
	description []extent // patches of the description of kernel arguments
}

// minimalOnce is the minimal ISO of a base. It is indexed at its first use, because decompressing
// the table would make Open slow.
type minimalOnce struct {
	sync.Mutex
	done  bool
	again time.Time // before this time, a failed read is not repeated
	found *minimal
	err   error
}

// Minimal returns the image without a root file system. The live system downloads the root file
// system from rootfsURL (http, https or tftp). The image has 100 to 150 MB and boots by every
// method by which the base boots. Payload, arguments and errors are those of Full. In addition, a
// *NoMinimalError reports that the base has no minimal image.
//
// The layout comes from the table in coreos/miniso.dat of the base, or from the table that
// MakeTable wrote next to the base.
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
// the URL only if GRUB would split it, because isolinux passes quotes to the kernel.
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
// the SHA-256 in the table. If they differ, it returns a *TableError: the base was changed after it
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
// Open finds it. It takes about a second. It does nothing if the base has a table.
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
		return fmt.Errorf("cannot write the table for the minimal ISO next to the base ISO: %w", err)
	}
	b.minimal.Lock()
	b.minimal.done, b.minimal.again = false, time.Time{}
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

// minimalISO returns the minimal ISO of the base, or the error of the first attempt to index it. It
// tries again a minute after a failed read, because a medium may fail for a while. Each read of a
// damaged sector takes long, and lists of images wait for it.
func (b *Base) minimalISO() (*minimal, error) {
	b.minimal.Lock()
	defer b.minimal.Unlock()
	if !b.minimal.done && !time.Now().Before(b.minimal.again) {
		b.minimal.found, b.minimal.err = b.findMinimal()
		if b.minimal.done = !isReadFailure(b.minimal.err); !b.minimal.done {
			b.minimal.again = time.Now().Add(time.Minute)
		}
	}
	return b.minimal.found, b.minimal.err
}

// unreadTableError reports a table that could not be read.
type unreadTableError struct{ *NoMinimalError }

// Unwrap returns the error for callers.
func (e unreadTableError) Unwrap() error { return e.NoMinimalError }

// isReadFailure reports whether an error is one of the disk.
func isReadFailure(err error) bool {
	var base *BaseError
	var table unreadTableError
	return errors.As(err, &base) || errors.As(err, &table)
}

// cannotMinimal returns the reason why the base has no minimal image, or "".
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

// AllowsMinimal reports whether the base can have a minimal image, if it has a table.
func (b *Base) AllowsMinimal() bool { return b.allowsMinimal() == nil }

// allowsMinimal returns a *NoMinimalError if the base cannot have a minimal image, with any table.
func (b *Base) allowsMinimal() error {
	if e := b.volume.Find(rootfsPath); e == nil || e.Dir || e.Size == 0 {
		return &NoMinimalError{"the ISO has no root file system", "use the live ISO of a CoreOS release"}
	}
	if b.kargs == nil {
		return &NoMinimalError{"the ISO has no areas for kernel arguments, and a minimal image needs them for the " +
			"URL of the root file system", "use a live ISO of OpenShift 4.8 or later, or boot the full image"}
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
	if err = errors.Join(err, r.Close()); isReadFailure(err) {
		return nil, err
	}
	if err != nil {
		return nil, &NoMinimalError{(&TableError{where, "the result is not a live ISO: " + err.Error()}).Error(),
			"download the base ISO again"}
	}
	return m, nil
}

// findTable reads the table in the base. If that fails, it reads the table next to the base.
func (b *Base) findTable() (t *table, where string, err error) {
	inside := errors.New("the ISO has no " + tablePath)
	if e := b.volume.Find(tablePath); e != nil && !e.Dir {
		data := make([]byte, min(e.Size, maxTable))
		if n, err := b.file.ReadAt(data, e.Offset); n < len(data) {
			return nil, "", b.readError(err)
		}
		if len(bytes.Trim(data, "\x00")) == 0 {
			inside = errors.New("the file " + tablePath + " is empty")
		} else if t, err := parseTable(data, b.size); err == nil {
			return t, tablePath, nil
		} else {
			inside = &TableError{tablePath, err.Error()}
		}
	}
	where = TablePath(b.path)
	t, err = b.tableBeside(where)
	if err == nil || isReadFailure(err) {
		return t, where, err
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, "", &NoMinimalError{inside.Error(),
			"import the base ISO with a table made for it, or use a full image"}
	}
	damaged := &NoMinimalError{err.Error(), "remove that file and generate the table again"}
	var unread *fs.PathError
	if errors.As(err, &unread) {
		return nil, "", unreadTableError{damaged}
	}
	return nil, "", damaged
}

// tableBeside reads a table that MakeTable wrote. It returns an error if the table belongs to
// another base.
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
		return nil, &TableError{path, "the table was made for another base ISO"}
	}
	return t, nil
}

// indexMinimal indexes the minimal ISO in r, as Open indexes a base. It removes the medium from the
// default command line.
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
		return nil, errors.New("the ISO has no areas for kernel arguments")
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
// coreos/kargs.json. Otherwise coreos-installer would restore that default when arguments are
// reset, and the live system would wait for the medium. The length of the file does not change.
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
