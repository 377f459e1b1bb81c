package arrival

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"

	"landfall/appliance/bmc"
)

var start = time.Date(2026, 5, 23, 12, 0, 0, 0, time.UTC)

func TestRefusals_joinRepeatedRegistrations(t *testing.T) {
	clock := clockwork.NewFakeClockAt(start)
	refusals := NewRefusals(clock)
	refused := Refusal{Address: "192.0.2.7", InfraEnvID: "e", HostID: "h", Status: 404, Reason: "no"}
	refusals.Refused(refused)
	clock.Advance(time.Minute)
	refusals.Refused(Refusal{Address: "192.0.2.8", InfraEnvID: "e", HostID: "i", Status: 404, Reason: "no"})
	refusals.Refused(refused)
	list := refusals.List()
	require.Len(t, list, 2)
	require.Equal(t, "192.0.2.7", list[0].Address, "the latest first")
	require.Equal(t, 2, list[0].Count)
	require.Equal(t, start, list[0].First)
	require.Equal(t, start.Add(time.Minute), list[0].Last)
	refusals.Registered("h")
	require.Len(t, refusals.List(), 1, "a host that has registered is not missing")
}

func TestRefusals_areBounded(t *testing.T) {
	refusals := NewRefusals(clockwork.NewFakeClockAt(start))
	for n := range 2 * maxRefusals {
		refusals.Refused(Refusal{HostID: fmt.Sprint(n)})
	}
	list := refusals.List()
	require.Len(t, list, maxRefusals)
	require.Equal(t, fmt.Sprint(2*maxRefusals-1), list[0].HostID)
}

func TestFindings_nameTheCauseAndTheRemedy(t *testing.T) {
	server := func(change func(*bmc.Server)) Evidence {
		s := &bmc.Server{ID: "s", State: bmc.Provisioned, Power: bmc.PowerOn, Created: start,
			Media:  &bmc.Media{Inserted: true},
			Booted: &bmc.BootStatus{InfraEnvID: "e", At: start.Add(time.Minute)}}
		s.Name = "node-1"
		change(s)
		return Evidence{Servers: []*bmc.Server{s}}
	}
	read := func(r Read) Evidence {
		r.Client, r.First, r.Last = "192.0.2.7", start, start.Add(time.Minute)
		return Evidence{InfraEnvs: []InfraEnv{{ID: "e", Name: "east", Reads: []Read{r}}}}
	}
	refusal := func(status int) Evidence {
		return Evidence{Refusals: []Refusal{{Address: "192.0.2.7", Status: status, Reason: "there is no infra-env e",
			Count: 3, First: start}}}
	}
	further := refusal(http.StatusServiceUnavailable)
	further.InfraEnvs = []InfraEnv{{ID: "e", Hosts: 1, InstalledCluster: "berlin"}}
	further.Refusals[0].InfraEnvID = "e"
	full := further
	full.Refusals = slices.Clone(further.Refusals)
	further.Refusals[0].Reason = "Cluster berlin is installed and accepts no new hosts now."
	for _, test := range []struct {
		name     string
		evidence Evidence
		kind     Kind // "" for no finding
		severity Severity
		text     string // part of the sentence or of the advice
	}{
		{"no machine has read the image", Evidence{InfraEnvs: []InfraEnv{{ID: "e", Name: "east"}}}, KindNothing, Info,
			"No machine has read the image of infra-env east"},
		{"hosts without a read", Evidence{InfraEnvs: []InfraEnv{{ID: "e", Hosts: 1}}}, "", "", ""},
		{"reading", read(Read{Reading: true}), KindRead, Info, "Wait until"},
		{"read, not registered", read(Read{Finished: true}), KindRead, Warning, "agent has not reached"},
		{"stopped", read(Read{}), KindRead, Warning, "boot it again"},
		{"registered", read(Read{Finished: true, Registered: true}), "", "", ""},
		{"unknown infra-env", refusal(http.StatusNotFound), KindRefusal, Danger, "an old image"},
		{"no token", refusal(http.StatusForbidden), KindRefusal, Danger, "no valid token"},
		{"cluster is being installed", refusal(http.StatusServiceUnavailable), KindRefusal, Danger, "Wait until"},
		{"cluster is installed", further, KindRefusal, Danger, "landfall cluster add-hosts berlin"},
		{"another refusal, cluster is installed", full, KindRefusal, Danger, "Wait until"},
		{"invalid", refusal(http.StatusBadRequest), KindRefusal, Danger, "3 times and was refused: There is no"},
		{"server without a host", server(func(*bmc.Server) {}), KindServer, Info, "boot order"},
		{"server with a host", server(func(s *bmc.Server) { s.Booted.Host = &bmc.HostRef{} }), "", "", ""},
		{"server that was not booted", server(func(s *bmc.Server) { s.Booted, s.State = nil, bmc.Available }),
			"", "", ""},
		{"server that is being booted", server(func(s *bmc.Server) { s.Booted, s.State = nil, bmc.Provisioning }),
			KindServer, Info, "being booted"},
		{"server without power", server(func(s *bmc.Server) { s.Power = bmc.PowerOff }), KindServer, Warning,
			"power is off"},
		{"server without image", server(func(s *bmc.Server) { s.Media = nil }), KindServer, Warning, "virtual drive"},
		{"server that has booted by HTTP", server(func(s *bmc.Server) {
			s.Media, s.Address = nil, "redfish-uefihttp://192.0.2.9"
		}), KindServer, Info, "boot order"},
		{"BMC with an error", server(func(s *bmc.Server) { s.Error = &bmc.ErrorStatus{Message: "No route."} }),
			KindServer, Danger, "No route."},
	} {
		t.Run(test.name, func(t *testing.T) {
			findings := test.evidence.Findings()
			if test.kind == "" {
				require.Empty(t, findings)
				return
			}
			require.Len(t, findings, 1)
			require.Equal(t, test.kind, findings[0].Kind)
			require.Equal(t, test.severity, findings[0].Severity)
			require.Contains(t, findings[0].Sentence+" "+findings[0].Advice, test.text)
		})
	}
}

func TestFindings_severeOnesFirst(t *testing.T) {
	findings := Evidence{
		InfraEnvs: []InfraEnv{{ID: "e", Name: "east"}, {ID: "w", Name: "west",
			Reads: []Read{{Client: "192.0.2.9", Finished: true}}}},
		Refusals: []Refusal{{Address: "192.0.2.7", InfraEnvID: "w", Status: 404, Count: 1}},
	}.Findings()
	var kinds []Kind
	for _, finding := range findings {
		kinds = append(kinds, finding.Kind)
	}
	require.Equal(t, []Kind{KindRefusal, KindRead, KindNothing}, kinds)
	require.Equal(t, "west", findings[0].InfraEnvName)
}

func TestLines_useTheURLOfTheAppliance(t *testing.T) {
	require.Contains(t, Lines("http://192.0.2.1:8090")[0].Command, " http://192.0.2.1:8090/api/")
	require.NotContains(t, Lines("http://192.0.2.1:8090")[0].Command, "--cacert")
	require.Contains(t, Lines("https://192.0.2.1:8090/")[0].Command,
		"--cacert /etc/assisted-service/service-ca-cert.crt ")
}
