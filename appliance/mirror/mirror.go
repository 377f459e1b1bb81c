// Package mirror holds the mirror rules of a site and pulls images by them.
//
// The rules come from a registries.conf (TOML, version 2) and from the objects of oc-mirror and oc
// (ImageDigestMirrorSet, ImageTagMirrorSet, ImageContentSourcePolicy). They apply as on the nodes:
// a reference has one table, the one with the longest matching prefix. Its mirrors are tried in
// order and the source last, unless it is blocked. Rules also renders them as the registries.conf
// of the discovery image and the imageDigestSources of the install-config.
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

// Files names the files of a site's rules. Empty fields are allowed.
type Files struct {
	// RegistriesConf is a registries.conf. Its drop-ins (registries.conf.d/*.conf) are read after
	// it in the order of their names.
	RegistriesConf string
	// MirrorSets lists YAML files with ImageDigestMirrorSet, ImageTagMirrorSet and
	// ImageContentSourcePolicy objects, or directories of such files. A directory may hold other
	// kinds of objects, as the cluster-resources of oc-mirror do.
	MirrorSets []string
	// CABundle is a PEM file with the CAs of the mirrors' certificates.
	CABundle string
}

// Document is an input with a name for error texts.
type Document struct {
	Name string
	Data []byte
}

// Sources holds the content of Files.
type Sources struct {
	// RegistriesConf holds the main file and then its drop-ins. A later table replaces an earlier
	// one of the same prefix.
	RegistriesConf []Document
	// MirrorSets holds YAML or JSON files with mirror sets, catalogs and signatures.
	MirrorSets []Document
	// Lists holds hand-written lists; see addHandList.
	Lists    []Document
	CABundle []Document
	// Signatures holds files with one OpenPGP signature of a release each; see signatureFile.
	Signatures []Document
}

// And returns the sources followed by others.
func (s Sources) And(others Sources) Sources {
	return Sources{
		RegistriesConf: slices.Concat(s.RegistriesConf, others.RegistriesConf), MirrorSets: slices.Concat(s.MirrorSets,
			others.MirrorSets),
		Lists: slices.Concat(s.Lists, others.Lists), CABundle: slices.Concat(s.CABundle, others.CABundle),
		Signatures: slices.Concat(s.Signatures, others.Signatures),
	}
}

// InputError reports an invalid document and the location of the problem. Its text is one sentence.
type InputError struct {
	// Document is the name of the file or object.
	Document string
	// Where is a line, a key or an entry of the document; empty for the whole document.
	Where string
	// Problem describes the input that was found and the expected one.
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

// Load reads the files and parses them. Errors are *InputError or contain the name of the
// unreadable file.
func Load(files Files) (*Rules, error) {
	s, err := Read(files)
	if err != nil {
		return nil, err
	}
	return Parse(s)
}

// Read reads the files. Errors contain the name of the unreadable file.
func Read(files Files) (Sources, error) {
	var s Sources
	if files.RegistriesConf != "" {
		dropIns, err := filepath.Glob(filepath.Join(escapeGlob(files.RegistriesConf)+".d", "*.conf"))
		if err != nil {
			return Sources{}, fmt.Errorf("search for drop-ins of %s: %w", files.RegistriesConf, err)
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
		before := len(s.MirrorSets)
		for _, p := range paths {
			if err := appendFile(&s.MirrorSets, p); err != nil {
				return Sources{}, err
			}
		}
		sets := &mirrorSets{}
		for _, doc := range s.MirrorSets[before:] {
			if err := sets.add(doc); err != nil {
				return Sources{}, err
			}
		}
		if len(sets.sources)+len(sets.objects) == 0 {
			return Sources{}, &InputError{path, "", "contains no mirror rules; expected an ImageDigestMirrorSet, an " +
				"ImageTagMirrorSet or an ImageContentSourcePolicy, as oc-mirror writes them"}
		}
	}
	if files.CABundle != "" {
		if err := appendFile(&s.CABundle, files.CABundle); err != nil {
			return Sources{}, err
		}
	}
	return s, nil
}

// Parse returns the rules of documents. Errors are *InputError.
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
	if err := sets.addSignatures(s.Signatures); err != nil {
		return nil, err
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

// yamlFiles returns path itself, or its YAML and JSON files if it is a directory.
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

// escapeGlob escapes a path for filepath.Glob.
func escapeGlob(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}
