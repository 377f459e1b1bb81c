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
	"landfall/store"
)

// withoutInfraEnv removes the InfraEnv of a host, so that only the operator manages it.
func withoutInfraEnv(host *metal3.BareMetalHost) { host.Labels = nil }

// available returns a site with a host without an image.
func available(t *testing.T, alter ...func(*metal3.BareMetalHost)) *site {
	t.Helper()
	s := newSite(t)
	s.apply(objects.Secrets, secretObject())
	s.apply(objects.BareMetalHosts, hostObject(append(alter, withoutInfraEnv)...))
	s.server(registered)
	return s
}

func TestHost_onlineSetsPower(t *testing.T) {
	s := available(t)
	require.True(t, *s.desired().Online, "no controller sets an image")
	s.edit(objects.BareMetalHosts, "node0", func(u *unstructured.Unstructured) {
		require.NoError(t, unstructured.SetNestedField(u.Object, false, "spec", "online"))
	})
	require.False(t, *s.desired().Online)
	require.False(t, s.host().Status.PoweredOn)
}

func TestRebootAnnotation(t *testing.T) {
	s := available(t)
	s.server(func(server *bmc.Server) { server.Power = bmc.PowerOn })
	s.annotate(objects.BareMetalHosts, "node0", "reboot.metal3.io", "")
	s.annotate(objects.BareMetalHosts, "node0", "reboot.metal3.io/capm3", `{"mode":"soft"}`)
	require.False(t, *s.desired().Online)
	require.Contains(t, s.host().Annotations, "reboot.metal3.io")

	s.server(func(server *bmc.Server) { server.Power = bmc.PowerOff })
	require.NotContains(t, s.host().Annotations, "reboot.metal3.io",
		"the reboot request is fulfilled once the server is off")
	require.False(t, *s.desired().Online, "the annotation with a key keeps the server off")
	s.edit(objects.BareMetalHosts, "node0", func(u *unstructured.Unstructured) { u.SetAnnotations(nil) })
	require.True(t, *s.desired().Online)
}

func TestRebootAnnotation_hard(t *testing.T) {
	s := available(t)
	s.server(func(server *bmc.Server) { server.Power = bmc.PowerOn })
	s.annotate(objects.BareMetalHosts, "node0", "reboot.metal3.io", `{"mode":"hard"}`)
	s.server(func(server *bmc.Server) {
		require.NotNil(t, server.Pending)
		require.Equal(t, bmc.ActionPowerOff, server.Pending.Kind)
		require.False(t, *server.Online)
		server.Power, server.Pending = bmc.PowerOff, nil
	})
	require.True(t, *s.desired().Online)
	require.NotContains(t, s.host().Annotations, "reboot.metal3.io")
}

func TestHost_liveISO(t *testing.T) {
	s := available(t)
	image := func(format any) {
		s.edit(objects.BareMetalHosts, "node0", func(u *unstructured.Unstructured) {
			require.NoError(t, unstructured.SetNestedField(u.Object,
				map[string]any{"url": "http://files.site/rescue.iso", "format": format}, "spec", "image"))
		})
	}
	image("qcow2")
	require.Equal(t, metal3.ProvisioningError, s.host().Status.ErrorType)
	require.Contains(t, s.host().Status.ErrorMessage, "spec.image is not a live ISO")
	require.False(t, s.desired().Boot)

	image("live-iso")
	require.Equal(t, metal3.StateProvisioning, s.host().Status.Provisioning.State)
	require.Empty(t, s.host().Status.ErrorMessage)
	desired := s.desired()
	require.True(t, desired.Boot)
	require.Equal(t, "http://files.site/rescue.iso", desired.ImageURL)
	s.server(booted)
	s.edit(objects.BareMetalHosts, "node0", func(u *unstructured.Unstructured) {
		unstructured.RemoveNestedField(u.Object, "spec", "image")
	})
	require.Equal(t, metal3.StateDeprovisioning, s.host().Status.Provisioning.State)
	s.server(func(server *bmc.Server) { server.State, server.Power = bmc.Available, bmc.PowerOff })
	host := s.host()
	require.Equal(t, metal3.StateAvailable, host.Status.Provisioning.State)
	require.Empty(t, host.Status.Provisioning.Image.URL)
}

func TestHost_bmcErrors(t *testing.T) {
	cases := []struct {
		name    string
		trouble bmc.ErrorStatus
	}{
		{"registration", bmc.ErrorStatus{Type: bmc.RegistrationError, Message: "The BMC refuses the password.",
			Count: 2}},
		{"power", bmc.ErrorStatus{Type: bmc.PowerManagementError, Message: "The server stays on.", Count: 1}},
		{"media", bmc.ErrorStatus{Type: bmc.ProvisioningError, Message: "The BMC can't reach the image.", Count: 5}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			s := available(t)
			s.server(func(server *bmc.Server) { server.Error = &c.trouble })
			status := s.host().Status
			require.Equal(t, metal3.OperationalStatusError, status.OperationalStatus)
			require.EqualValues(t, c.trouble.Type, status.ErrorType)
			require.Equal(t, c.trouble.Message, status.ErrorMessage)
			require.Equal(t, c.trouble.Count, status.ErrorCount)
			require.Equal(t, metal3.StateAvailable, status.Provisioning.State)

			s.server(func(server *bmc.Server) { server.Error = nil })
			status = s.host().Status
			require.Equal(t, metal3.OperationalStatusOK, status.OperationalStatus)
			require.Empty(t, status.ErrorType)
			require.Zero(t, status.ErrorCount)
		})
	}
}

func TestHost_credentialsChange(t *testing.T) {
	cases := []struct {
		name   string
		secret map[string][]byte
		fault  string
	}{
		{"no user name", map[string][]byte{"password": []byte("x")}, "The BMC's Secret site/bmc has no key username."},
		{"no password", map[string][]byte{"username": []byte("x")}, "The BMC's Secret site/bmc has no key password."},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			s := newSite(t)
			s.apply(objects.Secrets, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "site", Name: "bmc"},
				Data: c.secret})
			s.apply(objects.BareMetalHosts, hostObject())
			require.Equal(t, c.fault, s.host().Status.ErrorMessage)
			require.Contains(t, s.events("node0")["BMCCredentialError"], c.fault)
			require.Empty(t, s.servers.servers)
			s.edit(objects.Secrets, "bmc", func(u *unstructured.Unstructured) {
				u.Object["data"] = map[string]any{"username": "cm9vdA==", "password": "Y2FsdmluCg=="}
			})
			require.Empty(t, s.host().Status.ErrorMessage)
			require.Equal(t, "calvin", s.desired().Password, "the line feed at the end is removed")
		})
	}
	t.Run("changed", func(t *testing.T) {
		s := available(t)
		good := s.host().Status.GoodCredentials.Version
		s.edit(objects.Secrets, "bmc", func(u *unstructured.Unstructured) {
			u.Object["data"] = map[string]any{"username": "cm9vdA==", "password": "bmV3"}
		})
		require.Equal(t, "new", s.desired().Password)
		s.server(func(server *bmc.Server) { server.CredentialsGood = false })
		require.NotEqual(t, good, s.host().Status.TriedCredentials.Version)
	})
}

func TestHost_invalidBMC(t *testing.T) {
	s := newSite(t)
	s.apply(objects.Secrets, secretObject())
	s.apply(objects.BareMetalHosts,
		hostObject(func(host *metal3.BareMetalHost) { host.Spec.BMC.Address = "ipmi://192.0.2.7" }))
	host := s.host()
	require.Equal(t, metal3.StateRegistering, host.Status.Provisioning.State)
	require.Equal(t, metal3.RegistrationError, host.Status.ErrorType)
	require.Contains(t, host.Status.ErrorMessage, "ipmi")
	require.Contains(t, s.events("node0")["RegistrationError"], "ipmi")

	s.edit(objects.BareMetalHosts, "node0", func(u *unstructured.Unstructured) {
		require.NoError(t, unstructured.SetNestedField(u.Object, "redfish://192.0.2.7", "spec", "bmc", "address"))
	})
	require.Empty(t, s.host().Status.ErrorMessage)

	bare := newSite(t)
	bare.apply(objects.BareMetalHosts,
		hostObject(func(host *metal3.BareMetalHost) { host.Spec.BMC = metal3.BMCDetails{} }))
	require.Equal(t, metal3.StateUnmanaged, bare.host().Status.Provisioning.State)
	require.Equal(t, metal3.OperationalStatusDiscovered, bare.host().Status.OperationalStatus)
	bare.delete(objects.BareMetalHosts, "node0")
	require.Nil(t, bare.host())
}

func TestHost_externallyProvisioned(t *testing.T) {
	s := available(t, func(host *metal3.BareMetalHost) { host.Spec.ExternallyProvisioned = true })
	require.Equal(t, metal3.StateExternallyProvisioned, s.host().Status.Provisioning.State)
	require.True(t, *s.desired().Online)
	require.False(t, s.desired().Boot)
}

func TestDetachment_byState(t *testing.T) {
	const detached = "baremetalhost.metal3.io/detached"
	t.Run("immediately after provisioning with an inserted image", func(t *testing.T) {
		s := provisioned(t)
		s.annotate(objects.BareMetalHosts, "node0", detached, "")
		require.Equal(t, metal3.OperationalStatusDetached, s.host().Status.OperationalStatus)
		require.True(t, s.desired().Detached)
		require.NotContains(t, s.host().Annotations, "baremetalhost.metal3.io/paused")
		s.edit(objects.BareMetalHosts, "node0", func(u *unstructured.Unstructured) {
			unstructured.RemoveNestedField(u.Object, "metadata", "annotations", detached)
		})
		require.Equal(t, metal3.OperationalStatusOK, s.host().Status.OperationalStatus)
		require.False(t, s.desired().Detached)
	})
	t.Run("while registering only if forced", func(t *testing.T) {
		s := newSite(t)
		s.apply(objects.Secrets, secretObject())
		s.apply(objects.BareMetalHosts, hostObject())
		s.annotate(objects.BareMetalHosts, "node0", detached, "true")
		require.NotEqual(t, metal3.OperationalStatusDetached, s.host().Status.OperationalStatus)
		s.annotate(objects.BareMetalHosts, "node0", detached, `{"force":true}`)
		require.Equal(t, metal3.OperationalStatusDetached, s.host().Status.OperationalStatus)
	})
	t.Run("deletion waits for a requested detachment", func(t *testing.T) {
		s := provisioned(t)
		s.annotate(objects.BareMetalHosts, "node0", detached, `{"deleteAction":"delay"}`)
		s.delete(objects.BareMetalHosts, "node0")
		require.Empty(t, s.servers.removed)
		s.edit(objects.BareMetalHosts, "node0", func(u *unstructured.Unstructured) {
			unstructured.RemoveNestedField(u.Object, "metadata", "annotations", detached)
		})
		require.Equal(t, metal3.StatePoweringOffBeforeDelete, s.host().Status.Provisioning.State,
			"the host is deprovisioned first")
		require.Len(t, s.servers.removed, 1)
	})
}

func TestHost_pausedAndStatusRestored(t *testing.T) {
	s := available(t)
	s.annotate(objects.BareMetalHosts, "node0", "baremetalhost.metal3.io/paused", "")
	ensured := s.servers.ensured
	s.server(func(server *bmc.Server) { server.Power = bmc.PowerOn })
	require.False(t, s.host().Status.PoweredOn)
	require.Equal(t, ensured, s.servers.ensured)

	other := newSite(t)
	other.apply(objects.Secrets, secretObject())
	other.apply(objects.BareMetalHosts, hostObject(withoutInfraEnv, func(host *metal3.BareMetalHost) {
		host.Annotations = map[string]string{
			"baremetalhost.metal3.io/status": `{"operationalStatus":"OK","provisioning":{"ID":"x","state":"provisioned","image":{"url":"http://files.site/a.iso"}},"hardwareProfile":"unknown","poweredOn":true,"errorMessage":"","errorCount":0}`}
		format := "live-iso"
		host.Spec.Image = &metal3.Image{URL: "http://files.site/a.iso", DiskFormat: &format}
	}))
	require.Equal(t, metal3.StateProvisioned, other.host().Status.Provisioning.State)
	require.NotContains(t, other.host().Annotations, "baremetalhost.metal3.io/status")
}

func TestHost_finalizersRemovedByUser(t *testing.T) {
	s := provisioned(t)
	id := string(s.host().UID)
	require.NoError(t, s.db.Update(t.Context(), func(tx *store.Tx) error {
		return s.o.Update(tx, objects.BareMetalHosts, "site", "node0", func(u *unstructured.Unstructured) error {
			now := metav1.NewTime(noon)
			u.SetDeletionTimestamp(&now)
			u.SetFinalizers(nil)
			return nil
		})
	}))
	s.waitIdle()
	require.Nil(t, s.host())
	require.Equal(t, map[string]bool{id: false}, s.servers.removed)
}

func TestConvergedFlow(t *testing.T) {
	s := newSite(t)
	s.converged()
	s.apply(objects.Secrets, secretObject())
	s.apply(objects.InfraEnvs, infraEnvObject())
	s.apply(objects.BareMetalHosts, hostObject())
	image := find[metal3.PreprovisioningImage](s, objects.PreprovisioningImages, "node0")
	require.NotNil(t, image)
	require.Equal(t, []metal3.ImageFormat{"iso"}, image.Spec.AcceptFormats)
	require.Equal(t, "WaitingForInfraEnvImageToCoolDown", image.Status.Conditions[0].Reason)
	s.server(registered)
	require.Nil(t, s.host().Spec.CustomDeploy)

	s.clock.Advance(settles)
	require.Eventually(t, func() bool { return s.host().Spec.CustomDeploy != nil }, time.Minute, time.Millisecond)
	s.waitIdle()
	host := s.host()
	require.Equal(t, "start_assisted_install", host.Spec.CustomDeploy.Method)
	require.Nil(t, host.Spec.Image)
	require.NotContains(t, host.Annotations, "inspect.metal3.io")
	require.Equal(t, metal3.StateProvisioning, host.Status.Provisioning.State)
	require.True(t, s.desired().Boot)
	require.Equal(t, "d1e2", s.desired().InfraEnvID)
	require.Contains(t, s.events("node0")["IronicAgentLeftOut"], "no Ironic agent")
	s.server(booted)
	require.Equal(t, "start_assisted_install", s.host().Status.Provisioning.CustomDeploy.Method)

	s.apply(objects.Agents,
		agentObject(func(agent *agentinstall.Agent) { agent.Status.Progress.CurrentStage = "Rebooting" }))
	s.server(func(server *bmc.Server) { server.Booted.Ejected, server.Media = noon, nil })
	require.Equal(t, metal3.OperationalStatusDetached, s.host().Status.OperationalStatus)
}

func TestPreprovisioningImage_status(t *testing.T) {
	image := func(alter func(*metal3.PreprovisioningImage)) *metal3.PreprovisioningImage {
		image := &metal3.PreprovisioningImage{
			ObjectMeta: metav1.ObjectMeta{Namespace: "site", Name: "image",
				Labels: map[string]string{"infraenvs.agent-install.openshift.io": "env"}},
			Spec: metal3.PreprovisioningImageSpec{AcceptFormats: []metal3.ImageFormat{"iso"},
				Architecture: "x86_64"},
		}
		alter(image)
		return image
	}
	cases := []struct {
		name          string
		image         func(*metal3.PreprovisioningImage)
		infraEnv      func(*agentinstall.InfraEnv)
		ready, failed metav1.ConditionStatus
		reason, url   string
	}{
		{"the ISO", func(*metal3.PreprovisioningImage) {}, func(*agentinstall.InfraEnv) {}, "True",
			"False", "InfraEnvAvailable", imageURL},
		{"architecture as reported by machines",
			func(i *metal3.PreprovisioningImage) { i.Spec.Architecture = "amd64" },
			func(*agentinstall.InfraEnv) {}, "True", "False", "InfraEnvAvailable", imageURL},
		{"files for network boot",
			func(i *metal3.PreprovisioningImage) { i.Spec.AcceptFormats = []metal3.ImageFormat{"initrd"} },
			func(e *agentinstall.InfraEnv) { e.Status.BootArtifacts.InitrdURL = "http://site/initrd" }, "True",
			"False", "InfraEnvAvailable", "http://site/initrd"},
		{"unknown format",
			func(i *metal3.PreprovisioningImage) { i.Spec.AcceptFormats = []metal3.ImageFormat{"qcow2"} },
			func(*agentinstall.InfraEnv) {}, "False", "True", "UnsupportedImageFormat", ""},
		{"architecture differs", func(i *metal3.PreprovisioningImage) { i.Spec.Architecture = "aarch64" },
			func(*agentinstall.InfraEnv) {}, "False", "True", "InfraEnvArchMismatch", ""},
		{"unknown InfraEnv", func(i *metal3.PreprovisioningImage) { i.Labels = nil }, func(*agentinstall.InfraEnv) {},
			"False", "False", "InfraEnvNotAvailable", ""},
		{"no image yet", func(*metal3.PreprovisioningImage) {},
			func(e *agentinstall.InfraEnv) { e.Status.CreatedTime = nil }, "False", "False",
			"WaitingForInfraEnvImageToBeCreated", ""},
		{"image too new", func(*metal3.PreprovisioningImage) {}, func(e *agentinstall.InfraEnv) {
			now := metav1.NewTime(noon.Add(time.Minute))
			e.Status.CreatedTime = &now
		}, "False", "False", "WaitingForInfraEnvImageToCoolDown", ""},
		{"image with an error", func(*metal3.PreprovisioningImage) {}, func(e *agentinstall.InfraEnv) {
			e.Status.ISODownloadURL = ""
			e.Status.Conditions[0] = agentinstall.Condition{Type: "ImageCreated", Status: "False",
				Reason: "ImageCreationError", Message: "Failed to create image: x"}
		}, "False", "True", "ImageCreationError", ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			s := newSite(t)
			s.clock.Advance(time.Minute)
			s.apply(objects.InfraEnvs, infraEnvObject(c.infraEnv))
			s.apply(objects.PreprovisioningImages, image(c.image))
			stored := find[metal3.PreprovisioningImage](s, objects.PreprovisioningImages, "image")
			require.Len(t, stored.Status.Conditions, 2)
			require.Equal(t, "Ready", stored.Status.Conditions[0].Type)
			require.Equal(t, c.ready, stored.Status.Conditions[0].Status)
			require.Equal(t, c.reason, stored.Status.Conditions[0].Reason)
			require.Equal(t, c.failed, stored.Status.Conditions[1].Status)
			require.Equal(t, c.url, stored.Status.ImageUrl)
			require.Equal(t, "true", stored.Labels["velero.io/exclude-from-backup"])
			s.delete(objects.PreprovisioningImages, "image")
			require.Nil(t, find[metal3.PreprovisioningImage](s, objects.PreprovisioningImages, "image"))
		})
	}
}

func TestManagedCluster_accepted(t *testing.T) {
	s := newSite(t)
	cluster := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "cluster.open-cluster-management.io/v1", "kind": "ManagedCluster",
		"metadata": map[string]any{"name": "one"},
		"spec":     map[string]any{"hubAcceptsClient": true},
	}}
	s.apply(objects.ManagedClusters, cluster)
	stored := &unstructured.Unstructured{}
	require.NoError(t, s.db.View(func(tx *store.Tx) error {
		return s.o.Get(tx, objects.ManagedClusters, "", "one",
			stored)
	}))
	conditions, _, err := unstructured.NestedSlice(stored.Object, "status", "conditions")
	require.NoError(t, err)
	require.Len(t, conditions, 1, "no condition about a hub")
	require.Equal(t, "HubAcceptedManagedCluster", conditions[0].(map[string]any)["type"])
	require.Equal(t, "True", conditions[0].(map[string]any)["status"])
}

// converged enables the converged flow.
func (s *site) converged() {
	s.Helper()
	s.apply(objects.ConfigMaps, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "mce", Name: "settings"},
		Data:       map[string]string{"ALLOW_CONVERGED_FLOW": "true"},
	})
	s.apply(objects.AgentServiceConfigs, &agentinstall.AgentServiceConfig{ObjectMeta: metav1.ObjectMeta{
		Name: "agent",
		Annotations: map[string]string{
			"unsupported.agent-install.openshift.io/assisted-service-configmap": "settings"},
	}})
}

func TestDrain_manualAnnotation(t *testing.T) {
	const status = bmac + "drain-status"
	install := func(t *testing.T, annotations map[string]string) *site {
		s := newSite(t)
		s.converged()
		s.apply(objects.Secrets, secretObject())
		s.apply(objects.InfraEnvs, infraEnvObject())
		s.clock.Advance(settles)
		annotations[bmac+"remove-agent-and-node-on-delete"] = ""
		s.apply(objects.BareMetalHosts, hostObject(func(host *metal3.BareMetalHost) { host.Annotations = annotations }))
		s.server(registered)
		s.server(booted)
		s.apply(objects.Agents, agentObject(func(agent *agentinstall.Agent) {
			agent.Status.Progress.CurrentStage = "Done"
			agent.Spec.ClusterDeploymentName = &agentinstall.ClusterReference{Namespace: "site", Name: "one"}
		}))
		s.server(func(server *bmc.Server) { server.Booted.Ejected = noon })
		require.Equal(t, `{"deleteAction":"delay"}`, s.host().Annotations["baremetalhost.metal3.io/detached"])
		require.Equal(t, metal3.OperationalStatusDetached, s.host().Status.OperationalStatus)
		s.delete(objects.BareMetalHosts, "node0")
		return s
	}
	t.Run("manually", func(t *testing.T) {
		s := install(t, map[string]string{})
		require.Contains(t, s.host().Annotations[status], "drain it with oc adm drain")
		require.NotNil(t, s.agent())
		require.Contains(t, s.host().Finalizers, bmac+"deprovision")
		s.annotate(objects.BareMetalHosts, "node0", status, "drain succeeded")
		require.Nil(t, s.agent(), "the Agent is deleted with its host")
		require.NotContains(t, s.host().Finalizers, bmac+"deprovision")
		require.Len(t, s.servers.removed, 1)
	})
	t.Run("until the timeout", func(t *testing.T) {
		s := install(t, map[string]string{bmac + "drain-timeout": "10m"})
		require.NotNil(t, s.agent())
		s.clock.Advance(10 * time.Minute)
		require.Eventually(t, func() bool { return s.agent() == nil }, time.Minute, time.Millisecond)
		s.waitIdle()
		require.Equal(t, "drain timed out", s.host().Annotations[status])
	})
}
