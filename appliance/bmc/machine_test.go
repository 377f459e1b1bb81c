package bmc

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"landfall/appliance/simulate/redfish"
	"landfall/store"
)

func TestMachine_twoNames(t *testing.T) {
	first := Desired{Name: "n1", Address: "redfish-virtualmedia://bmc-7.site.test/redfish/v1/Systems/1",
		Username: "root", Password: "x", BootMAC: "52:54:00:00:00:07"}
	for _, c := range []struct {
		name, address, mac string
		refusal            string // "" if the server is another machine
	}{
		{"same address", "redfish-virtualmedia://bmc-7.site.test/redfish/v1/Systems/1", "",
			"both have the BMC address bmc-7.site.test/redfish/v1/Systems/1"},
		{"another scheme", "idrac-virtualmedia+https://BMC-7.site.test:443/redfish/v1/Systems/1/", "",
			"both have the BMC address"},
		{"no path", "https://bmc-7.site.test", "",
			"both have the BMC address bmc-7.site.test, and only one of the two addresses has the path of a system"},
		{"same boot MAC address", "redfish://192.0.2.9", "52-54-00-00-00-07",
			"both have the boot MAC address 52:54:00:00:00:07"},
		{"another system", "redfish://bmc-7.site.test/redfish/v1/Systems/2", "", ""},
		{"another port", "redfish://bmc-7.site.test:8443/redfish/v1/Systems/1", "", ""},
		{"another BMC", "redfish://bmc-8.site.test/redfish/v1/Systems/1", "52:54:00:00:00:08", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newIdleSite(t)
			_, err := s.manager.Ensure(bg, "n1", first)
			require.NoError(t, err)
			second := Desired{Name: "n2", Address: c.address, Username: "root", Password: "x", BootMAC: c.mac}
			checked := s.manager.Check(second)
			_, err = s.manager.Ensure(bg, "n2", second)
			if c.refusal == "" {
				require.NoError(t, err)
				require.NoError(t, checked)
				return
			}
			require.ErrorContains(t, err, "The server n2 would be the same machine as the server n1: "+c.refusal)
			require.EqualError(t, checked, err.Error())
			second.Address, second.BootMAC = "redfish://192.0.2.99", ""
			_, err = s.manager.Ensure(bg, "n2", second)
			require.NoError(t, err)
			_, err = s.manager.Change(bg, "n2", nil, func(d Desired) (Desired, error) {
				d.Address, d.BootMAC = c.address, c.mac
				return d, nil
			})
			require.ErrorContains(t, err, "the same machine as the server n1", "a change is refused, too")
			require.NoError(t, s.manager.Remove(bg, "n1", false))
			require.NoError(t, s.manager.Check(Desired{Name: "n3", Address: c.address, Username: "root", Password: "x",
				BootMAC: c.mac}), "a server that is being removed does not count")
		})
	}
}

// newIdleSite returns a site whose manager does not run.
func newIdleSite(t *testing.T) *testSite {
	s := &testSite{t: t, clock: redfish.Accelerated(clockSpeed), hosts: map[HostRef]Host{}}
	db, err := store.Open(bg, t.TempDir(), store.Options{NoSync: true, Clock: s.clock})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	s.db, s.manager = db, New(Options{DB: db, Site: s, Clock: s.clock})
	return s
}

// storeDuplicate stores the server n2 with the machine of n1, as older programs accepted it.
func (s *testSite) storeDuplicate() {
	s.t.Helper()
	require.NoError(s.t, s.db.Update(bg, func(tx *store.Tx) error {
		r, err := serverRows.Get(tx, "n1")
		if err != nil {
			return err
		}
		r.ID, r.Name, r.Created = "n2", "n2", r.Created.Add(time.Second)
		r.History, r.Operations = []Event{}, OperationHistory{}
		if err := serverNames.Add(tx, "n2\x00n2"); err != nil {
			return err
		}
		s.manager.machines.set("n2", r.machine())
		return serverRows.Put(tx, "n2", r)
	}))
}

func TestMachine_storedTwice(t *testing.T) {
	s := newTestSite(t)
	b := s.startBMC("generic")
	s.ensure(b, nil)
	s.await("n1", available)
	_, err := s.manager.Boot(bg, "n1", "", false)
	require.NoError(t, err)
	s.await("n1", provisioned)
	s.storeDuplicate()
	second := s.await("n2", failed)
	require.Equal(t, "n1", second.DuplicateOf)
	require.Contains(t, second.Error.Message, "The server n2 is the same machine as the server n1, which controls it")
	require.Equal(t, "It waits, because the server n1 controls the same machine.", second.Activity)
	for _, kind := range []ActionKind{ActionBoot, ActionPowerOff, ActionEject, ActionInspect} {
		_, err := s.manager.RequestAction(bg, "n2", kind)
		require.ErrorContains(t, err, "send the action to n1, or remove one of the two")
	}
	require.NoError(t, s.manager.Remove(bg, "n2", true))
	s.awaitGone("n2")
	require.Equal(t, "On", b.Power(), "the removal of the second server does not power off the machine")
	require.Equal(t, s.image, b.Inserted())

	s.storeDuplicate()
	s.await("n2", failed)
	require.NoError(t, s.manager.Remove(bg, "n1", false))
	s.awaitGone("n1")
	second = s.await("n2", func(server *Server) bool { return server.DuplicateOf == "" })
	require.Contains(t, reasons(second), "MachineControlled")
	_, err = s.manager.RequestAction(bg, "n2", ActionInspect)
	require.NoError(t, err, "the second server controls the machine after the first is gone")
}

func TestMachine_controller(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	older, younger := &row{Server: Server{ID: "b", Created: at}}, &row{Server: Server{ID: "a", Created: at.Add(1)}}
	require.True(t, older.precedes(younger))
	require.False(t, younger.precedes(older))
	younger.Operations.Provision.Start = at.Add(2)
	require.True(t, younger.precedes(older), "it has inserted the image and must eject it")
	older.Operations.Provision.Start, younger.Created = at.Add(2), at
	require.True(t, younger.precedes(older))
}

// Of two servers of one machine, the row of the one in control is damaged. The other takes over,
// and waits again when the row is readable again.
func TestMachine_damagedController(t *testing.T) {
	dir := t.TempDir()
	s := &testSite{t: t, clock: redfish.Accelerated(clockSpeed), hosts: map[HostRef]Host{}}
	stop := s.open(dir)
	b := s.startBMC("generic")
	s.ensure(b, nil)
	s.await("n1", available)
	s.storeDuplicate()
	s.await("n2", failed)
	readable, err := s.manager.load("n1")
	require.NoError(t, err)
	require.NoError(t, s.db.Update(bg, func(tx *store.Tx) error {
		return store.NewBucket[string]("bmcs", 1).Put(tx, "n1", new("no server"))
	}))
	_, err = s.manager.Server("n1")
	require.True(t, store.IsDamaged(err), "%v", err)
	_, err = s.manager.Ensure(bg, "n3", Desired{Name: "n1", Address: "redfish://192.0.2.9", Username: operator,
		Password: secret})
	require.ErrorContains(t, err, "its stored data is damaged", "the name exists, but not in the list")

	second := s.await("n2", func(server *Server) bool { return server.DuplicateOf == "" && server.Error == nil })
	require.Equal(t, "MachineControlled", second.History[len(second.History)-1].Reason)
	_, err = s.manager.RequestAction(bg, "n2", ActionPowerOff)
	require.NoError(t, err)
	s.await("n2", func(server *Server) bool { return server.Pending == nil })
	require.Equal(t, "Off", b.Power())

	stop()
	s.open(dir)
	s.await("n2", available)
	require.NoError(t, s.db.Update(bg, func(tx *store.Tx) error { return serverRows.Put(tx, "n1", readable) }))
	second = s.await("n2", failed)
	require.Equal(t, "It waits, because the server n1 controls the same machine.", second.Activity)
}

// A repair removes the damaged row of a server, but not its name.
func TestServers_nameWithoutRow(t *testing.T) {
	s := newIdleSite(t)
	d := Desired{Name: "n1", Address: "redfish://192.0.2.7", Username: operator, Password: secret}
	_, err := s.manager.Ensure(bg, "a", d)
	require.NoError(t, err)
	require.NoError(t, s.db.Update(bg, func(tx *store.Tx) error { return serverRows.Delete(tx, "a") }))
	servers, err := s.manager.Servers()
	require.NoError(t, err)
	require.Empty(t, servers)
	_, err = s.manager.Find("n1")
	require.ErrorAs(t, err, new(*NotFoundError))
	_, err = s.manager.Ensure(bg, "b", d)
	require.NoError(t, err)
	found, err := s.manager.Find("n1")
	require.NoError(t, err)
	require.Equal(t, "b", found.ID)
}
