package appliance_test

import (
	"bytes"
	"compress/gzip"
	"crypto/ecdsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/go-openapi/strfmt"
	"github.com/stretchr/testify/require"

	"landfall/appliance/authority"
	"landfall/appliance/engine"
	"landfall/appliance/engine/record"
	"landfall/appliance/keyring"
	"landfall/appliance/simulate"
	"landfall/appliance/sitekey"
	"landfall/store"
	"landfall/web/console"
)

// TestSecrets_noneAfterAnInstallation searches for secrets that people enter, and for secrets that
// the appliance makes, after an installation with authentication and TLS.
func TestSecrets_noneAfterAnInstallation(t *testing.T) {
	p := &plantedSecrets{T: t}
	s := newSite(t)
	s.config.Kubernetes.Enabled = true
	log := &logBuffer{}
	local, stop := s.withAuth().startLogging(t, slog.New(slog.NewJSONHandler(log,
		&slog.HandlerOptions{Level: slog.LevelDebug})))
	a := s.authenticated(t, local)
	made := func(secret string) string {
		require.NotEmpty(t, secret)
		p.secrets = append(p.secrets, secret)
		return secret
	}

	made(a.setUp(made(s.setupCode(t)), p.secret("password")))
	_, token := a.program("operator")
	made(token)
	require.Equal(t, http.StatusUnauthorized, a.call(a.trusted, http.MethodPost, "/api/landfall/v1/login",
		object{"name": "ada", "password": p.secret("wrong-password")}).status)
	require.Equal(t, http.StatusUnauthorized, a.call(a.with("sha256~"+p.secret("wrong-token")), http.MethodGet,
		apiPath+"/clusters", nil).status)
	a.plantObjects(p)
	for _, kind := range []string{"access", "offline", "client"} {
		var issued struct{ Token string }
		a.call(a.admin, http.MethodPost, console.BasePath+"/ams/tokens", object{"kind": kind,
			"client_id": map[string]string{"client": "planted"}[kind]}).read(t, http.StatusCreated, &issued)
		made(issued.Token)
	}

	var cluster, env struct{ ID strfmt.UUID }
	a.call(a.admin, http.MethodPost, apiPath+"/clusters", s.newCluster("site")).read(t, http.StatusCreated, &cluster)
	a.call(a.admin, http.MethodPost, apiPath+"/infra-envs", s.newInfraEnv("site").with(object{
		"cluster_id": cluster.ID})).read(t, http.StatusCreated, &env)
	group := &simulate.HostGroup{URL: a.url, InfraEnvID: env.ID.String(), Count: 1, Speed: 1000,
		HTTP: a.trusted, Token: token, Spokes: s.spokes}
	ended := make(chan error, 1)
	go func() { ended <- group.Run(t.Context()) }()
	path := apiPath + "/clusters/" + cluster.ID.String()
	status := func(wanted string) func() bool {
		return func() bool {
			var got struct{ Status string }
			a.call(a.admin, http.MethodGet, path, nil).read(t, http.StatusOK, &got)
			return got.Status == wanted
		}
	}
	eventually(t, "the cluster becomes ready", status("ready"))
	hosts := apiPath + "/infra-envs/" + env.ID.String() + "/hosts"
	var registered []struct{ ID strfmt.UUID }
	a.call(a.admin, http.MethodGet, hosts, nil).read(t, http.StatusOK, &registered)
	require.Len(t, registered, 1)
	require.Equal(t, http.StatusCreated, a.call(a.admin, http.MethodPatch, hosts+"/"+registered[0].ID.String()+
		"/ignition", object{"config": ignitionWith(p.secret("host-ignition"))}).status)
	require.Equal(t, http.StatusAccepted, a.call(a.admin, http.MethodPost, path+"/actions/install", object{}).status)
	eventually(t, "the cluster is installed", status("installed"))
	require.NoError(t, <-ended)

	var credentials struct{ Password string }
	a.call(a.admin, http.MethodGet, path+"/credentials", nil).read(t, http.StatusOK, &credentials)
	made(credentials.Password)
	kubeconfig := a.call(a.admin, http.MethodGet, path+"/downloads/credentials?file_name=kubeconfig", nil)
	_, key, found := strings.Cut(string(kubeconfig.body), "client-key-data: ")
	require.True(t, found, "%s", kubeconfig.body)
	pem, err := base64.StdEncoding.DecodeString(strings.TrimSpace(strings.SplitN(key, "\n", 2)[0]))
	require.NoError(t, err)
	made(strings.Split(string(pem), "\n")[1])

	var image struct{ URL string }
	a.call(a.admin, http.MethodGet, console.BasePath+"/infra-envs/"+env.ID.String()+"/image", nil).
		read(t, http.StatusOK, &image)
	_, at, found := strings.Cut(image.URL, "/byapikey/")
	require.True(t, found, image.URL)
	iso := a.call(a.trusted, http.MethodGet, "/byapikey/"+at, nil)
	require.Equal(t, http.StatusOK, iso.status)
	content := unpacked(iso.body)
	require.Contains(t, string(content), env.ID.String(), "the discovery ignition was unpacked")
	p.requireNone("the ISO", content)
	made(strings.Split(at, "/")[0])
	viewer, _ := a.program("viewer")
	shown := a.call(viewer, http.MethodGet, console.BasePath+"/infra-envs/"+env.ID.String()+"/image", nil)
	require.Equal(t, http.StatusOK, shown.status)
	p.requireNone("the image for viewers", shown.body)
	require.NotContains(t, string(shown.body), "/i/")
	for place, address := range map[string]string{
		"the metrics":         console.MetricsPath,
		"the audit trail":     console.AuditRoute,
		"the audit's export":  console.AuditRoute + "/export",
		"the journal":         console.BasePath + "/clusters/" + cluster.ID.String() + "/journal",
		"the events":          apiPath + "/events?cluster_id=" + cluster.ID.String(),
		"the clusters":        apiPath + "/clusters",
		"the log archive":     path + "/logs?logs_type=all",
		"the users":           "/api/landfall/v1/users",
		"the tokens":          "/api/landfall/v1/tokens",
		"the BMCs":            console.BMCsRoute,
		"the doctor's report": console.DoctorRoute,
		"the support archive": console.SupportRoute,
		"the readiness":       console.ReadyPath + "?verbose",
	} {
		got := a.call(a.admin, http.MethodGet, address, nil)
		require.Equal(t, http.StatusOK, got.status, "%s: %s", place, got.body)
		p.requireNone(place, unpacked(got.body))
	}
	p.requireSealed(s.config.DataDir)
	stop()
	p.secrets = append(p.secrets, s.privateKeys(t, env.ID.String())...)
	p.requireSealed(s.config.DataDir)
	p.requireNone("the log", log.bytes())
	p.requireNone("the ISO", content)
}

// privateKeys returns the private numbers of the authority's key and of the key that signs the
// tokens of an infra-env. The appliance must be stopped.
func (s *site) privateKeys(t *testing.T, infraEnvID string) []string {
	t.Helper()
	keys := keyring.New(s.config.DataDir, keyring.Options{})
	db, err := store.Open(t.Context(), s.config.DataDir, store.Options{Keys: keys.Open})
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	siteKey, err := sitekey.LoadSealed(s.config.DataDir, keys.Ring())
	require.NoError(t, err)

	row, err := record.ReadInfraEnv(db, infraEnvID)
	require.NoError(t, err)
	box, err := siteKey.Box(engine.SecretsPurpose, nil)
	require.NoError(t, err)
	text, err := box.Open(row.AgentKeys.Current.Private)
	require.NoError(t, err)
	scalar, err := base64.RawStdEncoding.DecodeString(text)
	require.NoError(t, err)
	require.Len(t, scalar, 32)

	sealed, err := os.ReadFile(filepath.Join(s.config.DataDir, authority.KeyFileName))
	require.NoError(t, err)
	box, err = siteKey.Box(authority.Purpose, nil)
	require.NoError(t, err)
	content, err := box.OpenBytes(sealed)
	require.NoError(t, err)
	for block, rest := pem.Decode(content); block != nil; block, rest = pem.Decode(rest) {
		key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
		if err != nil {
			continue // the certificate
		}
		private, err := key.(*ecdsa.PrivateKey).Bytes()
		require.NoError(t, err)
		return []string{string(scalar), string(private)}
	}
	t.Fatal("the file of the authority has no private key")
	return nil
}

// plantObjects plants secrets through the Kubernetes API.
func (a *authenticated) plantObjects(p *plantedSecrets) {
	a.t.Helper()
	awaitReady(a.t, func() answer { return a.call(a.admin, http.MethodGet, "/readyz", nil) })
	proxy := "http://user:" + p.secret("infraenv-proxy") + "@proxy.site.test:3128"
	for route, body := range map[string]object{
		"/api/v1/namespaces/default/secrets": {"apiVersion": "v1", "kind": "Secret",
			"metadata": object{"name": "planted"}, "stringData": object{"password": p.secret("kube-secret")}},
		"/api/v1/namespaces/default/configmaps": {"apiVersion": "v1", "kind": "ConfigMap",
			"metadata": object{"name": "planted"}, "data": object{"password": p.secret("kube-configmap")}},
		"/apis/agent-install.openshift.io/v1beta1/namespaces/default/infraenvs": {
			"apiVersion": "agent-install.openshift.io/v1beta1", "kind": "InfraEnv",
			"metadata": object{"name": "planted"}, "spec": object{"pullSecretRef": object{"name": "none"},
				"ignitionConfigOverride": ignitionWith(p.secret("infraenv-ignition")),
				"proxy":                  object{"httpProxy": proxy, "httpsProxy": proxy}}},
	} {
		made := a.call(a.admin, http.MethodPost, route, body)
		require.Equal(a.t, http.StatusCreated, made.status, "%s", made.body)
	}
}

// unpacked returns a file and the content of all gzip streams in it, and in these streams again.
func unpacked(file []byte) []byte {
	all := bytes.Clone(file)
	for from := 0; ; from++ {
		at := bytes.Index(all[from:], []byte{0x1f, 0x8b, 8}) // the magic of gzip with deflate (RFC 1952, section 2.3.1)
		if at < 0 {
			return all
		}
		from += at
		stream, err := gzip.NewReader(bytes.NewReader(all[from:]))
		if err != nil {
			continue
		}
		stream.Multistream(false)
		content, _ := io.ReadAll(io.LimitReader(stream, 64<<20)) // other bytes may look like gzip
		all = append(all, content...)
	}
}

// TestSecrets_noneAfterACrash ends an appliance in a process of its own by SIGKILL, and by SIGQUIT,
// which prints the stacks of all goroutines.
func TestSecrets_noneAfterACrash(t *testing.T) {
	p := &plantedSecrets{T: t}
	s := newSite(t)
	s.config.AMS.Connect = "by-hand"
	v := newApplianceProcess(t, s)
	requireNone := func() {
		t.Helper()
		p.requireSealed(s.config.DataDir)
		log, err := os.ReadFile(v.log)
		require.NoError(t, err)
		p.requireNone("the standard error", log)
	}
	v.start(t)
	p.plant(v.address, s.release.Version)
	for _, file := range []string{"cmdline", "environ"} {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", v.process.Process.Pid, file))
		require.NoError(t, err)
		require.NotEmpty(t, text)
		p.requireNone(file, text)
	}
	v.kill(t)
	requireNone()

	v.start(t)
	require.NoError(t, v.process.Process.Signal(syscall.SIGQUIT))
	var ended *exec.ExitError
	require.ErrorAs(t, v.process.Wait(), &ended)
	v.process = nil
	require.Contains(t, v.tail(t), "goroutine ")
	requireNone()
}
