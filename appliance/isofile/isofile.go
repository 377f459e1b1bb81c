// Package isofile describes, compares and extracts ISO files: live ISOs, discovery images and
// config images.
package isofile

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"landfall/ignition"
	"landfall/isogen"
	"landfall/isogen/iso9660"
)

// Inspection describes an ISO.
type Inspection struct {
	File   string `json:"file"`
	SHA256 string `json:"sha256,omitempty"`
	*isogen.Info
	Problem   string     `json:"problem,omitempty"`    // reason why the ISO cannot be a base ISO
	RootfsURL string     `json:"rootfs_url,omitempty"` // from which a minimal image fetches its root file system
	Kargs     string     `json:"command_line"`         // of the kernel; "" if unknown
	Embedded  *Embedding `json:"embedded"`             // null if nothing is embedded
}

// Embedding describes the content that was embedded into an ISO.
type Embedding struct {
	Maker       string        `json:"maker,omitempty"`
	PackedBytes int64         `json:"packed_bytes"`
	Relocated   bool          `json:"relocated"`
	Ignition    *EmbeddedFile `json:"ignition"`
	Version     string        `json:"ignition_version,omitempty"`
	// URL of the Assisted Installer in the agent's config
	Service  string         `json:"service_url,omitempty"`
	InfraEnv string         `json:"infra_env_id,omitempty"`
	Files    []EmbeddedFile `json:"files,omitempty"`
}

// EmbeddedFile describes an embedded file.
type EmbeddedFile struct {
	Path   string `json:"path"`
	Mode   string `json:"mode,omitempty"`
	Bytes  int    `json:"bytes"`
	SHA256 string `json:"sha256"`
}

// File is an open ISO.
type File struct {
	name     string // its path or "standard input", for messages
	file     *os.File
	size     int64
	info     *isogen.Info
	problem  string // reason why the ISO cannot be a base ISO; it may be a config image
	volume   *iso9660.Volume
	embedded *isogen.Embedding
}

// Open opens the ISO at path. name is its name in messages.
func Open(path, name string) (_ *File, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open the ISO: %w", err)
	}
	i := &File{name: name, file: file}
	defer func() {
		if err != nil {
			err = errors.Join(err, file.Close())
		}
	}()
	if i.size, err = file.Seek(0, io.SeekEnd); err != nil { // Stat does not return the size of a disk
		return nil, fmt.Errorf("open the ISO: %w", err)
	}
	if i.volume, err = iso9660.Open(file, i.size); err != nil {
		return nil, fmt.Errorf("%s is not a readable ISO: %w", name, err)
	}
	i.embedded, err = isogen.Embedded(file, i.size)
	if err != nil && !errors.Is(err, isogen.ErrNoPayload) && !errors.Is(err, isogen.ErrNoEmbedArea) {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	base, err := isogen.Open(path)
	if err != nil {
		i.info, i.problem = &isogen.Info{VolumeID: i.volume.ID, Size: i.size}, err.Error()
		return i, nil
	}
	info := base.Info()
	i.info = &info
	return i, base.Close()
}

// Close closes the file.
func (i *File) Close() error {
	return i.file.Close()
}

// Size returns the size of the ISO in bytes.
func (i *File) Size() int64 { return i.size }

// Digest returns the SHA-256 of the whole file. It also writes the bytes that it reads to progress.
func (i *File) Digest(ctx context.Context, progress io.Writer) (string, error) {
	return sumOf(io.TeeReader(&reader{ctx, io.NewSectionReader(i.file, 0, i.size)}, progress))
}

func sumOf(r io.Reader) (string, error) {
	sum := sha256.New()
	if _, err := io.CopyBuffer(sum, r, make([]byte, 1<<20)); err != nil {
		return "", fmt.Errorf("read the ISO: %w", err)
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// Inspect describes the ISO without its SHA-256, which takes about a second per gigabyte.
func (i *File) Inspect() *Inspection {
	report := &Inspection{File: i.name, Info: i.info, Problem: i.problem}
	e := i.embedded
	if e == nil {
		return report
	}
	report.Kargs = e.KernelArguments
	for argument := range strings.FieldsSeq(e.KernelArguments) {
		if url, ok := strings.CutPrefix(argument, "coreos.live.rootfs_url="); ok {
			report.RootfsURL = strings.Trim(url, `"`)
		}
	}
	if e.Ignition == nil && len(e.Files) == 0 {
		return report
	}
	report.Embedded = &Embedding{Maker: e.Maker, PackedBytes: e.Packed, Relocated: e.Relocated}
	if e.Ignition != nil {
		file := described("config.ign", 0, e.Ignition)
		report.Embedded.Ignition = &file
		if version, err := ignition.Version(e.Ignition); err == nil {
			report.Embedded.Version = version
		}
		if agent, err := ignition.ReadDiscovery(e.Ignition); err == nil {
			report.Embedded.Service, report.Embedded.InfraEnv = agent.ServiceURL, agent.InfraEnvID
		}
	}
	for _, file := range e.Files {
		report.Embedded.Files = append(report.Embedded.Files, described(file.Path, file.Mode, file.Data))
	}
	return report
}

func described(path string, mode fs.FileMode, data []byte) EmbeddedFile {
	sum := sha256.Sum256(data)
	file := EmbeddedFile{Path: path, Bytes: len(data), SHA256: hex.EncodeToString(sum[:])}
	if mode != 0 {
		file.Mode = fmt.Sprintf("%04o", mode.Perm())
	}
	return file
}

// bootFiles are the paths of the boot files in an ISO, the more common path first.
func bootFiles(name string) []string {
	return map[string][]string{
		"kernel": {"images/pxeboot/vmlinuz", "images/pxeboot/kernel.img"},
		"initrd": {"images/pxeboot/initrd.img"},
		"rootfs": {"images/pxeboot/rootfs.img"},
	}[name]
}

// Config returns the embedded Ignition config.
func (i *File) Config() ([]byte, error) {
	if i.embedded == nil || i.embedded.Ignition == nil {
		return nil, fmt.Errorf("%s: %w", i.name, isogen.ErrNoPayload)
	}
	return i.embedded.Ignition, nil
}

// KernelArguments returns the kernel's command line.
func (i *File) KernelArguments() (string, error) {
	if i.embedded == nil || i.embedded.KernelArguments == "" {
		return "", fmt.Errorf("%s has no embed areas for kernel arguments", i.name)
	}
	return i.embedded.KernelArguments, nil
}

// BootFile returns the content and the size of the kernel, the initrd or the rootfs. The reader
// fails after the context has ended.
func (i *File) BootFile(ctx context.Context, name string) (io.Reader, int64, error) {
	for _, path := range bootFiles(name) {
		if entry := i.volume.Find(path); entry != nil && !entry.Dir && entry.Size > 0 {
			return &reader{ctx, io.NewSectionReader(i.file, entry.Offset, entry.Size)}, entry.Size, nil
		}
	}
	return nil, 0, fmt.Errorf("%s has no %s", i.name, name)
}

// reader is a reader that fails after its context has ended.
type reader struct {
	ctx context.Context
	r   io.Reader
}

func (r *reader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.r.Read(p)
}

// Extract writes the embedded content into a directory and the paths of the files to out.
func (i *File) Extract(dir string, out io.Writer) error {
	if i.embedded == nil || i.embedded.Ignition == nil && len(i.embedded.Files) == 0 {
		return fmt.Errorf("%s: %w", i.name, isogen.ErrNoPayload)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("create the directory to extract to: %w", err)
	}
	root, err := os.OpenRoot(dir) // the paths come from the ISO and are not trusted
	if err != nil {
		return err
	}
	write := func(path string, mode fs.FileMode, data []byte) error {
		path = filepath.FromSlash(path)
		if err := root.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return fmt.Errorf("extract %s: %w", path, err)
		}
		if err := root.WriteFile(path, data, mode); err != nil {
			return fmt.Errorf("extract %s: %w", path, err)
		}
		_, err := fmt.Fprintln(out, filepath.Join(dir, path))
		return err
	}
	if i.embedded.Ignition != nil {
		err = write("config.ign", 0o600, i.embedded.Ignition)
	}
	if i.embedded.KernelArguments != "" {
		err = errors.Join(err, write("kargs", 0o644, []byte(i.embedded.KernelArguments+"\n")))
	}
	for _, file := range i.embedded.Files {
		err = errors.Join(err, write("files/"+file.Path, file.Mode.Perm()|0o600, file.Data))
	}
	return errors.Join(err, root.Close())
}
