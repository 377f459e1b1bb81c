package iso

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"landfall/appliance/command/outcome"
	"landfall/appliance/command/output"
	"landfall/ignition"
	"landfall/isogen"
)

// isoBuild holds the options of landfall iso build.
type isoBuild struct {
	base, ignition, network, out, rootfsURL string
	append, remove, replace                 []string
	minimal, makeTable                      bool
	configImage, awaitConfigImage           bool
}

func newBuild() *cobra.Command {
	o := &isoBuild{}
	cmd := &cobra.Command{
		Use:   "build --base FILE --ignition FILE -o FILE|-",
		Short: "Build an image from a live ISO and an Ignition config",
		Long: "Build an image from a live ISO and an Ignition config: for a file, a disk (-o /dev/sdX) or a pipe " +
			"(-o -).\n" +
			"The same input results in the same bytes. The command prints the image's SHA-256 in the format of " +
			"sha256sum, unless\nit writes to a pipe.\n\n" +
			"To use the same USB drive for several hosts, build its image once with --await-config-image. The hosts " +
			"then read their\nconfig from a second drive with a small image, which --config-image builds from each " +
			"config.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.check(); err != nil {
				return err
			}
			return o.run(cmd)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.base, "base", "", "live ISO to build from; it is not changed")
	flags.StringVar(&o.ignition, "ignition", "", "Ignition config to embed; - is standard input")
	flags.StringVar(&o.network, "network", "", "directory of NetworkManager keyfiles (*.nmconnection) to embed")
	flags.StringArrayVar(&o.append, "karg", nil, "kernel argument to append; may be repeated")
	flags.StringArrayVar(&o.remove, "karg-delete", nil, "kernel argument to delete")
	flags.StringArrayVar(&o.replace, "karg-replace", nil, "kernel argument to replace: KEY=OLD=NEW")
	flags.BoolVar(&o.minimal, "minimal", false, "build the minimal image, without the root file system")
	flags.StringVar(&o.rootfsURL, "rootfs-url", "", "with --minimal: URL of the root file system")
	flags.BoolVar(&o.makeTable, "make-table", false,
		"with --minimal: if the live ISO lacks the table for minimal images, write the table next to it")
	flags.BoolVar(&o.configImage, "config-image", false,
		"build a small image with only the config, for a second drive; without --base")
	flags.BoolVar(&o.awaitConfigImage, "await-config-image", false,
		"build an image that reads its config from a second drive; without --ignition")
	flags.StringVarP(&o.out, "output", "o", "", "file or disk to write; - is standard output")
	return cmd
}

// check validates the combination of flags.
func (o *isoBuild) check() error {
	edits := len(o.append) + len(o.remove) + len(o.replace)
	switch {
	case o.configImage && (o.base != "" || o.awaitConfigImage || o.minimal || edits > 0):
		return outcome.Usagef("--config-image builds an image with only a config: omit --base, --minimal, " +
			"--await-config-image and kernel arguments")
	case o.awaitConfigImage && (o.ignition != "" || o.network != "" || o.minimal):
		return outcome.Usagef("--await-config-image reads its config from another drive: omit --ignition, --network " +
			"and --minimal")
	case o.base == "" && !o.configImage || o.ignition == "" && !o.awaitConfigImage || o.out == "":
		return outcome.Usagef("--base (a live ISO), --ignition (a config) and -o (a file, or - for a pipe) " +
			"are required")
	case o.minimal != (o.rootfsURL != ""):
		return outcome.Usagef("--minimal requires --rootfs-url and vice versa: a minimal image downloads its root " +
			"file system from this URL")
	}
	return nil
}

func (o *isoBuild) run(cmd *cobra.Command) (err error) {
	var payload isogen.Payload
	if !o.awaitConfigImage {
		if payload, err = o.payload(cmd.InOrStdin()); err != nil {
			return err
		}
	}
	if o.configImage {
		image, err := isogen.ConfigImage(payload)
		if err != nil {
			return err
		}
		return writeImage(cmd, image, o.out)
	}
	if err := o.refuseBaseAsOutput(); err != nil {
		return err
	}
	base, err := isogen.Open(o.base)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, base.Close()) }()
	image, err := o.image(cmd, base, payload)
	if err != nil {
		return err
	}
	return writeImage(cmd, image, o.out)
}

// refuseBaseAsOutput rejects an output that would overwrite the base while it is read.
func (o *isoBuild) refuseBaseAsOutput() error {
	base, err := os.Stat(o.base)
	if err != nil {
		return fmt.Errorf("open the live ISO: %w", err)
	}
	if out, err := os.Stat(o.out); err == nil && os.SameFile(base, out) {
		return outcome.Usagef("-o names the base live ISO; name another file")
	}
	return nil
}

func (o *isoBuild) image(cmd *cobra.Command, base *isogen.Base, payload isogen.Payload) (*isogen.Image, error) {
	arguments := o.arguments()
	if o.awaitConfigImage {
		return base.AwaitConfigImage(arguments...)
	}
	if !o.minimal {
		return base.Full(payload, arguments...)
	}
	if o.makeTable {
		if err := base.MakeTable(cmd.Context()); err != nil {
			return nil, err
		}
	}
	image, err := base.Minimal(payload, o.rootfsURL, arguments...)
	if none := new(isogen.NoMinimalError); errors.As(err, &none) && !o.makeTable && base.AllowsMinimal() {
		return nil, fmt.Errorf("%w; or try --make-table", err)
	}
	return image, err
}

func (o *isoBuild) arguments() []isogen.KernelArgument {
	var arguments []isogen.KernelArgument
	for operation, values := range map[isogen.Operation][]string{isogen.Append: o.append, isogen.Delete: o.remove,
		isogen.Replace: o.replace} {
		for _, value := range values {
			arguments = append(arguments, isogen.KernelArgument{Operation: operation, Value: value})
		}
	}
	return arguments
}

// payload reads the files to embed.
func (o *isoBuild) payload(stdin io.Reader) (isogen.Payload, error) {
	var payload isogen.Payload
	var err error
	if o.ignition == "-" {
		payload.Ignition, err = io.ReadAll(io.LimitReader(stdin, isogen.MaxPayload+1))
	} else {
		payload.Ignition, err = os.ReadFile(o.ignition)
	}
	if err != nil {
		return payload, fmt.Errorf("read the Ignition config: %w", err)
	}
	if err := ignition.Validate(payload.Ignition); err != nil {
		return payload, fmt.Errorf("%s is not a valid Ignition config: %w", o.ignition, err)
	}
	payload.Files, err = o.keyfiles()
	return payload, err
}

// keyfilesDir is the directory where the live system's initial RAM file system reads network
// configurations (coreos-installer's --network-keyfile).
const keyfilesDir = "etc/coreos-firstboot-network/"

func (o *isoBuild) keyfiles() ([]isogen.File, error) {
	if o.network == "" {
		return nil, nil
	}
	entries, err := os.ReadDir(o.network)
	if err != nil {
		return nil, fmt.Errorf("read the directory of keyfiles: %w", err)
	}
	var files []isogen.File
	for _, entry := range entries {
		if entry.IsDir() || !strings.HasSuffix(entry.Name(), ".nmconnection") {
			return nil,
				fmt.Errorf("%s is not a NetworkManager keyfile; the directory must contain only *.nmconnection files",
					filepath.Join(o.network, entry.Name()))
		}
		data, err := os.ReadFile(filepath.Join(o.network, entry.Name()))
		if err != nil {
			return nil, fmt.Errorf("read a keyfile: %w", err)
		}
		files = append(files, isogen.File{Path: keyfilesDir + entry.Name(), Mode: 0o600, Data: data})
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("%s contains no NetworkManager keyfiles (*.nmconnection)", o.network)
	}
	return files, nil
}

// writeImage writes an image to the file in -o and prints its digest.
func writeImage(cmd *cobra.Command, image *isogen.Image, name string) error {
	out, finish, err := output.OpenFile(name, output.Private, cmd.OutOrStdout())
	if err != nil {
		return err
	}
	bar := output.NewMeter(cmd.ErrOrStderr(), "writing", image.Size())
	sum := sha256.New()
	sinks := []io.Writer{out, bar}
	if name != "-" {
		sinks = append(sinks, sum)
	}
	reader := image.NewReader()
	_, err = io.CopyBuffer(io.MultiWriter(sinks...), &contextReader{cmd.Context(), reader}, make([]byte, 1<<20))
	bar.End()
	if err = finish(errors.Join(err, reader.Close())); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	if name == "-" {
		return nil
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s  %s\n", hex.EncodeToString(sum.Sum(nil)), name)
	return err
}
