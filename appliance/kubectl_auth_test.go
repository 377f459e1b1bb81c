package appliance_test

import (
	"fmt"
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
	awaitReady(t, func() answer { return a.call(a.trusted, http.MethodGet, "/readyz", nil) })
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

// secretObjects have the planted secrets %[1]s to %[6]s.
const secretObjects = `
apiVersion: v1
kind: Secret
metadata: {name: planted, namespace: default}
stringData: {username: root, password: %[1]s}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: planted, namespace: default}
data: {manifest: "password: %[2]s"}
---
apiVersion: agent-install.openshift.io/v1beta1
kind: InfraEnv
metadata: {name: planted, namespace: default}
spec:
  pullSecretRef: {name: none}
  ignitionConfigOverride: '{"ignition":{"version":"3.2.0"},"passwd":{"users":[{"name":"a","passwordHash":"%[3]s"}]}}'
  proxy: {httpProxy: "http://user:%[4]s@proxy.site.test:3128"}
---
apiVersion: agent-install.openshift.io/v1beta1
kind: NMStateConfig
metadata: {name: planted, namespace: default}
spec:
  interfaces: [{name: eth0, macAddress: "52:54:00:00:00:01"}]
  config: {interfaces: [{name: eth0, type: ethernet, 802.1x: {identity: me, eap-methods: [tls], password: %[5]s}}]}
---
apiVersion: metal3.io/v1alpha1
kind: BareMetalHost
metadata:
  name: planted
  namespace: default
  annotations: {bmac.agent-install.openshift.io/installer-args: '["--append-karg", "%[6]s"]'}
spec:
  online: false
  bootMACAddress: "52:54:00:00:00:02"
  bmc: {address: "redfish+https://192.0.2.1/redfish/v1/Systems/1", credentialsName: planted}
`

// TestKubectl_hidesSecrets applies objects with secrets, of which kubectl keeps a copy in an
// annotation. It then reads them with all of kubectl's commands and forms as each role.
func TestKubectl_hidesSecrets(t *testing.T) {
	s := newSite(t)
	s.config.Kubernetes.Enabled = true
	a := startAuthenticated(t, s)
	program, err := kubectlProgram.program()
	require.NoError(t, err)
	as := func(token string) *hub {
		d := &hub{site: s, connection: &connection{address: a.url, token: token}, dir: t.TempDir(), program: program}
		d.writeKubeconfig(t, s, filepath.Join(d.dir, "kubeconfig"))
		return d
	}
	awaitReady(t, func() answer { return a.call(a.trusted, http.MethodGet, "/readyz", nil) })
	p := &plantedSecrets{T: t}
	var words []any
	for range 6 {
		words = append(words, p.secret("kubectl"))
	}
	_, token := a.program("admin")
	admin := as(token)
	_, err = admin.try(t.Context(), fmt.Sprintf(secretObjects, words...), "apply", "-f", "-")
	require.NoError(t, err)
	kinds := []string{"configmaps", "infraenvs", "nmstateconfigs", "baremetalhosts"}
	raw := map[string]string{"configmaps": "/api/v1", "infraenvs": "/apis/agent-install.openshift.io/v1beta1",
		"nmstateconfigs": "/apis/agent-install.openshift.io/v1beta1", "baremetalhosts": "/apis/metal3.io/v1alpha1"}
	reads := func(kind string) [][]string {
		at := raw[kind] + "/namespaces/default/" + kind
		return [][]string{{"get", kind, "planted", "-o", "yaml", "--show-managed-fields"}, {"get", kind, "-o", "json"},
			{"get", kind, "-A", "-o", "wide"}, {"describe", kind, "planted"},
			{"get", kind, "planted", "-o", "jsonpath={}"},
			{"get", kind, "-o", "custom-columns=A:.metadata.annotations,B:.spec,C:.data"},
			{"get", kind, "planted", "-o", "go-template={{.}}"}, {"get", "--raw", at},
			{"get", "--raw", at + "/planted"},
			{"get", "--raw", at + "?watch=true&timeoutSeconds=1"}, {"apply", "view-last-applied", kind, "planted"},
			{"get", kind, "-w", "-o", "yaml", "--output-watch-events", "--request-timeout=1s"}}
	}
	for _, role := range []string{"viewer", "operator"} {
		_, token := a.program(role)
		kubectl := as(token)
		for _, kind := range kinds {
			for _, arguments := range reads(kind) {
				answer, err := kubectl.try(t.Context(), "", arguments...)
				p.requireNone(role+": kubectl "+strings.Join(arguments, " "), []byte(answer+fmt.Sprint(err)))
				require.Contains(t, answer, "planted", "%s: kubectl %v: %v", role, arguments, err)
			}
		}
		for _, arguments := range [][]string{{"get", "secrets", "-A", "-o", "yaml"}, {"get", "secret", "planted"},
			{"get", "secrets", "-w", "--request-timeout=1s"}, {"describe", "secret", "planted"},
			{"get", "--raw", "/api/v1/namespaces/default/secrets/planted"},
			{"get", "--raw", "/api/v1/secrets?watch=true&timeoutSeconds=1"},
			{"apply", "view-last-applied", "secret", "planted"}, {"delete", "secret", "planted", "--dry-run=server"}} {
			answer, err := kubectl.try(t.Context(), "", arguments...)
			require.ErrorContains(t, err, "orbidden", "%s: kubectl %v", role, arguments)
			p.requireNone(role+": kubectl "+strings.Join(arguments, " "), []byte(answer+err.Error()))
		}
	}
	for _, kind := range kinds {
		require.Contains(t, admin.kubectl(t, "get", kind, "planted", "-o", "yaml"), "Planted-kubectl")
	}
}
