package isogen

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"landfall/isogen/iso9660"
)

// kernelArgumentAreas are the areas in an ISO that are reserved for kernel arguments. The
// configuration of each boot loader contains one area. All areas have the same content.
type kernelArgumentAreas struct {
	where    string // location of the description
	size     int64  // size of each area in bytes
	standard string // the command line as published
	current  string // the command line in the areas
	list     []kernelArgumentArea
}

// kernelArgumentArea contains a command line, an end character and padding.
type kernelArgumentArea struct {
	file     string // the file that contains the area
	offset   int64  // in the ISO, bytes
	end, pad byte
}

// The limits of coreos-installer and of the header.
const (
	maxKernelArguments     = 2048
	maxKernelArgumentAreas = 64
)

// Header in the system area of images of 2021, before the header of the embed area. It contains a
// mark, the size of the areas, the offset of the default command line, and the offsets of up to six
// areas (64 bits, little-endian).
const (
	kargsMark         = "coreKarg"
	kargsHeaderOffset = headerOffset - kargsHeaderLength
	kargsHeaderLength = 72
)

const (
	kargsDescription = "coreos/kargs.json"
	kargsHeader      = "the coreKarg header"
)

// wrong returns the error for an invalid description of the areas.
func (k *kernelArgumentAreas) wrong(format string, args ...any) error {
	return &EmbedAreaError{k.where, fmt.Sprintf(format, args...)}
}

// inScripts reports whether the areas are in text that a boot loader interprets. On s390x they are
// in a parameter block.
func (k *kernelArgumentAreas) inScripts() bool {
	return slices.ContainsFunc(k.list, func(a kernelArgumentArea) bool { return a.end == '\n' })
}

// patches returns the patches that write a command line to the areas. The line must fit.
func (k *kernelArgumentAreas) patches(line string) []extent {
	if k == nil || line == k.current {
		return nil
	}
	var patches []extent
	for _, a := range k.list {
		data := bytes.Repeat([]byte{a.pad}, int(k.size))
		copy(data, line)
		data[len(line)] = a.end
		patches = append(patches, extent{start: a.offset, length: k.size, data: data})
	}
	return patches
}

// findKernelArgumentAreas finds the areas as coreos-installer does: with coreos/kargs.json or, if
// that file is missing, with the header. It returns nil if the ISO has neither, like ISOs from
// before 2021 and some ISOs for s390x.
func findKernelArgumentAreas(r io.ReaderAt, v *iso9660.Volume, size int64) (*kernelArgumentAreas, error) {
	var k kernelArgumentAreas
	if e := v.Find(kargsDescription); e != nil {
		if err := k.readDescription(r, v, e); err != nil {
			return nil, err
		}
	} else if found, err := k.readHeader(r, v, size); !found || err != nil {
		return nil, err
	}
	return &k, k.readAreas(r)
}

// readDescription reads coreos/kargs.json.
func (k *kernelArgumentAreas) readDescription(r io.ReaderAt, v *iso9660.Volume, e *iso9660.Entry) error {
	k.where = kargsDescription
	var info struct {
		Default string `json:"default"`
		Size    int64  `json:"size"`
		Files   []struct {
			Path   string  `json:"path"`
			Offset int64   `json:"offset"`
			End    *string `json:"end"`
			Pad    *string `json:"pad"`
		} `json:"files"`
	}
	if err := readJSON(r, e, kargsDescription, &info); err != nil {
		return err
	}
	k.size, k.standard = info.Size, strings.TrimSpace(info.Default)
	switch {
	case k.size < 1 || k.size > maxKernelArguments:
		return k.wrong("the areas have %d bytes; the supported sizes are 1 to %d", k.size, maxKernelArguments)
	case int64(len(info.Default)) > k.size:
		return k.wrong("the default arguments have %d bytes, but the areas have %d", len(info.Default), k.size)
	case len(info.Files) == 0 || len(info.Files) > maxKernelArgumentAreas:
		return k.wrong("the ISO has %d areas; 1 to %d are supported", len(info.Files), maxKernelArgumentAreas)
	}
	for _, f := range info.Files {
		file := v.Find(f.Path)
		if f.Path == "" || file == nil || file.Dir {
			return k.wrong("the ISO has no file %q", f.Path)
		}
		if f.Offset < 0 || f.Offset > file.Size || k.size > file.Size-f.Offset {
			return k.wrong("%d bytes at %d are outside of %s, which has %d", k.size, f.Offset, f.Path, file.Size)
		}
		a := kernelArgumentArea{file: f.Path, offset: file.Offset + f.Offset, end: '\n', pad: '#'}
		for _, c := range []struct {
			given *string
			into  *byte
		}{{f.End, &a.end}, {f.Pad, &a.pad}} {
			if c.given == nil {
				continue
			}
			if len(*c.given) != 1 || (*c.given)[0] >= utf8.RuneSelf {
				return k.wrong("%q is not a valid end or padding character of an area", *c.given)
			}
			*c.into = (*c.given)[0]
		}
		k.list = append(k.list, a)
	}
	return nil
}

// readHeader reads the header in the system area.
func (k *kernelArgumentAreas) readHeader(r io.ReaderAt, v *iso9660.Volume, size int64) (found bool, err error) {
	header := make([]byte, kargsHeaderLength)
	if _, err := r.ReadAt(header, kargsHeaderOffset); err != nil {
		return false, fmt.Errorf("reading the system area: %w", err)
	}
	if string(header[:len(kargsMark)]) != kargsMark {
		return false, nil
	}
	k.where = kargsHeader
	number := func(i int) int64 { return int64(binary.LittleEndian.Uint64(header[8*i:])) }
	if k.size = number(1); k.size < 1 || k.size > maxKernelArguments {
		return true, k.wrong("the areas have %d bytes; the supported sizes are 1 to %d", k.size, maxKernelArguments)
	}
	inside := func(offset int64) error {
		if offset < 0 || offset > size-k.size {
			return k.wrong("%d bytes at %d are outside of the ISO, which has %d", k.size, offset, size)
		}
		return nil
	}
	if err := inside(number(2)); err != nil {
		return true, err
	}
	if k.standard, err = k.read(r, kernelArgumentArea{offset: number(2), end: '\n', pad: '#'}); err != nil {
		return true, err
	}
	for i := 3; i < kargsHeaderLength/8 && number(i) != 0; i++ {
		if err := inside(number(i)); err != nil {
			return true, err
		}
		_, name := v.FileAt(number(i), k.size)
		k.list = append(k.list, kernelArgumentArea{file: name, offset: number(i), end: '\n', pad: '#'})
	}
	if len(k.list) == 0 {
		return true, k.wrong("the header lists no areas")
	}
	return true, nil
}

// readAreas reads the command line in the areas. All areas must contain the same line.
func (k *kernelArgumentAreas) readAreas(r io.ReaderAt) error {
	slices.SortFunc(k.list, func(a, b kernelArgumentArea) int { return cmp.Compare(a.offset, b.offset) })
	for i, a := range k.list {
		line, err := k.read(r, a)
		if err != nil {
			return err
		}
		if i > 0 && line != k.current {
			return k.wrong("the areas differ: %q in %s, %q in %s", k.current, k.list[0].file, line, a.file)
		}
		k.current = line
	}
	return nil
}

// read reads the command line in one area.
func (k *kernelArgumentAreas) read(r io.ReaderAt, a kernelArgumentArea) (string, error) {
	b := make([]byte, k.size)
	if n, err := r.ReadAt(b, a.offset); n < len(b) {
		return "", fmt.Errorf("reading an area for kernel arguments: %w", err)
	}
	if !utf8.Valid(b) {
		return "", k.wrong("the area at byte %d contains no text", a.offset)
	}
	line := strings.TrimRight(string(b), string(rune(a.pad)))
	return strings.TrimSpace(strings.TrimRight(line, string(rune(a.end)))), nil
}

// readJSON reads a small JSON description in an ISO.
func readJSON(r io.ReaderAt, e *iso9660.Entry, where string, into any) error {
	if e.Dir || e.Size > maxDescription {
		return &EmbedAreaError{where, "the description is too large or not a file"}
	}
	b := make([]byte, e.Size)
	if n, err := r.ReadAt(b, e.Offset); n < len(b) {
		return fmt.Errorf("reading %s: %w", where, err)
	}
	if err := json.Unmarshal(b, into); err != nil {
		return &EmbedAreaError{where, err.Error()}
	}
	return nil
}
