package inventory

import (
	"encoding/json"
	"testing"

	"github.com/go-openapi/strfmt"
	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"
)

func ptr[T any](v T) *T { return &v }

func TestParse(t *testing.T) {
	h, err := ParseHost(&models.Host{
		ID:                    ptr(strfmt.UUID("00000000-0000-0000-0000-000000000001")),
		Inventory:             `{"hostname":"a","cpu":{"count":4},"memory":{"physical_bytes":1},"disks":[null,{"name":"sda"}],"truncation":{"type":"partial","reasons":["x"]}}`,
		Connectivity:          `{"remote_hosts":[null,{"host_id":"b","l3_connectivity":[null]}]}`,
		NtpSources:            `[{"source_name":"n","source_state":"synced"}]`,
		DomainNameResolutions: `{"resolutions":[{"domain_name":"api"}]}`,
		FreeAddresses:         `[{"network":"10.0.0.0/24","free_addresses":["10.0.0.9"]}]`,
		TangConnectivity:      `no such action`,
		APIVipConnectivity:    `{"is_success":true}`,
		ImagesStatus:          `{"x":{"name":"x"},"y":null}`,
		DisksInfo:             `{"/dev/sda":{"path":"/dev/sda"}}`,
	})
	require.NoError(t, err)
	require.Equal(t, "a", h.Hostname())
	require.Len(t, h.Inventory.Disks, 1, "null members of lists are removed")
	require.Equal(t, &Truncation{Type: TruncatedPartly, Reasons: []string{"x"}}, h.Truncation)
	require.Len(t, h.Connectivity.RemoteHosts, 1)
	require.Empty(t, h.Connectivity.RemoteHosts[0].L3Connectivity)
	require.Len(t, h.NTPSources, 1)
	require.Len(t, h.Domains.Resolutions, 1)
	require.Len(t, h.FreeAddresses, 1)
	require.Equal(t, "no such action", h.TangError)
	require.True(t, h.APIConnectivity.IsSuccess)
	require.Len(t, h.Images, 1)
	require.Contains(t, h.Disks, "/dev/sda")
}

func TestParse_damagedReport(t *testing.T) {
	for part, reports := range map[string]Reports{
		"connectivity report":      {Connectivity: "{"},
		"list of NTP sources":      {NTPSources: "{}"},
		"list of resolved domains": {Domains: "[]"},
		"list of free addresses":   {FreeAddresses: "7"},
		"API connectivity report":  {APIConnectivity: "x"},
		"report of image checks":   {Images: "[]"},
		"report of disk checks":    {Disks: `"`},
		"inventory":                {Inventory: "inventory"},
	} {
		_, err := Parse(reports)
		require.ErrorContains(t, err, part)
	}
}

func TestParseInventory_needsCPUAndMemory(t *testing.T) {
	for text, want := range map[string]string{
		`null`:                                 "CPU",
		`{}`:                                   "CPU",
		`{"cpu":{"count":1}}`:                  "memory",
		``:                                     "JSON",
		`[]`:                                   "JSON",
		`{"cpu":{"count":"four"},"memory":{}}`: "JSON",
	} {
		_, _, err := ParseInventory(text)
		require.ErrorContains(t, err, want, text)
	}
	inv, _, err := ParseInventory(`{"truncation":{"type":"full"}}`)
	require.NoError(t, err, "a fully truncated inventory has neither")
	require.NotNil(t, inv.CPU)
	require.NotNil(t, inv.Memory)
}

func TestEncode_keepsTruncation(t *testing.T) {
	inv := &models.Inventory{Hostname: "a", CPU: &models.CPU{}, Memory: &models.Memory{}}
	text, err := Encode(inv, &Truncation{Type: TruncatedPartly})
	require.NoError(t, err)
	back, truncation, err := ParseInventory(text)
	require.NoError(t, err)
	require.Equal(t, "a", back.Hostname)
	require.Equal(t, TruncatedPartly, truncation.Type)
}

func TestHostRole(t *testing.T) {
	for _, tt := range []struct{ chosen, suggested, want models.HostRole }{
		{"", "", models.HostRoleAutoAssign},
		{models.HostRoleAutoAssign, models.HostRoleMaster, models.HostRoleMaster},
		{models.HostRoleWorker, models.HostRoleMaster, models.HostRoleWorker},
		{models.HostRoleBootstrap, "", models.HostRoleMaster},
	} {
		h := NewHost(&models.Host{Role: tt.chosen, SuggestedRole: tt.suggested}, nil)
		require.Equal(t, tt.want, h.Role())
	}
}

func TestHostName_fallsBackToID(t *testing.T) {
	record := &models.Host{ID: ptr(strfmt.UUID("id"))}
	require.Equal(t, "id", NewHost(record, nil).Name())
	facts := &Facts{Inventory: &models.Inventory{Hostname: "found"}}
	require.Equal(t, "found", NewHost(record, facts).Name())
	record.RequestedHostname = "asked"
	require.Equal(t, "asked", NewHost(record, facts).Name())
}

func FuzzParseInventory(f *testing.F) {
	f.Add(
		`{"cpu":{},"memory":{},"disks":[{"name":"sda","holders":"dm-0,dm-1","drive_type":"Multipath"}],"interfaces":[{"ipv4_addresses":["x"]}]}`)
	f.Add(
		`{"cpu":{},"memory":{},"routes":[null,{"destination":"::","gateway":"fe80::1"}],"disks":[{"drive_type":"iSCSI","iscsi":{"host_ip_address":"fd00::1"}}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		inv, truncation, err := ParseInventory(text)
		if err != nil {
			return
		}
		ValidateDisks(inv, DiskRules{MinGB: 100, OpenshiftVersion: "4.18.0"})
		ChooseInstallationDisk(inv, "/dev/sda")
		DisksToFormat(inv)
		encoded, err := Encode(inv, truncation)
		require.NoError(t, err)
		require.True(t, json.Valid([]byte(encoded)))
		_, _, err = ParseInventory(encoded)
		require.NoError(t, err)
	})
}
