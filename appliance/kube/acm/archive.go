package acm

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"landfall/appliance/kube/apply"
)

const (
	secretMode = 0o600
	plainMode  = 0o644
	// largest limits the total size of the manifests in an archive, in bytes.
	largest = 64 << 20
)

func (f File) mode() fs.FileMode {
	if f.Secret {
		return secretMode
	}
	return plainMode
}

// Write writes the files into an empty or new directory, or into an archive if the path ends in
// .tar. Only the owner can read the directory or the archive.
func (f *Directory) Write(to string, now time.Time) error {
	if strings.HasSuffix(to, ".tar") {
		return f.writeTar(to, now)
	}
	if entries, err := os.ReadDir(to); err == nil && len(entries) > 0 {
		return fmt.Errorf("the directory %s is not empty; choose another one with -o", to)
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read the directory %s: %w", to, err)
	}
	if err := os.MkdirAll(to, 0o700); err != nil {
		return fmt.Errorf("create the directory: %w", err)
	}
	root, err := os.OpenRoot(to)
	if err != nil {
		return fmt.Errorf("open the directory: %w", err)
	}
	for _, file := range f.Files {
		err = errors.Join(err, root.WriteFile(file.Name, file.Data, file.mode()))
	}
	if err = errors.Join(err, root.Close()); err != nil {
		return fmt.Errorf("write the directory %s: %w", to, err)
	}
	return nil
}

// writeTar writes the archive to a temporary file and renames it when it is complete.
func (f *Directory) writeTar(to string, now time.Time) (err error) {
	if _, err := os.Lstat(to); err == nil {
		return fmt.Errorf("%s exists already; choose another name with -o", to)
	}
	out, err := os.CreateTemp(filepath.Dir(to), ".acm-*.tar")
	if err != nil {
		return fmt.Errorf("write the archive: %w", err)
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("write the archive %s: %w", to, errors.Join(err, os.Remove(out.Name())))
		}
	}()
	w := tar.NewWriter(out)
	for _, file := range f.Files {
		header := &tar.Header{Typeflag: tar.TypeReg, Name: f.Name + "/" + file.Name, Mode: int64(file.mode()),
			Size: int64(len(file.Data)), ModTime: now.UTC().Truncate(time.Second)}
		if err := w.WriteHeader(header); err != nil {
			return errors.Join(err, out.Close())
		}
		if _, err := w.Write(file.Data); err != nil {
			return errors.Join(err, out.Close())
		}
	}
	if err := errors.Join(w.Close(), out.Sync(), out.Close()); err != nil {
		return err
	}
	return os.Rename(out.Name(), to)
}

// Read reads an exported directory or archive, or a file with several objects from a hub (oc get -o
// yaml).
func Read(from string) (*apply.Manifests, error) {
	if !strings.HasSuffix(from, ".tar") {
		return apply.Read(apply.Sources{Paths: []string{from}})
	}
	file, err := os.Open(from)
	if err != nil {
		return nil, fmt.Errorf("read the archive: %w", err)
	}
	files, err := unpack(file)
	if err = errors.Join(err, file.Close()); err != nil {
		return nil, fmt.Errorf("read the archive %s: %w", from, err)
	}
	return apply.ReadFiles(files)
}

// unpack reads the manifests of an archive into memory. It writes nothing to the disk.
func unpack(from io.Reader) ([]apply.File, error) {
	var files []apply.File
	entries := tar.NewReader(from)
	room := int64(largest)
	for {
		header, err := entries.Next()
		if errors.Is(err, io.EOF) {
			return files, nil
		}
		if err != nil {
			return nil, err
		}
		name := path.Base(header.Name)
		if header.Typeflag != tar.TypeReg || path.Ext(name) != ".yaml" && path.Ext(name) != ".yml" &&
			path.Ext(name) != ".json" || name == "kustomization.yaml" {
			continue
		}
		var data bytes.Buffer
		n, err := io.Copy(&data, io.LimitReader(entries, room+1))
		if err != nil {
			return nil, err
		}
		if room -= n; room < 0 {
			return nil, fmt.Errorf("the archive contains more than %d MiB of manifests, more than any cluster has",
				int64(largest)>>20)
		}
		files = append(files, apply.File{Name: header.Name, Data: data.Bytes()})
	}
}
