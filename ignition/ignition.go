// Package ignition writes and edits Ignition configs: the discovery config of a live ISO, the
// bootstrap and role configs of openshift-install, and one config per host. It also translates
// network descriptions (nmstate) into keyfiles of NetworkManager.
//
// A config is parsed by the version that it declares (spec 3.0.0 to 3.6.0), edited with Ignition's
// own types, and checked by Ignition's own validator before it is returned. A config keeps its
// version. Only Merge raises the version, to the higher one of its two configs.
//
// The package imports no other package of this project.
//
// Spec: https://coreos.github.io/ignition/specs/
package ignition

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/coreos/ignition/v2/config/v3_0"
	"github.com/coreos/ignition/v2/config/v3_1"
	"github.com/coreos/ignition/v2/config/v3_2"
	"github.com/coreos/ignition/v2/config/v3_3"
	"github.com/coreos/ignition/v2/config/v3_4"
	"github.com/coreos/ignition/v2/config/v3_5"
	"github.com/coreos/ignition/v2/config/v3_6_experimental"
	"github.com/coreos/vcontext/report"
)

// ConfigError reports a problem of an Ignition config and its position.
type ConfigError struct {
	// Config is the name of the config in messages: "config", "override", "merged config".
	Config string
	// Where is a JSON path ("$.storage.files.0.path") or a position in the text ("line 3, column
	// 14"). "" means the whole config.
	Where string
	// Problem is the part of the sentence after the subject.
	Problem string
}

func (e *ConfigError) Error() string {
	if e.Where == "" {
		return fmt.Sprintf("Ignition %s: %s", e.Config, e.Problem)
	}
	return fmt.Sprintf("Ignition %s: %s: %s", e.Config, e.Where, e.Problem)
}

// Validate returns a *ConfigError if a machine would reject the config. Warnings of Ignition, such
// as warnings about unused keys, are not errors.
func Validate(config []byte) error {
	_, _, err := read("config", config, 0)
	return err
}

// Version returns the spec version that the config declares, such as "3.2.0".
func Version(config []byte) (string, error) {
	s, err := specOf("config", config)
	if err != nil {
		return "", err
	}
	return s.version, nil
}

// Merge merges override into base by the rules of Ignition: files by path, units and users by name.
// Lists without a key are appended. The result has the higher of the two versions. Merge validates
// the result, because merging two valid configs can result in an invalid config. Errors are
// *ConfigError with the name of the invalid config: base, override or merged config.
func Merge(base, override []byte) ([]byte, error) {
	bs, err := specOf("config", base)
	if err != nil {
		return nil, err
	}
	os, err := specOf("override", override)
	if err != nil {
		return nil, err
	}
	target := max(bs.minor, os.minor)
	b, spec, err := read("config", base, target)
	if err != nil {
		return nil, err
	}
	o, _, err := read("override", override, target)
	if err != nil {
		return nil, err
	}
	merged, err := spec.encode(spec.merge(b, o))
	if err != nil {
		return nil, fmt.Errorf("encode the merged Ignition config: %w", err)
	}
	if _, _, err := read("merged config", merged, 0); err != nil {
		return nil, err
	}
	return merged, nil
}

// spec is one version of Ignition's config format, with its parser and types. Values are passed as
// any, because each version has its own Go type.
type spec struct {
	minor   int
	version string
	// parse parses a config of this or a lower version and translates it to this version.
	parse func(raw []byte) (any, report.Report, error)
	// shape decodes JSON into the types of this version, without validation. For a value of the
	// wrong type, its error is more precise than the error of parse.
	shape  func(raw []byte) error
	merge  func(parent, child any) any
	encode func(config any) ([]byte, error)
}

func newSpec[T any](minor int, parse func([]byte) (T, report.Report, error), merge func(T, T) T) spec {
	return spec{
		minor:   minor,
		version: fmt.Sprintf("3.%d.0", minor),
		parse: func(raw []byte) (any, report.Report, error) {
			c, r, err := parse(raw)
			return c, r, err
		},
		shape:  func(raw []byte) error { return json.Unmarshal(raw, new(T)) },
		merge:  func(parent, child any) any { return merge(parent.(T), child.(T)) },
		encode: json.Marshal,
	}
}

// specs returns the supported versions, lowest first. The index is the minor version.
func specs() []spec {
	return []spec{
		newSpec(0, v3_0.Parse, v3_0.Merge), // the first version, without a lower version to translate
		newSpec(1, v3_1.ParseCompatibleVersion, v3_1.Merge),
		newSpec(2, v3_2.ParseCompatibleVersion, v3_2.Merge),
		newSpec(3, v3_3.ParseCompatibleVersion, v3_3.Merge),
		newSpec(4, v3_4.ParseCompatibleVersion, v3_4.Merge),
		newSpec(5, v3_5.ParseCompatibleVersion, v3_5.Merge),
		experimental(newSpec(6, v3_6_experimental.ParseCompatibleVersion, v3_6_experimental.Merge)),
	}
}

// experimental makes a spec that the library calls "-experimental" read and write the released
// version number. The newest openshift-install writes 3.6.0, and the experimental types of the
// library describe that version.
func experimental(s spec) spec {
	const suffix = "-experimental"
	parse, encode := s.parse, s.encode
	s.parse = func(raw []byte) (any, report.Report, error) {
		if v, err := declaredVersion(raw); err == nil && v == s.version {
			raw, err = setVersion(raw, s.version+suffix)
			if err != nil {
				return nil, report.Report{}, err
			}
		}
		return parse(raw)
	}
	s.encode = func(config any) ([]byte, error) {
		raw, err := encode(config)
		if err != nil {
			return nil, err
		}
		return setVersion(raw, s.version)
	}
	return s
}

// read parses raw with the version that it declares, or with the minor version atLeast if that is
// higher.
func read(what string, raw []byte, atLeast int) (any, spec, error) {
	s, err := specOf(what, raw)
	if err != nil {
		return nil, spec{}, err
	}
	if atLeast > s.minor {
		s = specs()[atLeast]
	}
	if err := s.shape(raw); err != nil {
		return nil, spec{}, jsonError(what, raw, err)
	}
	config, rpt, err := s.parse(raw)
	for _, e := range rpt.Entries {
		if e.Kind.IsFatal() {
			return nil, spec{}, &ConfigError{Config: what, Where: e.Context.String(), Problem: e.Message}
		}
	}
	if err != nil {
		return nil, spec{}, &ConfigError{Config: what, Problem: err.Error()}
	}
	return config, s, nil
}

// specOf returns the spec of the version that raw declares.
func specOf(what string, raw []byte) (spec, error) {
	if len(bytes.TrimSpace(raw)) == 0 {
		return spec{}, &ConfigError{Config: what, Problem: "is empty; it must be a JSON object"}
	}
	version, err := declaredVersion(raw)
	if err != nil {
		return spec{}, jsonError(what, raw, err)
	}
	if version == "" {
		return spec{}, &ConfigError{Config: what, Where: "$.ignition.version",
			Problem: `is missing; give the spec version of the config, for example "3.2.0"`}
	}
	all := specs()
	for _, s := range all {
		if s.version == version {
			return s, nil
		}
	}
	return spec{}, &ConfigError{Config: what, Where: "$.ignition.version",
		Problem: fmt.Sprintf("is %q; the supported versions are %s to %s", version, all[0].version,
			all[len(all)-1].version)}
}

func declaredVersion(raw []byte) (string, error) {
	var head struct {
		Ignition struct {
			Version string `json:"version"`
		} `json:"ignition"`
	}
	if err := json.Unmarshal(raw, &head); err != nil {
		return "", err
	}
	return head.Ignition.Version, nil
}

func setVersion(raw []byte, version string) ([]byte, error) {
	config, err := decodeTree(raw)
	if err != nil {
		return nil, err
	}
	head, ok := config["ignition"].(map[string]any)
	if !ok {
		head = map[string]any{}
		config["ignition"] = head
	}
	head["version"] = version
	return json.Marshal(config)
}

// decodeTree decodes a config as plain JSON. Numbers keep their text.
func decodeTree(raw []byte) (map[string]any, error) {
	var config map[string]any
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	if err := dec.Decode(&config); err != nil {
		return nil, err
	}
	return config, nil
}

// jsonError returns the *ConfigError for an error of encoding/json.
func jsonError(what string, raw []byte, err error) error {
	var syntax *json.SyntaxError
	var mismatch *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		return &ConfigError{Config: what, Where: position(raw, syntax.Offset),
			Problem: "is not JSON: " + syntax.Error()}
	case errors.As(err, &mismatch):
		where := "$"
		if mismatch.Field != "" {
			where += "." + mismatch.Field
		}
		return &ConfigError{Config: what, Where: where + " (" + position(raw, mismatch.Offset) + ")",
			Problem: fmt.Sprintf("is a JSON %s where %s is expected", mismatch.Value,
				kindName(mismatch.Type.Kind().String()))}
	default:
		return &ConfigError{Config: what, Problem: err.Error()}
	}
}

// position returns the line and column, both from 1, of the byte before offset.
func position(raw []byte, offset int64) string {
	head := raw[:min(max(offset-1, 0), int64(len(raw)))]
	line := bytes.Count(head, []byte("\n")) + 1
	column := len(head) - (bytes.LastIndexByte(head, '\n') + 1) + 1
	return fmt.Sprintf("line %d, column %d", line, column)
}

func kindName(goKind string) string {
	switch {
	case goKind == "slice":
		return "a list"
	case goKind == "struct", goKind == "map":
		return "an object"
	case goKind == "bool":
		return "true or false"
	case strings.HasPrefix(goKind, "int"):
		return "a whole number"
	default:
		return "a " + goKind
	}
}
