package appliance_test

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/coreos/ignition/v2/config/v3_1"
	"github.com/stretchr/testify/require"

	"landfall/appliance/agents"
	"landfall/appliance/audittrail"
	"landfall/appliance/engine/event"
	"landfall/ignition"
	"landfall/isogen"
	"landfall/web/console"
)

// sealedSite is an appliance with an infra-env whose images a test can seal.
type sealedSite struct {
	*authenticated
	env string
}

func newSealedSite(t *testing.T) *sealedSite {
	t.Helper()
	a := startAuthenticated(t, newSite(t))
	environment, err := sharedEnvironment.get()
	require.NoError(t, err)
	var env struct{ ID string }
	a.call(a.admin, http.MethodPost, apiPath+"/infra-envs", a.newInfraEnv("sealed").with(object{
		"pull_secret":        `{"auths":{"` + environment.registry.Addr + `":{"auth":"cGxhbnRlZDptaXJyb3JwYXNz"}}}`,
		"ssh_authorized_key": "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIE5vdEFTZWNyZXRCdXRBTmFtZU9mU29tZW9uZXM= planted",
		"proxy":              object{"http_proxy": "http://user:planted-password@proxy.site.test:3128"},
	})).read(t, http.StatusCreated, &env)
	return &sealedSite{a, env.ID}
}

func (s *sealedSite) path(of string) string { return console.BasePath + "/infra-envs/" + s.env + of }

func (s *sealedSite) seal(body any) agents.Sealed {
	s.t.Helper()
	var sealed agents.Sealed
	s.call(s.admin, http.MethodPut, s.path("/sealed-image"), body).read(s.t, http.StatusOK, &sealed)
	return sealed
}

func (s *sealedSite) sealed() agents.Sealed {
	s.t.Helper()
	var sealed agents.Sealed
	s.call(s.admin, http.MethodGet, s.path("/sealed-image"), nil).read(s.t, http.StatusOK, &sealed)
	return sealed
}

// iso downloads the present image.
func (s *sealedSite) iso() []byte {
	s.t.Helper()
	var image struct{ URL string }
	s.call(s.admin, http.MethodGet, s.path("/image"), nil).read(s.t, http.StatusOK, &image)
	downloaded := callWith(s.t, s.trusted, http.MethodGet, image.URL, nil)
	require.Equal(s.t, http.StatusOK, downloaded.status)
	return downloaded.body
}

// embedded returns the config in an image.
func (s *sealedSite) embedded(iso []byte) []byte {
	s.t.Helper()
	payload, err := isogen.Embedded(bytes.NewReader(iso), int64(len(iso)))
	require.NoError(s.t, err)
	return payload.Ignition
}

// fetch does what Ignition does with a pointer config, from an address of this machine.
func (s *sealedSite) fetch(address string, config []byte) (status int, body string) {
	s.t.Helper()
	parsed, report, err := v3_1.Parse(config)
	require.NoError(s.t, err, "%v", report)
	require.Empty(s.t, report.Entries)
	roots := x509.NewCertPool()
	for _, authority := range parsed.Ignition.Security.TLS.CertificateAuthorities {
		pem, err := ignition.DecodeSource(*authority.Source)
		require.NoError(s.t, err)
		require.True(s.t, roots.AppendCertsFromPEM(pem))
	}
	replace := parsed.Ignition.Config.Replace
	require.True(s.t, strings.HasPrefix(*replace.Source, "https://"))
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
	transport := &http.Transport{DialContext: dialer.DialContext, TLSClientConfig: &tls.Config{RootCAs: roots}}
	defer transport.CloseIdleConnections()
	request, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, *replace.Source, nil)
	require.NoError(s.t, err)
	for _, header := range replace.HTTPHeaders {
		request.Header.Set(header.Name, *header.Value)
	}
	response, err := (&http.Client{Transport: transport}).Do(request)
	require.NoError(s.t, err)
	content, err := io.ReadAll(response.Body)
	require.NoError(s.t, err)
	require.NoError(s.t, response.Body.Close())
	return response.StatusCode, string(content)
}

// events returns the messages of the infra-env's events with a name.
func (s *sealedSite) events(name string) []string {
	s.t.Helper()
	var all []struct{ Name, Message string }
	s.call(s.admin, http.MethodGet, apiPath+"/events?infra_env_id="+s.env, nil).read(s.t, http.StatusOK, &all)
	var messages []string
	for _, one := range all {
		if one.Name == name {
			messages = append(messages, one.Message)
		}
	}
	return messages
}

// TestSealedImage_fetchedByMachines boots machines from a sealed image: they fetch the config that
// an image contains which is not sealed.
func TestSealedImage_fetchedByMachines(t *testing.T) {
	s := newSealedSite(t)
	open := s.iso()
	config := s.embedded(open)
	discovered, err := ignition.ReadDiscovery(config)
	require.NoError(t, err)
	secrets := &plantedSecrets{T: t, secrets: []string{"planted-password", discovered.PullSecretToken,
		strings.Fields(discovered.SSHKeys[0])[1], pullSecretAuth(t, discovered.PullSecret)}}
	for _, secret := range secrets.secrets {
		require.NotEmpty(t, secret)
	}
	require.Contains(t, string(unpacked(open)), discovered.PullSecretToken, "the search finds secrets")

	require.True(t, s.seal(object{"seconds": 3600, "machines": 1}).Open)
	iso := s.iso()
	secrets.requireNone("the sealed ISO", unpacked(iso))
	pointer := s.embedded(iso)
	secrets.requireNone("the pointer config", pointer)

	status, body := s.fetch("127.0.0.1", pointer)
	require.Equal(t, http.StatusOK, status, body)
	require.Equal(t, string(config), body)
	status, _ = s.fetch("127.0.0.1", pointer)
	require.Equal(t, http.StatusOK, status, "the machine starts again")
	status, body = s.fetch("127.0.0.2", pointer)
	require.Equal(t, http.StatusServiceUnavailable, status)
	require.Contains(t, body, "the limit of machines that fetched it is reached (1)")
	require.Equal(t, []string{"A machine at 127.0.0.1 fetched the config of the sealed image of infra-env sealed."},
		s.events(event.ConfigFetched))
	require.Contains(t, s.events(event.MachineRefused)[0], "A machine at 127.0.0.2 was refused.")

	s.seal(object{"machines": 2})
	status, _ = s.fetch("127.0.0.2", pointer)
	require.Equal(t, http.StatusOK, status, "the image was opened again, and is the same")
	shown := s.sealed()
	require.Equal(t, "127.0.0.2", shown.Fetches[0].Address)
	require.True(t, shown.Fetches[0].Counts)
	require.False(t, shown.Fetches[1].Counts)
	require.Equal(t, 2, shown.Fetches[1].Times)

	require.Equal(t, http.StatusOK, s.call(s.admin, http.MethodPost, s.path("/sealed-image/close"), nil).status)
	status, body = s.fetch("127.0.0.1", pointer)
	require.Equal(t, http.StatusServiceUnavailable, status)
	require.Contains(t, body, "after its time limit")

	s.seal(object{})
	require.Equal(t, http.StatusOK, s.call(s.admin, http.MethodPost, s.path("/agent-tokens/revoke"), nil).status)
	status, body = s.fetch("127.0.0.1", pointer)
	require.Equal(t, http.StatusUnauthorized, status, "%s", body)
	status, body = s.fetch("127.0.0.1", s.embedded(s.iso()))
	require.Equal(t, http.StatusOK, status)
	require.NotContains(t, body, discovered.PullSecretToken, "the token of the agent was revoked as well")

	var trail audittrail.Page
	s.call(s.admin, http.MethodGet, console.AuditRoute+"?operation=fetchSealedConfig", nil).read(t, http.StatusOK,
		&trail)
	granted, refused := 0, 0
	for _, item := range trail.Items {
		require.Contains(t, item.Actor.Address, "127.0.0.")
		if item.Status == http.StatusOK {
			granted++
			require.True(t, item.Secret)
			require.Equal(t, s.env, item.Actor.InfraEnv)
		} else {
			refused++
		}
	}
	require.Equal(t, 4, granted)
	require.NotZero(t, refused)

	require.Equal(t, http.StatusOK, s.call(s.admin, http.MethodDelete, s.path("/sealed-image"), nil).status)
	_, err = ignition.ReadDiscovery(s.embedded(s.iso()))
	require.NoError(t, err)
}

func pullSecretAuth(t *testing.T, text []byte) string {
	t.Helper()
	var secret struct {
		Auths map[string]struct{ Auth string }
	}
	require.NoError(t, json.Unmarshal(text, &secret))
	for _, entry := range secret.Auths {
		return entry.Auth
	}
	t.Fatal("the pull secret has no entry")
	return ""
}

// TestSealedImage_needsTokenOfImage asks for a config with other tokens, or none.
func TestSealedImage_needsTokenOfImage(t *testing.T) {
	s := newSealedSite(t)
	discovered, err := ignition.ReadDiscovery(s.embedded(s.iso()))
	require.NoError(t, err)
	s.seal(object{})
	pointer, ok, err := ignition.ReadPointer(s.embedded(s.iso()))
	require.NoError(t, err)
	require.True(t, ok)
	var other struct{ ID string }
	s.call(s.admin, http.MethodPost, apiPath+"/infra-envs", s.newInfraEnv("other")).read(t, http.StatusCreated, &other)
	for name, c := range map[string]struct {
		env, token string
		status     int
	}{
		"none":        {s.env, "", http.StatusUnauthorized},
		"an agent's":  {s.env, discovered.PullSecretToken, http.StatusUnauthorized},
		"altered":     {s.env, pointer.Token[:len(pointer.Token)-4] + "AAAA", http.StatusUnauthorized},
		"a foreign":   {other.ID, pointer.Token, http.StatusForbidden},
		"the image's": {s.env, pointer.Token, http.StatusOK},
	} {
		t.Run(name, func(t *testing.T) {
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet,
				s.url+"/sealed/"+c.env+"/config.ign", nil)
			require.NoError(t, err)
			request.Header.Set(ignition.TokenHeader, c.token)
			response, err := s.trusted.Do(request)
			require.NoError(t, err)
			require.NoError(t, response.Body.Close())
			require.Equal(t, c.status, response.StatusCode)
		})
	}
	require.Equal(t, http.StatusUnauthorized, s.agentCall(pointer.Token), "the token is of no other use")
}

// agentCall registers a host with a token, and returns the status.
func (s *sealedSite) agentCall(token string) int {
	s.t.Helper()
	request, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, s.url+apiPath+"/infra-envs/"+s.env, nil)
	require.NoError(s.t, err)
	request.Header.Set("X-Secret-Key", token)
	response, err := s.trusted.Do(request)
	require.NoError(s.t, err)
	require.NoError(s.t, response.Body.Close())
	return response.StatusCode
}

// TestSealedImage_refusals seals images where it is not possible.
func TestSealedImage_refusals(t *testing.T) {
	s := newSealedSite(t)
	seal := func(body any) answer { return s.call(s.admin, http.MethodPut, s.path("/sealed-image"), body) }
	requireRefusal(t, seal(object{"seconds": 10}), http.StatusBadRequest, "1 minute to 90 days")
	requireRefusal(t, seal(object{"seconds": -1}), http.StatusBadRequest, "above 0")
	requireRefusal(t, seal(object{"machines": -1}), http.StatusBadRequest, "limit of machines")
	requireRefusal(t, seal(object{"seconds": "x"}), http.StatusBadRequest, "not the JSON object")
	requireRefusal(t, s.call(s.admin, http.MethodPost, s.path("/sealed-image/close"), nil), http.StatusConflict,
		"not sealed")
	require.False(t, s.sealed().Sealed)
	bond := `interfaces: [{name: eth0, ipv4: {enabled: true, dhcp: true}}, {name: ovs0, type: ovs-bridge, bridge: {port: [{name: eth0}]}}]`
	require.Equal(t, http.StatusCreated, s.call(s.admin, http.MethodPatch, apiPath+"/infra-envs/"+s.env,
		object{"static_network_config": []object{{"network_yaml": bond, "mac_interface_map": []object{
			{"mac_address": "02:00:00:00:00:01", "logical_nic_name": "eth0"}}}}}).status)
	requireRefusal(t, seal(object{}), http.StatusBadRequest, "a sealed image supports", "do not seal the images")
	require.False(t, s.sealed().Sealed, "nothing was changed")
}

// TestSealedImage_fullDisk fetches a config while it cannot be recorded.
func TestSealedImage_fullDisk(t *testing.T) {
	if !withSmallDisks(t) {
		return
	}
	site := newSite(t)
	d := smallDisk(t, site.config.DataDir, "48m")
	a := startAuthenticated(t, site)
	var env struct{ ID string }
	a.call(a.admin, http.MethodPost, apiPath+"/infra-envs", a.newInfraEnv("sealed")).read(t, http.StatusCreated, &env)
	s := &sealedSite{a, env.ID}
	s.seal(object{})
	pointer := s.embedded(s.iso())
	d.fill(t, 4096)
	status, body := 0, ""
	for n := range 200 { // open pages take some more
		if status, body = s.fetch("127.0.0."+string(rune('1'+n%9)), pointer); status != http.StatusOK {
			break
		}
	}
	require.GreaterOrEqual(t, status, http.StatusInternalServerError, "Ignition repeats the request: %s", body)
	require.Contains(t, body, "no space is left")
	d.free(t)
	status, body = s.fetch("127.0.0.1", pointer)
	require.Equal(t, http.StatusOK, status, body)
}
