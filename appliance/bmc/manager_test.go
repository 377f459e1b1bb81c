package bmc

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"

	"landfall/appliance/simulate/redfish"
	"landfall/store"
)

var bg = context.Background()

// ensure creates or changes the server n1 of a simulated BMC.
func (s *testSite) ensure(b *redfish.BMC, alter func(*Desired)) *Server {
	s.t.Helper()
	d := desired(b)
	if alter != nil {
		alter(&d)
	}
	server, err := s.manager.Ensure(bg, "n1", d)
	require.NoError(s.t, err)
	return server
}

// boot registers and boots a server and then registers its host.
func (s *testSite) boot(b *redfish.BMC, host Host) *Server {
	s.t.Helper()
	s.ensure(b, nil)
	_, err := s.manager.Boot(bg, "n1", "", false)
	require.NoError(s.t, err)
	s.await("n1", provisioned)
	host.HostRef, host.MACs, host.Registered = HostRef{infraEnv, "h1"}, []string{"52:54:00:00:00:07"}, s.clock.Now()
	s.setHost(host)
	return s.await("n1", func(server *Server) bool { return server.Booted.Host != nil })
}

func TestEject_byHostStage(t *testing.T) {
	for _, c := range []struct {
		name    string
		host    Host
		ejected bool
	}{
		{"discovered host keeps image", Host{Status: models.HostStatusKnown}, false},
		{"writing to disk keeps image", Host{Status: models.HostStatusInstallingInProgress,
			Stage: models.HostStageWritingImageToDisk}, false},
		{"rebooting", Host{Status: models.HostStatusInstallingInProgress, Stage: models.HostStageRebooting},
			true},
		{"rebooting from minimal image", Host{Status: models.HostStatusInstallingInProgress,
			Stage: models.HostStageRebooting, Minimal: true}, true},
		{"running from disk", Host{Status: models.HostStatusInstallingInProgress,
			Stage: models.HostStageJoined}, true},
		{"installed", Host{Status: models.HostStatusInstalled, Stage: models.HostStageDone}, true},
		{"installation failed", Host{Status: models.HostStatusError, Stage: models.HostStageInstalling}, true},
		{"installation cancelled", Host{Status: models.HostStatusCancelled, Minimal: true}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newTestSite(t)
			b := s.startBMC("generic")
			s.boot(b, c.host)
			if !c.ejected {
				_, err := s.manager.RequestAction(bg, "n1", ActionInspect)
				require.NoError(t, err)
				server := s.await("n1", func(server *Server) bool { return server.Pending == nil })
				require.Zero(t, server.Booted.Ejected)
				require.Equal(t, s.image, b.Inserted())
				return
			}
			server := s.await("n1", func(server *Server) bool { return !server.Booted.Ejected.IsZero() })
			require.Empty(t, b.Inserted())
			require.Equal(t, "On", b.Power(), "an eject does not change the power")
			require.Nil(t, server.Error)
			require.Equal(t, Provisioned, server.State)
		})
	}
}

// An error while servers are updated from their hosts does not end the manager. No change is lost.
func TestEject_afterErrors(t *testing.T) {
	s := newTestSite(t)
	b := s.startBMC("generic")
	s.boot(b, Host{Status: models.HostStatusKnown})
	s.mu.Lock()
	s.broken = 3
	s.mu.Unlock()
	s.setHost(Host{HostRef: HostRef{infraEnv, "h1"}, MACs: []string{"52:54:00:00:00:07"},
		Status: models.HostStatusInstallingInProgress, Stage: models.HostStageJoined})
	s.await("n1", func(server *Server) bool { return !server.Booted.Ejected.IsZero() })
	require.Empty(t, b.Inserted())
}

func TestEject_delayOfFullImage(t *testing.T) {
	delay, reason := Host{Stage: models.HostStageRebooting}.ejectAfter()
	require.Equal(t, 20*time.Second, delay)
	require.NotEmpty(t, reason)
	delay, _ = Host{Stage: models.HostStageRebooting, Minimal: true}.ejectAfter()
	require.Zero(t, delay)
	delay, _ = Host{Status: models.HostStatusError}.ejectAfter()
	require.Equal(t, failedEjectDelay, delay, "the machine sends its logs")
}

func TestRepair_imageBootedAgain(t *testing.T) {
	s := newTestSite(t)
	b := s.startBMC("generic")
	s.boot(b, Host{Status: models.HostStatusInstallingPendingUserAction, Stage: models.HostStageRebooting,
		WrongBoot: true})
	s.await("n1", func(server *Server) bool { return !server.Booted.Repaired.IsZero() })
	require.Eventually(t, func() bool { return len(b.Boots()) == 2 }, time.Minute, time.Millisecond)
	require.Equal(t, "disk", b.Boots()[1].From)
	require.Empty(t, b.Inserted())
}

func TestBoot_agentDoesNotRegister(t *testing.T) {
	s := newTestSite(t)
	b := s.startBMC("generic")
	s.ensure(b, nil)
	s.setHost(Host{HostRef: HostRef{infraEnv, "h0"}, MACs: []string{"52:54:00:00:00:07"}, Registered: s.clock.Now(),
		Status: models.HostStatusKnown})
	_, err := s.manager.Boot(bg, "n1", "", false)
	require.NoError(t, err)
	server := s.await("n1", failed)
	require.Equal(t, ProvisioningError, server.Error.Type)
	require.Contains(t, server.Error.Message, "no agent has registered; check at its console")
	require.Nil(t, server.Booted.Host, "the host of an earlier boot does not match")
}

func TestBoot_resumesAfterRestart(t *testing.T) {
	for range 6 {
		t.Run("", func(t *testing.T) {
			t.Parallel()
			s := &testSite{t: t, clock: redfish.Accelerated(clockSpeed), hosts: map[HostRef]Host{}}
			other := newTestSite(t)
			s.image = other.image
			dir := t.TempDir()
			stop := s.open(dir)
			b := s.startBMC("hpe-ilo6")
			s.ensure(b, nil)
			s.await("n1", available)
			_, err := s.manager.Boot(bg, "n1", "", false)
			require.NoError(t, err)
			for range 4 {
				<-time.After(time.Duration(rand.IntN(12)) * time.Millisecond)
				stop()
				stop = s.open(dir)
			}
			server := s.await("n1", provisioned)
			require.Nil(t, server.Pending)
			require.Equal(t, "On", b.Power())
			require.Eventually(t, func() bool { return len(b.Boots()) > 0 }, time.Minute, time.Millisecond)
			for _, started := range b.Boots() {
				require.Equal(t, "cd", started.From, "the server never boots without the image")
			}
		})
	}
}

// An inspection does not replace a boot: the boot goes on, also while it is not successful.
func TestBoot_inspectedMeanwhile(t *testing.T) {
	s := newIdleSite(t)
	s.image = newTestSite(t).image
	b := s.startBMC("generic", redfish.Insert500)
	s.ensure(b, nil)
	w := &worker{m: s.manager, id: "n1"}
	w.runNext(t.Context())
	_, err := s.manager.Boot(bg, "n1", "", true)
	require.NoError(t, err)
	w.runNext(t.Context())
	server, err := s.manager.Server("n1")
	require.NoError(t, err)
	require.Equal(t, 1, server.Error.Count)
	ordered, err := s.manager.RequestAction(bg, "n1", ActionInspect)
	require.NoError(t, err)
	require.Equal(t, server.Pending, ordered.Pending)
	w.runNext(t.Context())
	server, err = s.manager.Server("n1")
	require.NoError(t, err)
	require.Nil(t, server.Error, "the inspection was successful")
	w.runNext(t.Context())
	server, err = s.manager.Server("n1")
	require.NoError(t, err)
	require.Equal(t, ordered.Pending, server.Pending)
	require.Contains(t, server.Error.Message, "failed to insert the image")
}

// An inspection does not interrupt the job that runs.
func TestInspect_duringBoot(t *testing.T) {
	s := newIdleSite(t)
	s.image = newTestSite(t).image
	b := s.startBMC("generic")
	s.ensure(b, nil)
	w := &worker{m: s.manager, id: "n1", wake: make(chan struct{}, 1)}
	s.manager.workers["n1"] = w
	w.runNext(t.Context())
	_, err := s.manager.Boot(bg, "n1", "", false)
	require.NoError(t, err)
	r, err := s.manager.load("n1")
	require.NoError(t, err)
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	w.use(r.Generation, cancel)
	_, err = s.manager.RequestAction(bg, "n1", ActionInspect)
	require.NoError(t, err)
	require.NoError(t, ctx.Err())
	require.Len(t, w.wake, 1)
}

func TestEnsure_desiredStateOfOwner(t *testing.T) {
	s := newTestSite(t)
	b := s.startBMC("dell-idrac9")
	online, offline := true, false
	owned := func(d *Desired) { d.Owner, d.Online = "BareMetalHost site/n1", &online }
	s.ensure(b, owned)
	s.await("n1", available)

	booting := func(d *Desired) { owned(d); d.Boot = true }
	s.ensure(b, booting)
	s.await("n1", provisioned)
	before := s.db.Revision()
	s.ensure(b, booting)
	require.Equal(t, before, s.db.Revision(), "the same desired state changes nothing")

	s.ensure(b, owned)
	server := s.await("n1", func(server *Server) bool {
		return available(server) && server.Power == PowerOn &&
			server.Booted == nil
	})
	require.Empty(t, b.Inserted(), "the server was deprovisioned")
	require.False(t, server.Operations.Deprovision.End.IsZero())

	s.ensure(b, func(d *Desired) { owned(d); d.Online = &offline })
	s.await("n1", func(server *Server) bool { return server.Power == PowerOff })
	require.Equal(t, "Off", b.Power())
	require.Contains(t, strings.Join(reasons(server), " "),
		"ProvisioningStarted PowerOn ProvisioningComplete DeprovisioningStarted DeprovisioningComplete")

	_, err := s.manager.RequestAction(bg, "n1", ActionPowerOn)
	require.ErrorContains(t, err, "is controlled by its BareMetalHost site/n1")
	_, err = s.manager.Boot(bg, "n1", "", false)
	require.ErrorContains(t, err, "requires it to be off")
}

func reasons(server *Server) []string {
	var all []string
	for _, note := range server.History {
		all = append(all, note.Reason)
	}
	return all
}

func TestDetached_noChanges(t *testing.T) {
	s := newTestSite(t)
	b := s.startBMC("generic")
	offline := false
	s.ensure(b, nil)
	s.await("n1", available)
	s.ensure(b, func(d *Desired) {
		d.Detached, d.Online, d.Boot, d.Owner = true, &offline, true, "BareMetalHost site/n1"
	})
	for _, kind := range []ActionKind{ActionBoot, ActionPowerOff, ActionEject} {
		_, err := s.manager.RequestAction(bg, "n1", kind)
		require.ErrorContains(t, err, "is detached: its power and media are not changed")
	}
	_, err := s.manager.RequestAction(bg, "n1", ActionInspect)
	require.NoError(t, err)
	s.await("n1", func(server *Server) bool { return server.Pending == nil })
	require.NoError(t, s.manager.Remove(bg, "n1", true))
	s.awaitGone("n1")
	require.Equal(t, "On", b.Power())
	require.Empty(t, b.Boots())
}

func (s *testSite) awaitGone(id string) {
	s.t.Helper()
	require.Eventually(s.t, func() bool {
		_, err := s.manager.Server(id)
		return err != nil
	}, time.Minute, time.Millisecond)
}

func TestRemove_ejectsAndPowersOff(t *testing.T) {
	s := newTestSite(t)
	b := s.startBMC("supermicro-x12")
	s.boot(b, Host{Status: models.HostStatusKnown})
	require.NoError(t, s.manager.Remove(bg, "n1", true))
	_, err := s.manager.Boot(bg, "n1", "", false)
	require.Error(t, err)
	s.awaitGone("n1")
	require.Equal(t, "Off", b.Power())
	require.Empty(t, b.Inserted())
	require.NoError(t, s.manager.Remove(bg, "n1", true), "removing a server twice is not an error")
	_, err = s.manager.RequestLogs("n1")
	require.Error(t, err)
	s.ensure(b, nil)
	s.await("n1", available)
}

func TestRemove_unreachableBMC(t *testing.T) {
	s := newTestSite(t)
	b := s.startBMC("generic")
	s.ensure(b, nil)
	s.await("n1", available)
	require.NoError(t, b.Close())
	require.NoError(t, s.manager.Remove(bg, "n1", true))
	s.awaitGone("n1")
}

func TestRemove_keepsForeignMedia(t *testing.T) {
	s := newTestSite(t)
	b := s.startBMC("generic")
	b.Insert("http://192.0.2.1/rescue.iso")
	s.ensure(b, nil)
	s.await("n1", available)
	require.NoError(t, s.manager.Remove(bg, "n1", false))
	s.awaitGone("n1")
	require.Equal(t, "http://192.0.2.1/rescue.iso", b.Inserted())
}

func TestActions(t *testing.T) {
	s := newTestSite(t)
	b := s.startBMC("lenovo-xcc")
	b.Insert("http://192.0.2.1/rescue.iso")
	s.ensure(b, nil)
	s.await("n1", func(server *Server) bool { return available(server) && server.Media != nil })
	done := func(server *Server) bool { return server.Pending == nil }
	for _, c := range []struct {
		kind  ActionKind
		power string
	}{{ActionEject, "On"}, {ActionShutdown, "Off"}, {ActionPowerOff, "Off"}, {ActionPowerOn, "On"},
		{ActionPowerOn, "On"},
		{ActionReset, "On"}, {ActionPowerOff, "Off"}, {ActionReset, "On"}} {
		_, err := s.manager.RequestAction(bg, "n1", c.kind)
		require.NoError(t, err)
		server := s.await("n1", done)
		require.Nil(t, server.Error, "%s", c.kind)
		require.Equal(t, c.power, b.Power(), "%s", c.kind)
		require.Nil(t, server.Media)
	}
	_, err := s.manager.RequestAction(bg, "n1", "explode")
	require.ErrorContains(t, err, `There is no action "explode" for a server`)
	_, err = s.manager.RequestAction(bg, "n2", ActionReset)
	require.ErrorContains(t, err, "There is no BMC n2")
	s.ensure(b, func(d *Desired) { d.InfraEnvID = "" })
	_, err = s.manager.Boot(bg, "n1", "", false)
	require.ErrorContains(t, err, "The server n1 has no image to boot")
}

func TestActions_newActionCancelsBoot(t *testing.T) {
	s := newTestSite(t)
	b := s.startBMC("generic", redfish.PowerStuck)
	s.ensure(b, nil)
	s.await("n1", available)
	_, err := s.manager.Boot(bg, "n1", "", false)
	require.NoError(t, err)
	s.await("n1", func(server *Server) bool { return server.State == Provisioning })
	_, err = s.manager.RequestAction(bg, "n1", ActionPowerOn)
	require.NoError(t, err)
	server := s.await("n1", func(server *Server) bool { return server.Pending == nil })
	require.Equal(t, Available, server.State)
	require.Contains(t, reasons(server), "ProvisioningBroken")
}

func TestRequestLogs_noSecrets(t *testing.T) {
	for _, profile := range []string{"generic", "sushy-emulator"} {
		t.Run(profile, func(t *testing.T) {
			t.Parallel()
			s := newTestSite(t)
			b := s.startBMC(profile)
			s.boot(b, Host{Status: models.HostStatusKnown})
			_, err := s.manager.RequestAction(bg, "n1", ActionInspect)
			require.NoError(t, err)
			server := s.await("n1", func(server *Server) bool { return server.Pending == nil })
			logs, err := s.manager.RequestLogs("n1")
			require.NoError(t, err)
			require.GreaterOrEqual(t, len(logs), 3)
			text, err := json.Marshal([]any{logs, server})
			require.NoError(t, err)
			require.Contains(t, string(text), "/redfish/v1/Systems/")
			require.Contains(t, string(text), "abcd…")
			require.NotContains(t, string(text), secret)
			require.NotContains(t, string(text), base64.StdEncoding.EncodeToString([]byte(operator+":"+secret)))
			for _, token := range b.Tokens() {
				require.NotContains(t, string(text), token)
				require.NotContains(t, string(text), token[:8], "the session's id")
			}
			content, err := json.Marshal(logs)
			require.NoError(t, err)
			require.NotContains(t, string(content), "abcdefghijklmnop")
		})
	}
}

func TestRequestLogs_limits(t *testing.T) {
	s := newTestSite(t)
	b := s.startBMC("generic")
	s.ensure(b, nil)
	s.await("n1", available)
	w := &worker{m: s.manager, id: "n1"}
	session := &session{recorder: newRecorder(nil, s.clock, secret, "boot", s.clock.Now())}
	for i := range 2 * maxExchanges {
		session.recorder.add(Exchange{Path: "/redfish/v1/" + strings.Repeat("x", i),
			Response: strings.Repeat("y", 300)})
	}
	require.Len(t, session.recorder.log.Exchanges, maxExchanges)
	require.Equal(t, maxExchanges, session.recorder.log.Omitted)
	session.recorder.add(Exchange{Path: "/a", Response: "same"})
	session.recorder.add(Exchange{Path: "/a", Response: "same"})
	require.Equal(t, sameAsBefore, session.recorder.log.Exchanges[maxExchanges-1].Response)
	for i := range maxRequestLogs + 5 {
		session.recorder.log.Start = s.clock.Now().Add(time.Duration(i) * time.Second)
		require.NoError(t, w.saveRequestLog(bg, session, jobBoot, nil))
	}
	logs, err := s.manager.RequestLogs("n1")
	require.NoError(t, err)
	text, err := json.Marshal(logs)
	require.NoError(t, err)
	require.Less(t, len(text), maxRequestLogBytes+64<<10)
	require.Greater(t, len(logs), 1)
}

// A damaged log is no reason to keep no further ones.
func TestRequestLogs_afterDamagedOne(t *testing.T) {
	s := newIdleSite(t)
	b := s.startBMC("generic")
	s.ensure(b, nil)
	w := &worker{m: s.manager, id: "n1"}
	session := &session{recorder: newRecorder(nil, s.clock, secret, "boot", s.clock.Now())}
	require.NoError(t, s.db.Update(bg, func(tx *store.Tx) error {
		return store.NewBucket[string]("bmc-conversations", 1).Put(tx, "n1/"+requestLogID(1), new("damaged"))
	}))
	require.NoError(t, w.saveRequestLog(bg, session, jobBoot, errors.New("no answer")))
	logs, err := s.manager.RequestLogs("n1")
	require.NoError(t, err)
	require.Len(t, logs, 1)
}

func TestRequestLogs_orderWithoutClock(t *testing.T) {
	s := newTestSite(t)
	b := s.startBMC("generic")
	s.ensure(b, nil)
	s.await("n1", available)
	w := &worker{m: s.manager, id: "n1"}
	session := &session{recorder: newRecorder(nil, s.clock, secret, "boot", s.clock.Now().Add(time.Hour))}
	for _, back := range []time.Duration{0, 0, time.Minute} {
		session.recorder.log.Start = session.recorder.log.Start.Add(-back)
		require.NoError(t, w.saveRequestLog(bg, session, jobBoot, fmt.Errorf("set back by %s, %d", back,
			len(session.recorder.log.Exchanges))))
		session.recorder.add(Exchange{Path: "/redfish/v1"})
	}
	logs, err := s.manager.RequestLogs("n1")
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(logs), 3)
	for i, message := range []string{"set back by 0s, 0", "set back by 0s, 1", "set back by 1m0s, 2"} {
		require.Equal(t, message, logs[len(logs)-3+i].Error)
	}
}

func TestCertificates_verifiedByDefault(t *testing.T) {
	s := newTestSite(t)
	profile, _ := redfish.ProfileByName("generic")
	cert, ca := certificate(t, false)
	b := s.startBMCWith(redfish.Options{Profile: profile}, cert)
	s.ensure(b, nil)
	server := s.await("n1", failed)
	require.Contains(t, server.Error.Message, "give its CA, or disable the verification")
	s.ensure(b, func(d *Desired) { d.CA = ca })
	s.await("n1", available)
	s.ensure(b, func(d *Desired) { d.SkipVerify = true })
	s.await("n1", available)
	s.ensure(b, nil)
	server = s.await("n1", failed)
	require.False(t, server.CredentialsGood)
}

func TestCredentials_changeRetriesImmediately(t *testing.T) {
	s := newTestSite(t)
	b := s.startBMC("generic")
	s.ensure(b, func(d *Desired) { d.Password = "wrong one" })
	server := s.await("n1", func(server *Server) bool { return server.Error != nil && server.Error.Count >= 3 })
	require.False(t, server.Error.RetryAt.IsZero())
	s.ensure(b, nil)
	server = s.await("n1", available)
	require.Nil(t, server.Error)
	logs, err := s.manager.RequestLogs("n1")
	require.NoError(t, err)
	refused := slices.DeleteFunc(logs, func(c RequestLog) bool {
		return !strings.Contains(c.Error,
			"rejects the user name")
	})
	require.Len(t, refused, 1, "sessions with the same error share one log")
	require.GreaterOrEqual(t, refused[0].Repeated, 2)
}

func TestAddress_networkBootUsesVirtualMedia(t *testing.T) {
	s := newTestSite(t)
	b := s.startBMC("generic")
	s.ensure(b, func(d *Desired) {
		d.Address = strings.Replace(d.Address, "redfish-virtualmedia", "redfish", 1) + "/redfish/v1/Systems/1"
	})
	server := s.await("n1", available)
	require.Contains(t, reasons(server), "VirtualMediaUsed")
}

func TestSharedBMC_oneSessionAtATime(t *testing.T) {
	s := newTestSite(t)
	b := s.startBMC("generic", redfish.SeveralSystems)
	systems := map[string]string{"a": "1", "b": "Second"}
	for id, system := range systems {
		d := desired(b)
		d.Name, d.Address = id, d.Address+"/redfish/v1/Systems/"+system
		_, err := s.manager.Ensure(bg, id, d)
		require.NoError(t, err)
	}
	for id := range systems {
		s.await(id, available)
	}
	require.LessOrEqual(t, b.MostSessions(), 1)
	_, err := s.manager.Ensure(bg, "d", Desired{Name: "a", Address: addressOf(b.URL()), Username: "x", Password: "y"})
	require.ErrorContains(t, err, "A server with the name a already exists")
	found, err := s.manager.Find("b")
	require.NoError(t, err)
	require.Equal(t, "b", found.ID)
	all, err := s.manager.Servers()
	require.NoError(t, err)
	require.Len(t, all, 2)
}

func TestPoll_externalPowerChange(t *testing.T) {
	s := newTestSite(t)
	b := s.startBMC("generic")
	s.ensure(b, nil)
	s.await("n1", func(server *Server) bool { return server.Power == PowerOn })
	b.Unplug(time.Second)
	s.await("n1", func(server *Server) bool { return server.Power == PowerOff })
}

// A BMC that does not report the power state gets one request, and not one after the other.
func TestOnline_unknownPower(t *testing.T) {
	s := newTestSite(t)
	b := s.startBMC("generic", redfish.PowerNull)
	s.ensure(b, func(d *Desired) { d.Online = new(false) })
	s.await("n1", func(server *Server) bool { return server.Power == PowerOff })
	r, err := s.manager.load("n1")
	require.NoError(t, err)
	next, _ := r.nextJob(s.manager.now())
	require.Equal(t, jobPoll, next)
	s.ensure(b, func(d *Desired) { d.Online = new(true) })
	s.await("n1", func(server *Server) bool { return server.Power == PowerOn })
	s.await("n1", available)
	require.Equal(t, 2, strings.Count(strings.Join(b.Requests(), "\n"), "ComputerSystem.Reset"))
}

func TestBackoff(t *testing.T) {
	require.Equal(t, 10*time.Second, backoff(1))
	require.Equal(t, 20*time.Second, backoff(2))
	require.Equal(t, 5*time.Minute, backoff(9))
	require.Equal(t, 5*time.Minute, backoff(1000))
}
