// Package output writes the answers of the appliance in the format of -o: as a table, as JSON or
// YAML with the fields of the API, as names, or as the result of a JSONPath expression.
package output

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/client-go/util/jsonpath"
	"sigs.k8s.io/yaml"
)

// Formats that need no expression.
const (
	table    = "table"
	wide     = "wide"
	asJSON   = "json"
	asYAML   = "yaml"
	names    = "name"
	pathMark = "jsonpath="
)

// Format is the value of -o. The zero value is a table.
type Format struct {
	name string
	path *jsonpath.JSONPath
}

// AddFlag adds the flag -o to a command.
func (f *Format) AddFlag(cmd *cobra.Command) {
	cmd.Flags().VarP(f, "output", "o", "format: "+strings.Join(formats(), ", ")+"EXPRESSION")
	Choices(cmd, "output", formats()...)
}

// AddJSONFlag adds the flag --json besides -o.
func (f *Format) AddJSONFlag(cmd *cobra.Command) {
	cmd.Flags().BoolFunc(formerFlag, "the same as -o json", func(string) error { return f.Set(asJSON) })
}

// AddFormerFlag adds the former flag --json. It works as before and says its new name.
func (f *Format) AddFormerFlag(cmd *cobra.Command) {
	cmd.Flags().BoolFunc(formerFlag, "former name of -o json", func(string) error {
		fmt.Fprintf(cmd.ErrOrStderr(), "--%s is now -o %s\n", formerFlag, asJSON)
		return f.Set(asJSON)
	})
	cmd.Flags().Lookup(formerFlag).Hidden = true
}

// formerFlag selects JSON.
const formerFlag = "json"

// Choices lets the shell complete the values of a flag.
func Choices(cmd *cobra.Command, flag string, values ...string) {
	Complete(cmd, flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
}

// Complete lets the shell complete the values of a flag with a function. A command without the flag
// fails.
func Complete(cmd *cobra.Command, flag string, completion cobra.CompletionFunc) {
	if err := cmd.RegisterFlagCompletionFunc(flag, completion); err != nil {
		cmd.PreRunE = func(*cobra.Command, []string) error {
			return fmt.Errorf("prepare the completion of --%s: %w", flag, err)
		}
	}
}

func formats() []string { return []string{table, wide, asJSON, asYAML, names, pathMark} }

var _ pflag.Value = (*Format)(nil)

// Set implements pflag.Value.
func (f *Format) Set(text string) error {
	switch text {
	case table, wide, asJSON, asYAML, names:
		*f = Format{name: text}
		return nil
	}
	expression, ok := strings.CutPrefix(text, pathMark)
	if !ok || expression == "" {
		return fmt.Errorf("the format is one of %s, or %s'{.id}'", strings.Join(formats()[:5], ", "), pathMark)
	}
	if !strings.Contains(expression, "{") {
		expression = "{" + expression + "}"
	}
	path := jsonpath.New("output").AllowMissingKeys(true)
	if err := path.Parse(expression); err != nil {
		return fmt.Errorf("the expression is invalid (%w); an example is %s'{.id}'", err, pathMark)
	}
	*f = Format{name: pathMark, path: path}
	return nil
}

// String implements pflag.Value.
func (f *Format) String() string {
	if f.name == "" {
		return table
	}
	return f.name
}

// Type implements pflag.Value.
func (f *Format) Type() string { return "format" }

// Wide reports whether all columns are wanted.
func (f *Format) Wide() bool { return f.name == wide }

// Names reports whether only names are wanted.
func (f *Format) Names() bool { return f.name == names }

// Tabular reports whether the output is for people.
func (f *Format) Tabular() bool { return f.name == "" || f.name == table || f.name == wide }

// Value writes a JSON value in a format that is not a table.
func (f *Format) Value(out io.Writer, value json.RawMessage) error {
	switch f.name {
	case asYAML:
		return YAML(out, value)
	case pathMark:
		return f.evaluate(out, value)
	}
	var indented bytes.Buffer
	if err := json.Indent(&indented, escape(value), "", "  "); err != nil {
		return fmt.Errorf("write JSON: %w", err)
	}
	_, err := fmt.Fprintln(out, strings.TrimSpace(indented.String()))
	return err
}

// Document writes one answer: for people with a function, as noun/name, or in another format.
func (f *Format) Document(out io.Writer, noun, name string, answer any, write func(io.Writer) error) error {
	switch {
	case f.Tabular():
		return write(out)
	case f.name == names:
		_, err := fmt.Fprintf(out, "%s/%s\n", noun, name)
		return err
	}
	text, err := json.Marshal(answer)
	if err != nil {
		return fmt.Errorf("write JSON: %w", err)
	}
	return f.Value(out, text)
}

// Objects writes a list of objects; see [Kind.List].
func (k *Kind[T]) Objects(out io.Writer, format *Format, list []T) error {
	if list == nil {
		list = []T{}
	}
	text, err := json.Marshal(list)
	if err != nil {
		return fmt.Errorf("write JSON: %w", err)
	}
	return k.List(out, format, text)
}

// YAML writes a JSON value as YAML.
func YAML(out io.Writer, value json.RawMessage) error {
	text, err := yaml.JSONToYAML(escape(value))
	if err != nil {
		return fmt.Errorf("write YAML: %w", err)
	}
	_, err = out.Write(text)
	return err
}

// escape writes the unprintable characters in the strings of a JSON value as JSON escapes. YAML
// permits no control characters, and terminals obey them. JSON itself escapes those before the
// space.
func escape(value json.RawMessage) json.RawMessage {
	unprintable := func(r rune) bool { return r > ' ' && r <= 0xffff && !unicode.IsPrint(r) }
	if bytes.IndexFunc(value, unprintable) < 0 {
		return value
	}
	var text bytes.Buffer
	for _, r := range string(value) {
		if unprintable(r) {
			fmt.Fprintf(&text, `\u%04x`, r)
		} else {
			text.WriteRune(r)
		}
	}
	return text.Bytes()
}

func (f *Format) evaluate(out io.Writer, value json.RawMessage) error {
	var decoded any
	decoder := json.NewDecoder(bytes.NewReader(value))
	decoder.UseNumber() // sizes in bytes keep all digits
	if err := decoder.Decode(&decoded); err != nil {
		return fmt.Errorf("read the answer: %w", err)
	}
	var text bytes.Buffer
	if err := f.path.Execute(&text, decoded); err != nil {
		return fmt.Errorf("evaluate the expression of -o: %w", err)
	}
	if text.Len() > 0 && !bytes.HasSuffix(text.Bytes(), []byte("\n")) {
		text.WriteByte('\n')
	}
	_, err := out.Write(text.Bytes())
	return err
}

// Column is a column of a table.
type Column[T any] struct {
	Title string
	// Wide columns are shown with -o wide only.
	Wide bool
	// State columns have colors on a terminal.
	State bool
	// Value returns the text of a row.
	Value func(*T) string
}

// Kind describes objects of one kind.
type Kind[T any] struct {
	// Name is the noun, which -o name writes before each name: cluster/east.
	Name string
	// Empty is the sentence for an empty list.
	Empty string
	// NameOf returns the name of an object.
	NameOf func(*T) string
	// Columns are the columns of the table.
	Columns []Column[T]
}

// List writes a JSON array of objects.
func (k *Kind[T]) List(out io.Writer, format *Format, list json.RawMessage) error {
	if !format.Tabular() && format.name != names {
		return format.Value(out, list)
	}
	var items []T
	if err := json.Unmarshal(list, &items); err != nil {
		return mismatch(err)
	}
	if format.name == names {
		for i := range items {
			if err := k.writeName(out, &items[i]); err != nil {
				return err
			}
		}
		return nil
	}
	if len(items) == 0 {
		_, err := fmt.Fprintln(out, k.Empty)
		return err
	}
	return k.table(out, format, items, true)
}

func mismatch(err error) error {
	return fmt.Errorf("the response does not match the API: %w; check whether another service has this URL", err)
}

func (k *Kind[T]) writeName(out io.Writer, item *T) error {
	_, err := fmt.Fprintf(out, "%s/%s\n", k.Name, line(k.NameOf(item)))
	return err
}

// One writes one object. describe writes it for people; nil writes a row of the table.
func (k *Kind[T]) One(out io.Writer, format *Format, object json.RawMessage, describe func(*Description, *T)) error {
	if !format.Tabular() && format.name != names {
		return format.Value(out, object)
	}
	item := new(T)
	if err := json.Unmarshal(object, item); err != nil {
		return mismatch(err)
	}
	switch {
	case format.name == names:
		return k.writeName(out, item)
	case describe == nil:
		return k.table(out, format, []T{*item}, true)
	}
	d := &Description{style: newStyle(out)}
	describe(d, item)
	return d.write(out)
}

func (k *Kind[T]) table(out io.Writer, format *Format, items []T, headers bool) error {
	var columns []Column[T]
	for _, column := range k.Columns {
		if !column.Wide || format.Wide() {
			columns = append(columns, column)
		}
	}
	t := newGrid(out, headers)
	for _, column := range columns {
		t.titles = append(t.titles, column.Title)
		t.states = append(t.states, column.State)
	}
	for i := range items {
		var row []string
		for _, column := range columns {
			row = append(row, column.Value(&items[i]))
		}
		t.rows = append(t.rows, row)
	}
	return t.write(out)
}

// Watch writes a list, and then each object that changed, until wait returns an error. fetch
// returns the present list.
func (k *Kind[T]) Watch(out io.Writer, format *Format, fetch func() (json.RawMessage, error),
	wait func() error) error {
	seen := map[string]string{}
	for first := true; ; first = false {
		list, err := fetch()
		if err != nil {
			return err
		}
		if err := k.changed(out, format, list, seen, first); err != nil {
			return err
		}
		if err := wait(); err != nil {
			return nil
		}
	}
}

// Rows writes objects of a list that continues. headers is true for its beginning.
func (k *Kind[T]) Rows(out io.Writer, format *Format, objects []json.RawMessage, headers bool) error {
	var rows []T
	for _, object := range objects {
		if !format.Tabular() {
			if err := k.One(out, format, object, nil); err != nil {
				return err
			}
			continue
		}
		item := new(T)
		if err := json.Unmarshal(object, item); err != nil {
			return mismatch(err)
		}
		rows = append(rows, *item)
	}
	if len(rows) == 0 {
		return nil
	}
	return k.table(out, format, rows, headers)
}

// changed writes the objects of a list that differ from what was seen.
func (k *Kind[T]) changed(out io.Writer, format *Format, list json.RawMessage, seen map[string]string,
	headers bool) error {
	var raw []json.RawMessage
	if err := json.Unmarshal(list, &raw); err != nil {
		return mismatch(err)
	}
	var rows []json.RawMessage
	for _, object := range raw {
		item := new(T)
		if err := json.Unmarshal(object, item); err != nil {
			return mismatch(err)
		}
		key, text := k.key(object, item), string(object)
		if format.Tabular() || format.name == names {
			text = k.text(format, item)
		}
		if seen[key] != text {
			seen[key] = text
			rows = append(rows, object)
		}
	}
	return k.Rows(out, format, rows, headers)
}

func (k *Kind[T]) key(object json.RawMessage, item *T) string {
	var identified struct {
		ID string `json:"id"`
	}
	if err := json.Unmarshal(object, &identified); err == nil && identified.ID != "" {
		return identified.ID
	}
	return k.NameOf(item)
}

func (k *Kind[T]) text(format *Format, item *T) string {
	var text strings.Builder
	for _, column := range k.Columns {
		if !column.Wide || format.Wide() {
			text.WriteString(column.Value(item) + "\t")
		}
	}
	return text.String()
}
