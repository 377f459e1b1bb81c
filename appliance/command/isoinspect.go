package command

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
	"text/tabwriter"

	"github.com/spf13/cobra"

	"landfall/ignition"
	"landfall/isogen"
	"landfall/isogen/iso9660"
)

// inspection is what there is to say of an ISO.
type inspection struct {
	File   string `json:"file"`
	SHA256 string `json:"sha256,omitempty"`
	*isogen.Info
	Problem   string     `json:"problem,omitempty"`    // why no images can be made from it
	RootfsURL string     `json:"rootfs_url,omitempty"` // that a minimal image fetches its root file system from
	Kargs     string     `json:"command_line"`         // of the kernel, "" if the ISO does not tell
	Embedded  *embedding `json:"embedded"`             // null if there is nothing
}

// embedding is what was put into an ISO.
type embedding struct {
	Maker       string        `json:"maker,omitempty"`
	PackedBytes int64         `json:"packed_bytes"`
	Relocated   bool          `json:"relocated"`
	Ignition    *embeddedFile `json:"ignition"`
	Version     string        `json:"ignition_version,omitempty"`
	// of the Assisted Installer that the config's agent speaks with
	Service  string         `json:"service_url,omitempty"`
	InfraEnv string         `json:"infra_env_id,omitempty"`
	Files    []embeddedFile `json:"files,omitempty"`
}

type embeddedFile struct {
	Path   string `json:"path"`
	Mode   string `json:"mode,omitempty"`
	Bytes  int    `json:"bytes"`
	SHA256 string `json:"sha256"`
}

func newISOInspect() *cobra.Command {
	var asJSON, quick bool
	cmd := &cobra.Command{
		Use:   "inspect FILE|-",
		Short: "Say what an ISO is, what is embedded in it and by whom, and how it boots",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, arguments []string) error {
			iso, err := openISO(cmd, arguments[0])
			if err != nil {
				return err
			}
			defer iso.Close()
			report := iso.inspect()
			if !quick {
				if report.SHA256, err = iso.digest(cmd.Context(), cmd.ErrOrStderr()); err != nil {
					return err
				}
			}
			if asJSON {
				return writeJSON(cmd.OutOrStdout(), report)
			}
			return report.write(cmd.OutOrStdout())
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "write JSON")
	cmd.Flags().BoolVar(&quick, "quick", false,
		"leave the SHA-256 of the whole file out, which takes about a second a gigabyte")
	return cmd
}

// isoFile is an ISO on the disk with what is known of it.
type isoFile struct {
	name     string // for people: its path, or "standard input"
	file     *os.File
	spooled  string // path of a copy that is removed at the end, "" if there is none
	size     int64
	info     *isogen.Info
	problem  string // why no images can be made from it: it may be a config image
	volume   *iso9660.Volume
	embedded *isogen.Embedding
}

// openISO opens what a command names: a file, or "-" for standard input, which is kept in a
// temporary file because an ISO is not read from its beginning to its end.
func openISO(cmd *cobra.Command, name string) (*isoFile, error) {
	if name != "-" {
		return openISOFile(name, name)
	}
	path, err := spool(&contextReader{cmd.Context(), cmd.InOrStdin()})
	if err != nil {
		return nil, fmt.Errorf("keep the ISO from standard input in a temporary file: %w", err)
	}
	i, err := openISOFile(path, "standard input")
	if err != nil {
		return nil, errors.Join(err, os.Remove(path))
	}
	i.spooled = path
	return i, nil
}

func spool(r io.Reader) (path string, err error) {
	file, err := os.CreateTemp("", "landfall-*.iso")
	if err != nil {
		return "", err
	}
	_, err = io.Copy(file, r)
	if err = errors.Join(err, file.Close()); err != nil {
		return "", errors.Join(err, os.Remove(file.Name()))
	}
	return file.Name(), nil
}

func openISOFile(path, name string) (_ *isoFile, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open the ISO: %w", err)
	}
	i := &isoFile{name: name, file: file}
	defer func() {
		if err != nil {
			err = errors.Join(err, file.Close())
		}
	}()
	if i.size, err = file.Seek(0, io.SeekEnd); err != nil { // a disk has no size in its Stat
		return nil, fmt.Errorf("open the ISO: %w", err)
	}
	if i.volume, err = iso9660.Open(file, i.size); err != nil {
		return nil, fmt.Errorf("%s can't be read as an ISO: %w", name, err)
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

// Close closes the file, which was only read.
func (i *isoFile) Close() error {
	err := i.file.Close()
	if i.spooled != "" {
		err = errors.Join(err, os.Remove(i.spooled))
	}
	return err
}

func (i *isoFile) digest(ctx context.Context, errOut io.Writer) (string, error) {
	bar := newMeter(errOut, i.size, "reading")
	defer bar.end()
	return sumOf(io.TeeReader(&contextReader{ctx, io.NewSectionReader(i.file, 0, i.size)}, bar))
}

func sumOf(r io.Reader) (string, error) {
	sum := sha256.New()
	if _, err := io.CopyBuffer(sum, r, make([]byte, 1<<20)); err != nil {
		return "", fmt.Errorf("read the ISO: %w", err)
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

func (i *isoFile) inspect() *inspection {
	report := &inspection{File: i.name, Info: i.info, Problem: i.problem}
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
	report.Embedded = &embedding{Maker: e.Maker, PackedBytes: e.Packed, Relocated: e.Relocated}
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

func described(path string, mode fs.FileMode, data []byte) embeddedFile {
	sum := sha256.Sum256(data)
	file := embeddedFile{Path: path, Bytes: len(data), SHA256: hex.EncodeToString(sum[:])}
	if mode != 0 {
		file.Mode = fmt.Sprintf("%04o", mode.Perm())
	}
	return file
}

func (r *inspection) write(out io.Writer) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	row := func(name, format string, arguments ...any) {
		if text := fmt.Sprintf(format, arguments...); text != "" {
			fmt.Fprintf(table, "%s\t%s\n", name, text)
		}
	}
	row("file", "%s", r.File)
	row("volume", "%s", r.VolumeID)
	row("CoreOS", "%s", strings.TrimSpace(r.Version+" "+r.Architecture))
	row("size", "%d bytes", r.Size)
	row("sha256", "%s", r.SHA256)
	row("boots as", "%s", strings.Join(r.Boots, ", "))
	if r.Problem == "" {
		row("minimal", "%s", can(r.Minimal, r.MinimalReason))
		row("network", "%s", can(r.NetworkBoot, r.NetworkReason))
	}
	row("no base", "%s", r.Problem)
	if r.EmbedArea.Length > 0 {
		row("embed area", "%d bytes at %d %s", r.EmbedArea.Length, r.EmbedArea.Offset, r.EmbedArea.File)
	}
	row("kernel", "%s", r.Kargs)
	if r.Kargs != r.KernelArguments.Default {
		row("as published", "%s", r.KernelArguments.Default)
	}
	row("rootfs from", "%s", r.RootfsURL)
	r.Embedded.write(row)
	return table.Flush()
}

func can(can bool, reason string) string {
	if can {
		return "yes"
	}
	return "no: " + reason
}

func (e *embedding) write(row func(name, format string, arguments ...any)) {
	if e == nil {
		row("embedded", "nothing, it is as it was published")
		return
	}
	by, where := "", ""
	if e.Maker != "" {
		by = " by " + e.Maker
	}
	if e.Relocated {
		where = ", at the image's end"
	}
	row("embedded", "%d bytes packed%s%s", e.PackedBytes, by, where)
	if e.Ignition != nil {
		row("config", "Ignition %s, %d bytes, sha256 %s", orDash(e.Version), e.Ignition.Bytes, e.Ignition.SHA256)
	}
	if e.Service != "" {
		row("agent", "of %s, infra-env %s", e.Service, e.InfraEnv)
	}
	for _, file := range e.Files {
		row("file", "%s %s, %d bytes, sha256 %s", file.Mode, file.Path, file.Bytes, file.SHA256)
	}
}

func newISOExtract() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "extract FILE|- config|kargs|kernel|initrd|rootfs|DIR",
		Short: "Take out what is in an ISO",
		Long: "Write a part of an ISO to standard output: its Ignition config, the kernel's arguments, the kernel, " +
			"the initial RAM disk or\n" +
			"the root file system. A directory gets everything that was embedded: config.ign, kargs, and the other " +
			"files under files.",
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, arguments []string) error {
			iso, err := openISO(cmd, arguments[0])
			if err != nil {
				return err
			}
			defer iso.Close()
			return iso.extract(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr(), arguments[1])
		},
	}
	return cmd
}

// bootFiles are where the parts lie in an ISO, the more usual place first.
var bootFiles = map[string][]string{
	"kernel": {"images/pxeboot/vmlinuz", "images/pxeboot/kernel.img"},
	"initrd": {"images/pxeboot/initrd.img"},
	"rootfs": {"images/pxeboot/rootfs.img"},
}

func (i *isoFile) extract(ctx context.Context, out, errOut io.Writer, what string) error {
	e := i.embedded
	switch what {
	case "config":
		if e == nil || e.Ignition == nil {
			return fmt.Errorf("%s: %w", i.name, isogen.ErrNoPayload)
		}
		_, err := out.Write(e.Ignition)
		return err
	case "kargs":
		if e == nil || e.KernelArguments == "" {
			return fmt.Errorf("%s has no areas for kernel arguments", i.name)
		}
		_, err := fmt.Fprintln(out, e.KernelArguments)
		return err
	case "kernel", "initrd", "rootfs":
		if onTerminal(out) {
			return usage("%s would be written to the terminal; redirect it", what)
		}
		for _, path := range bootFiles[what] {
			if entry := i.volume.Find(path); entry != nil && !entry.Dir && entry.Size > 0 {
				bar := newMeter(errOut, entry.Size, what)
				defer bar.end()
				_, err := io.CopyBuffer(io.MultiWriter(out, bar), &contextReader{ctx,
					io.NewSectionReader(i.file, entry.Offset, entry.Size)}, make([]byte, 1<<20))
				return err
			}
		}
		return fmt.Errorf("%s has no %s", i.name, what)
	}
	return i.extractAll(what, out)
}

// extractAll writes everything that was embedded into a directory.
func (i *isoFile) extractAll(dir string, out io.Writer) error {
	if i.embedded == nil || i.embedded.Ignition == nil && len(i.embedded.Files) == 0 {
		return fmt.Errorf("%s: %w", i.name, isogen.ErrNoPayload)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make the directory to extract to: %w", err)
	}
	root, err := os.OpenRoot(dir) // the paths come from the ISO
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
