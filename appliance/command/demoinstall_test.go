package command

import (
	"testing"

	"github.com/go-openapi/strfmt"
	"github.com/go-openapi/swag/conv"
	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"
)

func TestReasons_onlyLastingOnesOnce(t *testing.T) {
	host := &models.Host{ID: conv.Pointer(strfmt.UUID("00000000-0000-4000-8000-000000000001")),
		RequestedHostname: "host-2"}
	cluster := &models.Cluster{ID: conv.Pointer(strfmt.UUID("00000000-0000-4000-8000-000000000002")), Name: "demo",
		Status: conv.Pointer(models.ClusterStatusReady), Hosts: []*models.Host{host}}
	var found reasons
	observe := func(status, info string, times int) (all []string) {
		host.Status, host.StatusInfo = &status, &info
		for range times {
			all = append(all, found.observe(cluster)...)
		}
		return all
	}
	require.Empty(t, observe(models.HostStatusInsufficient, "The clock is off.", reasonObservations-1), "for moments")
	require.Empty(t, observe(models.HostStatusKnown, "Ready.", 2*reasonObservations))
	expected := []string{"The host host-2 can't be installed yet. The clock is off."}
	require.Equal(t, expected, observe(models.HostStatusInsufficient, "The clock is off.", 3*reasonObservations))
	require.Equal(t, []string{"The host host-2 can't be installed yet. The disk is slow."},
		observe(models.HostStatusInsufficient, "The disk is slow.", reasonObservations))

	cluster.Status = conv.Pointer(models.ClusterStatusInsufficient)
	cluster.StatusInfo = conv.Pointer("The clocks differ.")
	require.Equal(t, []string{"The cluster demo can't be installed yet. The clocks differ."},
		observe(models.HostStatusKnown, "Ready.", reasonObservations))
}
