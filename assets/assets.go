// Package assets holds what the binary carries with it: the browser application as built by web/ui.
package assets

import (
	"embed"
	"io/fs"
)

//go:embed all:ui
var files embed.FS

// UI returns the built browser application: index.html at its root, and in assets/ the files that
// it loads, whose names change with their content. A greater text file is there as name.gz only.
// Without a build it holds no index.html.
func UI() fs.FS {
	return subdirectory{files, "ui"}
}

// Built reports whether this binary was built after the browser application: without it, only the
// API can be served.
func Built() bool {
	_, err := fs.Stat(UI(), "index.html")
	return err == nil
}

// subdirectory is a folder of an embedded file system, as fs.Sub gives it, without the error that a
// constant name can't cause.
type subdirectory struct {
	files  embed.FS
	folder string
}

func (s subdirectory) Open(name string) (fs.File, error) {
	if !fs.ValidPath(name) {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrInvalid}
	}
	if name == "." {
		return s.files.Open(s.folder)
	}
	return s.files.Open(s.folder + "/" + name)
}
