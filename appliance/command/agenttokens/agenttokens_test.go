package agenttokens_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"landfall/appliance/command/agenttokens"
)

const infraEnv = "6e9d7b8e-3c5a-4c39-a4ac-5a8a0a9fbd31"

const (
	base   = "/api/landfall/v1/infra-envs/6e9d7b8e-3c5a-4c39-a4ac-5a8a0a9fbd31/agent-tokens"
	tokens = `"infra_env_id": "1", "name": "site", "tokens_since": "2026-03-01T12:00:00Z", "tokenless_hosts": []`
	change = `{` + tokens + `, "invalid_urls": ["http://a:8091/i/abc"], "hosts": [{"id": "2", "name": "node-1",
		"status": "known", "registered_at": "2026-03-01T12:00:00Z"}]}`
)

func TestList_withoutTokens(t *testing.T) {
	for name, c := range map[string]struct{ answer, want string }{
		"none":       {`{"authenticated": true}`, "No host that still needs the appliance lacks a token.\n"},
		"auth: none": {`{}`, "The appliance does not authenticate machines (auth: none).\n"},
		"hosts with auth: none": {`{"infra_envs": [{"name": "site", "tokenless_hosts": [{"name": "node-1"}]}]}`,
			"Hosts without a token:\n"},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				_, _ = w.Write([]byte(c.answer))
			}))
			t.Cleanup(server.Close)
			t.Setenv("LANDFALL_URL", server.URL)
			var out bytes.Buffer
			for _, cmd := range agenttokens.Commands() {
				if cmd.Name() == "list" {
					cmd.SetArgs([]string{})
					cmd.SetOut(&out)
					require.NoError(t, cmd.ExecuteContext(t.Context()))
				}
			}
			require.Contains(t, out.String(), c.want)
			if name != "none" {
				require.NotContains(t, out.String(), "No host")
				require.NotContains(t, out.String(), "boot them")
			}
		})
	}
}

// run runs a command against an appliance with fixed answers. It returns the output and the changes
// that the appliance received.
func run(t *testing.T, input string, arguments ...string) (output string, changes []string, err error) {
	t.Helper()
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	answers := map[string]string{
		"GET " + base:              `{` + tokens + `}`,
		"POST " + base + "/renew":  change,
		"POST " + base + "/revoke": change,
		"POST " + base + "/accept-none": `{` + strings.Replace(tokens, "[]",
			`[{"id": "2", "name": "node-1", "status": "known"}], "tokenless_until": "2026-03-01T16:00:00Z"`, 1) + `}`,
		"GET /api/landfall/v1/tokenless-hosts":                                               `{"authenticated": true, "infra_envs": [{` + tokens + `}]}`,
		"GET /api/assisted-install/v2/infra-envs/6e9d7b8e-3c5a-4c39-a4ac-5a8a0a9fbd31/hosts": `[{"id": "2", "requested_hostname": "node-1", "status": "known"}]`,
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		answer, ok := answers[r.Method+" "+r.URL.Path]
		if !ok {
			w.WriteHeader(http.StatusNotFound)
		}
		if r.Method == http.MethodPost {
			changes = append(changes, r.URL.Path+" "+string(body))
		}
		_, err = io.WriteString(w, answer)
		if err != nil {
			t.Error(err)
		}
	}))
	defer server.Close()
	root := &cobra.Command{Use: "agent-tokens", SilenceErrors: true, SilenceUsage: true}
	root.AddCommand(agenttokens.Commands()...)
	var out bytes.Buffer
	root.SetOut(&out)
	root.SetErr(&out)
	root.SetIn(strings.NewReader(input))
	root.SetArgs(slices.Concat(arguments, []string{"--url", server.URL}))
	err = root.ExecuteContext(t.Context())
	return out.String(), changes, err
}

func TestCommands(t *testing.T) {
	for name, c := range map[string]struct {
		input     string
		arguments []string
		contains  []string
		changes   []string
	}{
		"list all": {"", []string{"list"}, []string{"Infra-env site (1)", "2026-03-01 12:00:00 UTC"}, nil},
		"list " +
			"one": {"", []string{"list", "--infra-env", infraEnv}, []string{"Infra-env site (1)"}, nil},
		"renew": {"", []string{"renew", "--infra-env", infraEnv, "--grace", "1h"},
			[]string{"node-1", "http://a:8091/i/abc"}, []string{base + `/renew {"seconds":3600}`}},
		"revoke after a " +
			"confirmation": {"yes\n", []string{"revoke", "--infra-env", infraEnv},
			[]string{"  node-1 (known)\n", "Enter yes", "no longer valid:\n  http://a:8091/i/abc\n",
				"Boot these hosts"},
			[]string{base + "/revoke "}},
		"revoke without a " +
			"question": {"", []string{"revoke", "--infra-env", infraEnv, "--yes"}, []string{"are revoked"},
			[]string{base + "/revoke "}},
		"accept": {"", []string{"accept-none", "4h", "--infra-env", infraEnv},
			[]string{"2026-03-01 16:00:00 UTC", "node-1"}, []string{base + `/accept-none {"seconds":14400}`}},
		"accept none any " +
			"more": {"", []string{"accept-none", "0", "--infra-env", infraEnv}, nil,
			[]string{base + `/accept-none {"seconds":0}`}},
	} {
		t.Run(name, func(t *testing.T) {
			output, changes, err := run(t, c.input, c.arguments...)
			require.NoError(t, err)
			for _, text := range c.contains {
				require.Contains(t, output, text)
			}
			require.Equal(t, c.changes, changes)
		})
	}
}

func TestCommands_refuse(t *testing.T) {
	for name, c := range map[string]struct {
		input     string
		arguments []string
		contains  string
	}{
		"not " +
			"confirmed": {"no\n", []string{"revoke", "--infra-env", infraEnv}, "nothing was changed"},
		"no " +
			"answer": {"", []string{"revoke", "--infra-env", infraEnv}, "nothing was changed"},
		"without infra-env": {"", []string{"revoke", "--yes"}, "infra-env"},
		"no " +
			"time": {"", []string{"accept-none", "long", "--infra-env", infraEnv}, "4h"},
		"too " +
			"short": {"", []string{"accept-none", "0.1s", "--infra-env", infraEnv}, "4h"},
	} {
		t.Run(name, func(t *testing.T) {
			_, changes, err := run(t, c.input, c.arguments...)
			require.ErrorContains(t, err, c.contains)
			require.Empty(t, changes)
		})
	}
}
