package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

// These tests send hostile values in every field and parameter of every operation. They read the
// operations from the OpenAPI document, so they cover new operations and fields without a change.

const anyPullSecret = `{"auths":{"quay.io":{"auth":"dXNlcjpwYXNz"}}}`

// openAPI is the part of the OpenAPI document that the tests read.
type openAPI struct {
	Paths      map[string]map[string]described
	Components struct{ Schemas map[string]*schema }
}

type described struct {
	OperationID string
	Parameters  []struct {
		Name, In string
		Required bool
		Schema   *schema
	}
	RequestBody *struct {
		Content map[string]struct{ Schema *schema }
	}
	Responses map[string]any
}

type schema struct {
	Ref        string `json:"$ref"`
	Type       string
	Format     string
	Enum       []any
	Required   []string
	Properties map[string]*schema
	Items      *schema
}

func (d *openAPI) resolve(s *schema) *schema {
	if name, ok := strings.CutPrefix(s.Ref, "#/components/schemas/"); ok {
		return d.Components.Schemas[name]
	}
	return s
}

func (s *served) description() *openAPI {
	s.Helper()
	recorder := s.send(http.MethodGet, "/v2/openapi", nil, nil)
	require.Equal(s, http.StatusOK, recorder.Code)
	described := new(openAPI)
	require.NoError(s, json.Unmarshal(recorder.Body.Bytes(), described))
	return described
}

// fixedValues returns values of fields for which the schema is not sufficient to generate a valid
// value.
func fixedValues() map[string]any {
	return object{
		"name": "east", "openshift_version": "4.20", "pull_secret": anyPullSecret,
		"api_vip_dnsname": "api.east.site.test",
		"file_name":       "a.yaml", "folder": "openshift", "content": "YTogMQ==",
		"config": `{"ignition":{"version":"3.2.0"}}`, "message": "m", "step_id": "inventory-0123abcd",
	}
}

// fit returns a valid value of a schema with the required fields only.
func (d *openAPI) fit(name string, s *schema) any {
	if value, ok := fixedValues()[name]; ok {
		return value
	}
	s = d.resolve(s)
	switch {
	case len(s.Enum) > 0:
		return s.Enum[0]
	case s.Format == "uuid":
		return uuid.NewString()
	case s.Format == "date-time":
		return "2026-01-02T03:04:05Z"
	}
	switch s.Type {
	case "object":
		made := object{}
		for _, required := range s.Required {
			made[required] = d.fit(required, s.Properties[required])
		}
		return made
	case "array":
		return []any{}
	case "boolean":
		return true
	case "integer", "number":
		return 1
	}
	return "{}"
}

// raw is JSON that is sent unchanged, even if it is invalid.
type raw string

// hostileTexts returns texts that are invalid in every field.
func hostileTexts() []string {
	return []string{
		"", " ", strings.Repeat("x", 1<<14), "\x00", "a\r\nX-Evil: 1\x1b[31m", "\u202eevil\u2066",
		"../../../../etc/passwd", "%s%d%n%!", "{{.}}$(id)`id`;|&",
		"' OR 1=1 --", "-1", "18446744073709551616", "[::1]:99999", "00000000-0000-0000-0000-000000000000",
		"é\u0301\U0001F4A5", `"}],"`, "null", "::ffff:1.2.3.4%eth0", "0.0.0.0/0", "::/0",
	}
}

// hostile returns hostile values for a field as JSON. Values that are invalid in every field are
// sent in the top-level fields of a body only.
func hostile(s *schema, depth int) []raw {
	values := []raw{"null", "7", "-1", "1e400", "9223372036854775808", "{}", `[null]`, "\"\xff\xfe\xc3\x28\"", ""}
	if depth < bodyDepth-1 {
		return append(values, quote(hostileTexts()[2]), quote("a\x00\r\n"))
	}
	values = append(values,
		"true", "1.5", "-9223372036854775809", "9007199254740993", "[]", `[[]]`, `[{}]`, `["", null, 7]`,
		raw(strings.Repeat("[", 2000)+strings.Repeat("]", 2000)), raw(strings.Repeat(`{"a":`, 2000)+
			"1"+strings.Repeat("}", 2000)),
		`"\ud800"`, "\"\x01\"", "nul", "'x'",
	)
	if depth == bodyDepth {
		values = append(values, raw(strings.Repeat("[", 20_000)+strings.Repeat("]", 20_000)),
			raw(strings.Repeat(`{"a":`, 20_000)+"1"+strings.Repeat("}", 20_000)))
	}
	if s.Type == "array" || s.Type == "string" || s.Type == "" {
		for _, text := range hostileTexts() {
			quoted := quote(text)
			values = append(values, quoted)
			if s.Type == "array" {
				values = append(values, "["+quoted+"]")
			}
		}
	}
	if s.Type == "array" {
		values = append(values, raw("["+strings.Repeat("null,", 2000)+"null]"))
	}
	return values
}

func quote(text string) raw {
	quoted, err := json.Marshal(text)
	if err != nil {
		return `""`
	}
	return raw(quoted)
}

// write encodes a value as JSON. It copies raw values unchanged.
func write(value any) []byte {
	var out bytes.Buffer
	var visit func(any)
	visit = func(value any) {
		switch v := value.(type) {
		case raw:
			out.WriteString(string(v))
		case object:
			out.WriteByte('{')
			for i, name := range slices.Sorted(maps.Keys(v)) {
				if i > 0 {
					out.WriteByte(',')
				}
				out.WriteString(string(quote(name)) + ":")
				visit(v[name])
			}
			out.WriteByte('}')
		case []any:
			out.WriteByte('[')
			for i, item := range v {
				if i > 0 {
					out.WriteByte(',')
				}
				visit(item)
			}
			out.WriteByte(']')
		default:
			text, err := json.Marshal(v)
			if err != nil {
				text = []byte("null")
			}
			out.Write(text)
		}
	}
	visit(value)
	return out.Bytes()
}

// bodyDepth is the number of levels of a body whose values are replaced.
const bodyDepth = 3

// mutants calls a function with variants of a body. Each variant has one wrong value, at any level.
func (d *openAPI) mutants(name string, s *schema, depth int, call func(where string, value any)) {
	s = d.resolve(s)
	for _, value := range hostile(s, depth) {
		call(name, value)
	}
	if depth == 0 {
		return
	}
	switch {
	case s.Type == "array" && s.Items != nil:
		d.mutants(name+"[0]", s.Items, depth-1, func(where string, value any) { call(where, []any{value}) })
	case s.Type == "object":
		whole, _ := d.fit("", s).(object)
		for _, field := range slices.Sorted(maps.Keys(s.Properties)) {
			without := maps.Clone(whole)
			delete(without, field)
			call(name+"."+field+" missing", without)
			d.mutants(name+"."+field, s.Properties[field], depth-1, func(where string, value any) {
				mutant := maps.Clone(whole)
				mutant[field] = value
				call(where, mutant)
			})
		}
		unknown := maps.Clone(whole)
		unknown["no_such_field"] = 1
		call(name+" with an unknown field", unknown)
	}
}

// requireValidAnswer checks the response to a request that may be invalid. The response must not be
// an internal error. The error of a rejected request must have the format of the API, and the
// request must write nothing. Only a request with the status 409 may write an event.
func (s *served) requireValidAnswer(what string, before uint64, recorder *httptest.ResponseRecorder) {
	s.Helper()
	require.Less(s, recorder.Code, 500, "%s: %.500s", what, recorder.Body)
	if recorder.Code < 400 {
		return
	}
	require.True(s, utf8.Valid(recorder.Body.Bytes()), what)
	require.Less(s, recorder.Body.Len(), 8<<10, "%s: the error is longer than a sentence: %.300s", what, recorder.Body)
	var shape struct {
		Code            any
		Reason, Message string
	}
	require.NoError(s, json.Unmarshal(recorder.Body.Bytes(), &shape), "%s: %.300s", what, recorder.Body)
	require.NotEmpty(s, shape.Reason+shape.Message, "%s: %s", what, recorder.Body)
	require.NotNil(s, shape.Code, "%s: %s", what, recorder.Body)
	require.NotContains(s, shape.Reason+shape.Message, "\n", what)
	if recorder.Code == http.StatusConflict && s.db.Revision() == before+1 {
		ctx, cancel := context.WithCancel(s.Context())
		defer cancel()
		written := <-s.db.Watch(ctx, before).C()
		require.True(s, strings.HasPrefix(written[0].Key, "/events/"), "%s: the rejected request wrote %s", what,
			written[0].Key)
		return
	}
	require.Equal(s, before, s.db.Revision(), "%s: the rejected request (%.200s) changed the store",
		what, recorder.Body)
}

func TestHostileValues_everyFieldAndParameter(t *testing.T) {
	document := newServed(t).description()
	paths := slices.Sorted(maps.Keys(document.Paths))
	const shares = 6 // concurrent, because requests mostly wait for the disk
	for share := range shares {
		t.Run(fmt.Sprintf("share %d of %d", share+1, shares), func(t *testing.T) {
			t.Parallel()
			a := &attack{served: newServed(t), document: document}
			for i, path := range paths {
				for method, operation := range document.Paths[path] {
					if i%shares == share {
						a.operation(strings.ToUpper(method), path, operation)
					}
				}
			}
			require.Greater(t, a.refused, 200)
			t.Logf("%d requests, %d rejected", a.sent, a.refused)
		})
	}
}

// attack sends invalid requests to operations.
type attack struct {
	*served
	document      *openAPI
	sent, refused int
}

func (a *attack) try(what, method, at string, header http.Header, body []byte) {
	a.Helper()
	before := a.db.Revision()
	recorder := a.send(method, at, header, body)
	a.requireValidAnswer(what, before, recorder)
	a.sent++
	if recorder.Code >= 400 {
		a.refused++
	}
}

// operation replaces the inputs of an operation one after the other.
func (a *attack) operation(method, path string, operation described) {
	ids, query := a.ids(), url.Values{}
	at := fill(path, ids)
	for _, parameter := range operation.Parameters {
		if parameter.In == "query" && parameter.Required {
			query.Set(parameter.Name, a.document.text(parameter.Name, parameter.Schema))
		}
	}
	var body []byte
	if operation.RequestBody != nil {
		if content, ok := operation.RequestBody.Content["application/json"]; ok {
			a.document.mutants(operation.OperationID, content.Schema, bodyDepth, func(where string, value any) {
				a.try(where, method, at+"?"+query.Encode(), nil, write(value))
			})
			body = write(a.document.fit("", content.Schema))
		}
	}
	for _, parameter := range operation.Parameters {
		what := operation.OperationID + ": " + parameter.Name
		for _, text := range append(hostileTexts(), "\xff\xfe", strings.Repeat("a,", 5000)) {
			switch {
			case parameter.In == "path" && text != "":
				wrong := maps.Clone(ids)
				wrong[parameter.Name] = text
				a.try(what, method, fill(path, wrong)+"?"+query.Encode(), nil, body)
			case parameter.In == "query":
				a.try(what, method, at+"?"+with(query, parameter.Name, text), nil, body)
			case parameter.In == "header":
				a.try(what, method, at+"?"+query.Encode(), http.Header{http.CanonicalHeaderKey(parameter.Name): {text}},
					body)
			}
		}
		if parameter.In == "query" {
			missing := maps.Clone(query)
			missing.Del(parameter.Name)
			a.try(what+" missing", method, at+"?"+missing.Encode(), nil, body)
			a.try(what+" twice", method, at+"?"+parameter.Name+"=a&"+parameter.Name+"=b", nil, body)
			a.try(what+" badly encoded", method, at+"?"+parameter.Name+"=%zz%", nil, body)
		}
	}
}

// text returns a valid value of a parameter.
func (d *openAPI) text(name string, s *schema) string {
	text, ok := d.fit(name, s).(string)
	if !ok {
		return "1"
	}
	return text
}

func with(query url.Values, name, value string) string {
	changed := maps.Clone(query)
	changed[name] = []string{value}
	return changed.Encode()
}

func fill(path string, ids map[string]string) string {
	for name, value := range ids {
		path = strings.ReplaceAll(path, "{"+name+"}", url.PathEscape(value))
	}
	return path
}

func TestLogUpload_invalidForm(t *testing.T) {
	s := newServed(t)
	ids := s.ids()
	at := "/v2/clusters/" + ids["cluster_id"] + "/logs?logs_type=controller"
	form := func(name string, content []byte) ([]byte, http.Header) {
		var body bytes.Buffer
		writer := multipart.NewWriter(&body)
		part, err := writer.CreateFormFile(name, "logs")
		require.NoError(t, err)
		_, err = part.Write(content)
		require.NoError(t, err)
		require.NoError(t, writer.Close())
		return body.Bytes(), http.Header{"Content-Type": {writer.FormDataContentType()}}
	}
	good, header := form("upfile", []byte("logs"))
	other, otherHeader := form("elsewhere", []byte("logs"))
	large, largeHeader := form("upfile", make([]byte, 2<<20))
	for name, wrong := range map[string]struct {
		header http.Header
		body   []byte
		status int
	}{
		"no form":            {http.Header{"Content-Type": {"application/json"}}, []byte("{}"), 400},
		"no boundary":        {http.Header{"Content-Type": {"multipart/form-data"}}, good, 400},
		"another boundary":   {http.Header{"Content-Type": {"multipart/form-data; boundary=x"}}, good, 400},
		"cut off":            {header, good[:len(good)-30], 400},
		"another file":       {otherHeader, other, 400},
		"larger than limits": {largeHeader, large, 413},
	} {
		t.Run(name, func(t *testing.T) {
			before := s.db.Revision()
			recorder := s.send(http.MethodPost, at, wrong.header, wrong.body)
			require.Equal(t, wrong.status, recorder.Code, recorder.Body)
			s.requireValidAnswer(name, before, recorder)
		})
	}
	require.Equal(t, http.StatusNoContent, s.send(http.MethodPost, at, header, good).Code)
}
