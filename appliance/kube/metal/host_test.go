package metal_test

import (
	"testing"
	"time"

	metal3 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	"github.com/stretchr/testify/require"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"landfall/appliance/bmc"
	"landfall/appliance/kube/objects"
	"landfall/appliance/kube/objects/agentinstall"
)

// provisioned returns a site with a host that has booted its image.
func provisioned(t *testing.T) *site {
	t.Helper()
	s := newSite(t)
	s.apply(objects.Secrets, secretObject())
	s.apply(objects.InfraEnvs, infraEnvObject())
	s.clock.Advance(settles)
	s.apply(objects.BareMetalHosts, hostObject())
	s.server(registered)
	s.server(booted)
	require.Equal(t, metal3.StateProvisioned, s.host().Status.Provisioning.State)
	return s
}

func TestHost_lifecycle(t *testing.T) {
	s := newSite(t)
	s.apply(objects.BareMetalHosts, hostObject())
	host := s.host()
	require.Equal(t, metal3.StateRegistering, host.Status.Provisioning.State)
	require.Equal(t, metal3.RegistrationError, host.Status.ErrorType)
	require.Equal(t, "The BMC's Secret site/bmc does not exist; apply it, with the keys username and password.",
		host.Status.ErrorMessage)
	require.Contains(t, s.events("node0"), "BMCCredentialError")
	require.ElementsMatch(t, []string{"baremetalhost.metal3.io", "bmac.agent-install.openshift.io/deprovision"},
		host.Finalizers)

	s.apply(objects.Secrets, secretObject())
	desired := s.desired()
	require.Equal(t, "redfish-virtualmedia://192.0.2.7/redfish/v1/Systems/1", desired.Address)
	require.Equal(t, "root", desired.Username)
	require.Equal(t, "calvin", desired.Password)
	require.True(t, desired.SkipVerify)
	require.Equal(t, mac, desired.BootMAC)
	require.False(t, desired.Boot)
	require.Nil(t, desired.Online)

	s.server(registered)
	host = s.host()
	require.Equal(t, metal3.StateAvailable, host.Status.Provisioning.State,
		"the states registering, inspecting and preparing have passed")
	require.Equal(t, metal3.OperationalStatusOK, host.Status.OperationalStatus)
	require.Empty(t, host.Status.ErrorMessage)
	require.Equal(t, "unknown", host.Status.HardwareProfile)
	require.Equal(t, metal3.UEFI, host.Status.Provisioning.BootMode)
	require.Equal(t, "bmc", host.Status.GoodCredentials.Reference.Name)
	require.Equal(t, "Dell Inc.", host.Status.HardwareDetails.SystemVendor.Manufacturer)
	require.Nil(t, s.desired().Online, "the server does not boot from its disk while it waits for its image")
	for _, reason := range []string{"BMCAccessValidated", "InspectionSkipped", "ProfileSet"} {
		require.Contains(t, s.events("node0"), reason)
	}

	s.apply(objects.InfraEnvs, infraEnvObject())
	require.Nil(t, s.host().Spec.Image, "the image is too new")
	s.clock.Advance(settles)
	require.Eventually(t, func() bool { return s.host().Spec.Image != nil }, time.Minute, time.Millisecond)
	s.waitIdle()
	host = s.host()
	require.Equal(t, imageURL, host.Spec.Image.URL)
	require.Equal(t, "live-iso", *host.Spec.Image.DiskFormat)
	require.Equal(t, "disabled", host.Annotations["inspect.metal3.io"])
	require.Equal(t, metal3.CleaningModeDisabled, host.Spec.AutomatedCleaningMode)
	require.Equal(t, "true", host.Labels["cluster.open-cluster-management.io/backup"])
	require.Equal(t, metal3.StateProvisioning, host.Status.Provisioning.State)
	desired = s.desired()
	require.True(t, desired.Boot)
	require.Equal(t, "d1e2", desired.InfraEnvID)
	require.Empty(t, desired.ImageURL)

	s.server(booted)
	host = s.host()
	require.Equal(t, metal3.StateProvisioned, host.Status.Provisioning.State)
	require.True(t, host.Status.PoweredOn)
	require.Equal(t, imageURL, host.Status.Provisioning.Image.URL)

	ensured := s.servers.ensured
	s.waitIdle()
	require.Equal(t, ensured, s.servers.ensured, "an unchanged host sends no request")
}

func TestHost_missingInfraEnv(t *testing.T) {
	s := newSite(t)
	s.apply(objects.Secrets, secretObject())
	s.apply(objects.BareMetalHosts, hostObject())
	s.server(registered)
	require.NotContains(t, s.events("node0"), "InfraEnvMissing", "the InfraEnv may be applied soon")
	s.clock.Advance(time.Minute)
	require.Eventually(t, func() bool { return s.events("node0")["InfraEnvMissing"] != "" }, time.Minute,
		time.Millisecond)
	s.waitIdle()
	require.Contains(t, s.events("node0")["InfraEnvMissing"],
		"names the InfraEnv env, which does not exist in the namespace site")

	s.apply(objects.InfraEnvs, infraEnvObject())
	require.Equal(t, imageURL, s.host().Spec.Image.URL, "the InfraEnv exists")
	s.delete(objects.InfraEnvs, "env")
	before := s.events("node0")["InfraEnvMissing"]
	s.clock.Advance(time.Minute)
	s.waitIdle()
	require.Equal(t, before, s.events("node0")["InfraEnvMissing"], "the host boots its image without a new Event")
}

func TestHost_withoutInfraEnv(t *testing.T) {
	s := newSite(t)
	s.apply(objects.Secrets, secretObject())
	s.apply(objects.BareMetalHosts, hostObject(func(host *metal3.BareMetalHost) { host.Labels = nil }))
	s.server(registered)
	s.clock.Advance(time.Minute)
	s.waitIdle()
	require.NotContains(t, s.events("node0"), "InfraEnvMissing")
}

func TestHost_detachedAfterInstallation(t *testing.T) {
	s := provisioned(t)
	s.apply(objects.Agents,
		agentObject(func(agent *agentinstall.Agent) { agent.Status.Progress.CurrentStage = "Rebooting" }))
	host := s.host()
	require.Equal(t, "assisted-service-controller", host.Annotations["baremetalhost.metal3.io/detached"])
	require.Equal(t, metal3.OperationalStatusOK, host.Status.OperationalStatus, "the image is still inserted")
	require.False(t, s.desired().Detached)

	s.server(func(server *bmc.Server) { server.Booted.Ejected = noon })
	host = s.host()
	require.Equal(t, metal3.OperationalStatusDetached, host.Status.OperationalStatus)
	require.Equal(t, "assisted-service-controller", host.Annotations["baremetalhost.metal3.io/paused"])
	require.Contains(t, host.Annotations["baremetalhost.metal3.io/status"], `"operationalStatus":"detached"`)
	require.Equal(t, metal3.StateProvisioned, host.Status.Provisioning.State)

	s.delete(objects.BareMetalHosts, "node0")
	require.Equal(t, map[string]bool{string(host.UID): false}, s.servers.removed, "an installed machine stays on")
}

func TestHost_deletion(t *testing.T) {
	s := provisioned(t)
	host := s.host()
	s.delete(objects.BareMetalHosts, "node0")
	require.Equal(t, metal3.StatePoweringOffBeforeDelete, s.host().Status.Provisioning.State)
	require.Equal(t, map[string]bool{string(host.UID): true}, s.servers.removed)
	s.servers.mu.Lock()
	delete(s.servers.servers, string(host.UID))
	s.servers.mu.Unlock()
	s.servers.changed(string(host.UID))
	s.waitIdle()
	require.Nil(t, s.host())
	require.Empty(t, find[unstructured.Unstructured](s, objects.Secrets, "bmc").GetFinalizers())
}

// Two BareMetalHosts of one machine would switch it off against each other.
func TestHost_sameMachine(t *testing.T) {
	s := provisioned(t)
	first := s.host()
	s.apply(objects.BareMetalHosts, hostObject(func(host *metal3.BareMetalHost) { host.Name = "node1" }))
	second := find[metal3.BareMetalHost](s, objects.BareMetalHosts, "node1")
	require.Equal(t, metal3.RegistrationError, second.Status.ErrorType)
	require.Contains(t, second.Status.ErrorMessage,
		"The server site/node1 would be the same machine as the server site/node0")
	require.Equal(t, metal3.StateRegistering, second.Status.Provisioning.State)
	s.delete(objects.BareMetalHosts, "node1")
	require.Nil(t, find[metal3.BareMetalHost](s, objects.BareMetalHosts, "node1"))
	require.Empty(t, s.servers.removed, "the deletion of the second host changes no server")
	require.Equal(t, first.Status.PoweredOn, s.host().Status.PoweredOn)

	s.apply(objects.BareMetalHosts, hostObject(func(host *metal3.BareMetalHost) { host.Name = "node1" }))
	s.delete(objects.BareMetalHosts, "node0")
	s.servers.mu.Lock()
	delete(s.servers.servers, string(first.UID))
	s.servers.mu.Unlock()
	s.servers.changed(string(first.UID))
	s.waitIdle()
	s.clock.Advance(time.Minute)
	require.Eventually(t, func() bool {
		return find[metal3.BareMetalHost](s, objects.BareMetalHosts, "node1").Status.ErrorMessage == ""
	}, time.Minute, time.Millisecond, "the first is gone")
}
