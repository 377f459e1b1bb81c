package hosts

import (
	"strings"
	"testing"

	"github.com/go-openapi/swag/conv"
	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"landfall/appliance/fault"
	"landfall/appliance/kube/kubetest"
	"landfall/appliance/kube/objects"
	"landfall/appliance/kube/objects/agentinstall"
	"landfall/store"
)

func clusterReference(name string) *agentinstall.ClusterReference {
	return &agentinstall.ClusterReference{Namespace: "site", Name: name}
}

func TestAgent_hardware(t *testing.T) {
	b := newSite(t)
	b.Apply(kubetest.InfraEnvManifest("pool"))
	m := b.Boot("pool", 1)
	agent := b.Agent(m)
	require.Equal(t, agentinstall.HostMemory{PhysicalBytes: 64 << 30, UsableBytes: 64 << 30},
		agent.Status.Inventory.Memory)
	require.Equal(t, agentinstall.HostCPU{Count: 16, Architecture: "x86_64", Flags: []string{"vmx"},
		ClockMegahertz: 2400}, agent.Status.Inventory.CPU)
	require.Equal(t, []agentinstall.HostInterface{{
		Name: "eno1", MACAddress: "52:54:00:00:00:01", HasCarrier: true, IPV4Addresses: []string{"192.168.10.11/24"},
		IPV6Addresses: []string{}, Flags: []string{},
	}}, agent.Status.Inventory.Interfaces)
	require.Equal(t, "/dev/disk/by-id/a", agent.Status.Inventory.Disks[0].ID)
	require.Equal(t, []string{}, agent.Status.Inventory.Disks[0].InstallationEligibility.NotEligibleReasons)
	require.Equal(t, map[string]string{
		labelInfraEnv: "pool", labelClusterNamespace: "", labelNonrotationalDisk: "true",
		labelCPUArchitecture: "x86_64", labelCPUVirtEnabled: "true",
		labelProductName: "PowerEdgeR650", labelIsVirtual: "false",
	}, agent.Labels, "the manufacturer Dell Inc. is not a valid label value")
	require.Equal(t, "0.1", agent.Annotations[annotationInventory])
	require.Equal(t, models.HostStatusKnownUnbound, agent.Annotations[annotationAgentState])
	require.Equal(t, "Host", agent.Status.Kind)
	require.Equal(t, []agentinstall.HostNTPSource{{SourceName: "ntp.site.test", SourceState: models.SourceStateSynced}},
		agent.Status.NTPSources)
	require.Equal(t, "http://appliance.site.test:8090/api/assisted-install/v2/events?host_id="+m.ID,
		agent.Status.DebugInfo.EventsURL)
	require.NotEmpty(t, agent.Status.ValidationsInfo["hardware"])
	var order []string
	for _, c := range agent.Status.Conditions {
		order = append(order, c.Type)
	}
	require.Equal(t, []string{"SpecSynced", "Connected", "RequirementsMet", "Validated", "Installed", "Bound"},
		order, "the documented order")

	before := b.DB.Revision()
	m.Report()
	require.Equal(t, before, b.DB.Revision(), "an unchanged report writes nothing")
}

func TestAgent_specIsApplied(t *testing.T) {
	b := newSite(t)
	b.Apply(kubetest.InfraEnvManifest("pool"))
	m := b.Boot("pool", 1)
	b.Apply("kind: Secret\nmetadata: {namespace: site, name: token}\nstringData: {ignition-token: s3cret}\n---\n" +
		"kind: Secret\nmetadata: {namespace: site, name: fence}\nstringData: {address: 'redfish://bmc', username: u, " +
		"password: p}")
	b.EditAgent(m, func(spec *agentinstall.AgentSpec) {
		spec.Role, spec.Hostname, spec.MachineConfigPool, spec.InstallationDiskPath = models.HostRoleWorker, "rack7-1",
			"infra", "/dev/disk/by-path/b"
		spec.InstallerArgs = `["--append-karg", "console=ttyS0"]`
		spec.IgnitionConfigOverrides = `{"ignition": {"version": "3.1.0"}}`
		spec.NodeLabels = map[string]string{"rack": "r7"}
		spec.IgnitionEndpointHTTPHeaders = map[string]string{"X-Site": "seven"}
		spec.IgnitionEndpointTokenReference = &agentinstall.SecretReference{Namespace: "site", Name: "token"}
		spec.FencingCredentialsSecretRef = "fence"
	})
	b.RequireCondition(m, conditionSpecSynced, corev1.ConditionTrue, "SyncOK")
	host := m.Host()
	require.Equal(t, []string{"rack7-1", "worker", "infra", "/dev/disk/by-id/b"},
		[]string{host.RequestedHostname, string(host.Role), host.MachineConfigPoolName, host.InstallationDiskID})
	require.Equal(t, `["--append-karg","console=ttyS0"]`, host.InstallerArgs)
	require.JSONEq(t, `{"ignition":{"version":"3.1.0"}}`, host.IgnitionConfigOverrides)
	require.JSONEq(t, `{"rack":"r7"}`, host.NodeLabels)
	require.True(t, host.IgnitionEndpointTokenSet)
	require.Contains(t, host.FencingCredentials, "redfish://bmc")

	before := b.DB.Revision()
	require.Equal(t, secretsInterval, b.reconcileAgain(agents{b.Controllers}, m.ID),
		"the values of Secrets are checked periodically")
	require.Equal(t, before, b.DB.Revision())

	b.EditAgent(m, func(spec *agentinstall.AgentSpec) {
		spec.InstallerArgs, spec.IgnitionConfigOverrides, spec.NodeLabels = "", "", nil
		spec.IgnitionEndpointHTTPHeaders, spec.IgnitionEndpointTokenReference = nil, nil
	})
	host = m.Host()
	require.Equal(t, "[]", host.InstallerArgs)
	require.Empty(t, host.IgnitionConfigOverrides)
	require.JSONEq(t, `{}`, host.NodeLabels)
	require.False(t, host.IgnitionEndpointTokenSet)
	require.Equal(t, "rack7-1", host.RequestedHostname, "an omitted name stays")
}

// TestAgent_tokenOfAnotherNamespace refers to a Secret that its owner has labelled, or has not.
func TestAgent_tokenOfAnotherNamespace(t *testing.T) {
	b := newSite(t)
	b.Apply(kubetest.InfraEnvManifest("pool"))
	m := b.Boot("pool", 1)
	secret := func(labels string) {
		b.Apply("kind: Secret\nmetadata: {namespace: hosted, name: token, labels: {" + labels + "}}\n" +
			"stringData: {ignition-token: s3cret}")
	}
	secret("")
	b.EditAgent(m, func(spec *agentinstall.AgentSpec) {
		spec.IgnitionEndpointTokenReference = &agentinstall.SecretReference{Namespace: "hosted", Name: "token"}
	})
	b.RequireCondition(m, conditionSpecSynced, corev1.ConditionFalse, "InputError")
	require.Contains(t, agentConditionOf(b.Agent(m).Status.Conditions, conditionSpecSynced).Message,
		"secret hosted/token is in another namespace than the Agent and has no label "+objects.LabelWatch+"=true")
	require.False(t, m.Host().IgnitionEndpointTokenSet)

	secret("agent-install.openshift.io/watch: 'true'")
	b.reconcileAgain(agents{b.Controllers}, m.ID)
	b.RequireCondition(m, conditionSpecSynced, corev1.ConditionTrue, "SyncOK")
	require.True(t, m.Host().IgnitionEndpointTokenSet)
}

func TestAgent_specErrors(t *testing.T) {
	b := newSite(t)
	b.Apply(kubetest.InfraEnvManifest("pool"))
	number := 0
	for name, c := range map[string]struct {
		change       func(*agentinstall.AgentSpec)
		reason, says string
	}{
		"invalid ignition override": {
			func(s *agentinstall.AgentSpec) { s.IgnitionConfigOverrides = "bad" }, "InputError",
			"The Spec could not be synced due to an input error: error parsing ignition: config is not valid"},
		"installer arguments not a list": {func(s *agentinstall.AgentSpec) { s.InstallerArgs = "--bad" },
			"InputError", "an input error: Fail to unmarshal installer args for host"},
		"unknown installer argument": {func(s *agentinstall.AgentSpec) { s.InstallerArgs = `["--rm-rf"]` },
			"InputError", "found unexpected flag --rm-rf"},
		"unknown disk": {
			func(s *agentinstall.AgentSpec) { s.InstallationDiskID = "/dev/sdz" }, "InputError", "has no disk"},
		"no disk fits the hints": {
			func(s *agentinstall.AgentSpec) { s.InstallationDiskID = objects.NoDiskFits }, "InputError",
			"no disk of the host fits spec.rootDeviceHints of BareMetalHost site/"},
		"unknown role": {func(s *agentinstall.AgentSpec) { s.Role = "king" }, "InputError",
			`no role "king"`},
		"invalid name": {func(s *agentinstall.AgentSpec) { s.Hostname = "a b" },
			"InputError", ""},
		"invalid node label": {func(s *agentinstall.AgentSpec) { s.NodeLabels = map[string]string{"a/b/c": "1"} },
			"InputError", `node_labels: Invalid value: "a/b/c"`},
		"missing Secret of a token": {func(s *agentinstall.AgentSpec) {
			s.IgnitionEndpointTokenReference = &agentinstall.SecretReference{Namespace: "site", Name: "absent"}
		}, "InputError", "failed to find secret site/absent"},
		"missing ClusterDeployment": {
			func(s *agentinstall.AgentSpec) { s.ClusterDeploymentName = clusterReference("absent") }, "BackendError",
			"failed to get clusterDeployment with name absent in namespace site"},
	} {
		t.Run(name, func(t *testing.T) {
			b.TB, number = t, number+1
			m := b.Boot("pool", number)
			before := b.Agent(m).Spec
			b.EditAgent(m, c.change)
			require.Contains(t, b.RequireCondition(m, conditionSpecSynced, corev1.ConditionFalse, c.reason).Message,
				c.says)
			b.EditAgent(m, func(spec *agentinstall.AgentSpec) { *spec = before })
			b.RequireCondition(m, conditionSpecSynced, corev1.ConditionTrue, "SyncOK")
		})
	}
}

func TestAgent_changesByREST(t *testing.T) {
	b := newSite(t)
	b.RegisterCluster("one")
	b.Apply(kubetest.InfraEnvManifest("pool"))
	m := b.Boot("pool", 1)
	b.EditAgent(m, func(spec *agentinstall.AgentSpec) { spec.Hostname, spec.Role = "first", models.HostRoleMaster })
	_, err := b.Engine.UpdateHost(t.Context(), m.InfraEnv, m.ID, &models.HostUpdateParams{
		HostName: conv.Pointer("second"), HostRole: conv.Pointer("worker"),
		NodeLabels: []*models.NodeLabelParams{{Key: conv.Pointer("a"), Value: conv.Pointer("b")}},
	})
	require.NoError(t, err)
	b.WaitIdle()
	spec := b.Agent(m).Spec
	require.Equal(t, []string{"second", "worker", "b"}, []string{spec.Hostname, string(spec.Role),
		spec.NodeLabels["a"]})
	b.EditAgent(m, func(spec *agentinstall.AgentSpec) { spec.Approved = true })
	require.Equal(t, "second", m.Host().RequestedHostname)

	var id string
	require.NoError(t, b.DB.View(func(tx *store.Tx) (err error) {
		id, err = b.Engine.Rows(tx).ClusterOf("site/one")
		return err
	}))
	_, err = b.Engine.BindHost(t.Context(), m.InfraEnv, m.ID, id)
	require.NoError(t, err)
	b.WaitIdle()
	require.Equal(t, clusterReference("one"), b.Agent(m).Spec.ClusterDeploymentName)
	require.NotNil(t, m.Host().ClusterID, "the host stays bound")

	require.NoError(t, b.Engine.DeregisterHost(t.Context(), m.InfraEnv, m.ID))
	b.WaitIdle()
	require.False(t, b.Get(objects.Agents, "site", m.ID, &agentinstall.Agent{}),
		"deleting the host over REST deletes the Agent")
}

func TestAgent_autoApprovalAndLabels(t *testing.T) {
	b := newSite(t)
	manifest := func(annotation, label, approval string) string {
		return "kind: InfraEnv\nmetadata: {namespace: site, name: pool, annotations: " +
			"{infraenv.agent-install.openshift.io/propagate-node-labels: '" + annotation + "'}, labels: {rack: " +
			label + ", zone: z1}}\n" +
			"spec: {pullSecretRef: {name: pull}, agentApproval: {autoApprove: " + approval + "}}"
	}
	b.Apply(kubetest.PullSecretManifest)
	b.Apply(manifest("rack", "r7", "false"))
	m := b.Boot("pool", 1)
	require.False(t, b.Agent(m).Spec.Approved)
	require.Equal(t, map[string]string{"rack": "r7"}, b.Agent(m).Spec.NodeLabels)
	require.JSONEq(t, `{"rack":"r7"}`, m.Host().NodeLabels)
	b.EditAgent(m, func(spec *agentinstall.AgentSpec) { spec.NodeLabels["own"] = "x" })
	b.Apply(manifest("rack, zone, zone", "r8", "true"))
	require.Equal(t, "rack,zone", b.Agent(m).Annotations[annotationInheritedLabels])
	require.True(t, b.Agent(m).Spec.Approved)
	require.Equal(t, map[string]string{"rack": "r8", "zone": "z1", "own": "x"}, b.Agent(m).Spec.NodeLabels)
	b.Apply(manifest("", "r8", "true"))
	require.Equal(t, map[string]string{"own": "x"}, b.Agent(m).Spec.NodeLabels)
	require.NotContains(t, b.Agent(m).Annotations, annotationInheritedLabels)
	require.JSONEq(t, `{"own":"x"}`, m.Host().NodeLabels)
	require.True(t, b.Agent(b.Boot("pool", 2)).Spec.Approved, "approved at creation")
}

func TestAgent_deletedWithHost(t *testing.T) {
	b := newSite(t)
	b.Apply(kubetest.InfraEnvManifest("pool"))
	m := b.Boot("pool", 1)
	b.EditAgent(m, func(spec *agentinstall.AgentSpec) { spec.Approved = true })
	b.Delete(objects.Agents, "site", m.ID)
	require.False(t, b.Get(objects.Agents, "site", m.ID, &agentinstall.Agent{}))
	_, err := b.Engine.Host(m.InfraEnv, m.ID)
	require.Equal(t, fault.NotFound, fault.KindOf(err))
	m.Register()
	b.WaitIdle()
	require.False(t, b.Agent(m).Spec.Approved, "the Agent is new")
}

func TestAgent_lateBinding(t *testing.T) {
	b := newSite(t)
	b.RegisterCluster("one")
	b.RegisterCluster("two")
	b.Apply(kubetest.InfraEnvManifest("pool"))
	m := b.Boot("pool", 1)
	b.RequireCondition(m, conditionBound, corev1.ConditionFalse, "Unbound")

	b.EditAgent(m, func(spec *agentinstall.AgentSpec) { spec.ClusterDeploymentName = clusterReference("one") })
	b.RequireCondition(m, conditionBound, corev1.ConditionFalse, "Binding")
	m.Register()
	m.Report()
	b.RequireCondition(m, conditionBound, corev1.ConditionTrue, "Bound")
	b.RequireCondition(m, conditionRequirementsMet, corev1.ConditionFalse, "AgentIsNotApproved")
	require.Equal(t, "site", b.Agent(m).Labels[labelClusterNamespace])

	b.EditAgent(m, func(spec *agentinstall.AgentSpec) { spec.ClusterDeploymentName = clusterReference("two") })
	b.RequireCondition(m, conditionBound, corev1.ConditionFalse, "Unbinding")
	require.Equal(t, clusterReference("two"), b.Agent(m).Spec.ClusterDeploymentName, "the requested cluster stays")
	m.Register()
	m.Report()
	b.RequireCondition(m, conditionBound, corev1.ConditionFalse, "Binding")
	m.Register()
	m.Report()
	b.RequireCondition(m, conditionBound, corev1.ConditionTrue, "Bound")

	b.EditAgent(m, func(spec *agentinstall.AgentSpec) { spec.ClusterDeploymentName = nil })
	m.Register()
	m.Report()
	b.RequireCondition(m, conditionBound, corev1.ConditionFalse, "Unbound")
	require.Nil(t, m.Host().ClusterID)
	require.Empty(t, b.Agent(m).Labels[labelClusterNamespace])
}

func TestAgent_movesWithInfraEnv(t *testing.T) {
	b := newSite(t)
	b.Apply(kubetest.InfraEnvManifest("pool"))
	b.Apply(kubetest.InfraEnvManifest("other", "agentLabels: {from: other}"))
	m := b.Boot("pool", 1)
	b.EditAgent(m, func(spec *agentinstall.AgentSpec) { spec.Approved, spec.Hostname = true, "named" })
	moved := b.Boot("other", 1)
	agent := b.Agent(moved)
	require.Equal(t, []string{"other", "other"}, []string{agent.Labels[labelInfraEnv], agent.Labels["from"]})
	require.Equal(t, agentinstall.AgentSpec{}, agent.Spec, "the spec of the former Agent is not copied")
	require.Equal(t, b.InfraEnv("other").UID, agent.OwnerReferences[0].UID)
	_, err := b.Engine.Host(m.InfraEnv, m.ID)
	require.Equal(t, fault.NotFound, fault.KindOf(err))
	require.Equal(t, "node-1", agent.Status.Inventory.Hostname)
}

func TestAgent_hostIsRestored(t *testing.T) {
	for name, c := range map[string]struct {
		state, is string
		bound     bool
	}{
		"bound":      {models.HostStatusKnown, models.HostStatusKnown, true},
		"unbound":    {models.HostStatusKnownUnbound, models.HostStatusKnownUnbound, false},
		"installed":  {models.HostStatusInstalled, models.HostStatusInstalled, true},
		"installing": {models.HostStatusInstallingInProgress, models.HostStatusKnown, true},
	} {
		t.Run(name, func(t *testing.T) {
			from := newSite(t)
			from.Apply(kubetest.InfraEnvManifest("pool"))
			kept := from.Agent(from.Boot("pool", 1))

			b := newSite(t)
			b.Apply(kubetest.InfraEnvManifest("pool"))
			spec := "{approved: true, role: '', hostname: kept}"
			if c.bound {
				b.RegisterCluster("one")
				spec = "{approved: true, role: '', hostname: kept, clusterDeploymentName: {namespace: site, name: one}}"
			}
			inventory := strings.ReplaceAll(kept.Annotations[annotationAgentInventory], "'", "''")
			b.Apply("kind: Agent\nmetadata:\n  namespace: site\n  name: " + kept.Name + "\n  labels: {" +
				labelInfraEnv + ": pool}\n  annotations:\n" +
				"    " + annotationAgentState + ": " + c.state + "\n    " + annotationAgentRole + ": master\n    " +
				annotationAgentInventory + ": '" + inventory + "'\nspec: " + spec)
			m := &kubetest.Machine{Site: b.Site, InfraEnv: b.InfraEnvID("pool"), Number: 1, ID: kept.Name}
			host := m.Host()
			require.Equal(t, c.bound, host.ClusterID != nil)
			require.Equal(t, models.HostRoleMaster, host.Role)
			require.NotEmpty(t, host.Inventory)
			require.Equal(t, kept.Name, b.Agent(m).Name)
			if c.state == models.HostStatusInstalled {
				require.Equal(t, c.is, *host.Status)
				return
			}
			require.Equal(t, "kept", host.RequestedHostname, "the spec is applied again")
			m.Register()
			m.Report()
			require.Equal(t, c.is, *m.Host().Status, *m.Host().StatusInfo)
		})
	}
}

func TestAgent_hostIsNotRestored(t *testing.T) {
	const id = "00000000-0000-4000-8000-000000000001"
	for name, c := range map[string]struct{ name, label, spec, reason, says string }{
		"no label":         {id, "{}", "{}", "InputError", "has no label " + labelInfraEnv},
		"missing InfraEnv": {id, "{" + labelInfraEnv + ": absent}", "{}", "InputError", "InfraEnv site/absent"},
		"name is no UUID":  {"agent-1", "{" + labelInfraEnv + ": pool}", "{}", "InputError", "is not a UUID"},
		"missing ClusterDeployment": {id, "{" + labelInfraEnv + ": pool}",
			"{clusterDeploymentName: {namespace: site, name: absent}}", "BackendError",
			"failed to get clusterDeployment with name absent in namespace site"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newSite(t)
			b.Apply(kubetest.InfraEnvManifest("pool"))
			b.Apply("kind: Agent\nmetadata:\n  namespace: site\n  name: " + c.name + "\n  labels: " + c.label +
				"\n  annotations: {" + annotationAgentState + ": known, " + annotationAgentRole + ": master}\nspec: " +
				c.spec)
			m := &kubetest.Machine{Site: b.Site, ID: c.name}
			require.Contains(t, b.RequireCondition(m, conditionSpecSynced, corev1.ConditionFalse, c.reason).Message,
				c.says)
		})
	}
}

func TestAgent_removedLabelComesBack(t *testing.T) {
	b := newSite(t)
	b.Apply(kubetest.InfraEnvManifest("pool"))
	m := b.Boot("pool", 1)
	b.Update(func(tx *store.Tx) error {
		return b.Objects.Update(tx, objects.Agents, "site", m.ID, func(u *unstructured.Unstructured) error {
			labels := u.GetLabels()
			delete(labels, labelInfraEnv)
			u.SetLabels(labels)
			return nil
		})
	})
	b.WaitIdle()
	require.Equal(t, "pool", b.Agent(m).Labels[labelInfraEnv])
}

func TestAgent_withoutHost(t *testing.T) {
	b := newSite(t)
	b.Apply(kubetest.InfraEnvManifest("pool"))
	b.Apply("kind: Agent\nmetadata: {namespace: site, name: 00000000-0000-4000-8000-000000000001, labels: {" +
		labelInfraEnv + ": pool}}\nspec: {approved: true, role: ''}")
	m := &kubetest.Machine{Site: b.Site, InfraEnv: b.InfraEnvID("pool"), Number: 1,
		ID: "00000000-0000-4000-8000-000000000001"}
	b.RequireCondition(m, conditionConnected, corev1.ConditionUnknown, "NotAvailable")
	require.Equal(t, retryRestore, b.reconcileAgain(agents{b.Controllers}, m.ID))
	m.Register()
	m.Report()
	b.RequireCondition(m, conditionRequirementsMet, corev1.ConditionTrue, "AgentIsReady")
	require.Equal(t, []string{agentFinalizer}, b.Agent(m).Finalizers)
}

func TestClassifications_labelsAndCounts(t *testing.T) {
	b := newSite(t)
	classification := func(name, value, query string) string {
		return "kind: AgentClassification\nmetadata: {namespace: site, name: " + name + "}\nspec: {labelKey: " +
			name + ", labelValue: " + value + ", query: '" + query + "'}"
	}
	status := func(name string) agentinstall.AgentClassificationStatus {
		var c agentinstall.AgentClassification
		require.True(t, b.Get(objects.AgentClassifications, "site", name, &c))
		return c.Status
	}
	b.Apply(classification("size", "big", ".memory.physicalBytes >= 34359738368"))
	b.Apply(kubetest.InfraEnvManifest("pool"))
	m := b.Boot("pool", 1)
	require.Equal(t, "big", b.Agent(m).Labels[classificationPrefix+"size"])
	require.EqualValues(t, 1, status("size").MatchedCount)
	require.Equal(t, "NoQueryErrors", status("size").Conditions[0].Reason)

	for query, label := range map[string]string{
		".cpu.count == 4": "", ".hostname": "", ".nosuch[": "QUERYERROR-x", "empty": "QUERYERROR-x",
		"true, true": "QUERYERROR-x", "error(\"no\")": "QUERYERROR-x",
	} {
		b.Apply(classification("odd", "x", query))
		require.Equal(t, label, b.Agent(m).Labels[classificationPrefix+"odd"], query)
	}
	b.Apply(classification("odd", "x", "empty"))
	require.EqualValues(t, 1, status("odd").ErrorCount)
	require.Equal(t, "1 Agents failed to apply the classification", status("odd").Conditions[0].Message)

	for _, name := range []string{"size", "odd"} {
		b.Delete(objects.AgentClassifications, "site", name)
		require.False(t, b.Get(objects.AgentClassifications, "site", name, &agentinstall.AgentClassification{}))
		require.NotContains(t, b.Agent(m).Labels, classificationPrefix+name)
	}
}

func TestAgent_crashBetweenObjectAndRow(t *testing.T) {
	b := newSite(t)
	b.Apply(kubetest.InfraEnvManifest("pool"))
	id := b.InfraEnvID("pool")
	b.Update(func(tx *store.Tx) error { // as if the process had ended before the status was written
		return b.Objects.Update(tx, objects.InfraEnvs, "site", "pool", func(u *unstructured.Unstructured) error {
			delete(u.Object, "status")
			u.SetFinalizers(nil)
			return nil
		})
	})
	b.WaitIdle()
	require.Equal(t, id, b.InfraEnvID("pool"))
	env := b.RequireImage("pool", corev1.ConditionTrue, "InfraEnvAvailable", "")
	require.NotEmpty(t, env.Status.ISODownloadURL)
	require.Equal(t, []string{infraEnvFinalizer}, env.Finalizers)
	envs, err := b.Engine.InfraEnvs("")
	require.NoError(t, err)
	require.Len(t, envs, 1)
}

func TestAgent_deprovisionInfo(t *testing.T) {
	b := newSite(t)
	m := installedIn(b)
	require.Equal(t, models.HostStatusInstalled, *m.Host().Status)

	b.EditAgent(m, func(spec *agentinstall.AgentSpec) { spec.ClusterDeploymentName = nil })
	b.RequireCondition(m, conditionBound, corev1.ConditionFalse, "UnbindingPendingUserAction")
	info := b.Agent(m).Status.DeprovisionInfo
	require.Equal(t, []string{"site", "one", "node-1"}, []string{info.ClusterNamespace, info.ClusterName,
		info.NodeName})
	require.Contains(t, info.Message, "oc delete node")
	m.Register()
	m.Report()
	b.RequireCondition(m, conditionBound, corev1.ConditionFalse, "Unbound")
	require.NotNil(t, b.Agent(m).Status.DeprovisionInfo, "the node may still exist")
	b.Update(func(tx *store.Tx) error {
		return b.Objects.Update(tx, objects.Agents, "site", m.ID, func(u *unstructured.Unstructured) error {
			annotations := cloned(u.GetAnnotations())
			annotations[annotationSkipSpokeCleanup] = "true"
			u.SetAnnotations(annotations)
			return nil
		})
	})
	b.WaitIdle()
	require.Nil(t, b.Agent(m).Status.DeprovisionInfo)
}

func TestAgent_clusterWithoutObjects(t *testing.T) {
	b := newSite(t)
	b.Apply(kubetest.InfraEnvManifest("pool"))
	m := b.Boot("pool", 1)
	cluster, err := b.Engine.RegisterCluster(t.Context(), &models.ClusterCreateParams{
		Name: conv.Pointer("rest"), BaseDNSDomain: "site.test", OpenshiftVersion: conv.Pointer("4.20.8"),
		PullSecret: conv.Pointer(kubetest.PullSecret),
	})
	require.NoError(t, err)
	_, err = b.Engine.BindHost(t.Context(), m.InfraEnv, m.ID, cluster.ID.String())
	require.NoError(t, err)
	b.WaitIdle()
	b.EditAgent(m, func(spec *agentinstall.AgentSpec) { spec.Approved = true })
	require.Equal(t, cluster.ID, m.Host().ClusterID)
	b.RequireCondition(m, conditionSpecSynced, corev1.ConditionTrue, "SyncOK")
}
