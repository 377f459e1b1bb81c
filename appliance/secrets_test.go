package appliance_test

import (
	"archive/tar"
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"landfall/appliance/authority"
	"landfall/web/console"
)

// plantedSecrets makes secrets that the search finds again. It requires that a place contains none
// of them.
type plantedSecrets struct {
	*testing.T
	secrets []string
}

// secret returns a new secret.
func (p *plantedSecrets) secret(name string) string {
	secret := fmt.Sprintf("Planted-%s-%04d-0123456789", name, len(p.secrets))
	p.secrets = append(p.secrets, secret)
	return secret
}

// forms returns the encodings in which a secret may occur. A text inside base64 has three forms,
// one for each offset.
func forms(secret string) map[string]string {
	found := map[string]string{"plain": secret, "hex": hex.EncodeToString([]byte(secret))}
	for offset := range 3 {
		text := []byte(strings.Repeat("x", offset) + secret + "xxx")
		coded, url := base64.StdEncoding.EncodeToString(text), base64.URLEncoding.EncodeToString(text)
		found[fmt.Sprint("base64 at ", offset)] = coded[4 : len(coded)-8]
		found[fmt.Sprint("base64url at ", offset)] = url[4 : len(url)-8]
	}
	return found
}

// requireNone requires that a text contains no planted secret in any form.
func (p *plantedSecrets) requireNone(where string, text []byte) {
	p.Helper()
	for _, secret := range p.secrets {
		for form, coded := range forms(secret) {
			if at := bytes.Index(text, []byte(coded)); at >= 0 {
				p.Errorf("%s contains %s (%s): %.200q", where, secret, form, text[max(at-80, 0):])
			}
		}
	}
}

// requireSealed searches all files of a data directory.
func (p *plantedSecrets) requireSealed(dir string) {
	p.Helper()
	files := 0
	require.NoError(p, filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) || err != nil && entry == nil {
			return nil
		}
		info, statErr := entry.Info()
		if statErr != nil {
			return nil // removed meanwhile
		}
		if entry.IsDir() {
			require.Zero(p, info.Mode().Perm()&0o077, "%s has the mode %v", path, info.Mode())
			return nil
		}
		if strings.HasPrefix(entry.Name(), "openshift-install") || strings.HasSuffix(path, ".iso") {
			return nil // from the release and from the live ISO
		}
		if entry.Name() == authority.FileName {
			return nil // public
		}
		require.Zero(p, info.Mode().Perm()&0o077, "%s has the mode %v", path, info.Mode())
		text, err := os.ReadFile(path)
		if err != nil {
			return nil
		}
		files++
		p.requireNone(path, text)
		return nil
	}))
	require.Greater(p, files, 4)
}

func (p *plantedSecrets) send(method, address string, body any, statuses ...int) []byte {
	p.Helper()
	text, ok := body.(string)
	if !ok {
		encoded, err := json.Marshal(body)
		require.NoError(p, err)
		text = string(encoded)
	}
	request, err := http.NewRequestWithContext(p.Context(), method, address, strings.NewReader(text))
	require.NoError(p, err)
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	require.NoError(p, err)
	answer, err := io.ReadAll(response.Body)
	require.NoError(p, errors.Join(err, response.Body.Close()))
	require.Contains(p, statuses, response.StatusCode, "%s %s: %s", method, address, answer)
	return answer
}

func ignitionWith(secret string) string {
	return `{"ignition":{"version":"3.2.0"},"storage":{"files":[{"path":"/etc/secret","mode":384,"contents":{"source":` +
		`"data:text/plain;base64,` + base64.StdEncoding.EncodeToString([]byte(secret)) + `"}}]}}`
}

// plant puts a secret into each place that a person can fill. It returns the IDs of a cluster and
// of an infra-env.
func (p *plantedSecrets) plant(address, version string) (cluster, env string) {
	api := address + apiPath
	pull := func(name string) string {
		auth := base64.StdEncoding.EncodeToString([]byte("user:" + p.secret(name)))
		return `{"auths":{"quay.io":{"auth":"` + auth + `"}}}`
	}
	proxy := func(name string) string { return "http://user:" + p.secret(name) + "@proxy.site.test:3128" }
	made := func(answer []byte) string {
		var object struct {
			ID string `json:"id"`
		}
		require.NoError(p, json.Unmarshal(answer, &object))
		return object.ID
	}
	cluster = made(p.send(http.MethodPost, api+"/clusters", map[string]any{"name": "mine", "openshift_version": version,
		"base_dns_domain": "site.test", "pull_secret": pull("cluster"), "http_proxy": proxy("http"),
		"https_proxy": proxy("https"), "control_plane_count": 1}, http.StatusCreated))
	gone := made(p.send(http.MethodPost, api+"/clusters", map[string]any{"name": "gone", "openshift_version": version,
		"base_dns_domain": "site.test", "pull_secret": pull("gone"), "http_proxy": proxy("gone"),
		"control_plane_count": 1}, http.StatusCreated))
	p.send(http.MethodDelete, api+"/clusters/"+gone, "", http.StatusNoContent)
	p.send(http.MethodPatch, api+"/clusters/"+cluster, map[string]any{"http_proxy": proxy("replaced"),
		"pull_secret": pull("replaced")}, http.StatusCreated)
	env = made(p.send(http.MethodPost, api+"/infra-envs", map[string]any{"name": "env", "openshift_version": version,
		"pull_secret": pull("env"), "cluster_id": cluster, "image_type": "full-iso",
		"ignition_config_override": ignitionWith(p.secret("env-ignition")),
		"proxy":                    map[string]string{"http_proxy": proxy("env"), "https_proxy": proxy("env")}},
		http.StatusCreated))
	p.send(http.MethodPatch, api+"/clusters/"+cluster+"/install-config",
		`"{\"fips\": false, \"proxy\": {\"httpProxy\": \"`+proxy("install-config")+
			`\"}}"`, http.StatusCreated)
	manifest := "apiVersion: v1\nkind: %s\nmetadata: {name: %s}\n%s: {password: %q}\n"
	for kind, data := range map[string]string{"Secret": "stringData", "ConfigMap": "data"} {
		text := fmt.Sprintf(manifest, kind, strings.ToLower(kind), data, p.secret("manifest"))
		text += "# " + strings.Repeat(p.secret("large-manifest")+" ", 3000) + "\n" // a blob
		p.send(http.MethodPost, api+"/clusters/"+cluster+"/manifests", map[string]string{"folder": "manifests",
			"file_name": strings.ToLower(kind) + ".yaml", "content": base64.StdEncoding.EncodeToString([]byte(text))},
			http.StatusCreated)
	}
	p.send(http.MethodPatch, api+"/infra-envs/"+env, map[string]any{"static_network_config": []map[string]any{{
		"network_yaml": "interfaces: [{name: eth0, type: ethernet, 802.1x: {identity: me, eap-methods: [tls], " +
			"password: " + p.secret("network") + "}}]",
		"mac_interface_map": []map[string]string{{"mac_address": "52:54:00:00:00:01", "logical_nic_name": "eth0"}}}}},
		http.StatusCreated)
	p.plantDirectory(address)
	p.send(http.MethodPost, address+console.BMCsRoute, map[string]any{"name": "server", "address": "https://192.0.2.1",
		"username": "root", "password": p.secret("bmc")}, http.StatusOK, http.StatusCreated, http.StatusAccepted)
	p.send(http.MethodPost, address+console.BasePath+"/os-images", map[string]any{
		"url": "http://user:" + p.secret("os-image") + "@192.0.2.1/live.iso?token=" + p.secret("query")},
		http.StatusOK, http.StatusCreated, http.StatusAccepted)
	p.send(http.MethodPost, address+console.AMSPath+"/credentials", map[string]any{"offline_token": p.secret("ams")},
		http.StatusNoContent)
	return cluster, env
}

// plantDirectory imports a directory of the agent-based installer with secrets, and one that is
// rejected.
func (p *plantedSecrets) plantDirectory(address string) {
	p.Helper()
	auth := base64.StdEncoding.EncodeToString([]byte("user:" + p.secret("directory-pull")))
	fencing := ""
	for _, name := range []string{"directory-1", "directory-2"} {
		fencing += fmt.Sprintf("    - {hostName: %s, address: \"redfish+https://192.0.2.9/redfish/v1/Systems/1\", "+
			"username: root, password: %s}\n", name, p.secret("fencing"))
	}
	files := installConfigDirectory("directory", "controlPlane:\n  name: master\n  replicas: 2\n  fencing:\n"+
		"    credentials:\n"+fencing+"featureSet: TechPreviewNoUpgrade\nplatform: {baremetal: {apiVIPs: "+
		"[192.168.100.4], ingressVIPs: [192.168.100.5]}}\nproxy: {httpProxy: \"http://user:"+
		p.secret("directory-proxy")+"@proxy.site.test:3128\"}\n", "52:54:00:ad:00:01", "52:54:00:ad:00:02")
	files[0].Data = []byte(strings.ReplaceAll(string(files[0].Data), "dXNlcjpwYXNz", auth))
	files[1].Data = fmt.Appendf(files[1].Data, "  bmc: {address: 192.0.2.9, username: root, password: %s}\n"+
		"  networkConfig: {interfaces: [{name: eno1, type: ethernet, 802.1x: {identity: me, eap-methods: [tls], "+
		"password: %s, private-key-password: %s}}]}\n", p.secret("directory-bmc"), p.secret("directory-network"),
		p.secret("directory-key"))
	open := &connection{address: address, client: http.DefaultClient}
	made := open.sendDirectory(p.T, "", files)
	require.Equal(p, http.StatusCreated, made.status, "%s", made.body)
	p.requireNone("the import", made.body)
	for from, to := range map[string]string{"replicas: 2": "replicas: [2", "proxy: {": "proxies: {",
		"@proxy.site.test:3128": "@proxy site:x", `{"quay.io"`: `{{"quay.io"`,
		"ingressVIPs": "ingressVIPs: [1], apiVIPs"} {
		wrong := slices.Clone(files)
		wrong[0].Data = []byte(strings.Replace(string(files[0].Data), from, to, 1))
		refused := open.sendDirectory(p.T, "", wrong)
		require.Contains(p, []int{http.StatusBadRequest, http.StatusUnprocessableEntity}, refused.status, "%s",
			refused.body)
		p.requireNone("the refused import", refused.body)
	}
}

func TestSecrets_noneInClear(t *testing.T) {
	p := &plantedSecrets{T: t}
	s := newSite(t)
	s.config.AMS.Connect = "by-hand"
	log := &logBuffer{}
	address, stop := s.startLogging(t, slog.New(slog.NewJSONHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})))
	cluster, env := p.plant(address, s.release.Version)
	p.requireSealed(s.config.DataDir) // the write-ahead log, and staged files

	api := address + apiPath
	for _, path := range []string{"/clusters", "/clusters/" + cluster, "/infra-envs", "/infra-envs/" + env,
		"/events?cluster_id=" + cluster} {
		answer := p.send(http.MethodGet, api+path, "", http.StatusOK)
		if strings.HasPrefix(path, "/infra-envs") || strings.HasPrefix(path, "/clusters") {
			require.Contains(t, string(answer), "user:xxxxx@proxy.site.test:3128")
		}
		for _, secret := range p.secrets {
			shown := slices.ContainsFunc([]string{"ignition", "install-config", "network", "directory-key"},
				func(kind string) bool { return strings.Contains(secret, kind) })
			require.True(t, shown || !strings.Contains(string(answer), secret), "%s shows %s", path, secret)
		}
	}
	for name, content := range archive(t, p.send(http.MethodGet, api+"/clusters/"+cluster+"/logs?logs_type=all", "",
		http.StatusOK)) {
		if name == "cluster_metadata.json" {
			p.requireNone(name, []byte(content))
		}
	}
	p.requireNone("the journal", p.send(http.MethodGet, address+console.BasePath+"/clusters/"+cluster+"/journal", "",
		http.StatusOK))
	support := unpacked(p.send(http.MethodGet, address+console.SupportRoute, "", http.StatusOK))
	require.Contains(t, string(support), "overview.json", "the support archive was unpacked")
	p.requireNone("the support archive", support)
	stop()
	p.requireSealed(s.config.DataDir)
	p.requireNone("the log", log.bytes())
	command, err := os.ReadFile("/proc/self/cmdline")
	require.NoError(t, err)
	environment, err := os.ReadFile("/proc/self/environ")
	require.NoError(t, err)
	p.requireNone("the process", append(command, environment...))
}

// archive returns the files of a tar archive.
func archive(t *testing.T, content []byte) map[string]string {
	t.Helper()
	files := map[string]string{}
	for in := tar.NewReader(bytes.NewReader(content)); ; {
		header, err := in.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		require.NoError(t, err)
		text, err := io.ReadAll(in)
		require.NoError(t, err)
		files[header.Name] = string(text)
	}
}

func TestProxies_hiddenPasswordIsKept(t *testing.T) {
	p := &plantedSecrets{T: t}
	s := newSite(t)
	address, stop := s.start(t)
	defer stop()
	cluster, env := p.plant(address, s.release.Version)
	api := address + apiPath
	shown := "http://user:xxxxx@proxy.site.test:3128"
	p.send(http.MethodPatch, api+"/clusters/"+cluster, map[string]any{"http_proxy": shown, "name": "renamed"},
		http.StatusCreated)
	p.send(http.MethodPatch, api+"/infra-envs/"+env, map[string]any{"proxy": map[string]string{"http_proxy": shown}},
		http.StatusCreated)
	config := p.send(http.MethodGet, api+"/clusters/"+cluster+"/install-config", "", http.StatusOK)
	require.Contains(t, string(config), "Planted-install-config")
	discovery := p.send(http.MethodGet, api+"/infra-envs/"+env+"/downloads/files?file_name=discovery.ign", "",
		http.StatusOK)
	require.Contains(t, string(discovery), "Planted-env-", "the proxy's password is kept")
	other, err := url.Parse(shown)
	require.NoError(t, err)
	other.Host = "elsewhere.test:3128"
	for path, body := range map[string]any{"/clusters/" + cluster: map[string]any{"http_proxy": other.String()},
		"/infra-envs/" + env: map[string]any{"proxy": map[string]string{"http_proxy": other.String()}}} {
		answer := p.send(http.MethodPatch, api+path, body, http.StatusBadRequest)
		require.Contains(t, string(answer), "the placeholder xxxxx instead of a password")
	}
}

func TestSecrets_textThatLooksSealed(t *testing.T) {
	p := &plantedSecrets{T: t}
	s := newSite(t)
	address, stop := s.start(t)
	defer stop()
	looks := "sealed:1:" + base64.RawStdEncoding.EncodeToString(make([]byte, 40))
	p.send(http.MethodPost, address+console.BMCsRoute, map[string]any{"name": "server", "address": "https://192.0.2.1",
		"username": "root", "password": looks}, http.StatusOK, http.StatusCreated, http.StatusAccepted)
	eventually(t, "the BMC is asked", func() bool {
		servers := p.send(http.MethodGet, address+console.BMCsRoute, "", http.StatusOK)
		require.NotContains(t, string(servers), "another key", "the password is readable")
		return strings.Contains(string(servers), "192.0.2.1")
	})
	for path, body := range map[string]map[string]any{
		"/clusters": {"name": "mine", "openshift_version": s.release.Version, "base_dns_domain": "site.test",
			"pull_secret": looks},
		"/infra-envs": {"name": "env", "openshift_version": s.release.Version, "pull_secret": looks},
	} {
		p.send(http.MethodPost, address+apiPath+path, body, http.StatusBadRequest)
	}
}

func TestSecrets_dataKeyIsRotated(t *testing.T) {
	p := &plantedSecrets{T: t}
	s := newSite(t)
	address, stop := s.start(t)
	cluster, _ := p.plant(address, s.release.Version)
	before, err := os.ReadFile(filepath.Join(s.config.DataDir, "data.key"))
	require.NoError(t, err)
	p.send(http.MethodPost, address+console.DataKeyRoute, "", http.StatusNoContent)
	after, err := os.ReadFile(filepath.Join(s.config.DataDir, "data.key"))
	require.NoError(t, err)
	require.NotEqual(t, before, after)
	p.send(http.MethodGet, address+apiPath+"/clusters/"+cluster, "", http.StatusOK)
	stop()
	p.requireSealed(s.config.DataDir)
	address, stop = s.start(t)
	defer stop()
	config := p.send(http.MethodGet, address+apiPath+"/clusters/"+cluster+"/install-config", "", http.StatusOK)
	require.Contains(t, string(config), "Planted-install-config")
}
