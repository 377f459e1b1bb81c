package diagnosis_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"landfall/appliance/doctor"
	"landfall/appliance/fleet/diagnosis"
	"landfall/appliance/fleet/membership"
)

// fixed is the service of a fleet with a status.
type fixed struct {
	membership.Service
	status membership.Status
	err    error
}

func (f fixed) Status(context.Context) (*membership.Status, error) { return &f.status, f.err }

const common = "https://landfall.example.com"

// healthy returns the status of a fleet without findings.
func healthy() membership.Status {
	server := func(url string) membership.Server {
		return membership.Server{URL: url, Version: "3.6.1", Configured: true, Bytes: 20 << 20, QuotaBytes: 2 << 30}
	}
	member := func(name string) membership.Member {
		return membership.Member{Name: name, URL: "https://" + name + ":8090", Version: "v2",
			Role: membership.RoleFollower}
	}
	return membership.Status{Fleet: "id", Voters: 3, Safe: true, WriteSeconds: 0.004, Loss: "Nothing.",
		VirtualIP: &membership.VirtualIP{Address: "192.0.2.9", Interface: "eth0"},
		Servers:   []membership.Server{server("http://x"), server("http://y"), server("http://z")},
		Members:   []membership.Member{member("a"), member("b")}}
}

func TestFindings_eachHasAdvice(t *testing.T) {
	t.Parallel()
	all := func(status membership.Status, url string) []doctor.Finding {
		return diagnosis.Fleet{Of: fixed{status: status}, URL: url}.Findings(t.Context())
	}
	for _, finding := range all(healthy(), common) {
		require.Equal(t, doctor.Green, finding.Status, finding)
		require.Equal(t, doctor.Fleet, finding.Area)
		require.NotEmpty(t, finding.Result)
	}
	type status = membership.Status
	for name, c := range map[string]struct {
		change  func(*status)
		subject string
		worst   doctor.Status
		result  string
		// attention reports whether a person is notified
		attention bool
	}{
		"a member is away": {func(s *status) {
			s.Members[1].Role, s.Members[1].Seen = membership.RoleAway, time.Unix(0, 0)
		}, "member b", doctor.Amber, "away since 1970", true},
		"a member has no data": {func(s *status) { s.Members[1].Role = membership.RoleRestoring },
			"member b", doctor.Amber, "snapshot", true},
		"a member can't be asked": {func(s *status) { s.Members[1].Problem = "No route." },
			"member b", doctor.Amber, "No route.", true},
		"a member is late": {func(s *status) { s.Members[1].Behind, s.Members[1].LagSeconds = 1, 60 },
			"member b", doctor.Amber, "1 record", true},
		"files are missing": {func(s *status) { s.Members[1].MissingContents = 2 },
			"member b", doctor.Amber, "2 contents", true},
		"another machine has the virtual IP": {func(s *status) {
			s.VirtualIP = &membership.VirtualIP{Address: "192.0.2.9", Problem: "Another machine has it."}
		}, "virtual IP", doctor.Red, "Another machine has it.", true},
		"a server is away": {func(s *status) { s.Servers[1].Problem = "It does not answer." },
			"etcd http://y", doctor.Red, "It does not answer.", true},
		"no space": {func(s *status) { s.Servers[1].NoSpace = true }, "etcd http://y",
			doctor.Red, "NOSPACE", true},
		"servers differ": {func(s *status) { s.Servers[1].Damaged = true }, "etcd http://y",
			doctor.Red, "CORRUPT", true},
		"almost full": {func(s *status) { s.Servers[1].Bytes = 1900 << 20 },
			"etcd http://y", doctor.Amber, "1900 MiB of 2048 MiB", false},
		"slow reads": {func(s *status) { s.Servers[1].LatencySeconds = 0.3 }, "etcd http://y",
			doctor.Amber, "300 ms", false},
		"clock of etcd": {func(s *status) { s.Servers[1].ClockSeconds = -60 }, "etcd http://y",
			doctor.Amber, "1m0s", false},
		"not configured": {func(s *status) { s.Servers[1].Configured = false }, "etcd http://y",
			doctor.Amber, "fleet.etcd", false},
		"one server":  {func(s *status) { s.Voters = 1 }, "servers of etcd", doctor.Amber, "1 server", false},
		"two servers": {func(s *status) { s.Voters = 2 }, "servers of etcd", doctor.Amber, "2 servers", false},
		"slow writes": {func(s *status) { s.WriteSeconds = 0.7 }, "writes to etcd", doctor.Amber, "700 ms", false},
		"clock": {func(s *status) { s.Members[1].ClockSeconds = -2 }, "clocks of the members",
			doctor.Amber, "b is 2s behind", false},
		"versions": {func(s *status) { s.Members[1].Version = "v1" }, "versions of the members",
			doctor.Amber, "b: v1", false},
		"URL of a member": {func(s *status) { s.Members[1].URL = common + ":8090" }, "URL for hosts",
			doctor.Amber, "member b", false},
		"a loss": {func(s *status) { s.Safe, s.Loss = false, "All." }, "loss of a machine",
			doctor.Amber, "All.", false},
		"etcd is away": {func(s *status) { s.Problem = "It is away." }, "etcd", doctor.Red, "It is away.", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := healthy()
			c.change(&s)
			var bad []doctor.Finding
			for _, finding := range all(s, common) {
				if finding.Status != doctor.Green {
					bad = append(bad, finding)
				}
			}
			require.Len(t, bad, 1)
			require.Equal(t, c.subject, bad[0].Subject)
			require.Equal(t, c.worst, bad[0].Status)
			require.Contains(t, bad[0].Result, c.result)
			require.NotEmpty(t, bad[0].Advice)
			found, err := diagnosis.Fleet{Of: fixed{status: s}}.Attention(t.Context())
			require.NoError(t, err)
			require.Equal(t, c.attention, len(found) == 1, found)
		})
	}
}

func TestFindings_singleMachineHasNone(t *testing.T) {
	t.Parallel()
	require.Empty(t, diagnosis.Fleet{Of: fixed{}}.Findings(t.Context()))
	found, err := diagnosis.Fleet{Of: fixed{}}.Attention(t.Context())
	require.NoError(t, err)
	require.Empty(t, found)
	unknown := diagnosis.Fleet{Of: fixed{err: errors.New("no")}}.Findings(t.Context())
	require.Equal(t, doctor.Unknown, unknown[0].Status)
}
