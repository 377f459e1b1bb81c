package command

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

	"github.com/spf13/cobra"
)

// difference is one thing that two ISOs do not have in common.
type difference struct {
	In   string `json:"in"`          // volume, kernel arguments, config, embedded files, files
	What string `json:"what"`        // a field, a path, an argument
	A    string `json:"a,omitempty"` // "" where it is not there
	B    string `json:"b,omitempty"`
}

func newISODiff() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "diff A|- B|-",
		Short: "Say in what two ISOs differ: volume, kernel arguments, config, files",
		Long: "Say in what two ISOs differ: volume, kernel arguments, fields of the Ignition config, embedded files, " +
			"and the ISO's own files.\n" +
			"Contents are told by size and digest, never shown. The exit code is 0 if there is no difference and 1 " +
			"if there is one.",
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, arguments []string) error {
			if arguments[0] == "-" && arguments[1] == "-" {
				return usage("only one of the ISOs can come from standard input")
			}
			a, err := openISO(cmd, arguments[0])
			if err != nil {
				return err
			}
			defer a.Close()
			b, err := openISO(cmd, arguments[1])
			if err != nil {
				return err
			}
			defer b.Close()
			differences, err := diffISOs(cmd.Context(), a, b, cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			if asJSON {
				err = writeJSON(cmd.OutOrStdout(), differences)
			} else {
				err = writeDifferences(cmd.OutOrStdout(), differences)
			}
			if err == nil && len(differences) > 0 {
				return &outcomeError{exitFailure}
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "write JSON")
	return cmd
}

func writeDifferences(out io.Writer, differences []difference) error {
	last := ""
	for _, d := range differences {
		if d.In != last {
			last = d.In
			fmt.Fprintf(out, "%s\n", d.In)
		}
		var err error
		switch {
		case d.A == "":
			_, err = fmt.Fprintf(out, "  + %s: %s\n", d.What, d.B)
		case d.B == "":
			_, err = fmt.Fprintf(out, "  - %s: %s\n", d.What, d.A)
		default:
			_, err = fmt.Fprintf(out, "  ~ %s: %s -> %s\n", d.What, d.A, d.B)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// diffISOs compares everything but the ISOs' free space.
func diffISOs(ctx context.Context, a, b *isoFile, errOut io.Writer) ([]difference, error) {
	differences := []difference{}
	compare := func(in string, ofA, ofB map[string]string) {
		names := maps.Clone(ofA)
		maps.Copy(names, ofB)
		for _, what := range slices.Sorted(maps.Keys(names)) {
			if ofA[what] != ofB[what] {
				differences = append(differences, difference{in, what, ofA[what], ofB[what]})
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
	filesA, filesB, err := isoFields(ctx, a, b, errOut)
	if err != nil {
		return nil, err
	}
	compare("files", filesA, filesB)
	return differences, nil
}

func volumeFields(i *isoFile) map[string]string {
	fields := map[string]string{"volume id": i.info.VolumeID, "size": fmt.Sprintf("%d bytes", i.size)}
	if i.info.Architecture != "" {
		fields["architecture"] = i.info.Architecture
	}
	if len(i.info.Boots) > 0 {
		fields["boots as"] = strings.Join(i.info.Boots, ", ")
	}
	return fields
}

func argumentsOf(i *isoFile) map[string]string {
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

// configFields are the fields of the Ignition config, each with its path:
// storage.files[/etc/motd].mode.
func configFields(i *isoFile) (map[string]string, error) {
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

// flatten names lists' elements by what tells them apart in Ignition configs (a path or a name), so
// that one that is put in does not make all after it differ.
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

// shown is a text of a config as it may be told: contents and long texts hold secrets and are told
// by their digest.
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

func embeddedFields(i *isoFile) map[string]string {
	fields := map[string]string{}
	if i.embedded == nil {
		return fields
	}
	for _, file := range i.embedded.Files {
		fields[file.Path] = fmt.Sprintf("%04o, %s", file.Mode.Perm(), summary(file.Data))
	}
	return fields
}

// isoFields are the ISOs' own files, but for what was told by the other comparisons: the embed
// area. Digests are computed only of files that both have with the same size.
func isoFields(ctx context.Context, a, b *isoFile, errOut io.Writer) (ofA, ofB map[string]string, err error) {
	sizesA, sizesB := fileSizes(a), fileSizes(b)
	total := int64(0)
	for path, size := range sizesA {
		if size == sizesB[path] {
			total += 2 * size
		}
	}
	bar := newMeter(errOut, total, "comparing")
	defer bar.end()
	ofA, ofB = map[string]string{}, map[string]string{}
	for _, side := range []struct {
		iso         *isoFile
		mine, other map[string]int64
		fields      map[string]string
	}{{a, sizesA, sizesB, ofA}, {b, sizesB, sizesA, ofB}} {
		for path, size := range side.mine {
			text := fmt.Sprintf("%d bytes", size)
			if other, both := side.other[path]; both && other == size {
				sum, err := side.iso.fileDigest(ctx, path, bar)
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

func fileSizes(i *isoFile) map[string]int64 {
	sizes := map[string]int64{}
	for path, entry := range i.volume.Files() {
		if !entry.Dir && (i.embedded == nil || path != i.embedded.Area.File) {
			sizes[path] = entry.Size
		}
	}
	return sizes
}

func (i *isoFile) fileDigest(ctx context.Context, path string, bar *meter) (string, error) {
	entry := i.volume.Find(path)
	if entry == nil {
		return "", fmt.Errorf("%s has no %s", i.name, path)
	}
	return sumOf(io.TeeReader(&contextReader{ctx, io.NewSectionReader(i.file, entry.Offset, entry.Size)}, bar))
}
