package abi

import (
	"bytes"
	"maps"
	"slices"
	"strings"
)

// Changed returns the fields whose values differ, in order.
func Changed(before, now Values) []Field {
	all := maps.Clone(before)
	maps.Copy(all, now)
	var changed []Field
	for _, f := range slices.Sorted(maps.Keys(all)) {
		if text(before[f]) != text(now[f]) {
			changed = append(changed, f)
		}
	}
	return changed
}

// Write returns the directory with the values that changed since before. Documents and files
// without changed values keep all their bytes. manifests are the current manifests of the cluster.
// unwritten contains the changed fields that no document of the directory can set.
func (s *Site) Write(before, now Values, manifests []File) (files []File, unwritten []Field, err error) {
	changed := Changed(before, now)
	overridden := false
	for _, f := range changed {
		written, err := s.setValue(f, now)
		if err != nil {
			return nil, nil, err
		}
		overridden = overridden || strings.HasPrefix(string(f), overridePrefix)
		if !written && now[f] != nil {
			unwritten = append(unwritten, f)
		}
	}
	if d := s.document("AgentClusterInstall"); overridden && d != nil {
		override, err := now.Override()
		if err != nil {
			return nil, nil, err
		}
		var value any
		if override != "" {
			value = override
		}
		if err := d.set(field("metadata.annotations", overrideAnnotation), value); err != nil {
			return nil, nil, err
		}
	}
	for _, file := range s.Files {
		switch {
		case strings.HasPrefix(file.Name, manifestDirectory):
			continue
		case file.Name == registriesConfFile || file.Name == caBundleFile:
			value, there := now[Field(file.Name)]
			if slices.Contains(changed, Field(file.Name)) {
				if !there {
					continue
				}
				file.Data = []byte(get[string](Values{"": value}, ""))
			}
		default:
			if file.Data, err = s.text(file); err != nil {
				return nil, nil, err
			}
		}
		files = append(files, file)
	}
	for _, f := range []Field{RegistriesConf, CABundle} { // new files
		if content := get[string](now, f); slices.Contains(unwritten, f) {
			files = append(files, File{string(f), []byte(content)})
			unwritten = slices.DeleteFunc(unwritten, func(other Field) bool { return other == f })
		}
	}
	for _, manifest := range manifests {
		files = append(files, File{manifestDirectory + manifest.Name, manifest.Data})
	}
	slices.SortFunc(files, func(a, b File) int { return strings.Compare(a.Name, b.Name) })
	return files, unwritten, nil
}

func (s *Site) document(kind string) *document {
	for _, d := range s.documents {
		if d.kind != nil && d.kind.name == kind {
			return d
		}
	}
	return nil
}

// text returns the current content of a file.
func (s *Site) text(file File) ([]byte, error) {
	var out bytes.Buffer
	for _, d := range s.documents {
		if d.file != file.Name {
			continue
		}
		data, err := d.bytes()
		if err != nil {
			return nil, err
		}
		out.Write(data)
	}
	return out.Bytes(), nil
}

// setValue writes a changed value to all places that set it. If no place sets it, setValue writes
// the value to the first document that can set it.
func (s *Site) setValue(f Field, now Values) (written bool, err error) {
	if f == RegistriesConf || f == CABundle {
		return slices.ContainsFunc(s.Files, func(file File) bool { return file.Name == string(f) }), nil
	}
	value, override := now[f], strings.HasPrefix(string(f), overridePrefix)
	for _, at := range s.places[f] {
		if override && at.document.kind.name != "" {
			continue // the annotation is written as a whole
		}
		if f == Platform && at.document.kind.name == "" {
			continue // install-config has other fields for each platform
		}
		converted := value
		if at.write != nil && value != nil {
			converted = at.write(value)
		}
		if err := at.document.set(at.path, converted); err != nil {
			return written, err
		}
		written = true
	}
	if written || value == nil {
		return written, nil
	}
	if override {
		if s.document("AgentClusterInstall") != nil {
			return true, nil
		}
		if d := s.document(""); d != nil {
			return true, d.set(strings.TrimPrefix(string(f), overridePrefix), value)
		}
	}
	return s.addValue(f, value)
}

// addValue writes a value that no document of the directory sets yet.
func (s *Site) addValue(f Field, value any) (bool, error) {
	for _, k := range kinds() {
		d := s.document(k.name)
		if d == nil {
			continue
		}
		for _, u := range k.uses {
			if u.field != f || u.is != nil || strings.HasSuffix(u.path, ".architecture") {
				continue
			}
			if k.name == "" && strings.HasPrefix(u.path, "platform.") && nodeAt(d.node,
				strings.Join(strings.SplitN(u.path, ".", 3)[:2], ".")) == nil {
				continue // the field belongs to another platform
			}
			if u.write != nil {
				value = u.write(value)
			}
			return true, d.set(u.path, value)
		}
	}
	return false, nil
}
