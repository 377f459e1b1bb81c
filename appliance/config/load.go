package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
	"github.com/spf13/viper"
	"go.yaml.in/yaml/v3"
)

// EnvPrefix is the prefix of the environment variables that configure the appliance.
const EnvPrefix = "LANDFALL_"

// otherVariables are environment variables with the prefix that are not keys of the configuration:
// the path of the configuration file, and variables of the commands, the build and the tests.
var otherVariables = []string{EnvPrefix + "CONFIG", EnvPrefix + "REALDATA", EnvPrefix + "BIN", EnvPrefix + "VERSION",
	EnvPrefix + "TOKEN", EnvPrefix + "CA"}

// ConfigError is an invalid configuration. Its text is one sentence.
type ConfigError struct {
	Source  string // the file, environment variable or flag
	Line    int    // in the file; 0 if the source has no lines
	Problem string // the key, the error and the expected value
}

func (e *ConfigError) Error() string {
	if e.Line > 0 {
		return fmt.Sprintf("%s, line %d: %s", e.Source, e.Line, e.Problem)
	}
	return e.Source + ": " + e.Problem
}

// setting is one key of the configuration that has a value.
type setting struct {
	key   string // dotted: limits.request_body_bytes
	field reflect.StructField
	index []int // of the field, from Config
}

func (s setting) flag() string {
	return strings.NewReplacer(".", "-", "_", "-").Replace(s.key)
}

func (s setting) variable() string {
	return EnvPrefix + strings.ToUpper(strings.ReplaceAll(s.key, ".", "_"))
}

// settings returns all settings in the order of the structure.
func settings() []setting { return settingsOf(reflect.TypeFor[Config](), "", nil) }

func settingsOf(structure reflect.Type, prefix string, index []int) []setting {
	var found []setting
	for _, field := range fieldsOf(structure) {
		key, at := prefix+keyOf(field), append(slices.Clone(index), field.Index...)
		if field.Type.Kind() == reflect.Struct {
			found = append(found, settingsOf(field.Type, key+".", at)...)
			continue
		}
		found = append(found, setting{key, field, at})
	}
	return found
}

// fieldsOf returns the fields of a structure that are keys, including those of embedded structures.
func fieldsOf(structure reflect.Type) []reflect.StructField {
	return slices.DeleteFunc(reflect.VisibleFields(structure), func(field reflect.StructField) bool {
		return field.Anonymous || keyOf(field) == "-"
	})
}

func keyOf(field reflect.StructField) string { return field.Tag.Get("mapstructure") }

// AddFlags adds one flag for every key of the configuration to a command. The name of the flag is
// the key with dashes (--limits-request-body-bytes). The value of a list is comma-separated. A list
// of objects is written as YAML.
func AddFlags(flags *pflag.FlagSet) {
	defaults := reflect.ValueOf(Default())
	for _, s := range settings() {
		flag := flags.VarPF(&flagValue{setting: s, text: valueText(defaults.FieldByIndex(s.index))}, s.flag(), "",
			helpOf(s.key))
		if s.field.Type.Kind() == reflect.Bool {
			flag.NoOptDefVal = "true"
		}
	}
}

// JoinBooleans writes "--tls-enabled false" as "--tls-enabled=false", for each way to write a
// boolean. Such a flag needs no value, and services were installed when it needed one.
func JoinBooleans(arguments []string) (joined []string) {
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	AddFlags(flags)
	for _, argument := range arguments {
		_, invalid := strconv.ParseBool(argument)
		if last := len(joined) - 1; last >= 0 && invalid == nil {
			name, ok := strings.CutPrefix(joined[last], "--")
			if flag := flags.Lookup(name); ok && flag != nil && flag.NoOptDefVal != "" {
				joined[last] += "=" + argument
				continue
			}
		}
		joined = append(joined, argument)
	}
	return joined
}

// valueText returns a setting's value in the notation of the configuration file.
func valueText(value reflect.Value) string {
	switch v := value.Interface().(type) {
	case []string:
		return strings.Join(v, ",")
	case fmt.Stringer:
		return v.String()
	case string:
		return v
	case bool:
		return strconv.FormatBool(v)
	}
	return ""
}

// flagValue is a flag whose value is checked like a value in the file.
type flagValue struct {
	setting setting
	text    string
	value   any
}

func (f *flagValue) String() string { return f.text }

func (f *flagValue) Type() string {
	switch f.setting.field.Type {
	case durationType:
		return "duration"
	case bytesType:
		return "bytes"
	case reflect.TypeFor[[]string]():
		return "list"
	}
	switch f.setting.field.Type.Kind() {
	case reflect.Slice:
		return "yaml"
	case reflect.Bool:
		return "bool"
	}
	return "string"
}

func (f *flagValue) Set(text string) error {
	value, err := readText(f.setting, text, "--"+f.setting.flag())
	if configError, ok := errors.AsType[*ConfigError](err); ok {
		return errors.New(configError.Problem)
	}
	f.text, f.value = text, value
	return err
}

// Load reads a configuration. Each source overrides the one before: the defaults, the YAML file
// (none if its name is empty), the variables in environ (as returned by os.Environ) with
// [EnvPrefix], and the flags that were set. flags may be nil; otherwise [AddFlags] created them.
// Relative paths in the file are relative to the file's directory.
//
// Load returns a [*ConfigError] for an unknown key, an invalid value and an unreadable file.
func Load(file string, environ []string, flags *pflag.FlagSet) (Config, error) {
	merged := viper.New()
	defaults := reflect.ValueOf(Default())
	for _, s := range settings() {
		merged.SetDefault(s.key, defaults.FieldByIndex(s.index).Interface())
	}
	if file != "" {
		values, err := readFile(file)
		if err != nil {
			return Config{}, err
		}
		if err := merged.MergeConfigMap(values); err != nil {
			return Config{}, fmt.Errorf("merge %s: %w", file, err)
		}
	}
	if err := mergeEnvironment(merged, environ); err != nil {
		return Config{}, err
	}
	mergeFlags(merged, flags)
	if merged.GetString("auth") == AuthNone {
		merged.SetDefault("listen", listenWithoutAuth)
	}
	var config Config
	if err := merged.UnmarshalExact(&config); err != nil {
		return Config{}, fmt.Errorf("read the configuration: %w", err)
	}
	return config, nil
}

func mergeEnvironment(merged *viper.Viper, environ []string) error {
	known := map[string]setting{}
	for _, s := range settings() {
		known[s.variable()] = s
	}
	for _, entry := range environ {
		name, text, _ := strings.Cut(entry, "=")
		if !strings.HasPrefix(name, EnvPrefix) || slices.Contains(otherVariables, name) || text == "" {
			continue
		}
		s, ok := known[name]
		if !ok {
			names := append(slices.Sorted(maps.Keys(known)), otherVariables...)
			return &ConfigError{Source: "environment", Problem: "unknown variable " + name + suggestion(name, names)}
		}
		value, err := readText(s, text, "environment variable "+name)
		if err != nil {
			return err
		}
		merged.Set(s.key, value)
	}
	return nil
}

func mergeFlags(merged *viper.Viper, flags *pflag.FlagSet) {
	if flags == nil {
		return
	}
	for _, s := range settings() {
		if flag := flags.Lookup(s.flag()); flag != nil && flag.Changed {
			if value, ok := flag.Value.(*flagValue); ok {
				merged.Set(s.key, value.value)
			}
		}
	}
}

func readFile(file string) (map[string]any, error) {
	content, err := os.ReadFile(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, &ConfigError{Source: file,
			Problem: "the file does not exist; write it (landfall docs config prints an example), or omit --config"}
	case err != nil:
		return nil, &ConfigError{Source: file,
			Problem: fmt.Sprintf("cannot be read (%v); give the appliance's user the right to read it",
				rootCause(err))}
	}
	document, err := parse(content)
	if err != nil {
		return nil, syntaxError(file, err)
	}
	if document == nil {
		return nil, nil
	}
	r := reader{source: file, lines: true, directory: filepath.Dir(file)}
	return r.object(document, reflect.TypeFor[Config](), "")
}

// parse returns the root of the only YAML document in the content, or nil if there is none.
func parse(content []byte) (*yaml.Node, error) {
	decoder := yaml.NewDecoder(bytes.NewReader(content))
	var document, second yaml.Node
	if err := decoder.Decode(&document); errors.Is(err, io.EOF) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	if err := decoder.Decode(&second); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("yaml: line %d: a second document begins; keep one", second.Line)
	}
	root := document.Content[0]
	if root.Tag == "!!null" {
		return nil, nil
	}
	return root, nil
}

var yamlError = regexp.MustCompile(`^yaml: (?:line (\d+): )?(.*)`)

func syntaxError(source string, err error) error {
	parts := yamlError.FindStringSubmatch(err.Error())
	if parts == nil {
		return &ConfigError{Source: source, Problem: "not YAML: " + err.Error()}
	}
	line, convErr := strconv.Atoi(parts[1])
	if convErr != nil {
		line = 0
	}
	return &ConfigError{Source: source, Line: line, Problem: "not YAML: " + parts[2]}
}

// readText reads a setting from text: the value of an environment variable or a flag.
func readText(s setting, text, source string) (any, error) {
	r := reader{source: source}
	node := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: text}
	switch {
	case s.field.Type == reflect.TypeFor[[]string]() && !strings.HasPrefix(text, "["):
		node = &yaml.Node{Kind: yaml.SequenceNode}
		for part := range strings.SplitSeq(text, ",") {
			node.Content = append(node.Content, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str",
				Value: strings.TrimSpace(part)})
		}
	case s.field.Type.Kind() == reflect.Slice:
		root, err := parse([]byte(text))
		if err != nil {
			return nil, syntaxError(source, err)
		}
		if root == nil {
			root = &yaml.Node{Kind: yaml.SequenceNode}
		}
		node = root
	}
	return r.value(node, s.field, s.key)
}
