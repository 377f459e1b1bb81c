// Package abi imports and exports directories of the agent-based installer. Such a directory has
// cluster-manifests (AgentClusterInstall, ClusterDeployment, ClusterImageSet, InfraEnv,
// NMStateConfig, the pull secret), mirror (registries.conf, ca-bundle.crt), openshift (extra
// manifests), install-config.yaml and agent-config.yaml.
//
// [Service] creates clusters from directories and exports them (service.go). [HostSettings] applies
// the settings of hosts (apply.go).
//
// [Read] reads a directory into a [Site]: its values, each with all places that set it (read.go).
// One table maps the fields of documents to values (fields.go). [Site.Write] keeps the bytes of
// every document without a changed value (write.go). For a cluster that was created otherwise,
// [Compose] makes a new directory (compose.go).
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

// Limits of the size of one file, and of all files of a directory, in bytes.
const (
	FileBytes      = 1 << 20 // also the limit of the size of a manifest
	DirectoryBytes = 16 << 20
)

// Files and directories that the agent-based installer reads.
const (
	installConfigFile  = "install-config.yaml"
	agentConfigFile    = "agent-config.yaml"
	clusterDirectory   = "cluster-manifests/"
	manifestDirectory  = "openshift/"
	registriesConfFile = "mirror/registries.conf"
	caBundleFile       = "mirror/ca-bundle.crt"
)

// File is one file of a directory. Its name is the path relative to the directory, with slashes.
type File struct {
	Name string `json:"name"`
	Data []byte `json:"data"`
}

// Problem is an error or a setting without effect, at one place of a directory.
type Problem struct {
	File string `json:"file"`
	Line int    `json:"line,omitempty"` // from 1; 0 means the whole file
	Text string `json:"text"`
}

// String returns the problem in the format of compilers.
func (p Problem) String() string {
	if p.Line == 0 {
		return p.File + ": " + p.Text
	}
	return fmt.Sprintf("%s:%d: %s", p.File, p.Line, p.Text)
}

// DirectoryError reports the problems of a rejected directory.
type DirectoryError struct{ Problems []Problem }

// shownProblems limits the problems in an error text, because users correct a few at a time.
const shownProblems = 8

// Error returns the problems in the order of files and lines.
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

// ReadDir reads the files that the agent-based installer uses. omitted contains the names of the
// other files.
func ReadDir(dir string) (files []File, omitted []string, err error) {
	switch info, err := os.Stat(dir); {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil, fmt.Errorf("the directory %s does not exist", dir)
	case err == nil && !info.IsDir():
		return nil, nil, fmt.Errorf("%s is not a directory; name the directory of the agent-based installer", dir)
	}
	if err := fs.WalkDir(os.DirFS(dir), ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir():
			return nil
		case !isRead(name):
			omitted = append(omitted, name)
			return nil
		}
		info, err := fs.Stat(os.DirFS(dir), name) // follows symbolic links
		if err != nil {
			return err
		}
		if !info.Mode().IsRegular() || info.Size() > FileBytes {
			return refuse(name, 0, "is larger than %d KiB or not a regular file; remove it", FileBytes>>10)
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
			fmt.Errorf("the directory %s has neither install-config.yaml nor cluster-manifests; name the directory "+
				"that "+
				"was made for openshift-install agent", dir)
	}
	return files, omitted, nil
}

// isRead reports whether the agent-based installer reads a file.
func isRead(name string) bool {
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

// unwrap sorts the files and removes the directory's own name, which browsers and archives add,
// from their names. omitted contains the names of the files that the agent-based installer does not
// read.
func unwrap(files []File) (included []File, omitted []string) {
	depth := -1
	for _, file := range files {
		parts := strings.Split(path.Clean(file.Name), "/")
		for i := range parts {
			if isRead(strings.Join(parts[i:], "/")) && (depth < 0 || i < depth) {
				depth = i
			}
		}
	}
	for _, file := range files {
		parts := strings.Split(path.Clean(file.Name), "/")
		if depth >= 0 && len(parts) > depth && isRead(strings.Join(parts[depth:], "/")) {
			included = append(included, File{strings.Join(parts[depth:], "/"), file.Data})
		} else {
			omitted = append(omitted, file.Name)
		}
	}
	slices.SortFunc(included, func(a, b File) int { return strings.Compare(a.Name, b.Name) })
	return included, omitted
}
