// Package abi reads and writes the directories of the agent-based installer: cluster-manifests
// (AgentClusterInstall, ClusterDeployment, ClusterImageSet, InfraEnv, NMStateConfig, the pull
// secret), mirror (registries.conf, ca-bundle.crt), openshift (extra manifests),
// install-config.yaml and agent-config.yaml.
//
// [Read] turns a directory into a [Site]: the values that it states, each with the places where it
// states them (read.go). Which field of which document states which value is one table (fields.go).
// The originals are kept: [Site.Write] gives each file back as it was and edits a document only
// where a value is another than before (write.go). Values of a cluster that came from no directory are
// written as a new one (compose.go).
//
// Formats: `openshift-install agent create cluster-manifests` and the API types of
// openshift/assisted-service and openshift/hive.
package abi

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"landfall/appliance/fault"
)

// Limits of a directory, in bytes: of one file, and of all of them.
const (
	FileBytes      = 1 << 20 // what a manifest may have, too
	DirectoryBytes = 16 << 20
)

// The files and directories that the agent-based installer knows.
const (
	installConfigFile  = "install-config.yaml"
	agentConfigFile    = "agent-config.yaml"
	clusterDirectory   = "cluster-manifests/"
	manifestDirectory  = "openshift/"
	registriesConfFile = "mirror/registries.conf"
	caBundleFile       = "mirror/ca-bundle.crt"
)

// File is one file of a directory; its name is the path in it, with slashes.
type File struct {
	Name string `json:"name"`
	Data []byte `json:"data"`
}

// Problem is what is wrong, or has no effect here, at one place of a directory.
type Problem struct {
	File string `json:"file"`
	Line int    `json:"line,omitempty"` // from 1; 0 is the whole file
	Text string `json:"text"`
}

// String writes a problem as compilers do.
func (p Problem) String() string {
	if p.Line == 0 {
		return p.File + ": " + p.Text
	}
	return fmt.Sprintf("%s:%d: %s", p.File, p.Line, p.Text)
}

// DirectoryError is why a directory is refused.
type DirectoryError struct{ Problems []Problem }

// shownProblems bounds what an error says; people correct a few faults at a time.
const shownProblems = 8

// Error names the problems in the order of files and lines.
func (e *DirectoryError) Error() string {
	var texts []string
	for i, p := range e.Problems {
		if i == shownProblems {
			texts = append(texts, fmt.Sprintf("and %d more", len(e.Problems)-i))
			break
		}
		texts = append(texts, p.String())
	}
	return strings.Join(texts, "; ")
}

func sortProblems(problems []Problem) {
	slices.SortStableFunc(problems, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line))
	})
}

// FaultKind implements fault.Classified.
func (*DirectoryError) FaultKind() fault.Kind { return fault.Schema }

func refuse(file string, line int, format string, args ...any) error {
	return &DirectoryError{[]Problem{{file, line, fmt.Sprintf(format, args...)}}}
}

// ReadDir reads the files of a directory that belong to the agent-based installer. The others are
// named, not read.
func ReadDir(dir string) (files []File, leftOut []string, err error) {
	if err := fs.WalkDir(os.DirFS(dir), ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir():
			return nil
		case !known(name):
			leftOut = append(leftOut, name)
			return nil
		}
		info, err := fs.Stat(os.DirFS(dir), name) // through links
		if err != nil {
			return err
		}
		if !info.Mode().IsRegular() || info.Size() > FileBytes {
			return refuse(name, 0, "is larger than %d KiB or no file; leave it out", FileBytes>>10)
		}
		data, err := fs.ReadFile(os.DirFS(dir), name)
		files = append(files, File{name, data})
		return err
	}); err != nil {
		if refused, ok := errors.AsType[*DirectoryError](err); ok {
			return nil, nil, refused
		}
		return nil, nil, fmt.Errorf("read the directory %s: %w", dir, err)
	}
	if len(files) == 0 {
		return nil, nil,
			fmt.Errorf("the directory %s has neither install-config.yaml nor cluster-manifests; name the one that was "+
				"made for openshift-install agent", dir)
	}
	return files, leftOut, nil
}

// known tells whether the agent-based installer reads a file.
func known(name string) bool {
	dir, base := path.Split(name)
	switch dir {
	case "":
		return name == installConfigFile || name == agentConfigFile
	case clusterDirectory:
		return slices.Contains([]string{".yaml", ".yml"}, path.Ext(base))
	case manifestDirectory:
		return slices.Contains([]string{".yaml", ".yml", ".json"}, path.Ext(base))
	}
	return name == registriesConfFile || name == caBundleFile
}

// unwrap takes the directory's own name off its files' names, as browsers and archives give them, and
// sorts them. What does not belong to the directory is returned beside.
func unwrap(files []File) (kept []File, leftOut []string) {
	depth := -1
	for _, file := range files {
		parts := strings.Split(path.Clean(file.Name), "/")
		for i := range parts {
			if known(strings.Join(parts[i:], "/")) && (depth < 0 || i < depth) {
				depth = i
			}
		}
	}
	for _, file := range files {
		parts := strings.Split(path.Clean(file.Name), "/")
		if depth >= 0 && len(parts) > depth && known(strings.Join(parts[depth:], "/")) {
			kept = append(kept, File{strings.Join(parts[depth:], "/"), file.Data})
		} else {
			leftOut = append(leftOut, file.Name)
		}
	}
	slices.SortFunc(kept, func(a, b File) int { return strings.Compare(a.Name, b.Name) })
	return kept, leftOut
}
