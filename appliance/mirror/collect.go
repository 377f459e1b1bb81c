package mirror

import (
	"archive/tar"
	"archive/zip"
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"landfall/appliance/archive"
)

// Import is a set of related files, such as oc-mirror's results directory: files with rules,
// catalogs, signatures or CAs. Names are relative paths.
type Import struct {
	Files []ImportedFile `json:"files"`
	// Ignored lists files that appeared to be mirror configuration, with the reasons for their
	// omission.
	Ignored []Ignored `json:"ignored"`
}

// FileKind is the format of a file in an import.
type FileKind string

// Kinds of files.
const (
	FileRegistriesConf FileKind = "registries.conf"
	FileObjects        FileKind = "objects"   // YAML or JSON
	FileList           FileKind = "list"      // written by hand
	FileCA             FileKind = "ca"        // PEM
	FileSignature      FileKind = "signature" // one OpenPGP signature of a release
)

// ImportedFile is one file of an import.
type ImportedFile struct {
	Name string   `json:"name"`
	Kind FileKind `json:"kind"`
	Data []byte   `json:"data,omitempty"`
}

// Ignored is a file that an import left out.
type Ignored struct {
	Name   string `json:"name"`
	Reason string `json:"reason"`
}

// Sources returns the files by their kind. Their names are prefixed with the import's name.
func (i *Import) Sources(name string) Sources {
	var s Sources
	for _, file := range i.Files {
		doc := Document{Name: path.Join(name, file.Name), Data: file.Data}
		if path.Base(name) == file.Name {
			doc.Name = name
		}
		switch file.Kind {
		case FileRegistriesConf:
			s.RegistriesConf = append(s.RegistriesConf, doc)
		case FileObjects:
			s.MirrorSets = append(s.MirrorSets, doc)
		case FileList:
			s.Lists = append(s.Lists, doc)
		case FileCA:
			s.CABundle = append(s.CABundle, doc)
		case FileSignature:
			s.Signatures = append(s.Signatures, doc)
		}
	}
	return s
}

// Limits of an import in bytes, for each file and for all files. A signature ConfigMap of a hundred
// releases has about 200 KiB.
const (
	importedFileLimit = 4 << 20
	importLimit       = 32 << 20
)

// CollectPath reads an import from a file, an archive (tar, tar.gz, zip) or a directory. Errors are
// *InputError or contain the name of the unreadable file.
func CollectPath(name string) (*Import, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, fmt.Errorf("import mirror rules: %w", err)
	}
	if info.IsDir() {
		return collectDir(os.DirFS(name), filepath.Base(filepath.Clean(name)))
	}
	file, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("import mirror rules: %w", err)
	}
	got, err := Collect(filepath.Base(name), file)
	return got, errors.Join(err, file.Close())
}

// Collect reads an import from the content of a named file: an archive (tar, tar.gz, zip) or one
// document.
func Collect(name string, content io.Reader) (*Import, error) {
	in, guard := bufio.NewReaderSize(content, 1<<10), archive.NewGuard(archive.Limits{Bytes: unpackedLimit,
		Entries: entryLimit, Time: timeLimit})
	head, err := in.Peek(262)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	if bytes.HasPrefix(head, []byte{0x1f, 0x8b}) {
		unpacked, err := gzip.NewReader(guard.Packed(in))
		if err != nil {
			return nil, &InputError{name, "", "is damaged: " + err.Error()}
		}
		return collectPlain(name, bufio.NewReaderSize(guard.Unpacked(unpacked), 1<<10), guard)
	}
	return collectPlain(name, bufio.NewReaderSize(guard.Packed(in), 1<<10), guard)
}

// Limits of an archive. A workspace of oc-mirror contains the images' layers as files.
const (
	unpackedLimit = 8 << 30 // bytes
	entryLimit    = 100_000
	timeLimit     = time.Minute
)

func collectPlain(name string, in *bufio.Reader, guard *archive.Guard) (*Import, error) {
	head, err := in.Peek(262)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, &InputError{name, "", "is damaged: " + err.Error()}
	}
	switch {
	case bytes.HasPrefix(head, []byte("PK\x03\x04")):
		return collectZip(name, in, guard)
	case len(head) == 262 && string(head[257:]) == "ustar":
		return collectTar(name, in, guard)
	}
	data, err := readLimited(in, importedFileLimit)
	if err != nil {
		return nil, &InputError{name, "", err.Error()}
	}
	c := &collector{alone: true}
	c.add(name, data)
	return c.finish(name)
}

// CollectFiles returns an import of single files, such as those of a directory that a user dropped
// into a browser.
func CollectFiles(name string, files []Document) (*Import, error) {
	c := &collector{alone: len(files) == 1}
	for _, file := range files {
		if c.wants(file.Name, int64(len(file.Data))) {
			c.add(file.Name, file.Data)
		}
	}
	return c.finish(name)
}

func readLimited(in io.Reader, limit int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(in, limit+1))
	if err != nil {
		return nil, fmt.Errorf("can't be read completely: %w", err)
	}
	if int64(len(data)) > limit {
		return nil, fmt.Errorf("is larger than %d MiB, unlike any file with mirror rules", limit>>20)
	}
	return data, nil
}

func collectDir(dir fs.FS, name string) (*Import, error) {
	c := &collector{}
	err := fs.WalkDir(dir, ".", func(p string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if p != "." && strings.HasPrefix(entry.Name(), ".") {
				return fs.SkipDir
			}
			return nil
		}
		info, err := fs.Stat(dir, p) // follows links
		if err != nil || !info.Mode().IsRegular() || !c.wants(p, info.Size()) {
			return nil
		}
		data, err := fs.ReadFile(dir, p)
		if err == nil {
			c.add(p, data)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	return c.finish(name)
}

func collectTar(name string, in io.Reader, guard *archive.Guard) (*Import, error) {
	c := &collector{}
	for members := tar.NewReader(in); ; {
		header, err := members.Next()
		if errors.Is(err, io.EOF) {
			return c.finish(name)
		}
		if err == nil {
			err = guard.Entry()
		}
		if over, ok := errors.AsType[*archive.LimitError](err); ok {
			return nil, &InputError{name, "", over.Error() + "; import only the directory with oc-mirror's results"}
		}
		if err != nil {
			return nil, &InputError{name, "", "is a damaged tar archive: " + err.Error()}
		}
		if header.Typeflag != tar.TypeReg || !c.wants(header.Name, header.Size) {
			continue
		}
		data, err := readLimited(members, importedFileLimit)
		if err != nil {
			return nil, &InputError{name, header.Name, err.Error()}
		}
		c.add(header.Name, data)
	}
}

// zipLimit limits the size of a zip archive in bytes. A zip archive is read whole, because its
// table of contents is at its end.
const zipLimit = 64 << 20

func collectZip(name string, in io.Reader, guard *archive.Guard) (*Import, error) {
	data, err := readLimited(in, zipLimit)
	if err != nil {
		return nil, &InputError{name, "", err.Error()}
	}
	if entries := zipEntries(data); entries > entryLimit {
		return nil, &InputError{name, "", fmt.Sprintf("has more than %d entries; import only the directory with "+
			"oc-mirror's results", entryLimit)}
	}
	members, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return nil, &InputError{name, "", "is a damaged zip archive: " + err.Error()}
	}
	c := &collector{}
	for _, entry := range members.File {
		if err := guard.Entry(); err != nil {
			return nil, &InputError{name, "", err.Error() + "; import only the directory with oc-mirror's results"}
		}
		if !entry.Mode().IsRegular() || !c.wants(entry.Name, int64(min(entry.UncompressedSize64, importLimit+1))) {
			continue
		}
		data, err := readZipEntry(entry)
		if err != nil {
			return nil, &InputError{name, entry.Name, err.Error()}
		}
		c.add(entry.Name, data)
	}
	return c.finish(name)
}

// zipEntries returns the number of entries in the table of contents of a zip archive, before the
// table is read: the number of signatures of its records (APPNOTE 4.3.12).
func zipEntries(data []byte) int { return bytes.Count(data, []byte("PK\x01\x02")) }

func readZipEntry(entry *zip.File) ([]byte, error) {
	file, err := entry.Open()
	if err != nil {
		return nil, err
	}
	data, err := readLimited(file, importedFileLimit)
	return data, errors.Join(err, file.Close())
}

// collector selects the mirror configuration in a directory tree. In oc-mirror's workspace it
// selects the files for clusters and the signatures of releases. The other files of a workspace
// (catalogs, logs, image layouts) are large and contain no rules.
type collector struct {
	alone     bool // a single file
	found     []ImportedFile
	ocMirror  bool
	size      int64
	ignored   []Ignored
	overLimit bool
}

// resultsDir matches oc-mirror's directory of files for clusters: results-<seconds> in version 1,
// cluster-resources in version 2. signaturesDir matches its directory of ConfigMaps with
// signatures.
var (
	resultsDir    = regexp.MustCompile(`(^|/)(results-\d+|cluster-resources)(/|$)`)
	signaturesDir = regexp.MustCompile(`(^|/)release-signatures/[^/]+$`)
)

// isResult reports whether a file belongs to the results of oc-mirror.
func isResult(name string) bool {
	return resultsDir.MatchString(name) || signaturesDir.MatchString(name) || signatureDigest(name) != ""
}

// wants reports whether a file may be mirror configuration according to its path and size.
func (c *collector) wants(name string, size int64) bool {
	name = cleanName(name)
	if c.alone {
		return true
	}
	base := path.Base(name)
	if signatureDigest(name) != "" {
		if size > maxSignature {
			c.ignored = append(c.ignored, Ignored{name, notSignature})
		}
		return size <= maxSignature
	}
	switch path.Ext(base) {
	case ".yaml", ".yml", ".json", ".conf", ".pem", ".crt", ".txt", ".list":
	default:
		return false
	}
	if strings.HasPrefix(base, ".") || base == "package.json" {
		return false
	}
	if c.ocMirror && !isResult(name) {
		return false
	}
	if size > importedFileLimit {
		c.ignored = append(c.ignored, Ignored{name, fmt.Sprintf("is larger than %d MiB", importedFileLimit>>20)})
		return false
	}
	return true
}

func (c *collector) add(name string, data []byte) {
	name = cleanName(name)
	if resultsDir.MatchString(name) && !c.ocMirror {
		c.ocMirror = true
		c.found = slices.DeleteFunc(c.found, func(f ImportedFile) bool { return !isResult(f.Name) })
		c.size, c.overLimit = 0, false
		for _, f := range c.found {
			c.size += int64(len(f.Data))
		}
	}
	kind, reason := c.kindOf(name, data)
	if kind == "" {
		if reason != "" {
			c.ignored = append(c.ignored, Ignored{name, reason})
		}
		return
	}
	if c.size += int64(len(data)); c.size > importLimit {
		c.overLimit = true
		return
	}
	c.found = append(c.found, ImportedFile{Name: name, Kind: kind, Data: data})
}

// kindOf returns the kind of a file by its name and content. For a file of another kind it returns
// "" and, if useful, a reason.
func (c *collector) kindOf(name string, data []byte) (FileKind, string) {
	base, ext := path.Base(name), path.Ext(name)
	switch {
	case signatureDigest(name) != "" && len(data) <= maxSignature && isOpenPGP(data):
		return FileSignature, ""
	case signatureDigest(name) != "":
		return "", notSignature
	case c.alone && isOpenPGP(data):
		return "", "is a signature without the digest of its release in its name; import its directory, or name it " +
			"release-sha256-<digest>"
	case (c.alone || ext == ".pem" || ext == ".crt") && bytes.IndexByte(data, 0) >= 0:
		return "", "is binary; convert a DER certificate with openssl x509 -inform der"
	case bytes.Contains(data, []byte("-----BEGIN ")) && (ext == ".pem" || ext == ".crt" ||
		c.alone && bytes.HasPrefix(bytes.TrimSpace(data), []byte("-----BEGIN "))):
		return FileCA, ""
	case ext == ".pem", ext == ".crt":
		return "", "has no certificate in PEM"
	case base == "ImageSetConfiguration.yaml", bytes.Contains(data, []byte("kind: ImageSetConfiguration")):
		return "", "is the input of oc-mirror, not its results"
	case ext == ".yaml", ext == ".yml", ext == ".json":
		return FileObjects, ""
	case ext == ".conf" && (c.alone || strings.Contains(base, "registries") || strings.Contains(path.Dir(name),
		"registries.conf.d")):
		return FileRegistriesConf, ""
	case ext == ".conf":
		return "", "is neither a registries.conf nor a drop-in"
	case ext == ".list", base == "mapping.txt", c.alone && ext == ".txt":
		return FileList, ""
	case c.alone && bytes.Contains(data, []byte("[[registry]]")):
		return FileRegistriesConf, ""
	case c.alone && (bytes.Contains(data, []byte("kind:")) || bytes.Contains(data, []byte("imageDigestSources")) ||
		bytes.Contains(data, []byte("imageContentSources"))):
		return FileObjects, ""
	case c.alone:
		return FileList, ""
	}
	return "", ""
}

// finish sorts the files into reading order and parses them.
func (c *collector) finish(name string) (*Import, error) {
	if c.overLimit {
		return nil, &InputError{name, "",
			fmt.Sprintf("has more than %d MiB of files that may contain mirror rules; use only the directory with "+
				"oc-mirror's results (cluster-resources or results-…)", importLimit>>20)}
	}
	if slices.ContainsFunc(c.found, func(f ImportedFile) bool {
		return f.Kind == FileObjects ||
			f.Kind == FileRegistriesConf
	}) {
		// oc-mirror's mapping file lists each image of its mirror sets.
		c.found = slices.DeleteFunc(c.found, func(f ImportedFile) bool {
			mapping := path.Base(f.Name) == "mapping.txt"
			if mapping {
				c.ignored = append(c.ignored, Ignored{f.Name, "the mirror sets contain the same rules"})
			}
			return mapping
		})
	}
	slices.SortStableFunc(c.found, func(a, b ImportedFile) int {
		if d := runTime(a.Name) - runTime(b.Name); d != 0 {
			return d
		}
		if main := strings.Compare(path.Dir(a.Name), path.Dir(b.Name)); main != 0 {
			return main
		}
		return strings.Compare(a.Name, b.Name)
	})
	got := &Import{Files: c.found, Ignored: c.ignored}
	rules, err := Parse(got.Sources(name))
	if err != nil {
		return nil, err
	}
	if rules.Empty() && len(rules.objects) == 0 && c.alone && len(c.ignored) == 1 {
		return nil, &InputError{name, "", c.ignored[0].Reason}
	}
	if rules.Empty() && len(rules.objects) == 0 {
		return nil, &InputError{name, "",
			"contains no mirror configuration; expected a registries.conf, ImageDigestMirrorSet, ImageTagMirrorSet " +
				"or ImageContentSourcePolicy objects, CatalogSources, release signatures, a list of sources and " +
				"mirrors, or CA certificates"}
	}
	if got.Ignored == nil {
		got.Ignored = []Ignored{}
	}
	got.dropUseless(name)
	return got, nil
}

// dropUseless omits object files without mirror configuration and records the reason.
func (i *Import) dropUseless(name string) {
	i.Files = slices.DeleteFunc(i.Files, func(f ImportedFile) bool {
		if f.Kind != FileObjects {
			return false
		}
		one := Import{Files: []ImportedFile{f}}
		rules, err := Parse(one.Sources(name))
		if err != nil || !rules.Empty() || len(rules.objects) > 0 {
			return false
		}
		i.Ignored = append(i.Ignored, Ignored{f.Name, "contains no mirror configuration"})
		return true
	})
}

// notSignature is the reason to ignore a file that has the name of a signature.
const notSignature = "is not an OpenPGP signature of a release"

// runTime returns the time in seconds at which oc-mirror version 1 wrote a file. A later run
// overrides an earlier one.
func runTime(name string) int {
	for _, element := range strings.Split(name, "/") {
		if digits, ok := strings.CutPrefix(element, "results-"); ok {
			if seconds, err := strconv.Atoi(digits); err == nil {
				return seconds
			}
		}
	}
	return 0
}

// cleanName returns a clean relative name for a file of an archive.
func cleanName(name string) string {
	name = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return -1
		}
		return r
	}, strings.ReplaceAll(name, `\`, "/"))
	return strings.TrimPrefix(path.Clean("/"+name), "/")
}
