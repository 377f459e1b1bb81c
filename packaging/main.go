// Packaging builds what a site installs, from the built programs: deb and rpm packages, OCI images,
// the list of the components (CycloneDX) with their licenses, checksums and a signature. Equal
// programs of one commit give equal files. make dist calls it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"time"
)

// build are the inputs of all files.
type build struct {
	root    string    // of the repository
	output  string    // directory of the files
	native  string    // a program that runs on this machine
	version string    // of the programs, from git describe
	time    time.Time // of the commit; the time of everything in the files
	signer  string    // file with the private key; "" for no signature
	// compression is that of the packages, in the notation of nfpm.
	compression string
	// programs are the built programs of each target.
	programs map[target]string
}

// target is an operating system with an architecture, in the names of Go.
type target struct{ os, arch string }

func (t target) String() string { return t.os + "-" + t.arch }

// targets are the targets of the programs. All but darwin have packages and images.
var targets = []target{{"linux", "amd64"}, {"linux", "arm64"}, {"darwin", "arm64"}}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "packaging:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, arguments []string, out io.Writer) error {
	b := build{programs: map[target]string{}, signer: os.Getenv("LANDFALL_SIGNING_KEY"), compression: "zstd:19"}
	flags := flag.NewFlagSet("packaging", flag.ContinueOnError)
	flags.StringVar(&b.root, "root", "..", "directory of the repository")
	flags.StringVar(&b.output, "output", "../dist", "directory of the packages; earlier files in it are removed")
	flags.StringVar(&b.native, "native", "../bin/landfall", "program for this machine, which writes its manual pages")
	flags.StringVar(&b.version, "version", "", "version of the programs")
	programs := flags.String("programs", "../bin/dist", "directory of the programs, landfall-OS-ARCH")
	epoch := flags.Int64("epoch", 0, "time of the commit in seconds since 1970")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	if b.version == "" || *epoch == 0 {
		return errors.New("-version and -epoch are required; make dist gives them")
	}
	b.time = time.Unix(*epoch, 0).UTC()
	for _, t := range targets {
		b.programs[t] = filepath.Join(*programs, "landfall-"+t.String())
	}
	return b.all(ctx, out)
}

// all writes all files into the output directory.
func (b *build) all(ctx context.Context, out io.Writer) error {
	if err := os.RemoveAll(b.output); err != nil {
		return err
	}
	if err := os.MkdirAll(b.output, 0o755); err != nil {
		return err
	}
	stage, err := os.MkdirTemp("", "landfall-dist-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(stage)
	if err := b.writeReference(ctx, stage); err != nil {
		return err
	}
	if err := b.writeComponents(ctx); err != nil {
		return err
	}
	for _, t := range targets {
		if err := copyFile(b.programs[t], b.file("landfall-"+b.version+"-"+t.String()), 0o755); err != nil {
			return err
		}
		if t.os != "linux" {
			continue
		}
		if err := b.writePackages(t, stage); err != nil {
			return err
		}
		if err := b.writeImage(t); err != nil {
			return err
		}
	}
	if err := b.writeSums(out); err != nil {
		return err
	}
	return b.list(out)
}

// file returns the path of a file in the output directory.
func (b *build) file(name string) string { return filepath.Join(b.output, name) }

func (b *build) list(out io.Writer) error {
	entries, err := os.ReadDir(b.output)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		info, err := entry.Info()
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "%12d  %s\n", info.Size(), b.file(entry.Name()))
	}
	return nil
}

func copyFile(from, to string, mode os.FileMode) error {
	source, err := os.Open(from)
	if err != nil {
		return fmt.Errorf("read a built program: %w", err)
	}
	defer source.Close()
	target, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, mode)
	if err != nil {
		return err
	}
	if _, err := io.Copy(target, source); err != nil {
		return errors.Join(err, target.Close())
	}
	return target.Close()
}

// names returns the names of the files in a directory, sorted.
func names(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var all []string
	for _, entry := range entries {
		all = append(all, entry.Name())
	}
	slices.Sort(all)
	return all, nil
}
