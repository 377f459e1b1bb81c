package appliance_test

import (
	"context"
	"net/http"
	"strconv"
	"testing"

	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"

	"landfall/appliance/simulate"
)

// TestInstallerError_isOneEvent applies overrides that openshift-install rejects, one after
// another. After each error the cluster can be installed again, and one event names the error in
// one line. TestInstaller_invalidInstallConfigs lists all errors of the simulated installer.
func TestInstallerError_isOneEvent(t *testing.T) {
	s := newSite(t)
	address, _ := s.start(t)
	id := create(t, address+apiPath+"/clusters", s.newCluster("line").with(object{
		"control_plane_count": 3, "api_vips": []object{{"ip": "192.168.100.4"}},
		"ingress_vips": []object{{"ip": "192.168.100.5"}},
	}))
	infraEnv := create(t, address+apiPath+"/infra-envs", s.newInfraEnv("line").with(object{"cluster_id": id}))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- (&simulate.HostGroup{URL: address, InfraEnvID: infraEnv, Count: 3, Speed: 1000}).Run(ctx)
	}()
	t.Cleanup(func() { cancel(); <-ended })
	requireStatus(t, address, id, models.ClusterStatusReady)

	errorEvents := func() int {
		var events []models.Event
		call(t, http.MethodGet, address+apiPath+"/events?cluster_id="+id, nil).read(t, http.StatusOK, &events)
		count := 0
		for _, event := range events {
			// the event of the state change repeats it with severity info
			if *event.Severity == models.EventSeverityError {
				require.Contains(t, *event.Message, "could not be prepared")
				count++
			}
		}
		return count
	}
	for name, refused := range map[string]struct{ override, contains string }{
		"networks that overlap": {`{"networking":{"serviceNetwork":["10.130.0.0/16"]}}`, "must not overlap with"},
		"a VIP elsewhere": {`{"platform":{"baremetal":{"apiVIPs":["10.9.9.9"]}}}`,
			"IP expected to be in one of the machine networks: 192.168.100.0/24"},
		"more nodes than hosts": {`{"controlPlane":{"replicas":5}}`,
			"not enough hosts found (3) to support all the configured ControlPlane replicas (5)"},
		"more workers than hosts": {`{"compute":[{"replicas":1}]}`,
			"not enough hosts found (0) to support all the configured Compute replicas (1)"},
		"no pull secret": {`{"pullSecret":""}`, "pullSecret: Required value"},
		"one half of dual stack": {`{"networking":{"serviceNetwork":["172.30.0.0/16","fd02::/112"]}}`,
			"dual-stack IPv4/IPv6 requires a machine network of each address family"},
		"both kinds of mirrors": {
			`{"imageContentSources":[{"source":"a.example.com/b","mirrors":["c.example.com/d"]}]}`,
			"cannot set imageContentSources and imageDigestSources"},
		"no capabilities": {`{"capabilities":{"baselineCapabilitySet":"None"}}`,
			"platform baremetal requires the"},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, http.StatusCreated, call(t, http.MethodPatch, address+apiPath+"/clusters/"+
				id+"/install-config", strconv.Quote(refused.override)).status)
			before := errorEvents()
			pressInstall(t, address, id)
			requireUnprepared(t, address, id, "openshift-install create manifests: ", refused.contains)
			require.Equal(t, before+1, errorEvents())
			requireStatus(t, address, id, models.ClusterStatusReady)
		})
	}
}
