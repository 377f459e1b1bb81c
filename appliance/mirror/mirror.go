// Package mirror knows which registries a site pulls images from, and pulls from them.
//
// The rules come from a registries.conf (TOML, version 2) and from the objects that oc-mirror and
// oc write (ImageDigestMirrorSet, ImageTagMirrorSet, ImageContentSourcePolicy), and are applied
// exactly as the nodes apply them: one table per reference, the one with the longest matching
// prefix; its mirrors in order; the source last, unless it is blocked. Rules also writes them out
// again for the two places that need them: registries.conf for the discovery image and
// imageDigestSources for install-config.
//
// Formats: containers-registries.conf(5); github.com/openshift/api config/v1 and operator/v1alpha1.
package mirror

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"landfall/appliance/fault"
)

// Files names the files that make up a site's rules; "" and none are fine for each.
type Files struct {
	// RegistriesConf is a registries.conf. Drop-ins beside it (registries.conf.d/*.conf) are read
	// after it, by name.
	RegistriesConf string
	// MirrorSets are YAML files with ImageDigestMirrorSet, ImageTagMirrorSet and
	// ImageContentSourcePolicy objects, or directories of such files (oc-mirror's
	// cluster-resources, with other kinds of objects in it).
	MirrorSets []string
	// CABundle is a PEM file with the CAs that signed the mirrors' certificates.
	CABundle string
}

// Document is one input with the name that errors call it by.
type Document struct {
	Name string
	Data []byte
}

// Sources is what Files names, read.
type Sources struct {
	// RegistriesConf is the main file and then its drop-ins: a later table replaces an earlier one
	// of the same prefix.
	RegistriesConf []Document
	// MirrorSets are YAML or JSON files of Kubernetes objects, in which mirror sets, catalogs and
	// signatures are looked for.
	MirrorSets []Document
	// Lists are written by hand: see addList in list.go.
	Lists    []Document
	CABundle []Document
}

// And returns the sources with others behind them.
func (s Sources) And(others Sources) Sources {
	return Sources{
		RegistriesConf: slices.Concat(s.RegistriesConf, others.RegistriesConf), MirrorSets: slices.Concat(s.MirrorSets,
			others.MirrorSets),
		Lists: slices.Concat(s.Lists, others.Lists), CABundle: slices.Concat(s.CABundle, others.CABundle),
	}
}

// InputError says what is wrong with a document and where. Its text is one sentence.
type InputError struct {
	// Document is the name of the file or object.
	Document string
	// Where is a line, a key or an entry in it; "" for the whole.
	Where string
	// Problem says what is there and what was expected.
	Problem string
}

// FaultKind implements fault.Classified.
func (*InputError) FaultKind() fault.Kind { return fault.Schema }

func (e *InputError) Error() string {
	if e.Where == "" {
		return e.Document + ": " + e.Problem
	}
	return e.Document + ": " + e.Where + ": " + e.Problem
}

// Load reads the files and makes rules of them. Errors are *InputError or name the file that can't
// be read.
func Load(files Files) (*Rules, error) {
	s, err := Read(files)
	if err != nil {
		return nil, err
	}
	return Parse(s)
}

// Read reads the files. Errors name the file that can't be read.
func Read(files Files) (Sources, error) {
	var s Sources
	if files.RegistriesConf != "" {
		dropIns, err := filepath.Glob(filepath.Join(escapeGlob(files.RegistriesConf)+".d", "*.conf"))
		if err != nil {
			return Sources{}, fmt.Errorf("look for drop-ins of %s: %w", files.RegistriesConf, err)
		}
		slices.Sort(dropIns)
		for _, path := range append([]string{files.RegistriesConf}, dropIns...) {
			if err := appendFile(&s.RegistriesConf, path); err != nil {
				return Sources{}, err
			}
		}
	}
	for _, path := range files.MirrorSets {
		paths, err := yamlFiles(path)
		if err != nil {
			return Sources{}, err
		}
		for _, p := range paths {
			if err := appendFile(&s.MirrorSets, p); err != nil {
				return Sources{}, err
			}
		}
	}
	if files.CABundle != "" {
		if err := appendFile(&s.CABundle, files.CABundle); err != nil {
			return Sources{}, err
		}
	}
	return s, nil
}

// Parse makes rules of documents. Errors are *InputError.
func Parse(s Sources) (*Rules, error) {
	conf := &registriesConf{}
	for _, doc := range s.RegistriesConf {
		if err := conf.add(doc); err != nil {
			return nil, err
		}
	}
	sets := &mirrorSets{}
	for _, doc := range s.MirrorSets {
		if err := sets.add(doc); err != nil {
			return nil, err
		}
	}
	for _, doc := range s.Lists {
		if err := sets.addHandList(doc); err != nil {
			return nil, err
		}
	}
	ca, err := parseCABundles(s.CABundle)
	if err != nil {
		return nil, err
	}
	return newRules(combine(conf.tables, sets.tables()), conf.settings, ca, sets.objects)
}

func newRules(tables []table, settings confFile, ca []byte, objects []Object) (*Rules, error) {
	text, err := writeRegistriesConf(settings, tables)
	if err != nil {
		return nil, err
	}
	return &Rules{tables: tables, settings: settings, conf: text, ca: ca, objects: objects}, nil
}

func appendFile(docs *[]Document, path string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read the mirror rules: %w", err)
	}
	*docs = append(*docs, Document{Name: path, Data: data})
	return nil
}

// yamlFiles returns path itself, or the YAML and JSON files in it if it is a directory.
func yamlFiles(path string) ([]string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("read the mirror rules: %w", err)
	}
	if !info.IsDir() {
		return []string{path}, nil
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, fmt.Errorf("read the mirror rules: %w", err)
	}
	var paths []string
	for _, e := range entries {
		switch filepath.Ext(e.Name()) {
		case ".yaml", ".yml", ".json":
			paths = append(paths, filepath.Join(path, e.Name()))
		}
	}
	return paths, nil
}

// escapeGlob keeps filepath.Glob from reading a path as a pattern.
func escapeGlob(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}
