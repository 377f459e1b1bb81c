package sealedimages_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"landfall/appliance/command/sealedimages"
)

const (
	sealed = `{"infra_env_id": "1", "name": "site", "sealed": true, "open": true, "until": "2026-03-02T12:00:00Z",
		"machines": 3, "fetches": [{"address": "192.0.2.7", "first": "2026-03-01T12:00:00Z",
		"last": "2026-03-01T12:10:00Z", "times": 2}]}`
	closed   = `{"name": "site", "sealed": true, "until": "2026-03-01T12:00:00Z"}`
	unsealed = `{"name": "site", "sealed": false}`
)

// run runs a command against an appliance with fixed answers. It returns the output and the last
// body that the appliance received.
func run(t *testing.T, arguments ...string) (output, body string, err error) {
	t.Helper()
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	const base = "/api/landfall/v1/infra-envs/6e9d7b8e-3c5a-4c39-a4ac-5a8a0a9fbd31/sealed-image"
	answers := map[string]string{"GET " + base: sealed, "PUT " + base: sealed, "POST " + base + "/close": closed,
		"DELETE " + base: unsealed}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		received, err := io.ReadAll(r.Body)
		assert.NoError(t, err)
		body = string(received)
		answer, ok := answers[r.Method+" "+r.URL.Path]
		if !ok {
			w.WriteHeader(http.StatusNotFound)
		}
		_, err = io.WriteString(w, answer)
		assert.NoError(t, err)
	}))
	defer server.Close()
	root := &cobra.Command{Use: "sealed-images", SilenceErrors: true, SilenceUsage: true}
	root.AddCommand(sealedimages.Commands()...)
	var out bytes.Buffer
	root.SetOut(&out)
	root.SetErr(&out)
	root.SetArgs(append(arguments, "--url", server.URL))
	err = root.ExecuteContext(t.Context())
	return out.String(), body, err
}

func TestCommands(t *testing.T) {
	for name, c := range map[string]struct {
		arguments []string
		output    []string
		body      string
	}{
		"show": {[]string{"show"}, []string{
			"Until 2026-03-02 12:00:00 UTC, machines may fetch their config, at most 3.",
			"192.0.2.7  2026-03-01 12:00:00 UTC  2026-03-01 12:10:00 UTC  2"}, ""},
		"show as JSON": {[]string{"show", "--json"}, []string{`"address": "192.0.2.7"`}, ""},
		"seal":         {[]string{"seal"}, []string{"are sealed"}, `{"machines":0,"seconds":86400}`},
		"seal for some machines": {[]string{"seal", "--for", "2h", "--machines", "3"}, []string{"are sealed"},
			`{"machines":3,"seconds":7200}`},
		"close":  {[]string{"close"}, []string{"are sealed, and no machine may fetch their config"}, ""},
		"unseal": {[]string{"unseal"}, []string{"are not sealed"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			output, body, err := run(t, append(c.arguments, "--infra-env", "6e9d7b8e-3c5a-4c39-a4ac-5a8a0a9fbd31")...)
			require.NoError(t, err)
			for _, text := range c.output {
				require.Contains(t, output, text)
			}
			if c.body != "" {
				require.JSONEq(t, c.body, body)
			}
		})
	}
}

func TestCommands_refuse(t *testing.T) {
	for _, name := range []string{"show", "seal", "close", "unseal"} {
		_, _, err := run(t, name)
		require.ErrorContains(t, err, "--infra-env is missing", name)
	}
}
