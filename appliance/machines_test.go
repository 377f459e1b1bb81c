package appliance_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"landfall/web/console"
)

// TestMachines_imagesNeedTokens requests the images of an infra-env with and without their token.
func TestMachines_imagesNeedTokens(t *testing.T) {
	a := startAuthenticated(t, newSite(t))
	var env struct {
		ID          string
		DownloadURL string `json:"download_url"`
	}
	a.call(a.admin, http.MethodPost, apiPath+"/infra-envs", a.newInfraEnv("site")).read(t, http.StatusCreated, &env)
	require.Contains(t, env.DownloadURL, "/byapikey/")
	requireDiscoveryISOWith(t, a.trusted, env.DownloadURL)
	byID := a.url + "/byid/" + env.ID + "/" + a.release.Version + "/x86_64/"
	for _, url := range []string{byID + "full.iso", byID + "initrd.img", a.url + "/images/" + env.ID,
		a.url + "/config/" + env.ID + ".iso", a.url + "/ipxe/" + env.ID, a.url + "/grub/" + env.ID + "/grub.cfg"} {
		require.Equal(t, http.StatusUnauthorized, callWith(t, a.trusted, http.MethodGet, url, nil).status, url)
	}
	require.Equal(t, http.StatusOK, callWith(t, a.trusted, http.MethodGet, byID+"kernel", nil).status,
		"a kernel contains no secret")
	require.Equal(t, http.StatusOK, callWith(t, a.admin, http.MethodGet, byID+"full.iso", nil).status)
}

// TestMachines_switchedOn enables authentication for a data directory with a host that booted an
// image without a token.
func TestMachines_switchedOn(t *testing.T) {
	s := newSite(t)
	address, stop := s.start(t)
	d := openConnection(address).appliance(t, s)
	env, err := d.registerInfraEnv(nil)
	require.NoError(t, err)
	const id = "00000000-0000-4000-8000-000000000001"
	register := func(client *http.Client, address string) int {
		return callWith(t, client, http.MethodPost, address+apiPath+"/infra-envs/"+env.ID.String()+"/hosts",
			object{"host_id": id, "discovery_agent_version": "x"}).status
	}
	eventually(t, "the image without a token is made", func() bool {
		return call(t, http.MethodGet, address+apiPath+"/infra-envs/"+env.ID.String()+
			"/downloads/files?file_name=discovery.ign", nil).status == http.StatusOK
	})
	require.Equal(t, http.StatusCreated, register(http.DefaultClient, address))
	stop()

	a := startAuthenticated(t, s)
	eventually(t, "the images contain tokens", func() bool {
		return register(a.agent(""), a.url) == http.StatusServiceUnavailable
	})
	tokenless := a.call(a.admin, http.MethodGet, console.BasePath+"/tokenless-hosts", nil)
	require.Equal(t, http.StatusOK, tokenless.status)
	require.Contains(t, string(tokenless.body), id)
	require.Equal(t, http.StatusUnauthorized, register(a.agent("invalid"), a.url))
	accepted := a.call(a.admin, http.MethodPost, console.BasePath+"/infra-envs/"+env.ID.String()+
		"/agent-tokens/accept-none", object{"seconds": 3600})
	require.Equal(t, http.StatusOK, accepted.status, "%s", accepted.body)
	require.Equal(t, http.StatusCreated, register(a.agent(""), a.url))
}
