// Package assets embeds the files of the browser application, which web/ui builds.
package assets

import (
	"embed"
	"io/fs"
)

//go:embed all:ui
var files embed.FS

// UI returns the built browser application: index.html at its root, and the files that it loads in
// assets/. The names of those files change with their content. A large text file exists only as
// name.gz. Without a build, index.html is missing.
func UI() fs.FS {
	return subdirectory{files, "ui"}
}

// Built reports whether the browser application is embedded in this binary. Without it, only the
// API is served.
func Built() bool {
	_, err := fs.Stat(UI(), "index.html")
	return err == nil
}

// subdirectory is a directory of an embedded file system. Unlike fs.Sub, it needs no error for a
// constant name.
type subdirectory struct {
	files     embed.FS
	directory string
}

func (s subdirectory) Open(name string) (fs.File, error) {
	if !fs.ValidPath(name) {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrInvalid}
	}
	if name == "." {
		return s.files.Open(s.directory)
	}
	return s.files.Open(s.directory + "/" + name)
}
