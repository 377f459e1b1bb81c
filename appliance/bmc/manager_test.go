package bmc

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"

	"landfall/appliance/simulate/redfish"
)

var bg = context.Background()

// ensure makes a server of a stand-in, altered.
func (s *site) ensure(b *redfish.BMC, alter func(*Desired)) *Server {
	s.t.Helper()
	wanted := desired(b)
	if alter != nil {
		alter(&wanted)
	}
	server, err := s.manager.Ensure(bg, "n1", wanted)
	require.NoError(s.t, err)
	return server
}

// boot registers and boots a server, whose host then comes up.
func (s *site) boot(b *redfish.BMC, host Host) *Server {
	s.t.Helper()
	s.ensure(b, nil)
	_, err := s.manager.Boot(bg, "n1", "")
	require.NoError(s.t, err)
	s.await("n1", provisioned)
	host.HostRef, host.MACs, host.Registered = HostRef{infraEnv, "h1"}, []string{"52:54:00:00:00:07"}, s.clock.Now()
	s.setHost(host)
	return s.await("n1", func(server *Server) bool { return server.Booted.Host != nil })
}

func TestTheImageIsEjectedWhenTheMachineNeedsItNoMore(t *testing.T) {
	for _, c := range []struct {
		name    string
		host    Host
		ejected bool
	}{
		{"while it is discovered, not", Host{Status: models.HostStatusKnown}, false},
		{"while its disk is written, not", Host{Status: models.HostStatusInstallingInProgress,
			Stage: models.HostStageWritingImageToDisk}, false},
		{"when it reboots", Host{Status: models.HostStatusInstallingInProgress, Stage: models.HostStageRebooting},
			true},
		{"when it reboots, from a minimal image", Host{Status: models.HostStatusInstallingInProgress,
			Stage: models.HostStageRebooting, Minimal: true}, true},
		{"when it is up from its disk", Host{Status: models.HostStatusInstallingInProgress,
			Stage: models.HostStageJoined}, true},
		{"when it is installed", Host{Status: models.HostStatusInstalled, Stage: models.HostStageDone}, true},
		{"when its installation failed", Host{Status: models.HostStatusError, Stage: models.HostStageInstalling}, true},
		{"when its installation was cancelled", Host{Status: models.HostStatusCancelled, Minimal: true}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			b := s.bmc("generic")
			s.boot(b, c.host)
			if !c.ejected {
				_, err := s.manager.Order(bg, "n1", OrderInspect)
				require.NoError(t, err)
				server := s.await("n1", func(server *Server) bool { return server.Pending == nil })
				require.Zero(t, server.Booted.Ejected)
				require.Equal(t, s.image, b.Inserted())
				return
			}
			server := s.await("n1", func(server *Server) bool { return !server.Booted.Ejected.IsZero() })
			require.Empty(t, b.Inserted())
			require.Equal(t, "On", b.Power(), "an eject is no power action")
			require.Nil(t, server.Error)
			require.Equal(t, Provisioned, server.State)
		})
	}
}

func TestAFullImageIsLeftToTheMachineWhileItShutsDown(t *testing.T) {
	wait, why := Host{Stage: models.HostStageRebooting}.ejects()
	require.Equal(t, 20*time.Second, wait)
	require.NotEmpty(t, why)
	wait, _ = Host{Stage: models.HostStageRebooting, Minimal: true}.ejects()
	require.Zero(t, wait)
	wait, _ = Host{Status: models.HostStatusError}.ejects()
	require.Equal(t, stillTelling, wait, "it sends its logs")
}

func TestAMachineThatComesUpFromTheImageAgainIsRestartedIntoItsDiskOnce(t *testing.T) {
	s := newSite(t)
	b := s.bmc("generic")
	s.boot(b, Host{Status: models.HostStatusInstallingPendingUserAction, Stage: models.HostStageRebooting,
		WrongBoot: true})
	s.await("n1", func(server *Server) bool { return !server.Booted.Repaired.IsZero() })
	require.Eventually(t, func() bool { return len(b.Boots()) == 2 }, 5*time.Second, time.Millisecond)
	require.Equal(t, "disk", b.Boots()[1].From)
	require.Empty(t, b.Inserted())
}

func TestAnAgentThatDoesNotRegisterIsAnError(t *testing.T) {
	s := newSite(t)
	b := s.bmc("generic")
	s.ensure(b, nil)
	s.setHost(Host{HostRef: HostRef{infraEnv, "h0"}, MACs: []string{"52:54:00:00:00:07"}, Registered: s.clock.Now(),
		Status: models.HostStatusKnown})
	_, err := s.manager.Boot(bg, "n1", "")
	require.NoError(t, err)
	server := s.await("n1", inTrouble)
	require.Equal(t, ProvisioningError, server.Error.Type)
	require.Contains(t, server.Error.Message, "no agent has registered; look at its console")
	require.Nil(t, server.Booted.Host, "the host of an earlier boot is not this one's")
}

func TestABootThatIsCutShortAnywhereEndsWellAfterARestart(t *testing.T) {
	for range 6 {
		t.Run("", func(t *testing.T) {
			t.Parallel()
			s := &site{t: t, clock: redfish.Accelerated(hurry), hosts: map[HostRef]Host{}}
			other := newSite(t)
			s.image = other.image
			dir := t.TempDir()
			stop := s.open(dir)
			b := s.bmc("hpe-ilo6")
			s.ensure(b, nil)
			s.await("n1", available)
			_, err := s.manager.Boot(bg, "n1", "")
			require.NoError(t, err)
			for range 4 {
				<-time.After(time.Duration(rand.IntN(12)) * time.Millisecond)
				stop()
				stop = s.open(dir)
			}
			server := s.await("n1", provisioned)
			require.Nil(t, server.Pending)
			require.Equal(t, "On", b.Power())
			require.Eventually(t, func() bool { return len(b.Boots()) > 0 }, 5*time.Second, time.Millisecond)
			for _, started := range b.Boots() {
				require.Equal(t, "cd", started.From, "it never came up without the image")
			}
		})
	}
}

func TestWhatAnOwnerWantsIsALevel(t *testing.T) {
	s := newSite(t)
	b := s.bmc("dell-idrac9")
	online, offline := true, false
	owned := func(d *Desired) { d.Owner, d.Online = "BareMetalHost site/n1", &online }
	s.ensure(b, owned)
	s.await("n1", available)

	booting := func(d *Desired) { owned(d); d.Boot = true }
	s.ensure(b, booting)
	s.await("n1", provisioned)
	before := s.db.Revision()
	s.ensure(b, booting)
	require.Equal(t, before, s.db.Revision(), "to want the same again changes nothing")

	s.ensure(b, owned)
	server := s.await("n1", func(server *Server) bool {
		return available(server) && server.Power == PowerOn &&
			server.Booted == nil
	})
	require.Empty(t, b.Inserted(), "it was deprovisioned")
	require.False(t, server.Operations.Deprovision.End.IsZero())

	s.ensure(b, func(d *Desired) { owned(d); d.Online = &offline })
	s.await("n1", func(server *Server) bool { return server.Power == PowerOff })
	require.Equal(t, "Off", b.Power())
	require.Contains(t, strings.Join(reasons(server), " "),
		"ProvisioningStarted PowerOn ProvisioningComplete DeprovisioningStarted DeprovisioningComplete")

	_, err := s.manager.Order(bg, "n1", OrderPowerOn)
	require.ErrorContains(t, err, "is decided by its BareMetalHost site/n1")
	_, err = s.manager.Boot(bg, "n1", "")
	require.ErrorContains(t, err, "is wanted to be off")
}

func reasons(server *Server) []string {
	var all []string
	for _, note := range server.History {
		all = append(all, note.Reason)
	}
	return all
}

func TestADetachedServerIsLeftAlone(t *testing.T) {
	s := newSite(t)
	b := s.bmc("generic")
	offline := false
	s.ensure(b, nil)
	s.await("n1", available)
	s.ensure(b, func(d *Desired) {
		d.Detached, d.Online, d.Boot, d.Owner = true, &offline, true, "BareMetalHost site/n1"
	})
	for _, kind := range []OrderKind{OrderBoot, OrderPowerOff, OrderEject} {
		_, err := s.manager.Order(bg, "n1", kind)
		require.ErrorContains(t, err, "is detached: its power and media are left alone")
	}
	_, err := s.manager.Order(bg, "n1", OrderInspect)
	require.NoError(t, err)
	s.await("n1", func(server *Server) bool { return server.Pending == nil })
	require.NoError(t, s.manager.Forget(bg, "n1", true))
	s.awaitGone("n1")
	require.Equal(t, "On", b.Power())
	require.Empty(t, b.Boots())
}

func (s *site) awaitGone(id string) {
	s.t.Helper()
	require.Eventually(s.t, func() bool {
		_, err := s.manager.Server(id)
		return err != nil
	}, 10*time.Second, time.Millisecond)
}

func TestAForgottenServerIsEjectedAndSwitchedOff(t *testing.T) {
	s := newSite(t)
	b := s.bmc("supermicro-x12")
	s.boot(b, Host{Status: models.HostStatusKnown})
	require.NoError(t, s.manager.Forget(bg, "n1", true))
	_, err := s.manager.Boot(bg, "n1", "")
	require.Error(t, err)
	s.awaitGone("n1")
	require.Equal(t, "Off", b.Power())
	require.Empty(t, b.Inserted())
	require.NoError(t, s.manager.Forget(bg, "n1", true), "twice is no error")
	_, err = s.manager.Conversations("n1")
	require.Error(t, err)
	s.ensure(b, nil)
	s.await("n1", available)
}

func TestAServerWhoseBMCIsGoneIsLetGo(t *testing.T) {
	s := newSite(t)
	b := s.bmc("generic")
	s.ensure(b, nil)
	s.await("n1", available)
	require.NoError(t, b.Close())
	require.NoError(t, s.manager.Forget(bg, "n1", true))
	s.awaitGone("n1")
}

func TestMediaOfSomebodyElseAreNotEjectedWhenAServerIsForgotten(t *testing.T) {
	s := newSite(t)
	b := s.bmc("generic")
	b.Insert("http://192.0.2.1/rescue.iso")
	s.ensure(b, nil)
	s.await("n1", available)
	require.NoError(t, s.manager.Forget(bg, "n1", false))
	s.awaitGone("n1")
	require.Equal(t, "http://192.0.2.1/rescue.iso", b.Inserted())
}

func TestOrders(t *testing.T) {
	s := newSite(t)
	b := s.bmc("lenovo-xcc")
	b.Insert("http://192.0.2.1/rescue.iso")
	s.ensure(b, nil)
	s.await("n1", func(server *Server) bool { return available(server) && server.Media != nil })
	done := func(server *Server) bool { return server.Pending == nil }
	for _, c := range []struct {
		kind  OrderKind
		power string
	}{{OrderEject, "On"}, {OrderSoftOff, "Off"}, {OrderPowerOff, "Off"}, {OrderPowerOn, "On"}, {OrderPowerOn, "On"},
		{OrderReset, "On"}, {OrderPowerOff, "Off"}, {OrderReset, "On"}} {
		_, err := s.manager.Order(bg, "n1", c.kind)
		require.NoError(t, err)
		server := s.await("n1", done)
		require.Nil(t, server.Error, "%s", c.kind)
		require.Equal(t, c.power, b.Power(), "%s", c.kind)
		require.Nil(t, server.Media)
	}
	_, err := s.manager.Order(bg, "n1", "explode")
	require.ErrorContains(t, err, `There is no order "explode" for a server`)
	_, err = s.manager.Order(bg, "n2", OrderReset)
	require.ErrorContains(t, err, "There is no BMC n2")
	s.ensure(b, func(d *Desired) { d.InfraEnvID = "" })
	_, err = s.manager.Boot(bg, "n1", "")
	require.ErrorContains(t, err, "It is not said from what the server n1 shall boot")
}

func TestANewerOrderBreaksABootOff(t *testing.T) {
	s := newSite(t)
	b := s.bmc("generic", redfish.PowerStuck)
	s.ensure(b, nil)
	s.await("n1", available)
	_, err := s.manager.Boot(bg, "n1", "")
	require.NoError(t, err)
	s.await("n1", func(server *Server) bool { return server.State == Provisioning })
	_, err = s.manager.Order(bg, "n1", OrderPowerOn)
	require.NoError(t, err)
	server := s.await("n1", func(server *Server) bool { return server.Pending == nil })
	require.Equal(t, Available, server.State)
	require.Contains(t, reasons(server), "ProvisioningBroken")
}

func TestNothingThatWasSaidHoldsASecret(t *testing.T) {
	for _, profile := range []string{"generic", "sushy-emulator"} {
		t.Run(profile, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			b := s.bmc(profile)
			s.boot(b, Host{Status: models.HostStatusKnown})
			_, err := s.manager.Order(bg, "n1", OrderInspect)
			require.NoError(t, err)
			server := s.await("n1", func(server *Server) bool { return server.Pending == nil })
			said, err := s.manager.Conversations("n1")
			require.NoError(t, err)
			require.GreaterOrEqual(t, len(said), 3)
			text, err := json.Marshal([]any{said, server})
			require.NoError(t, err)
			require.Contains(t, string(text), "/redfish/v1/Systems/")
			require.Contains(t, string(text), "abcd…")
			require.NotContains(t, string(text), secret)
			require.NotContains(t, string(text), base64.StdEncoding.EncodeToString([]byte(operator+":"+secret)))
			for _, token := range b.Tokens() {
				require.NotContains(t, string(text), token)
				require.NotContains(t, string(text), token[:8], "the session's id")
			}
			conversations, err := json.Marshal(said)
			require.NoError(t, err)
			require.NotContains(t, string(conversations), "abcdefghijklmnop")
		})
	}
}

func TestConversationsAreKeptWithinBounds(t *testing.T) {
	s := newSite(t)
	b := s.bmc("generic")
	s.ensure(b, nil)
	s.await("n1", available)
	w := &worker{m: s.manager, id: "n1"}
	session := &session{tape: newTape(nil, s.clock, secret, "boot", s.clock.Now())}
	for i := range 2 * keptExchanges {
		session.tape.keep(Exchange{Path: "/redfish/v1/" + strings.Repeat("x", i), Answer: strings.Repeat("y", 300)})
	}
	require.Len(t, session.tape.said.Exchanges, keptExchanges)
	require.Equal(t, keptExchanges, session.tape.said.Left)
	session.tape.keep(Exchange{Path: "/a", Answer: "same"})
	session.tape.keep(Exchange{Path: "/a", Answer: "same"})
	require.Equal(t, asBefore, session.tape.said.Exchanges[keptExchanges-1].Answer)
	for i := range keptConversations + 5 {
		session.tape.said.Start = s.clock.Now().Add(time.Duration(i) * time.Second)
		require.NoError(t, w.keep(bg, session, jobBoot, nil))
	}
	said, err := s.manager.Conversations("n1")
	require.NoError(t, err)
	text, err := json.Marshal(said)
	require.NoError(t, err)
	require.Less(t, len(text), keptBytes+64<<10)
	require.Greater(t, len(said), 1)
}

func TestConversationsStayInOrderWhereTheClockDoesNotMove(t *testing.T) {
	s := newSite(t)
	b := s.bmc("generic")
	s.ensure(b, nil)
	s.await("n1", available)
	w := &worker{m: s.manager, id: "n1"}
	session := &session{tape: newTape(nil, s.clock, secret, "boot", s.clock.Now().Add(time.Hour))}
	for _, back := range []time.Duration{0, 0, time.Minute} {
		session.tape.said.Start = session.tape.said.Start.Add(-back)
		require.NoError(t, w.keep(bg, session, jobBoot, fmt.Errorf("set back by %s, %d", back,
			len(session.tape.said.Exchanges))))
		session.tape.keep(Exchange{Path: "/redfish/v1"})
	}
	said, err := s.manager.Conversations("n1")
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(said), 3)
	for i, outcome := range []string{"set back by 0s, 0", "set back by 0s, 1", "set back by 1m0s, 2"} {
		require.Equal(t, outcome, said[len(said)-3+i].Outcome)
	}
}

func TestCertificatesAreVerifiedUnlessItWasChosenOtherwise(t *testing.T) {
	s := newSite(t)
	profile, _ := redfish.ProfileByName("generic")
	cert, ca := certificate(t, false)
	b := s.start(redfish.Options{Profile: profile}, cert)
	s.ensure(b, nil)
	server := s.await("n1", inTrouble)
	require.Contains(t, server.Error.Message, "give its CA, or choose not to verify it")
	s.ensure(b, func(d *Desired) { d.CA = ca })
	s.await("n1", available)
	s.ensure(b, func(d *Desired) { d.SkipVerify = true })
	s.await("n1", available)
	s.ensure(b, nil)
	server = s.await("n1", inTrouble)
	require.False(t, server.CredentialsGood)
}

func TestOtherCredentialsAreTriedAtOnce(t *testing.T) {
	s := newSite(t)
	b := s.bmc("generic")
	s.ensure(b, func(d *Desired) { d.Password = "wrong one" })
	server := s.await("n1", func(server *Server) bool { return server.Error != nil && server.Error.Count >= 3 })
	require.False(t, server.Error.RetryAt.IsZero())
	s.ensure(b, nil)
	server = s.await("n1", available)
	require.Nil(t, server.Error)
	said, err := s.manager.Conversations("n1")
	require.NoError(t, err)
	refused := slices.DeleteFunc(said, func(c Conversation) bool {
		return !strings.Contains(c.Outcome,
			"refuses the user name")
	})
	require.Len(t, refused, 1, "what ended in the same way is kept once")
	require.GreaterOrEqual(t, refused[0].Repeated, 2)
}

func TestAnAddressOfNetworkBootUsesVirtualMediaAndSaysSo(t *testing.T) {
	s := newSite(t)
	b := s.bmc("generic")
	s.ensure(b, func(d *Desired) {
		d.Address = strings.Replace(d.Address, "redfish-virtualmedia", "redfish", 1) + "/redfish/v1/Systems/1"
	})
	server := s.await("n1", available)
	require.Contains(t, reasons(server), "VirtualMediaUsed")
}

func TestServersOfOneBMCTakeTurns(t *testing.T) {
	s := newSite(t)
	b := s.bmc("generic", redfish.SeveralSystems)
	for _, id := range []string{"a", "b", "c"} {
		wanted := desired(b)
		wanted.Name, wanted.Address = id, wanted.Address+"/redfish/v1/Systems/1"
		_, err := s.manager.Ensure(bg, id, wanted)
		require.NoError(t, err)
	}
	for _, id := range []string{"a", "b", "c"} {
		s.await(id, available)
	}
	require.LessOrEqual(t, b.MostSessions(), 1)
	_, err := s.manager.Ensure(bg, "d", Desired{Name: "a", Address: addressOf(b.URL()), Username: "x", Password: "y"})
	require.ErrorContains(t, err, "There is a server with the name a already")
	found, err := s.manager.Find("b")
	require.NoError(t, err)
	require.Equal(t, "b", found.ID)
	all, err := s.manager.Servers()
	require.NoError(t, err)
	require.Len(t, all, 3)
}

func TestPowerThatSomebodyElseSwitchedIsNoticed(t *testing.T) {
	s := newSite(t)
	b := s.bmc("generic")
	s.ensure(b, nil)
	s.await("n1", func(server *Server) bool { return server.Power == PowerOn })
	b.Unplug(time.Second)
	s.await("n1", func(server *Server) bool { return server.Power == PowerOff })
}

func TestBackoff(t *testing.T) {
	require.Equal(t, 10*time.Second, backoff(1))
	require.Equal(t, 20*time.Second, backoff(2))
	require.Equal(t, 5*time.Minute, backoff(9))
	require.Equal(t, 5*time.Minute, backoff(1000))
}
