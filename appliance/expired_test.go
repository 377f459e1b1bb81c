package appliance_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"

	"landfall/porttest"
)

// waitUntil returns at the given time.
func waitUntil(t *testing.T, end time.Time) {
	t.Helper()
	select {
	case <-time.After(time.Until(end)):
	case <-t.Context().Done():
	}
}

func TestPreparation_expiredWhileStoppedIsRetried(t *testing.T) {
	s, g := newProxiedSite(t)
	s.config.Listen = porttest.Reserve(t)
	s.config.Timeouts.ClusterPreparing = 2 * time.Second
	address, stop := s.start(t)
	id := s.readyCluster(t, address, pullSecret, pullSecret)
	g.setHandler(func(_ http.ResponseWriter, r *http.Request) bool { // a registry that never responds
		<-r.Context().Done()
		return true
	})
	pressInstall(t, address, id)
	over := time.Now().Add(s.config.Timeouts.ClusterPreparing)
	stop()
	waitUntil(t, over)

	_, stop = s.start(t)
	cluster := requireStatus(t, address, id, models.ClusterStatusReady)
	require.Equal(t, models.LastInstallationPreparationStatusFailed, cluster.LastInstallationPreparation.Status)
	requireSentence(t, cluster.LastInstallationPreparation.Reason, "The preparation took too long",
		"press Install again")
	var events []models.Event
	call(t, http.MethodGet, address+apiPath+"/events?cluster_id="+id, nil).read(t, http.StatusOK, &events)
	count := 0
	for _, event := range events {
		count += strings.Count(*event.Message, "The preparation of cluster line took too long")
	}
	require.Equal(t, 1, count)

	g.setHandler(nil)
	stop()
	s.config.Timeouts.ClusterPreparing = time.Minute
	s.start(t)
	pressInstall(t, address, id)
	requireStatus(t, address, id, models.ClusterStatusInstalled)
}

func TestHostTimeouts_excludeDowntime(t *testing.T) {
	s := newSite(t)
	s.config.Listen = porttest.Reserve(t)
	address, stop := s.start(t)
	infraEnv := create(t, address+apiPath+"/infra-envs", s.newInfraEnv("east"))
	id := uuid.NewString()
	hosts := address + apiPath + "/infra-envs/" + infraEnv + "/hosts"
	register := func() models.Host {
		var host models.Host
		call(t, http.MethodPost, hosts, object{"host_id": id, "discovery_agent_version": "quay.io/agent:1"}).read(t,
			http.StatusCreated, &host)
		return host
	}
	host := func() *models.Host {
		found := new(models.Host)
		call(t, http.MethodGet, hosts+"/"+id, nil).read(t, http.StatusOK, found)
		return found
	}
	require.Equal(t, models.HostStatusDiscoveringUnbound, *register().Status)
	stop()

	s.config.Timeouts.HostDisconnected = 2 * time.Second
	_, stop = s.start(t)
	register()
	over := time.Now().Add(s.config.Timeouts.HostDisconnected)
	stop()
	waitUntil(t, over)
	s.start(t)
	require.Equal(t, models.HostStatusDiscoveringUnbound, *host().Status, "the host still has time to report")

	eventually(t, "the host is disconnected",
		func() bool { return *host().Status == models.HostStatusDisconnectedUnbound })
	requireSentence(t, *host().StatusInfo, "The host's agent has not contacted the appliance",
		"Check that the host is on and can reach the appliance")
	require.Equal(t, models.HostStatusDiscoveringUnbound, *register().Status)
}
