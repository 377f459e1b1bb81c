package appliance_test

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestKubectl_withToken uses kubectl with the token of each role, and with a wrong one. The
// kubeconfig has the appliance's authority.
func TestKubectl_withToken(t *testing.T) {
	s := newSite(t)
	s.config.Kubernetes.Enabled, s.config.Kubernetes.ImageSettles = true, 300*time.Millisecond
	a := startAuthenticated(t, s)
	program, err := kubectlProgram.program()
	require.NoError(t, err)
	as := func(token string) *hub {
		d := &hub{site: s, connection: &connection{address: a.url, token: token}, dir: t.TempDir(), program: program}
		d.writeKubeconfig(t, s, filepath.Join(d.dir, "kubeconfig"))
		return d
	}
	eventually(t, "the Kubernetes API is ready", func() bool {
		return a.call(a.trusted, http.MethodGet, "/readyz", nil).status == http.StatusOK
	})
	const configMap = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: mine, namespace: default}\ndata: {a: b}\n"
	const secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: mine, namespace: default}\nstringData: {a: b}\n"
	for _, c := range []struct {
		role            string
		applies, reveal bool
	}{{"viewer", false, false}, {"operator", true, false}, {"admin", true, true}} {
		_, token := a.program(c.role)
		kubectl := as(token)
		kubectl.kubectl(t, "get", "namespaces")
		for verb, want := range map[string]bool{"get": true, "create": c.applies, "delete": c.applies} {
			answer, _ := kubectl.try(t.Context(), "", "auth", "can-i", verb, "configmaps")
			require.Equal(t, want, strings.HasPrefix(answer, "yes"), "%s %s: %s", c.role, verb, answer)
		}
		_, err := kubectl.try(t.Context(), configMap, "apply", "-f", "-")
		requireAllowed(t, c.applies, err, c.role)
		_, err = kubectl.try(t.Context(), secret, "apply", "-f", "-")
		requireAllowed(t, c.reveal, err, c.role)
		_, err = kubectl.try(t.Context(), "", "get", "secrets")
		requireAllowed(t, c.reveal, err, c.role)
	}
	for _, wrong := range []string{"landfall_wrong", "x"} {
		_, err := as(wrong).try(t.Context(), "", "get", "namespaces")
		require.ErrorContains(t, err, "the server has asked for the client to provide credentials")
	}
}

func requireAllowed(t *testing.T, allowed bool, err error, role string) {
	t.Helper()
	if allowed {
		require.NoError(t, err, role)
		return
	}
	require.ErrorContains(t, err, "forbidden", role)
}
