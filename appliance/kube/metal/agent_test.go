package metal_test

import (
	"testing"
	"time"

	metal3 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"landfall/appliance/bmc"
	"landfall/appliance/kube/objects"
	"landfall/appliance/kube/objects/agentinstall"
)

const bmac = "bmac.agent-install.openshift.io/"

// pairOf returns a site with a host that has annotations, and an Agent of its machine.
func pairOf(t *testing.T, annotations map[string]string, alter ...func(*metal3.BareMetalHost)) *site {
	t.Helper()
	s := newSite(t)
	s.apply(objects.Secrets, secretObject())
	s.apply(objects.InfraEnvs, infraEnvObject())
	s.apply(objects.Agents, agentObject())
	s.apply(objects.BareMetalHosts,
		hostObject(append(alter, func(host *metal3.BareMetalHost) { host.Annotations = annotations })...))
	return s
}

func TestAgent_annotationsOfHost(t *testing.T) {
	args := `["--append-karg", "ip=192.0.2.2::192.0.2.254:255.255.255.0:core0.example.com:enp1s0:none", "--save-partindex", "1", "-n"]`
	s := pairOf(t, map[string]string{
		bmac + "role": "worker", bmac + "hostname": "openshift-worker-0", bmac + "machine-config-pool": "infra",
		bmac + "installer-args": args, bmac + "ignition-config-overrides": `{"ignition":{"version":"3.1.0"}}`,
		"bmac.agent-install.openshift.io.node-label.rack":       "r1",
		"bmac.agent-install.openshift.io.agent-label.site/hall": "h2",
	})
	agent := s.agent()
	require.True(t, agent.Spec.Approved)
	require.EqualValues(t, "worker", agent.Spec.Role)
	require.Equal(t, "openshift-worker-0", agent.Spec.Hostname)
	require.Equal(t, "infra", agent.Spec.MachineConfigPool)
	require.Equal(t, args, agent.Spec.InstallerArgs)
	require.JSONEq(t, `{"ignition":{"version":"3.1.0"}}`, agent.Spec.IgnitionConfigOverrides)
	require.Equal(t, map[string]string{"rack": "r1"}, agent.Spec.NodeLabels)
	require.Equal(t, "node0", agent.Labels["agent-install.openshift.io/bmh"])
	require.Equal(t, "h2", agent.Labels["site/hall"])
	require.Equal(t, "env", agent.Labels["infraenvs.agent-install.openshift.io"])
	require.Empty(t, agent.Spec.InstallationDiskID, "without hints the engine chooses the disk")

	s.edit(objects.BareMetalHosts, "node0", func(u *unstructured.Unstructured) { u.SetAnnotations(nil) })
	agent = s.agent()
	require.Equal(t, "openshift-worker-0", agent.Spec.Hostname, "a value stays without its annotation")
	require.Empty(t, agent.Spec.NodeLabels, "labels of the node are removed with their annotations")
	require.Equal(t, "h2", agent.Labels["site/hall"])

	generation := agent.Generation
	s.annotate(objects.BareMetalHosts, "node0", "somebody/else", "x")
	require.Equal(t, generation, s.agent().Generation, "an unchanged Agent is not written")
}

// TestAgent_labelsOfOtherReconcilers holds that a host does not change labels of its Agent that the
// reconciler of Agents would set again, without end.
func TestAgent_labelsOfOtherReconcilers(t *testing.T) {
	const inherited = "agent.agent-install.openshift.io/inherited-node-labels"
	const class = "agentclassification.agent-install.openshift.io/size"
	s := pairOf(t, map[string]string{
		"bmac.agent-install.openshift.io.node-label.rack":      "r1",
		"bmac.agent-install.openshift.io.agent-label." + class: "small",
	})
	inherit := func() {
		s.edit(objects.Agents, "a0", func(u *unstructured.Unstructured) {
			u.SetAnnotations(map[string]string{inherited: "row,zone"})
			u.SetLabels(map[string]string{class: "large"})
			require.NoError(t, unstructured.SetNestedStringMap(u.Object, map[string]string{
				"row": "7", "zone": "z1", "user": "x"}, "spec", "nodeLabels"))
		})
	}
	inherit()
	require.Equal(t, map[string]string{"rack": "r1", "row": "7", "zone": "z1"}, s.agent().Spec.NodeLabels)
	require.Equal(t, "row,zone", s.agent().Annotations[inherited])
	require.Equal(t, "large", s.agent().Labels[class])

	s.annotate(objects.BareMetalHosts, "node0", "bmac.agent-install.openshift.io.node-label.zone", "z2")
	require.Equal(t, map[string]string{"rack": "r1", "row": "7", "zone": "z2"}, s.agent().Spec.NodeLabels)
	require.Equal(t, "row", s.agent().Annotations[inherited])

	s.edit(objects.BareMetalHosts, "node0", func(u *unstructured.Unstructured) { u.SetAnnotations(nil) })
	require.Equal(t, map[string]string{"row": "7"}, s.agent().Spec.NodeLabels)
	inherit()
	require.Equal(t, map[string]string{"row": "7", "zone": "z1"}, s.agent().Spec.NodeLabels)
}

func TestAgent_ofTwoHosts(t *testing.T) {
	const owner = "agent-install.openshift.io/bmh"
	s := pairOf(t, nil)
	s.apply(objects.BareMetalHosts, hostObject(func(host *metal3.BareMetalHost) {
		host.Name, host.Spec.BootMACAddress = "node1", "52:54:00:aa:bb:02"
		host.Spec.BMC.Address = "redfish-virtualmedia://192.0.2.8/redfish/v1/Systems/1"
	}))
	require.Equal(t, "node0", s.agent().Labels[owner], "the first host keeps the Agent")
	require.Contains(t, s.events("node1")["AgentNotUpdated"], "the machine with the MAC address 52:54:00:aa:bb:02 "+
		"belongs to the BareMetalHost node0 already (Agent a0); correct spec.bootMACAddress")
	require.NotContains(t, s.events("node0"), "AgentNotUpdated")

	s.edit(objects.BareMetalHosts, "node0", func(u *unstructured.Unstructured) {
		require.NoError(t, unstructured.SetNestedField(u.Object, "52:54:00:aa:bb:09", "spec", "bootMACAddress"))
	})
	s.clock.Advance(time.Minute)
	require.Eventually(t, func() bool { return s.agent().Labels[owner] == "node1" }, time.Minute, time.Millisecond,
		"a corrected host releases the Agent")
}

func TestAgent_newestOfMachine(t *testing.T) {
	s := pairOf(t, map[string]string{bmac + "role": "master"})
	require.EqualValues(t, "master", s.agent().Spec.Role)
	s.clock.Advance(time.Hour)
	s.apply(objects.Agents, agentObject(func(agent *agentinstall.Agent) { agent.Name = "a1" }))
	s.annotate(objects.BareMetalHosts, "node0", bmac+"role", "worker")
	require.EqualValues(t, "master", s.agent().Spec.Role, "the older Agent stays unchanged")
	require.EqualValues(t, "worker", find[agentinstall.Agent](s, objects.Agents, "a1").Spec.Role)

	s.apply(objects.Agents, agentObject(func(agent *agentinstall.Agent) {
		agent.Name = "stranger"
		agent.Status.Inventory.Interfaces = agent.Status.Inventory.Interfaces[1:]
	}))
	require.False(t, find[agentinstall.Agent](s, objects.Agents, "stranger").Spec.Approved,
		"no network interface has the address")
}

func TestRootDeviceHints(t *testing.T) {
	yes := true
	cases := []struct {
		name  string
		hints metal3.RootDeviceHints
		disk  string
	}{
		{"path", metal3.RootDeviceHints{DeviceName: "/dev/sda"}, "/dev/disk/by-id/wwn-1"},
		{"path by location", metal3.RootDeviceHints{DeviceName: "/dev/disk/by-path/pci-0"}, "/dev/disk/by-id/wwn-1"},
		{"part of the model", metal3.RootDeviceHints{Model: "SSDPE2"}, "/dev/disk/by-id/nvme-1"},
		{"minimum size", metal3.RootDeviceHints{MinSizeGigabytes: 481}, "/dev/disk/by-id/nvme-1"},
		{"rotational", metal3.RootDeviceHints{Rotational: &yes}, "/dev/disk/by-id/wwn-1"},
		{"first of several", metal3.RootDeviceHints{MinSizeGigabytes: 100}, "/dev/disk/by-id/wwn-1"},
		{"all hints", metal3.RootDeviceHints{DeviceName: "/dev/nvme0n1", MinSizeGigabytes: 1000,
			Model: "INTEL"}, "/dev/disk/by-id/nvme-1"},
		{"too large", metal3.RootDeviceHints{MinSizeGigabytes: 1001}, "/dev/not-found-by-hints"},
		{"unknown serial number", metal3.RootDeviceHints{SerialNumber: "S9"}, "/dev/not-found-by-hints"},
		{"unknown WWN", metal3.RootDeviceHints{WWN: "0x5"}, "/dev/not-found-by-hints"},
		{"unknown HCTL", metal3.RootDeviceHints{HCTL: "1:0:0:0"}, "/dev/not-found-by-hints"},
		{"unknown vendor", metal3.RootDeviceHints{Vendor: "ATA"}, "/dev/not-found-by-hints"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			s := pairOf(t, nil, func(host *metal3.BareMetalHost) { host.Spec.RootDeviceHints = &c.hints })
			require.Equal(t, c.disk, s.agent().Spec.InstallationDiskID)
		})
	}
	t.Run("removed after none fitted", func(t *testing.T) {
		s := pairOf(t, nil, func(host *metal3.BareMetalHost) {
			host.Spec.RootDeviceHints = &metal3.RootDeviceHints{SerialNumber: "S9"}
		})
		require.Equal(t, objects.NoDiskFits, s.agent().Spec.InstallationDiskID)
		s.edit(objects.BareMetalHosts, "node0", func(u *unstructured.Unstructured) {
			unstructured.RemoveNestedField(u.Object, "spec", "rootDeviceHints")
		})
		require.Empty(t, s.agent().Spec.InstallationDiskID, "the engine chooses the disk again")
	})
	t.Run("multipath device before its paths", func(t *testing.T) {
		s := newSite(t)
		s.apply(objects.InfraEnvs, infraEnvObject())
		s.apply(objects.Agents, agentObject(func(agent *agentinstall.Agent) {
			agent.Status.Inventory.Disks[1].DriveType = "Multipath"
		}))
		s.apply(objects.BareMetalHosts, hostObject(func(host *metal3.BareMetalHost) {
			host.Spec.RootDeviceHints = &metal3.RootDeviceHints{MinSizeGigabytes: 1}
		}))
		require.Equal(t, "/dev/disk/by-id/nvme-1", s.agent().Spec.InstallationDiskID)
	})
}

func TestClusterReference_bindAndUnbind(t *testing.T) {
	s := pairOf(t, map[string]string{bmac + "cluster-reference": "clusters/one"})
	require.Equal(t, &agentinstall.ClusterReference{Namespace: "clusters", Name: "one"},
		s.agent().Spec.ClusterDeploymentName)
	s.annotate(objects.BareMetalHosts, "node0", bmac+"cluster-reference", "")
	require.Nil(t, s.agent().Spec.ClusterDeploymentName)

	s.annotate(objects.BareMetalHosts, "node0", bmac+"cluster-reference", "one")
	require.Contains(t, s.events("node0")["AgentNotUpdated"], `is "one"; it has the form namespace/name`)

	s.edit(objects.InfraEnvs, "env", func(u *unstructured.Unstructured) {
		require.NoError(t, unstructured.SetNestedStringMap(u.Object, map[string]string{"namespace": "site",
			"name": "own"}, "spec", "clusterRef"))
	})
	s.annotate(objects.BareMetalHosts, "node0", bmac+"cluster-reference", "clusters/one")
	require.Nil(t, s.agent().Spec.ClusterDeploymentName)
	require.Contains(t, s.events("node0")["AgentNotUpdated"],
		"its InfraEnv env belongs to the cluster site/own already")
}

func TestFencingSecret(t *testing.T) {
	s := pairOf(t, map[string]string{bmac + "create-fencing-credentials-secret": ""})
	require.Equal(t, "a0-fencing-credentials", s.agent().Spec.FencingCredentialsSecretRef)
	secret := find[corev1.Secret](s, objects.Secrets, "a0-fencing-credentials")
	require.Equal(t, map[string][]byte{
		"address":                 []byte("redfish-virtualmedia://192.0.2.7/redfish/v1/Systems/1"),
		"certificateVerification": []byte("Disabled"),
		"username":                []byte("root"), "password": []byte("calvin"),
	}, secret.Data)
	require.Equal(t, "true", secret.Labels["agent-install.openshift.io/watch"])

	s.annotate(objects.BareMetalHosts, "node0", bmac+"fencing-credentials-secret-name", "mine")
	require.Equal(t, "mine", s.agent().Spec.FencingCredentialsSecretRef)
}

// TestFencingSecret_ofAnother asks for a Secret whose name is taken.
func TestFencingSecret_ofAnother(t *testing.T) {
	s := newSite(t)
	s.apply(objects.Secrets, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "site",
		Name: "a0-fencing-credentials"}, Data: map[string][]byte{"key": []byte("mine")}})
	s.apply(objects.Secrets, secretObject())
	s.apply(objects.InfraEnvs, infraEnvObject())
	s.apply(objects.Agents, agentObject())
	s.apply(objects.BareMetalHosts, hostObject(func(host *metal3.BareMetalHost) {
		host.Annotations = map[string]string{bmac + "create-fencing-credentials-secret": ""}
	}))
	require.Equal(t, map[string][]byte{"key": []byte("mine")},
		find[corev1.Secret](s, objects.Secrets, "a0-fencing-credentials").Data)
	require.Contains(t, s.events("node0")["FencingSecretNotWritten"], "does not belong to this host; delete it")
	for range 2 {
		s.delete(objects.Secrets, "a0-fencing-credentials")
		secret := find[corev1.Secret](s, objects.Secrets, "a0-fencing-credentials")
		require.NotNil(t, secret)
		require.Equal(t, []byte("root"), secret.Data["username"])
	}
}

func TestHardwareDetails(t *testing.T) {
	s := pairOf(t, nil)
	host := s.host()
	require.Equal(t, &metal3.HardwareDetails{
		SystemVendor: metal3.HardwareSystemVendor{Manufacturer: "Dell Inc.", ProductName: "R640", SerialNumber: "S1"},
		RAMMebibytes: 32768,
		NIC: []metal3.NIC{
			{Name: "ens1", Model: "0x1af4", MAC: "52:54:00:aa:BB:01", IP: "fd00::5", SpeedGbps: 10},
			{Name: "ens1", Model: "0x1af4", MAC: "52:54:00:aa:BB:01", IP: "10.0.0.5", SpeedGbps: 10},
		},
		Storage: []metal3.Storage{
			{Name: "/dev/disk/by-path/pci-0", SizeBytes: 480_000_000_000, Rotational: true},
			{Name: "/dev/nvme0n1", Model: "INTEL SSDPE2KX010T8", SizeBytes: 1_000_000_000_000},
		},
		CPU:      metal3.CPU{Arch: "x86_64", Model: "Xeon", ClockMegahertz: 2394, Flags: []string{"fpu"}, Count: 16},
		Hostname: "localhost",
	}, host.Status.HardwareDetails)
	require.NotContains(t, host.Annotations, "inspect.metal3.io/hardwaredetails",
		"the operator moved it into the status")
	require.Equal(t, host.Status.HardwareDetails, find[metal3.HardwareData](s, objects.HardwareDatas,
		"node0").Spec.HardwareDetails)

	s.edit(objects.Agents, "a0", func(u *unstructured.Unstructured) {
		require.NoError(t, unstructured.SetNestedField(u.Object, "other", "status", "inventory", "hostname"))
	})
	require.Equal(t, "localhost", s.host().Status.HardwareDetails.Hostname, "the details are written once")
}

func TestUnbinding_bootsImageAgain(t *testing.T) {
	s := provisioned(t)
	s.apply(objects.Agents, agentObject(func(agent *agentinstall.Agent) {
		agent.Status.Progress.CurrentStage, agent.Status.DebugInfo.State = "Done", "installed"
	}))
	s.server(func(server *bmc.Server) { server.Booted.Ejected, server.Media = noon, nil })
	require.Equal(t, metal3.OperationalStatusDetached, s.host().Status.OperationalStatus)

	s.edit(objects.Agents, "a0", func(u *unstructured.Unstructured) {
		require.NoError(t, unstructured.SetNestedField(u.Object, "unbinding-pending-user-action", "status", "debugInfo",
			"state"))
		require.NoError(t, unstructured.SetNestedSlice(u.Object, []any{map[string]any{
			"type": "Bound", "status": "False", "reason": "UnbindingPendingUserAction",
			"lastTransitionTime": noon.Format(time.RFC3339),
		}}, "status", "conditions"))
	})
	host := s.host()
	require.NotContains(t, host.Annotations, "baremetalhost.metal3.io/detached")
	require.NotContains(t, host.Annotations, "baremetalhost.metal3.io/paused")
	require.Equal(t, metal3.StateDeprovisioning, host.Status.Provisioning.State)
	require.False(t, s.desired().Boot)

	s.server(func(server *bmc.Server) { server.State, server.Power, server.Booted = bmc.Available, bmc.PowerOff, nil })
	require.Equal(t, metal3.StateProvisioning, s.host().Status.Provisioning.State,
		"the host becomes available, then boots its image again")
	require.True(t, s.desired().Boot)
	require.NotContains(t, s.host().Annotations, "baremetalhost.metal3.io/detached",
		"the host stays attached until its agent reports")
}

func TestNewImage_rebootUnlessInstalling(t *testing.T) {
	other := imageURL + "?2"
	change := func(s *site) {
		s.edit(objects.InfraEnvs, "env", func(u *unstructured.Unstructured) {
			require.NoError(s, unstructured.SetNestedField(u.Object, other, "status", "isoDownloadURL"))
		})
	}
	t.Run("waiting", func(t *testing.T) {
		s := provisioned(t)
		s.apply(objects.Agents, agentObject())
		change(s)
		require.Equal(t, metal3.StateDeprovisioning, s.host().Status.Provisioning.State)
		require.False(t, s.desired().Boot)
		s.server(func(server *bmc.Server) { server.State, server.Booted = bmc.Available, nil })
		require.Equal(t, other, s.host().Spec.Image.URL)
		require.True(t, s.desired().Boot)
		require.Equal(t, []string{"d1e2/a0"}, s.restarted, "the engine was notified before the power off")
	})
	t.Run("installation started meanwhile", func(t *testing.T) {
		s := provisioned(t)
		s.restartState = "preparing-for-installation"
		s.apply(objects.Agents, agentObject())
		change(s)
		require.Equal(t, metal3.StateProvisioned, s.host().Status.Provisioning.State)
		require.Equal(t, imageURL, s.host().Spec.Image.URL)
		require.Equal(t, []string{"d1e2/a0"}, s.restarted)
	})
	t.Run("silent", func(t *testing.T) {
		s := provisioned(t)
		s.apply(objects.Agents,
			agentObject(func(agent *agentinstall.Agent) { agent.Status.DebugInfo.State = "disconnected" }))
		change(s)
		require.Equal(t, metal3.StateDeprovisioning, s.host().Status.Provisioning.State)
		require.Empty(t, s.restarted)
	})
	t.Run("installing", func(t *testing.T) {
		s := provisioned(t)
		s.apply(objects.Agents,
			agentObject(func(agent *agentinstall.Agent) { agent.Status.DebugInfo.State = "installing-in-progress" }))
		change(s)
		require.Equal(t, metal3.StateProvisioned, s.host().Status.Provisioning.State)
		require.Equal(t, imageURL, s.host().Spec.Image.URL)
		require.True(t, s.desired().Boot)
		require.Equal(t, "d1e2", s.desired().InfraEnvID)
	})
	t.Run("InfraEnv deleted", func(t *testing.T) {
		s := provisioned(t)
		s.delete(objects.InfraEnvs, "env")
		require.Equal(t, metal3.StateProvisioned, s.host().Status.Provisioning.State)
		require.True(t, s.desired().Boot)
		require.Equal(t, "d1e2", s.desired().InfraEnvID)
	})
}

func TestBMCSecret_metadataAndSharing(t *testing.T) {
	s := provisioned(t)
	secret := find[corev1.Secret](s, objects.Secrets, "bmc")
	require.Equal(t, "baremetal", secret.Labels["environment.metal3.io"])
	require.Equal(t, []string{"baremetalhost.metal3.io/secret"}, secret.Finalizers)
	require.Len(t, secret.OwnerReferences, 1)
	require.Nil(t, secret.OwnerReferences[0].Controller)

	s.apply(objects.BareMetalHosts, hostObject(func(host *metal3.BareMetalHost) {
		host.ObjectMeta = metav1.ObjectMeta{Namespace: "site", Name: "node1"}
		host.Spec.BootMACAddress = "52:54:00:aa:bb:09"
	}))
	require.Len(t, find[corev1.Secret](s, objects.Secrets, "bmc").OwnerReferences, 2)
	s.deleteHost()
	require.Equal(t, []string{"baremetalhost.metal3.io/secret"}, find[corev1.Secret](s, objects.Secrets,
		"bmc").Finalizers, "another host uses the Secret")
}

// deleteHost deletes the host, and lets the fake remove the server.
func (s *site) deleteHost() {
	s.Helper()
	id := string(s.host().UID)
	s.delete(objects.BareMetalHosts, "node0")
	s.servers.mu.Lock()
	delete(s.servers.servers, id)
	s.servers.mu.Unlock()
	s.servers.changed(id)
	s.waitIdle()
	require.Nil(s, s.host())
}
