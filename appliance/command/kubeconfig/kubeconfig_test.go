package kubeconfig

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

func TestKubeconfig_containsToken(t *testing.T) {
	appliance := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"url": "https://appliance.example.com:6443", "certificate_authority": "PEM"}`)
	}))
	defer appliance.Close()
	t.Setenv("LANDFALL_URL", appliance.URL)
	for _, token := range []string{"lf_token", ""} {
		t.Setenv("LANDFALL_TOKEN", token)
		cmd := New()
		var out bytes.Buffer
		cmd.SetOut(&out)
		cmd.SetArgs(nil)
		require.NoError(t, cmd.Execute())
		var got struct {
			Users []struct {
				User map[string]string `yaml:"user"`
			} `yaml:"users"`
		}
		require.NoError(t, yaml.Unmarshal(out.Bytes(), &got))
		require.Len(t, got.Users, 1)
		require.Equal(t, token, got.Users[0].User["token"])
	}
}
