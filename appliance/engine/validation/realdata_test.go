package validation

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"landfall/appliance/engine/inventory"
	"landfall/appliance/engine/network"
)

// TestHost_matchesResultsOfARealService compares the validations of real hosts with the results of
// the Assisted Service that recorded them.
func TestHost_matchesResultsOfARealService(t *testing.T) {
	dir := os.Getenv("LANDFALL_REALDATA")
	if dir == "" {
		t.Skip("LANDFALL_REALDATA is not set to a directory of real data")
	}
	var records []*models.Host
	readJSON(t, filepath.Join(dir, "assisted", "samples", "hosts.json"), &records)
	var cluster models.Cluster
	readJSON(t, filepath.Join(dir, "assisted", "samples", "cluster.json"), &cluster)
	cluster.MachineNetworks = []*models.MachineNetwork{{Cidr: "192.168.128.0/24"}}

	var hosts []*inventory.Host
	for _, r := range records {
		h, err := inventory.ParseHost(r)
		require.NoError(t, err)
		hosts = append(hosts, h)
	}
	requirements := DefaultRequirements(cluster.OpenshiftVersion)
	for _, h := range hosts {
		inventory.ValidateDisks(h.Inventory, requirements.DiskRules(h, &cluster, nil))
		report := Host(HostInput{Host: h, Cluster: &cluster, Peers: hosts, Groups: network.MajorityGroups(hosts,
			SmallestGroup(&cluster, hosts)), Requirements: requirements, Connected: true})
		var theirs map[string][]Result
		require.NoError(t, json.Unmarshal([]byte(h.Record.ValidationsInfo), &theirs))
		for category, results := range theirs {
			for _, r := range results {
				if r.ID == DNSWildcardNotConfigured {
					continue // the sample lacks some names
				}
				require.Equal(t, r.Status, report.Status(r.ID), "%s %s of %s: %s", category, r.ID, h.Name(), r.Message)
			}
		}
	}
}

func readJSON(t *testing.T, path string, into any) {
	t.Helper()
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(b, into))
}

// TestReports_haveEveryPublishedValidation compares the lists of validations with the enumerations
// of upstream's API in both directions.
func TestReports_haveEveryPublishedValidation(t *testing.T) {
	dir := os.Getenv("LANDFALL_REALDATA")
	if dir == "" {
		t.Skip("LANDFALL_REALDATA is not set to a directory of real data")
	}
	text, err := os.ReadFile(filepath.Join(dir, "assisted", "swagger.yaml"))
	require.NoError(t, err)
	var published struct {
		Definitions map[string]struct {
			Enum []string `yaml:"enum"`
		} `yaml:"definitions"`
	}
	require.NoError(t, yaml.Unmarshal(text, &published))
	require.ElementsMatch(t, published.Definitions["host-validation-id"].Enum, strings.Fields(everyHostID))
	require.ElementsMatch(t, published.Definitions["cluster-validation-id"].Enum, strings.Fields(everyClusterID))
}
