package bmc

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"landfall/appliance/simulate/redfish"
)

// faultResults maps each fault to a substring of the expected error; empty if the server must boot
// despite the fault. The part before the colon is the phase: "register" or "boot".
var faultResults = map[redfish.Fault]string{
	redfish.InUse400: "", redfish.InUse409: "", redfish.InUse500: "", redfish.EjectEmpty400: "", redfish.EjectKeeps: "",
	redfish.StaleInserted: "",
	redfish.Insert500Once: "", redfish.Busy503: "", redfish.NotReady: "", redfish.SessionEnds: "",
	redfish.NoSessionService: "", redfish.Reset: "",
	redfish.TaskSlow: "", redfish.Tag412: "", redfish.Tag428: "", redfish.BootInPOST: "", redfish.On409: "",
	redfish.Off400: "", redfish.PowerNull: "",
	redfish.PowerSlow: "", redfish.NoRanges: "", redfish.Slow: "", redfish.PowerLost: "", redfish.Clock1970: "",
	redfish.TLS12:         "",
	redfish.HTTPBootShort: "", redfish.HTTPBootPlain: "",

	redfish.StuckMedia:     "boot:is in use and its media can't be ejected",
	redfish.Insert500:      "boot:failed to insert the image with status 500 (InternalError)",
	redfish.SessionsFull:   "register:has no free session (RAC0218)",
	redfish.TaskFails:      "boot:could not fetch the image",
	redfish.PowerStuck:     "boot:did not power off after two requests",
	redfish.NoReset:        "boot:offers no reset action for the server",
	redfish.Unreachable:    "boot:could not fetch the image",
	redfish.NoLicence:      "boot:needs a license to insert the image",
	redfish.NoDrives:       "boot:has no virtual CD or DVD drive",
	redfish.WrongPassword:  `register:rejects the user name "operator" with this password`,
	redfish.ReadOnly:       `boot:does not allow the user "operator" to power off the server`,
	redfish.SeveralSystems: "register:has several systems (",
	redfish.NoSystems:      "register:has no bootable system",
	redfish.NotRedfish:     "register:has no /redfish/v1/",
	redfish.WebPage:        "register:its response to /redfish/v1/ (status 200) is not JSON",
	redfish.SelfSigned:     "register:has a certificate that is not trusted, such as a self-signed one",
	redfish.Expired:        "register:has a certificate that is not valid now",
}

// faultTest is one simulated BMC with one fault.
type faultTest struct {
	name     string
	bmc      *redfish.BMC
	expected string  // from faultResults
	final    *Server // the server after it booted or failed
}

// TestFaults combines faults and vendors: all combinations with the build tag redfish, otherwise
// each fault with a few vendors. One manager handles all servers at the same time. At the start,
// the drives contain another user's media, and the servers are on.
func TestFaults(t *testing.T) {
	s := newTestSite(t)
	tests := map[string]*faultTest{}
	for i, profile := range redfish.Profiles() {
		for j, fault := range redfish.Faults() {
			if faultSelected(i, j) {
				tests[fmt.Sprintf("p%d-f%d", i, j)] = s.newFaultTest(profile, fault)
			}
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for id, p := range tests {
		d := desired(p.bmc)
		d.Name, d.SkipVerify = p.name, strings.HasSuffix(p.name, string(redfish.TLS12))
		_, err := s.manager.Ensure(ctx, id, d)
		require.NoError(t, err)
		_, err = s.manager.Boot(ctx, id, "", false)
		require.NoError(t, err)
	}
	left := len(tests)
	require.NoError(t, s.manager.Observe(ctx, func(id string) {
		server, err := s.manager.Server(id)
		if err != nil || tests[id].final != nil || !tests[id].isFinal(server) {
			return
		}
		tests[id].final = server
		s.removeSilently(ctx, id)
		if left--; left == 0 {
			cancel()
		}
	}))
	for _, p := range tests {
		t.Run(p.name, p.check(s.image))
	}
}

// removeSilently removes a server without further requests to its BMC.
func (s *testSite) removeSilently(ctx context.Context, id string) {
	_, err := s.manager.Change(ctx, id, nil, func(d Desired) (Desired, error) {
		d.Detached = true
		return d, nil
	})
	if err = errors.Join(err, s.manager.Remove(ctx, id, false)); err != nil {
		s.t.Error(err)
	}
}

// newFaultTest starts the simulated BMC of a test.
func (s *testSite) newFaultTest(profile redfish.Profile, fault redfish.Fault) *faultTest {
	expected, ok := faultResults[fault]
	require.True(s.t, ok, "the expected result for %s is missing", fault)
	if fault == redfish.SessionsFull && profile.NoSessions || profile.Vague || profile.NoInfo {
		expected = strings.Split(expected, " (")[0]
	}
	p := &faultTest{name: profile.Name + "/" + string(fault), bmc: s.startBMCOverTLS(profile, fault),
		expected: expected}
	p.bmc.Insert("http://192.0.2.1/foreign.iso")
	return p
}

func (p *faultTest) isFinal(server *Server) bool {
	if p.expected == "" {
		return server.State == Provisioned
	}
	return server.Error != nil
}

func (p *faultTest) check(image string) func(t *testing.T) {
	return func(t *testing.T) {
		require.NotNil(t, p.final, "neither booted nor failed: %v", p.bmc.Requests())
		phase, sentence, fails := strings.Cut(p.expected, ":")
		if !fails {
			require.Eventually(t, func() bool { return len(p.bmc.Boots()) > 0 }, time.Minute, time.Millisecond)
			require.Equal(t, redfish.Started{From: "cd", Image: image}, p.bmc.Boots()[0], "%v", p.bmc.Requests())
			return
		}
		require.Contains(t, p.final.Error.Message, sentence)
		require.Contains(t, p.final.Error.Message, p.name)
		require.Empty(t, p.bmc.Boots())
		if phase == "register" {
			require.Equal(t, RegistrationError, p.final.Error.Type)
			require.Equal(t, Registering, p.final.State)
		}
	}
}

// startBMCOverTLS starts a simulated BMC with TLS. A fault may determine its certificate.
func (s *testSite) startBMCOverTLS(profile redfish.Profile, fault redfish.Fault) *redfish.BMC {
	options := redfish.Options{Profile: profile, Faults: []redfish.Fault{fault}, HTTP: &http.Client{}}
	switch fault {
	case redfish.SelfSigned, redfish.Expired, redfish.TLS12:
		cert, _ := certificate(s.t, fault == redfish.Expired)
		return s.startBMCWith(options, cert)
	}
	return s.startBMCWith(options, nil)
}
