// Package api has the command that calls any operation of the appliance's APIs.
package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"landfall/appliance/command/action"
	"landfall/appliance/command/outcome"
	"landfall/appliance/command/remote"
)

func methods() []string {
	return []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}
}

// request is one call of the command.
type request struct {
	*action.Action
	file string
}

// New returns the command.
func New() *cobra.Command {
	r := &request{Action: action.New()}
	cmd := r.Changing(&cobra.Command{
		Use:   "api METHOD PATH [FIELD=VALUE…]",
		Short: "Call any operation of the API with your login",
		Long: "Call any operation of the API, also those that have no command of their own. A path that does not " +
			"begin with / is one of the\nAssisted Installer's API (v2). FIELD=VALUE are the fields of the JSON body; " +
			"a value is YAML. -f sends a file (- is standard\ninput): YAML or JSON as JSON, anything else as it is.\n" +
			"  landfall api GET clusters -o jsonpath='{[*].name}'\n" +
			"  landfall api PATCH infra-envs/ID/hosts/ID/installer-args 'args=[--append-karg, console=ttyS0]'\n" +
			"  landfall api GET /api/landfall/v1/status",
		Args: cobra.MinimumNArgs(2), ValidArgs: methods(),
		RunE: func(cmd *cobra.Command, arguments []string) error {
			method := strings.ToUpper(arguments[0])
			if !slices.Contains(methods(), method) {
				return outcome.Usagef("the method %s is unknown; expected one of %s", arguments[0],
					strings.Join(methods(), ", "))
			}
			if r.Format.Names() {
				return outcome.Usagef("the answer of an operation has no names; for those of a list, give " +
					"-o jsonpath='{[*].name}'")
			}
			path := arguments[1]
			if !strings.HasPrefix(path, "/") {
				path = remote.APIPath + "/" + path
			}
			return r.run(cmd, method, path, arguments[2:])
		},
	})
	r.Format.AddFlag(cmd)
	cmd.Flags().StringVarP(&r.file, "file", "f", "", "file to send as the body; - is standard input")
	return cmd
}

func (r *request) run(cmd *cobra.Command, method, path string, fields []string) error {
	body, kind, err := r.body(cmd, fields)
	if err != nil {
		return err
	}
	if r.DryRun {
		fmt.Fprintf(cmd.OutOrStdout(), "Nothing was changed. The request would be:\n%s %s\n", method, path)
		_, err := cmd.OutOrStdout().Write(body)
		return err
	}
	header := http.Header{}
	if kind != "" {
		header.Set("Content-Type", kind)
	}
	response, err := r.Do(cmd.Context(), method, path, header, bytes.NewReader(body))
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode >= http.StatusBadRequest {
		text, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
		if err != nil {
			return fmt.Errorf("read the response of the appliance: %w", err)
		}
		return r.Refusal(method, path, response, text)
	}
	return r.print(cmd.OutOrStdout(), response)
}

// body returns the body of the request and its content type, "" without a body.
func (r *request) body(cmd *cobra.Command, fields []string) (body []byte, kind string, err error) {
	switch {
	case r.file != "" && len(fields) > 0:
		return nil, "", outcome.Usagef("give the body with -f or with FIELD=VALUE, and not with both")
	case r.file == "" && len(fields) == 0:
		return nil, "", nil
	case r.file == "":
		if body, err = object(fields); err != nil {
			return nil, "", err
		}
		return body, "application/json", nil
	case r.file == "-":
		body, err = io.ReadAll(cmd.InOrStdin())
	default:
		body, err = os.ReadFile(r.file)
	}
	if err != nil {
		return nil, "", fmt.Errorf("read the file of -f: %w", err)
	}
	if converted, err := yaml.YAMLToJSONStrict(body); err == nil && len(converted) > 0 &&
		strings.ContainsRune("{[", rune(converted[0])) {
		return converted, "application/json", nil
	}
	return body, "application/octet-stream", nil
}

// object returns arguments of the form FIELD=VALUE as a JSON object.
func object(fields []string) ([]byte, error) {
	values := action.Object{}
	for _, field := range fields {
		name, text, ok := strings.Cut(field, "=")
		if !ok {
			return nil, outcome.Usagef("%q is not of the form FIELD=VALUE", field)
		}
		var value any
		if err := yaml.Unmarshal([]byte(text), &value); err != nil {
			return nil, outcome.Usagef("the value of %s is not YAML: %w", name, err)
		}
		values[name] = value
	}
	return json.Marshal(values)
}

// print writes JSON in the format of -o, and anything else as it is.
func (r *request) print(out io.Writer, response *http.Response) error {
	if kind, _, err := mime.ParseMediaType(response.Header.Get("Content-Type")); err != nil ||
		kind != "application/json" {
		_, err := io.Copy(out, response.Body)
		return err
	}
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return fmt.Errorf("read the response of the appliance: %w", err)
	}
	if len(bytes.TrimSpace(text)) == 0 {
		return nil
	}
	return r.Format.Value(out, text)
}
