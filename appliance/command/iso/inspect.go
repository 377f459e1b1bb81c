package iso

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"landfall/appliance/command/outcome"
	"landfall/appliance/command/output"
	"landfall/appliance/isofile"
)

func newInspect() *cobra.Command {
	var quick bool
	format := new(output.Format)
	cmd := &cobra.Command{
		Use:   "inspect FILE|-",
		Short: "Show the properties of an ISO, its embedded files, and how it boots",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, arguments []string) error {
			iso, closeISO, err := openISO(cmd, arguments[0])
			if err != nil {
				return err
			}
			defer closeISO()
			report := iso.Inspect()
			if !quick {
				bar := output.NewMeter(cmd.ErrOrStderr(), "reading", iso.Size())
				defer bar.End()
				if report.SHA256, err = iso.Digest(cmd.Context(), bar); err != nil {
					return err
				}
			}
			return format.Document(cmd.OutOrStdout(), "iso", report.File, report, func(out io.Writer) error {
				return writeInspection(out, report)
			})
		},
	}
	format.AddFlag(cmd)
	format.AddFormerFlag(cmd)
	cmd.Flags().BoolVar(&quick, "quick", false,
		"omit the SHA-256 of the file, which takes about a second per gigabyte")
	return cmd
}

// openISO opens an ISO by its file name, or "-" for standard input. Standard input is copied to a
// temporary file, because reading an ISO requires random access. closeISO removes the copy.
func openISO(cmd *cobra.Command, name string) (iso *isofile.File, closeISO func() error, err error) {
	if name != "-" {
		if iso, err = isofile.Open(name, name); err != nil {
			return nil, nil, err
		}
		return iso, iso.Close, nil
	}
	path, err := spool(&contextReader{cmd.Context(), cmd.InOrStdin()})
	if err != nil {
		return nil, nil, fmt.Errorf("copy the ISO from standard input to a temporary file: %w", err)
	}
	if iso, err = isofile.Open(path, "standard input"); err != nil {
		return nil, nil, errors.Join(err, os.Remove(path))
	}
	return iso, func() error { return errors.Join(iso.Close(), os.Remove(path)) }, nil
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

func writeInspection(out io.Writer, r *isofile.Inspection) error {
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
	writeEmbedding(row, r.Embedded)
	return table.Flush()
}

func can(can bool, reason string) string {
	if can {
		return "yes"
	}
	return "no: " + reason
}

func writeEmbedding(row func(name, format string, arguments ...any), e *isofile.Embedding) {
	if e == nil {
		row("embedded", "nothing; the ISO is unchanged")
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
		row("config", "Ignition %s, %d bytes, sha256 %s", output.OrDash(e.Version), e.Ignition.Bytes, e.Ignition.SHA256)
	}
	if e.Service != "" {
		row("agent", "of %s, infra-env %s", e.Service, e.InfraEnv)
	}
	for _, file := range e.Files {
		row("file", "%s %s, %d bytes, sha256 %s", file.Mode, file.Path, file.Bytes, file.SHA256)
	}
}

func newExtract() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "extract FILE|- config|kargs|kernel|initrd|rootfs|DIR",
		Short: "Extract a part of an ISO",
		Long: "Write a part of an ISO to standard output: the Ignition config, the kernel arguments, the kernel, the " +
			"initial RAM disk or\nthe root file system. With a directory, write all embedded parts to it: " +
			"config.ign, kargs, and the other files in files/.",
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, arguments []string) error {
			iso, closeISO, err := openISO(cmd, arguments[0])
			if err != nil {
				return err
			}
			defer closeISO()
			return extractISO(cmd, iso, arguments[1])
		},
	}
	return cmd
}

// extractISO writes one part of the ISO to standard output, or all embedded parts to a directory.
func extractISO(cmd *cobra.Command, iso *isofile.File, what string) error {
	out := cmd.OutOrStdout()
	switch what {
	case "config":
		config, err := iso.Config()
		if err != nil {
			return err
		}
		_, err = out.Write(config)
		return err
	case "kargs":
		arguments, err := iso.KernelArguments()
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(out, arguments)
		return err
	case "kernel", "initrd", "rootfs":
		if output.OnTerminal(out) {
			return outcome.Usagef("%s would be written to the terminal; redirect the output", what)
		}
		content, size, err := iso.BootFile(cmd.Context(), what)
		if err != nil {
			return err
		}
		bar := output.NewMeter(cmd.ErrOrStderr(), what, size)
		defer bar.End()
		_, err = io.CopyBuffer(io.MultiWriter(out, bar), content, make([]byte, 1<<20))
		return err
	}
	return iso.Extract(what, out)
}
