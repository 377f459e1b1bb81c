// Package supportarchive writes one archive that describes an appliance to a person who cannot
// reach it: the versions, the configuration, the log, the metrics, the state of the site and the
// journals of its clusters. It contains no secrets. A member that cannot be collected is reported
// in the archive, so that a damaged appliance can be described too.
package supportarchive

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"time"
)

const (
	// memberLimit is the largest size of a member in bytes. A larger one is cut.
	memberLimit = 32 << 20
	// memberTime is the time limit for the collection of a member. A disk that hangs must not keep
	// the rest of the archive back.
	memberTime = 30 * time.Second
	// Extension is the end of the archive's file name.
	Extension = ".tar.gz"
)

// Member is one file of the archive. Write writes its content.
type Member struct {
	Name  string
	About string // its description in README.txt
	Write func(context.Context, io.Writer) error
}

// Name returns the file name of an archive that is made at a time.
func Name(at time.Time) string {
	return "landfall-support-" + at.UTC().Format("20060102T150405Z") + Extension
}

// Write writes an archive of members, in the order of the list. redact removes secrets from the
// errors of members.
func Write(ctx context.Context, out io.Writer, at time.Time, members []Member, redact func(string) string) error {
	packed := gzip.NewWriter(out)
	archive := tar.NewWriter(packed)
	directory := Name(at)[:len(Name(at))-len(Extension)]
	add := func(name string, content []byte) error {
		header := &tar.Header{Name: path.Join(directory, name), Mode: 0o600, Size: int64(len(content)), ModTime: at}
		if err := archive.WriteHeader(header); err != nil {
			return err
		}
		_, err := archive.Write(content)
		return err
	}
	readme := bytes.NewBufferString(head)
	var failures bytes.Buffer
	for _, member := range members {
		fmt.Fprintf(readme, "%-22s %s\n", member.Name, member.About)
	}
	if err := add("README.txt", readme.Bytes()); err != nil {
		return err
	}
	for _, member := range members {
		content, err := collect(ctx, member)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			fmt.Fprintf(&failures, "%s: %s\n", member.Name, redact(err.Error()))
		}
		if len(content) == 0 && err != nil {
			continue
		}
		if err := add(member.Name, content); err != nil {
			return err
		}
	}
	if failures.Len() > 0 {
		if err := add("errors.txt", failures.Bytes()); err != nil {
			return err
		}
	}
	return errors.Join(archive.Close(), packed.Close())
}

const head = `Support archive of a Landfall appliance, for a person who cannot reach it.

Passwords, tokens, pull secrets, private keys and kubeconfigs were removed. The archive names hosts,
clusters, addresses and networks of the site. errors.txt, if there is one, lists what could not be
collected.

`

// collect returns the content of a member, or the part of it that was written before an error.
func collect(ctx context.Context, member Member) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, memberTime)
	defer cancel()
	type result struct {
		content []byte
		err     error
	}
	ended := make(chan result, 1)
	go func() {
		limited := &limitedBuffer{}
		err := member.Write(ctx, limited)
		ended <- result{limited.Bytes(), err}
	}()
	select {
	case found := <-ended:
		return found.content, found.err
	case <-ctx.Done():
		return nil, fmt.Errorf("it was not collected within %s: %w", memberTime, ctx.Err())
	}
}

// limitedBuffer keeps the first memberLimit bytes.
type limitedBuffer struct{ bytes.Buffer }

var errTooLarge = fmt.Errorf("it is larger than %d MiB and was cut", memberLimit>>20)

func (b *limitedBuffer) Write(p []byte) (int, error) {
	if room := memberLimit - b.Len(); len(p) > room {
		b.Buffer.Write(p[:room])
		return room, errTooLarge
	}
	return b.Buffer.Write(p)
}
