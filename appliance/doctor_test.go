package appliance_test

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"

	"landfall/appliance/doctor"
	"landfall/web/console"
)

func TestDoctor_clusterAndItsHosts(t *testing.T) {
	s := newSite(t)
	s.config.NTPSources = []string{"127.0.0.1:1"}
	s.seed(t, 1, 3)
	address, _ := s.start(t)
	diagnose := func(query string) (int, *doctor.Report) {
		response, err := http.Get(address + console.DoctorRoute + query)
		require.NoError(t, err)
		text, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		report := new(doctor.Report)
		require.NoError(t, json.Unmarshal(text, report), string(text))
		return response.StatusCode, report
	}
	find := func(report *doctor.Report, area, subject string) []doctor.Finding {
		var found []doctor.Finding
		for _, finding := range report.Findings {
			if finding.Area == area && strings.HasPrefix(finding.Subject, subject) {
				found = append(found, finding)
			}
		}
		return found
	}

	_, site := diagnose("")
	mirror := find(site, doctor.Registries, "127.0.0.1:")
	require.Len(t, mirror, 1, "both rules refer to this registry")
	require.Equal(t, doctor.Green, mirror[0].Status, mirror)
	silent := find(site, doctor.Clocks, "time server 127.0.0.1:1")
	require.Len(t, silent, 1)
	require.Equal(t, doctor.Red, silent[0].Status)
	require.Equal(t, doctor.Red, site.Status)
	require.Empty(t, find(site, doctor.Hosts, "host-"))

	var clusters []*models.Cluster
	response, err := http.Get(address + apiPath + "/clusters")
	require.NoError(t, err)
	require.NoError(t, json.NewDecoder(response.Body).Decode(&clusters))
	require.NoError(t, response.Body.Close())
	code, names := diagnose("?name=berlin&base_domain=nowhere.invalid&api_vip=10.0.0.1&names_needed=true")
	require.Equal(t, http.StatusOK, code)
	for _, finding := range names.Findings {
		require.Equal(t, doctor.Names, finding.Area, "no other area is checked")
	}
	require.NotEmpty(t, names.Findings)
	for _, query := range []string{"?name=berlin", "?dhcp=yes", "?names_needed=yes"} {
		code, _ = diagnose(query)
		require.Equal(t, http.StatusBadRequest, code, query)
	}
	_, report := diagnose("?cluster_id=" + clusters[0].ID.String())
	require.Equal(t, "seeded-0", report.Cluster)
	require.Len(t, find(report, doctor.Addresses, "192.168.100."), 2, "both virtual addresses")
	synchronised := 0
	for _, finding := range find(report, doctor.Hosts, "host-") {
		if finding.Check == "ntp-synced" {
			synchronised++
			require.NotEqual(t, doctor.Green, finding.Status, "no host has reported that its clock is synchronised")
		}
	}
	require.Equal(t, 3, synchronised)

	status, _ := diagnose("?cluster_id=00000000-0000-4000-8000-000000000000")
	require.Equal(t, http.StatusNotFound, status)
}

func TestDoctor_noReleaseOrLiveISO(t *testing.T) {
	for name, c := range map[string]struct {
		without func(*site)
		subject string
		result  string
	}{
		"no release": {func(s *site) { s.config.ReleaseImages = nil }, "releases",
			"none, so neither a cluster nor an infra-env can be created"},
		"no live ISO": {func(s *site) { s.config.OSImages = nil }, "live ISO for ",
			"no OS image matches OpenShift "},
		"both": {func(*site) {}, "live ISO for ", "available"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			c.without(s)
			address, _ := s.start(t)
			response, err := http.Get(address + console.DoctorRoute)
			require.NoError(t, err)
			var report doctor.Report
			require.NoError(t, json.NewDecoder(response.Body).Decode(&report))
			require.NoError(t, response.Body.Close())
			at := slices.IndexFunc(report.Findings, func(f doctor.Finding) bool {
				return strings.HasPrefix(f.Subject,
					c.subject)
			})
			require.GreaterOrEqual(t, at, 0, report.Findings)
			require.Contains(t, report.Findings[at].Result, c.result)
			require.Equal(t, name != "both", report.Findings[at].Status == doctor.Red)
		})
	}
}
