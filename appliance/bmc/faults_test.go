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

// What a fault comes to: the server boots all the same (""), or it ends in an error whose sentence
// contains this. What is before the colon names the moment: "register" or "boot".
var outcomes = map[redfish.Fault]string{
	redfish.InUse400: "", redfish.InUse409: "", redfish.InUse500: "", redfish.EjectEmpty400: "", redfish.EjectKeeps: "",
	redfish.StaleInserted: "",
	redfish.Insert500Once: "", redfish.Busy503: "", redfish.NotReady: "", redfish.SessionEnds: "",
	redfish.NoSessionService: "", redfish.Reset: "",
	redfish.TaskSlow: "", redfish.Tag412: "", redfish.Tag428: "", redfish.BootInPOST: "", redfish.On409: "",
	redfish.Off400: "", redfish.PowerNull: "",
	redfish.PowerSlow: "", redfish.NoRanges: "", redfish.Slow: "", redfish.PowerLost: "", redfish.Clock1970: "",
	redfish.TLS12:         "",
	redfish.HTTPBootShort: "", redfish.HTTPBootPlain: "",

	redfish.StuckMedia:     "boot:is in use and can't be emptied",
	redfish.Insert500:      "boot:failed to insert the image with status 500 (InternalError)",
	redfish.SessionsFull:   "register:has no session free (RAC0218)",
	redfish.TaskFails:      "boot:could not fetch the image",
	redfish.PowerStuck:     "boot:was told twice to power off and still is not off",
	redfish.NoReset:        "boot:offers no way to switch the server's power",
	redfish.Unreachable:    "boot:could not fetch the image",
	redfish.NoLicence:      "boot:needs a licence to insert the image",
	redfish.NoDrives:       "boot:has no virtual CD or DVD drive",
	redfish.WrongPassword:  `register:refuses the user name "operator" with this password`,
	redfish.ReadOnly:       `boot:does not allow the user "operator" to switch the server off`,
	redfish.SeveralSystems: "register:has several systems (",
	redfish.NoSystems:      "register:has no system that can be booted",
	redfish.NotRedfish:     "register:has no /redfish/v1/",
	redfish.SelfSigned:     "register:has a certificate that is not trusted, as self-signed ones are",
	redfish.Expired:        "register:has a certificate that is not valid at this time",
}

// play is one stand-in with one fault.
type play struct {
	name     string
	bmc      *redfish.BMC
	expected string  // of outcomes
	ended    *Server // how it was when it booted, or came into its error
}

// TestEveryFaultOfEveryVendorEndsInABootOrASentence is the whole table with the build tag redfish,
// and otherwise each fault of a few vendors; all servers in one manager at the same time. The media
// of another person are in the drive before, and the servers are on.
func TestEveryFaultOfEveryVendorEndsInABootOrASentence(t *testing.T) {
	s := newSite(t)
	plays := map[string]*play{}
	for i, profile := range redfish.Profiles() {
		for j, fault := range redfish.Faults() {
			if chosen(i, j) {
				plays[fmt.Sprintf("p%d-f%d", i, j)] = s.play(profile, fault)
			}
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for id, p := range plays {
		wanted := desired(p.bmc)
		wanted.Name, wanted.SkipVerify = p.name, strings.HasSuffix(p.name, string(redfish.TLS12))
		_, err := s.manager.Ensure(ctx, id, wanted)
		require.NoError(t, err)
		_, err = s.manager.Boot(ctx, id, "")
		require.NoError(t, err)
	}
	left := len(plays)
	require.NoError(t, s.manager.Observe(ctx, func(id string) {
		server, err := s.manager.Server(id)
		if err != nil || plays[id].ended != nil || !plays[id].ends(server) {
			return
		}
		plays[id].ended = server
		s.leave(ctx, id)
		if left--; left == 0 {
			cancel()
		}
	}))
	for _, p := range plays {
		t.Run(p.name, p.check(s.image))
	}
}

// leave has a server forgotten without another word to its BMC.
func (s *site) leave(ctx context.Context, id string) {
	_, err := s.manager.Change(ctx, id, func(d Desired) (Desired, error) {
		d.Detached = true
		return d, nil
	})
	if err = errors.Join(err, s.manager.Forget(ctx, id, false)); err != nil {
		s.t.Error(err)
	}
}

// play starts the stand-in of a play.
func (s *site) play(profile redfish.Profile, fault redfish.Fault) *play {
	expected, known := outcomes[fault]
	require.True(s.t, known, "there is no outcome for %s", fault)
	if fault == redfish.SessionsFull && profile.NoSessions || profile.Vague {
		expected = strings.Split(expected, " (")[0]
	}
	p := &play{name: profile.Name + "/" + string(fault), bmc: s.bmcOverTLS(profile, fault), expected: expected}
	p.bmc.Insert("http://192.0.2.1/somebody-elses.iso")
	return p
}

func (p *play) ends(server *Server) bool {
	if p.expected == "" {
		return server.State == Provisioned
	}
	return server.Error != nil
}

func (p *play) check(image string) func(t *testing.T) {
	return func(t *testing.T) {
		require.NotNil(t, p.ended, "it came to no end: %v", p.bmc.Requests())
		moment, sentence, fails := strings.Cut(p.expected, ":")
		if !fails {
			require.Eventually(t, func() bool { return len(p.bmc.Boots()) > 0 }, 5*time.Second, time.Millisecond)
			require.Equal(t, redfish.Started{From: "cd", Image: image}, p.bmc.Boots()[0], "%v", p.bmc.Requests())
			return
		}
		require.Contains(t, p.ended.Error.Message, sentence)
		require.Contains(t, p.ended.Error.Message, p.name)
		require.Empty(t, p.bmc.Boots())
		if moment == "register" {
			require.Equal(t, RegistrationError, p.ended.Error.Type)
			require.Equal(t, Registering, p.ended.State)
		}
	}
}

// bmcOverTLS starts a stand-in, with a certificate where the fault is about that.
func (s *site) bmcOverTLS(profile redfish.Profile, fault redfish.Fault) *redfish.BMC {
	options := redfish.Options{Profile: profile, Faults: []redfish.Fault{fault}, HTTP: &http.Client{}}
	switch fault {
	case redfish.SelfSigned, redfish.Expired, redfish.TLS12:
		cert, _ := certificate(s.t, fault == redfish.Expired)
		return s.start(options, cert)
	}
	return s.start(options, nil)
}
