// Package action has what the commands on clusters, infra-envs and hosts have in common: the flags,
// the dry run, the confirmation of a removal, and the fields of the API as arguments.
package action

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/mattn/go-isatty"
	"github.com/spf13/cobra"
	"golang.org/x/term"
	"sigs.k8s.io/yaml"

	"landfall/appliance/command/outcome"
	"landfall/appliance/command/output"
	"landfall/appliance/command/remote"
	"landfall/appliance/sentence"
	"landfall/web"
	"landfall/web/console"
)

// Action is one call of a command.
type Action struct {
	remote.Client
	Format output.Format
	DryRun bool
	Later  bool // the object of a dry run does not exist yet, so the appliance cannot check the request
	Yes    bool
	Watch  bool

	// clock times the requests of a command that follows something.
	clock clockwork.Clock
}

// New returns an action with the real clock.
func New() *Action { return &Action{clock: clockwork.NewRealClock()} }

// Reading adds the flags of a command that reads.
func (a *Action) Reading(cmd *cobra.Command) *cobra.Command {
	a.AddFlags(cmd.Flags())
	a.Format.AddFlag(cmd)
	return cmd
}

// Formerly adds the flags of a command that reads and had the flag --json before -o.
func (a *Action) Formerly(cmd *cobra.Command) *cobra.Command {
	a.Reading(cmd)
	a.Format.AddFormerFlag(cmd)
	return cmd
}

// Listing adds the flags of a command that lists.
func (a *Action) Listing(cmd *cobra.Command) *cobra.Command {
	cmd.Flags().BoolVarP(&a.Watch, "watch", "w", false, "show the list, then each change, until interrupted")
	return a.Reading(cmd)
}

// Changing adds the flags of a command that changes something.
func (a *Action) Changing(cmd *cobra.Command) *cobra.Command {
	a.AddFlags(cmd.Flags())
	cmd.Flags().BoolVar(&a.DryRun, "dry-run", false, "change nothing; show the request, and let the appliance check it")
	return cmd
}

// AddYesFlag adds the flag that answers the question of [Action.Confirm].
func (a *Action) AddYesFlag(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&a.Yes, "yes", false, "do not ask")
}

// Removing adds the flags of a command that removes something.
func (a *Action) Removing(cmd *cobra.Command) *cobra.Command {
	a.AddYesFlag(cmd)
	return a.Changing(cmd)
}

// Fetch returns the JSON at a path.
func (a *Action) Fetch(ctx context.Context, path string) (json.RawMessage, error) {
	var text []byte
	err := a.Call(ctx, http.MethodGet, path, nil, &text)
	return text, err
}

// Object is a JSON object of the API.
type Object map[string]any

// secretFields are the fields whose values are not shown.
func secretFields() []string {
	return []string{"pull_secret", "fencing_credentials", "password", "secret", "node_secret"}
}

// Send sends a request and returns the answer. With --dry-run, it prints the request instead, lets
// the appliance check it, and returns nil.
func (a *Action) Send(cmd *cobra.Command, method, path string, body Object) (json.RawMessage, error) {
	var in any
	if body != nil {
		in = body
	}
	if a.DryRun {
		if err := a.describe(cmd.OutOrStdout(), method, path, body); err != nil || a.Later {
			return nil, err
		}
		return nil, a.try(cmd, method, path, in)
	}
	answer := []byte{}
	if err := a.Call(cmd.Context(), method, path, in, &answer); err != nil {
		return nil, err
	}
	return answer, nil
}

// try asks the appliance whether it would accept a request.
func (a *Action) try(cmd *cobra.Command, method, path string, body any) error {
	err := a.Call(cmd.Context(), method, web.DryRunPath+path, body, nil)
	refused, isRefused := errors.AsType[*remote.RefusedError](err)
	switch {
	case err == nil:
		_, err = fmt.Fprintln(cmd.OutOrStdout(), "The appliance would accept this request.")
	case isRefused && (refused.Status == http.StatusNotImplemented ||
		strings.Contains(refused.Reason, web.DryRunPath)): // an older appliance has no such path
		_, err = fmt.Fprintln(cmd.OutOrStdout(), "The appliance has no dry run of this request, and did not check it.")
	}
	return err
}

func (a *Action) describe(out io.Writer, method, path string, body Object) error {
	fmt.Fprintf(out, "Nothing was changed. The request would be:\n%s %s\n", method, path)
	if len(body) == 0 {
		return nil
	}
	shown := maps.Clone(body)
	for _, secret := range secretFields() {
		if value, ok := shown[secret]; ok && value != "" {
			shown[secret] = "(not shown)"
		}
	}
	text, err := yaml.Marshal(shown)
	if err != nil {
		return fmt.Errorf("show the request: %w", err)
	}
	_, err = out.Write(text)
	return err
}

// Confirm asks for the name of what will be removed. effect says what is lost. A command without a
// terminal needs --yes.
func (a *Action) Confirm(cmd *cobra.Command, name, effect string) error {
	if a.Yes || a.DryRun {
		return nil
	}
	in := cmd.InOrStdin()
	if file, ok := in.(*os.File); ok && !isatty.IsTerminal(file.Fd()) {
		return outcome.Usagef("without a terminal, this command needs --yes: %s", sentence.Clause(effect))
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "%s\nEnter %s to continue: ", effect, name)
	line, err := bufio.NewReader(in).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read the answer: %w", err)
	}
	if strings.TrimSpace(line) != name {
		return fmt.Errorf("nothing was changed, because the answer was not %s", name)
	}
	return nil
}

// Follow returns the changes of objects of some kinds from now on: names of the live feed, such as
// "clusters". The caller closes them.
func (a *Action) Follow(ctx context.Context, kinds ...string) *remote.Changes {
	return a.FollowAll(ctx, func(change console.Change) bool { return slices.Contains(kinds, change.Kind) })
}

// FollowAll is Follow for the changes for which wanted returns true.
func (a *Action) FollowAll(ctx context.Context, wanted func(console.Change) bool) *remote.Changes {
	return a.Client.Follow(ctx, a.clock, wanted)
}

// Repeat calls show, and with --watch again after each change of objects of some kinds, until the
// command is interrupted.
func (a *Action) Repeat(cmd *cobra.Command, show func() error, kinds ...string) error {
	if !a.Watch {
		return show()
	}
	changes := a.Follow(cmd.Context(), kinds...)
	defer changes.Close()
	for {
		if err := show(); err != nil {
			return err
		}
		if changes.Next(cmd.Context()) != nil {
			return nil // interrupted
		}
	}
}

// Now returns the time.
func (a *Action) Now() time.Time { return a.clock.Now() }

// List writes the list that fetch returns. With --watch, it then writes each change. kinds are the
// names of the live feed for the objects in the list.
func List[T any](cmd *cobra.Command, a *Action, kind *output.Kind[T], fetch func() (json.RawMessage, error),
	kinds ...string) error {
	if !a.Watch {
		list, err := fetch()
		if err != nil {
			return err
		}
		return kind.List(cmd.OutOrStdout(), &a.Format, list)
	}
	changes := a.Follow(cmd.Context(), kinds...)
	defer changes.Close()
	return kind.Watch(cmd.OutOrStdout(), &a.Format, fetch, func() error { return changes.Next(cmd.Context()) })
}

// Answer writes the answer to a change: a sentence for people, or the object in the format of -o.
func Answer[T any](cmd *cobra.Command, a *Action, kind *output.Kind[T], answer json.RawMessage, done string) error {
	if !a.Format.Tabular() {
		return kind.One(cmd.OutOrStdout(), &a.Format, answer, nil)
	}
	_, err := fmt.Fprintln(cmd.OutOrStdout(), done)
	return err
}

// Fields reads arguments of the form FIELD=VALUE into an object. A value is YAML: 3, true, text, or
// [{"ip": "192.0.2.4"}]. T is the type with the fields of the API.
func Fields[T any](body Object, arguments []string) error {
	known := fieldTypes[T]()
	for _, argument := range arguments {
		field, value, ok := strings.Cut(argument, "=")
		if !ok {
			return outcome.Usagef("%q is not of the form FIELD=VALUE; the fields are %s", argument,
				strings.Join(slices.Sorted(maps.Keys(known)), ", "))
		}
		kind, ok := known[field]
		if !ok {
			return outcome.Usagef("the field %q does not exist; the fields are %s", field,
				strings.Join(slices.Sorted(maps.Keys(known)), ", "))
		}
		if kind.Kind() == reflect.String {
			body[field] = value
			continue
		}
		var decoded any
		if err := yaml.Unmarshal([]byte(value), &decoded); err != nil {
			return outcome.Usagef("the value of %s is not YAML: %w", field, err)
		}
		body[field] = decoded
	}
	return check[T](body)
}

// fieldTypes returns the types of the JSON fields of a struct; pointers are resolved.
func fieldTypes[T any]() map[string]reflect.Type {
	types := map[string]reflect.Type{}
	for field := range reflect.TypeFor[T]().Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		kind := field.Type
		if kind.Kind() == reflect.Pointer {
			kind = kind.Elem()
		}
		if name != "" && name != "-" {
			types[name] = kind
		}
	}
	return types
}

// HasField reports whether a type of the API has a JSON field.
func HasField[T any](name string) bool {
	_, ok := fieldTypes[T]()[name]
	return ok
}

// check returns an error if a value has another type than its field.
func check[T any](body Object) error {
	text, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("encode the request: %w", err)
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(new(T)); err != nil {
		if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
			return outcome.Usagef("the field %s cannot be %s; expected %s", wrong.Field, kindOf(wrong.Value),
				expected(wrong.Type))
		}
		return outcome.Usagef("the fields do not match the API: %w", err)
	}
	return nil
}

// Read returns the content of a file; - is standard input.
func Read(stdin io.Reader, file string) ([]byte, error) {
	if file == "-" {
		return io.ReadAll(stdin)
	}
	return os.ReadFile(file)
}

// ReadHidden asks a question and returns the answer, which a person types at the terminal in, and
// which nobody sees. asked is false if in is no terminal.
func ReadHidden(in io.Reader, out io.Writer, question string) (answer []byte, asked bool, err error) {
	terminal, ok := in.(*os.File)
	if !ok || !isatty.IsTerminal(terminal.Fd()) {
		return nil, false, nil
	}
	fmt.Fprint(out, question)
	answer, err = term.ReadPassword(int(terminal.Fd()))
	fmt.Fprintln(out)
	return answer, true, err
}

// ReadFile reads an object with the fields of the API (YAML or JSON) from a file; - is standard
// input. T is the type with the fields; extra fields are allowed and returned.
func ReadFile[T any](cmd *cobra.Command, file string, extra ...string) (body Object, rest Object, err error) {
	text, err := Read(cmd.InOrStdin(), file)
	if err != nil {
		return nil, nil, fmt.Errorf("read the file of -f: %w", err)
	}
	if err := Decode(file, text, &body); err != nil {
		return nil, nil, err
	}
	rest = Object{}
	for _, name := range extra {
		if value, ok := body[name]; ok {
			rest[name] = value
			delete(body, name)
		}
	}
	if body == nil {
		body = Object{}
	}
	return body, rest, Check[T](file, body)
}

// Check returns an error if an object has fields that the API does not have, or values of other
// types. place is the place of the object, for messages.
func Check[T any](place string, body Object) error {
	known := fieldTypes[T]()
	for _, field := range slices.Sorted(maps.Keys(body)) {
		if _, ok := known[field]; !ok {
			return fmt.Errorf("%s: the field %q does not exist; the fields are %s", place, field,
				strings.Join(slices.Sorted(maps.Keys(known)), ", "))
		}
	}
	if err := check[T](body); err != nil {
		return fmt.Errorf("%s: %w", place, err)
	}
	return nil
}

// Secret puts the trimmed content of a file into a field, if the file has a name.
func Secret(stdin io.Reader, body Object, field, flag, file string) error {
	if file == "" {
		return nil
	}
	text, err := Read(stdin, file)
	if err != nil {
		return fmt.Errorf("read the file of --%s: %w", flag, err)
	}
	if body[field] = strings.TrimSpace(string(text)); body[field] == "" {
		return fmt.Errorf("the file %s of --%s is empty", file, flag)
	}
	return nil
}

// Name puts the first argument into the field name, unless it is a field, and returns the other
// arguments.
func Name(body Object, arguments []string) []string {
	if len(arguments) == 0 || strings.Contains(arguments[0], "=") {
		return arguments
	}
	body["name"] = arguments[0]
	return arguments[1:]
}

// Join joins values with commas, as the API wants lists of servers.
func Join(values []string) string { return strings.Join(values, ",") }

// WithPullSecret adds an empty pull secret to a request that has none: the API requires the field.
// The appliance then uses the pull secret of the cluster or the site.
func WithPullSecret(body Object) {
	if body["pull_secret"] == nil {
		body["pull_secret"] = ""
	}
}
