package isofile

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// Difference is one difference between two ISOs.
type Difference struct {
	In   string `json:"in"`          // volume, kernel arguments, config, embedded files, files
	What string `json:"what"`        // a field, a path or an argument
	A    string `json:"a,omitempty"` // "" if it is missing there
	B    string `json:"b,omitempty"`
}

// Compare returns the differences between two ISOs, except for their free space. It calls progress
// with the number of bytes to compare; the function returns a writer for these bytes.
func Compare(ctx context.Context, a, b *File, progress func(total int64) io.Writer) ([]Difference, error) {
	differences := []Difference{}
	compare := func(in string, ofA, ofB map[string]string) {
		names := maps.Clone(ofA)
		maps.Copy(names, ofB)
		for _, what := range slices.Sorted(maps.Keys(names)) {
			if ofA[what] != ofB[what] {
				differences = append(differences, Difference{in, what, ofA[what], ofB[what]})
			}
		}
	}
	compare("volume", volumeFields(a), volumeFields(b))
	compare("kernel arguments", argumentsOf(a), argumentsOf(b))
	configA, err := configFields(a)
	if err != nil {
		return nil, err
	}
	configB, err := configFields(b)
	if err != nil {
		return nil, err
	}
	compare("config", configA, configB)
	compare("embedded files", embeddedFields(a), embeddedFields(b))
	filesA, filesB, err := isoFields(ctx, a, b, progress)
	if err != nil {
		return nil, err
	}
	compare("files", filesA, filesB)
	return differences, nil
}

func volumeFields(i *File) map[string]string {
	fields := map[string]string{"volume id": i.info.VolumeID, "size": fmt.Sprintf("%d bytes", i.size)}
	if i.info.Architecture != "" {
		fields["architecture"] = i.info.Architecture
	}
	if len(i.info.Boots) > 0 {
		fields["boots as"] = strings.Join(i.info.Boots, ", ")
	}
	return fields
}

func argumentsOf(i *File) map[string]string {
	fields := map[string]string{}
	if i.embedded == nil {
		return fields
	}
	for argument := range strings.FieldsSeq(i.embedded.KernelArguments) {
		key, value, valued := strings.Cut(argument, "=")
		if valued {
			value = "=" + value
		}
		fields[key] = strings.TrimSpace(fields[key] + " " + cmp.Or(value, "(set)"))
	}
	return fields
}

// configFields returns the fields of the Ignition config by their paths, such as
// storage.files[/etc/motd].mode.
func configFields(i *File) (map[string]string, error) {
	fields := map[string]string{}
	if i.embedded == nil || i.embedded.Ignition == nil {
		return fields, nil
	}
	var config any
	if err := json.Unmarshal(i.embedded.Ignition, &config); err != nil {
		fields["(no JSON)"] = summary(i.embedded.Ignition)
		return fields, nil
	}
	flatten("", config, fields)
	return fields, nil
}

// flatten adds the fields of a value by their paths. It identifies a list element by its own path
// or name, if it has one, so that an inserted element does not change the paths of later elements.
func flatten(path string, value any, fields map[string]string) {
	switch v := value.(type) {
	case map[string]any:
		for key, member := range v {
			flatten(strings.TrimPrefix(path+"."+key, "."), member, fields)
		}
	case []any:
		for n, element := range v {
			flatten(fmt.Sprintf("%s[%s]", path, elementName(n, element)), element, fields)
		}
	case string:
		fields[path] = shown(path, v)
	default:
		fields[path] = fmt.Sprint(v)
	}
}

func elementName(n int, element any) string {
	if object, ok := element.(map[string]any); ok {
		for _, key := range []string{"path", "name"} {
			if name, ok := object[key].(string); ok {
				return name
			}
		}
	}
	return fmt.Sprint(n)
}

// shown returns a text in a config for display. It replaces contents and long texts by their
// digest, because they may be secret.
func shown(path, text string) string {
	const longest = 64
	secret := strings.HasSuffix(path, "source") || strings.HasSuffix(path, "contents") ||
		strings.Contains(path, "passwd") || strings.Contains(path, "httpHeaders")
	if secret || len(text) > longest || strings.ContainsAny(text, "\n\r\x1b") {
		return summary([]byte(text))
	}
	return fmt.Sprintf("%q", text)
}

func summary(data []byte) string {
	return fmt.Sprintf("%d bytes, sha256 %x", len(data), sha256.Sum256(data))
}

func embeddedFields(i *File) map[string]string {
	fields := map[string]string{}
	if i.embedded == nil {
		return fields
	}
	for _, file := range i.embedded.Files {
		fields[file.Path] = fmt.Sprintf("%04o, %s", file.Mode.Perm(), summary(file.Data))
	}
	return fields
}

// isoFields returns the files of both ISOs, without the embed area. It computes digests only for
// files that have the same size in both ISOs.
func isoFields(ctx context.Context, a, b *File, progress func(total int64) io.Writer) (
	ofA, ofB map[string]string, err error) {
	sizesA, sizesB := fileSizes(a), fileSizes(b)
	total := int64(0)
	for path, size := range sizesA {
		if size == sizesB[path] {
			total += 2 * size
		}
	}
	compared := progress(total)
	ofA, ofB = map[string]string{}, map[string]string{}
	for _, side := range []struct {
		iso         *File
		mine, other map[string]int64
		fields      map[string]string
	}{{a, sizesA, sizesB, ofA}, {b, sizesB, sizesA, ofB}} {
		for path, size := range side.mine {
			text := fmt.Sprintf("%d bytes", size)
			if other, both := side.other[path]; both && other == size {
				sum, err := side.iso.fileDigest(ctx, path, compared)
				if err != nil {
					return nil, nil, err
				}
				text += ", sha256 " + sum
			}
			side.fields[path] = text
		}
	}
	return ofA, ofB, nil
}

func fileSizes(i *File) map[string]int64 {
	sizes := map[string]int64{}
	for path, entry := range i.volume.Files() {
		if !entry.Dir && (i.embedded == nil || path != i.embedded.Area.File) {
			sizes[path] = entry.Size
		}
	}
	return sizes
}

func (i *File) fileDigest(ctx context.Context, path string, progress io.Writer) (string, error) {
	entry := i.volume.Find(path)
	if entry == nil {
		return "", fmt.Errorf("%s has no %s", i.name, path)
	}
	return sumOf(io.TeeReader(&reader{ctx, io.NewSectionReader(i.file, entry.Offset, entry.Size)}, progress))
}
