package api

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/labstack/echo/v4"
	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"

	"landfall/web"
	"landfall/web/operation"
)

// answerTo sends a body to a handler that decodes it as parameters of a new cluster, and returns
// the response.
func answerTo(body string) *httptest.ResponseRecorder {
	server := web.New(web.Options{BodyLimit: 1 << 10})
	if err := server.Register(operation.Operation{Method: http.MethodPost, Path: "/", Access: operation.Public(),
		Handler: func(c echo.Context) error {
			params, err := decode[models.ClusterCreateParams](c)
			if err != nil {
				return err
			}
			return c.String(http.StatusCreated, *params.Name)
		}}); err != nil {
		panic(err)
	}
	recorder := httptest.NewRecorder()
	server.ServeHTTP(recorder, httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body)))
	return recorder
}

func TestDecode_validBody(t *testing.T) {
	answer := answerTo(`{"name": "east", "openshift_version": "4.19", "pull_secret": "{}"}` + "\n")
	require.Equal(t, http.StatusCreated, answer.Code, answer.Body)
	require.Equal(t, "east", answer.Body.String())
}

func TestDecode_invalidBodyNamesField(t *testing.T) {
	for name, refusal := range map[string]struct {
		body   string
		status int
		want   []string
	}{
		"empty":            {"", 400, []string{`"code":"400"`, "no body"}},
		"only blanks":      {" \n\t", 400, []string{"no body"}},
		"no JSON":          {"name: east", 400, []string{"not JSON", "line 1, column 2"}},
		"broken on line 3": {"{\n \"name\": \"a\",\n \"x\" 1}", 400, []string{"not JSON", "line 3, column 6"}},
		"cut off":          {`{"name": "ea`, 400, []string{"not JSON", "ends within a value"}},
		"followed by garbage": {`{"name":"a","openshift_version":"4.19","pull_secret":"{}"} {}`, 400,
			[]string{"continues after"}},
		"unknown field": {`{"nmae": "a"}`, 400, []string{`\"nmae\"`, "unknown field"}},
		"wrong type": {`{"name": 7}`, 400, []string{"name is a JSON number", "expected a string",
			"line 1, column 10"}},
		"wrong type, deep": {`{"api_vips": [{"ip": []}]}`, 400, []string{"api_vips", "expected a string"}},
		"a list":           {`[]`, 400, []string{"the request body is a JSON array", "expected an object"}},
		"not a number": {`{"control_plane_count": "three"}`, 400,
			[]string{"control_plane_count is a JSON string", "expected a whole number"}},
		"nothing required": {`{}`, 422, []string{`"code":602`, "name in body is required",
			"openshift_version in body is required"}},
		"no such value": {`{"name":"a","openshift_version":"4","pull_secret":"{}","cpu_architecture":"z80"}`,
			422, []string{`"code":606`, "cpu_architecture"}},
		"null in a list": {
			`{"name":"a","openshift_version":"4","pull_secret":"{}","api_vips":[{"ip":"192.0.2.4"},null]}`, 422,
			[]string{`"code":605`, "api_vips.1 in body is null"}},
		"wrong form": {`{"name":"a","openshift_version":"4","pull_secret":"{}","cluster_network_cidr":"ten"}`,
			422, []string{`"code":605`, "cluster_network_cidr"}},
		"too large": {`{"name": "` + strings.Repeat("a", 2<<10) + `"}`, 413,
			[]string{`"code":"413"`, "1024 bytes"}},
	} {
		t.Run(name, func(t *testing.T) {
			answer := answerTo(refusal.body)
			require.Equal(t, refusal.status, answer.Code, answer.Body)
			for _, want := range refusal.want {
				require.Contains(t, answer.Body.String(), want)
			}
		})
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(`{"name": "east"}`)
	f.Add(`{"name": {"a": [1, 2`)
	f.Add(`[[[[[[`)
	f.Fuzz(func(t *testing.T, body string) {
		require.Less(t, answerTo(body).Code, 500)
	})
}
