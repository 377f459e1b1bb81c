package appliance_test

import (
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"landfall/appliance/config"
	"landfall/web/console"
)

// TestEgress_personsWordReachesNoLoopback makes the appliance send requests to a service on its own
// loopback, by every kind of address that a person gives. None arrives.
func TestEgress_personsWordReachesNoLoopback(t *testing.T) {
	var connections atomic.Int32
	inside := httptest.NewUnstartedServer(http.NotFoundHandler())
	inside.Config.ConnState = func(net.Conn, http.ConnState) { connections.Add(1) }
	inside.Start()
	t.Cleanup(inside.Close)
	host := strings.TrimPrefix(inside.URL, "http://")
	_, port, err := net.SplitHostPort(host)
	require.NoError(t, err)
	redirector := httptest.NewServer(http.RedirectHandler(inside.URL+"/live.iso", http.StatusFound))
	t.Cleanup(redirector.Close)

	s := newSite(t)
	s.config.Egress = config.Egress{}
	// The configuration's own word is no person's: the first connection to this server is allowed.
	s.config.OSImages = append(s.config.OSImages, config.OSImage{URL: redirector.URL + "/live.iso"})
	address, _ := s.start(t)
	images := address + consolePath + "/os-images"
	const because = "because it is a loopback address; use another server, or add the address to egress.allow in the " +
		"configuration"

	requireRefusal(t, call(t, http.MethodPost, images, object{"url": inside.URL + "/live.iso"}), http.StatusBadRequest,
		because)
	requireRefusal(t, call(t, http.MethodPost, images, object{"url": "http://169.254.169.254/latest/meta-data/"}),
		http.StatusBadRequest, "a link-local address")
	requireRefusal(t, call(t, http.MethodPost, images, object{"url": address + "/live.iso"}), http.StatusBadRequest,
		"because this is the appliance itself")
	require.Equal(t, http.StatusAccepted, call(t, http.MethodPost, images,
		object{"url": "http://localhost:" + port + "/live.iso"}).status)
	status, answer := importMirror(t, address, "list.txt", []byte("quay.io/attack = "+host+"/attack\n"))
	require.Equal(t, http.StatusOK, status, answer)
	require.Equal(t, http.StatusAccepted, call(t, http.MethodPost, images,
		object{"release": "quay.io/attack/release@sha256:" + strings.Repeat("1", 64)}).status)
	server := openConnection(address).callBMC(t, http.MethodPost, "", &console.BMCCreate{Name: "edge-0",
		Address: "redfish-virtualmedia+" + inside.URL, Username: "root", Password: "calvin"})

	eventually(t, "every download is refused", func() bool {
		refused := 0
		for _, image := range osImagesAt(t, address) {
			if strings.Contains(image.Message, "a loopback address") {
				refused++
			}
		}
		return refused == 3
	})
	eventually(t, "the BMC is refused", func() bool {
		server = openConnection(address).callBMC(t, http.MethodGet, "/edge-0", nil)
		return server.Error != nil && strings.Contains(server.Error.Message, because)
	})
	report := call(t, http.MethodGet, address+consolePath+"/doctor", nil)
	require.Equal(t, http.StatusOK, report.status, "%s", report.body)
	require.Zero(t, connections.Load())
}
