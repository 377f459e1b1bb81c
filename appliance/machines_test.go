package appliance_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	httptransport "github.com/go-openapi/runtime/client"
	"github.com/go-openapi/swag/conv"
	"github.com/openshift/assisted-service/client"
	"github.com/openshift/assisted-service/client/installer"
	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"

	"landfall/appliance/agents"
	"landfall/appliance/config"
	"landfall/appliance/simulate"
	"landfall/web/console"
)

// administrator makes the first account of an appliance and returns the secret of its session.
func administrator(t *testing.T, s *site, address string) string {
	t.Helper()
	code, err := os.ReadFile(filepath.Join(s.config.DataDir, "setup-code"))
	require.NoError(t, err)
	body, err := json.Marshal(map[string]string{"code": strings.TrimSpace(string(code)), "name": "ana",
		"password": "correct horse battery", "kind": "token"})
	require.NoError(t, err)
	response, err := http.Post(address+console.BasePath+"/setup", "application/json", bytes.NewReader(body))
	require.NoError(t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	var session struct{ Token string }
	require.NoError(t, json.Unmarshal(text, &session))
	require.NotEmpty(t, session.Token, string(text))
	return session.Token
}

// callAs sends a request with a header and returns the status and the body.
func callAs(t *testing.T, method, address, header, value, body string) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, address, strings.NewReader(body))
	require.NoError(t, err)
	request.Header.Set(header, value)
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return response.StatusCode, string(text)
}

// TestMachines_installationWithTokens installs a cluster on an appliance that authenticates
// everyone. The agents, the installers and the controller have the token of the image.
func TestMachines_installationWithTokens(t *testing.T) {
	s := newSite(t)
	s.config.Auth = config.AuthLocal
	address, _ := s.start(t)
	session := administrator(t, s, address)
	base, err := url.Parse(address)
	require.NoError(t, err)
	api := client.New(client.Config{URL: &url.URL{Scheme: base.Scheme, Host: base.Host, Path: client.DefaultBasePath},
		AuthInfo: httptransport.BearerToken(session)}).Installer
	ctx := t.Context()
	cluster, err := api.V2RegisterCluster(ctx, &installer.V2RegisterClusterParams{
		NewClusterParams: &models.ClusterCreateParams{Name: conv.Pointer("line"), BaseDNSDomain: "site.test",
			OpenshiftVersion: conv.Pointer(s.release.Version), PullSecret: conv.Pointer(pullSecret),
			ControlPlaneCount: conv.Pointer[int64](1)}})
	require.NoError(t, err)
	clusterID := *cluster.Payload.ID
	env, err := api.RegisterInfraEnv(ctx, &installer.RegisterInfraEnvParams{
		InfraenvCreateParams: &models.InfraEnvCreateParams{Name: conv.Pointer("line_infra-env"), ClusterID: &clusterID,
			PullSecret: conv.Pointer(pullSecret), OpenshiftVersion: s.release.Version}})
	require.NoError(t, err)
	envID := *env.Payload.ID

	require.Contains(t, env.Payload.DownloadURL, "/byapikey/")
	requireDiscoveryISO(t, env.Payload.DownloadURL)
	byID := address + "/byid/" + envID.String() + "/" + s.release.Version + "/x86_64/"
	for _, path := range []string{byID + "full.iso", byID + "initrd.img", address + "/images/" + envID.String(),
		address + "/config/" + envID.String() + ".iso", address + "/ipxe/" + envID.String(),
		address + "/grub/" + envID.String() + "/grub.cfg"} {
		response, _ := fetch(t, path, "stranger", "")
		require.Equal(t, http.StatusUnauthorized, response.StatusCode, path)
	}
	response, _ := fetch(t, byID+"kernel", "stranger", "")
	require.Equal(t, http.StatusOK, response.StatusCode, "a kernel contains no secret")
	status, _ := callAs(t, http.MethodGet, byID+"full.iso", "Authorization", "Bearer "+session, "")
	require.Equal(t, http.StatusOK, status)

	group := &simulate.HostGroup{URL: address, InfraEnvID: envID.String(), Count: 1, Speed: 1000, Token: session,
		Spokes: sharedEnvironment.environment.spokes}
	ended := make(chan error, 1)
	go func() { ended <- group.Run(ctx) }()
	state := func() models.Cluster {
		got, err := api.V2GetCluster(ctx, &installer.V2GetClusterParams{ClusterID: clusterID})
		require.NoError(t, err)
		return *got.Payload
	}
	eventually(t, "the cluster becomes ready", func() bool { return *state().Status == models.ClusterStatusReady })
	_, err = api.V2InstallCluster(ctx, &installer.V2InstallClusterParams{ClusterID: clusterID})
	require.NoError(t, err)
	eventually(t, "the cluster is installed", func() bool {
		got := state()
		require.NotEqual(t, models.ClusterStatusError, *got.Status, *got.StatusInfo)
		return *got.Status == models.ClusterStatusInstalled
	})
	require.NoError(t, <-ended)

	// A revocation ends the validity of the image's URL and of the token in it.
	tokens := address + console.BasePath + "/infra-envs/" + envID.String() + "/agent-tokens"
	status, text := callAs(t, http.MethodPost, tokens+"/revoke", "Authorization", "Bearer "+session, "")
	require.Equal(t, http.StatusOK, status, text)
	var change agents.Change
	require.NoError(t, json.Unmarshal([]byte(text), &change))
	require.Empty(t, change.Hosts, "an installed host needs no token")
	response, _ = fetch(t, env.Payload.DownloadURL, "thief", "")
	require.Equal(t, http.StatusUnauthorized, response.StatusCode)
}

// TestMachines_switchedOn enables authentication for a data directory with a host that booted an
// image without a token.
func TestMachines_switchedOn(t *testing.T) {
	s := newSite(t)
	address, stop := s.start(t)
	d := &testAppliance{t, upstream(t, address), s, address + apiPath}
	env, err := d.registerInfraEnv(nil)
	require.NoError(t, err)
	const id = "00000000-0000-4000-8000-000000000001"
	register := func(address, token string) int {
		status, _ := callAs(t, http.MethodPost, address+apiPath+"/infra-envs/"+env.ID.String()+"/hosts",
			"X-Secret-Key", token, `{"host_id": "`+id+`", "discovery_agent_version": "x"}`)
		return status
	}
	eventually(t, "the image without a token is made", func() bool {
		return call(t, http.MethodGet, address+apiPath+"/infra-envs/"+env.ID.String()+
			"/downloads/files?file_name=discovery.ign", nil).status == http.StatusOK
	})
	require.Equal(t, http.StatusCreated, register(address, ""))
	stop()

	s.config.Auth = config.AuthLocal
	address, _ = s.start(t)
	session := administrator(t, s, address)
	eventually(t, "the images contain tokens", func() bool {
		return register(address, "") == http.StatusServiceUnavailable
	})
	status, text := callAs(t, http.MethodGet, address+console.BasePath+"/tokenless-hosts", "Authorization",
		"Bearer "+session, "")
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, text, id)
	require.Equal(t, http.StatusUnauthorized, register(address, "invalid"))
	status, text = callAs(t, http.MethodPost, address+console.BasePath+"/infra-envs/"+env.ID.String()+
		"/agent-tokens/accept-none", "Authorization", "Bearer "+session, `{"seconds": 3600}`)
	require.Equal(t, http.StatusOK, status, text)
	require.Equal(t, http.StatusCreated, register(address, ""))
}
