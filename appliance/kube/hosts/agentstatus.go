package hosts

import (
	"fmt"
	"maps"
	"net/url"
	"time"

	"github.com/go-openapi/strfmt"
	"github.com/go-openapi/swag/conv"
	"github.com/openshift/assisted-service/models"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"landfall/appliance/kube/objects/agentinstall"
	"landfall/store/fastjson"
)

// Names in the metadata of Agents.
const (
	agentFinalizer              = "agent.agent-install.openshift.io/ai-deprovision"
	annotationAgentState        = "agent.agent-install.openshift.io/state"
	annotationAgentRole         = "agent.agent-install.openshift.io/role"
	annotationAgentInventory    = "agent.agent-install.openshift.io/inventory"
	annotationAgentValidations  = "agent.agent-install.openshift.io/validations-info"
	annotationAgentStage        = "agent.agent-install.openshift.io/current-stage"
	annotationInheritedLabels   = "agent.agent-install.openshift.io/inherited-node-labels"
	annotationSkipSpokeCleanup  = "agent.agent-install.openshift.io/skip-spoke-cleanup"
	labelInfraEnv               = "infraenvs.agent-install.openshift.io"
	labelClusterNamespace       = "agent-install.openshift.io/clusterdeployment-namespace"
	labelBareMetalHost          = "agent-install.openshift.io/bmh"
	restRoot                    = "/api/assisted-install/v2"
	messageWaitingForTheUnbound = "The node is still in its former cluster. This appliance does not connect to " +
		"installed clusters: remove the node there (oc delete node), or set the annotation " +
		annotationSkipSpokeCleanup +
		" after its removal"
)

// setAgentStatus writes a host into the status, labels and annotations of its Agent. It keeps the
// fields that are not derived from the host: the condition SpecSynced and the former cluster.
func setAgentStatus(a *agentinstall.Agent, host *models.Host, serviceURL string, now time.Time) error {
	inv, err := inventoryOf(host)
	if err != nil {
		return err
	}
	groups, err := parseValidations(host.ValidationsInfo)
	if err != nil {
		return err
	}
	sources, err := ntpSourcesOf(host)
	if err != nil {
		return err
	}
	is := &a.Status
	is.Bootstrap, is.Kind, is.Role = host.Bootstrap, conv.Value(host.Kind), host.Role
	if host.Role == models.HostRoleAutoAssign && host.SuggestedRole != "" {
		is.Role = host.SuggestedRole
	}
	is.InstallationDiskID = host.InstallationDiskID
	is.ValidationsInfo, is.NTPSources, is.Progress = groups, sources, progressOf(host)
	if inv != nil {
		is.Inventory = *inv
	}
	is.DebugInfo = agentinstall.DebugInfo{
		State: conv.Value(host.Status), StateInfo: conv.Value(host.StatusInfo),
		EventsURL: serviceURL + restRoot + "/events?" + url.Values{"host_id": {host.ID.String()}}.Encode(),
	}
	if host.ClusterID != nil && !time.Time(host.LogsCollectedAt).IsZero() {
		is.DebugInfo.LogsURL = serviceURL + restRoot + "/clusters/" + host.ClusterID.String() + "/logs?" +
			url.Values{"host_id": {host.ID.String()}, "logs_type": {"host"}}.Encode()
	}
	if len(is.Conditions) == 0 {
		is.Conditions = setAgentCondition(nil, now, agentSynced(nil, false))
	}
	for _, c := range agentConditions(host, groups, a.Spec.Approved) {
		is.Conditions = setAgentCondition(is.Conditions, now, c)
	}
	setAgentLabels(a, host, inv)
	return nil
}

// setAgentLabels sets the labels and annotations that are derived from a host.
func setAgentLabels(a *agentinstall.Agent, host *models.Host, inv *agentinstall.HostInventory) {
	a.Labels, a.Annotations = cloned(a.Labels), cloned(a.Annotations)
	wanted := map[string]string{labelClusterNamespace: ""}
	if ref := a.Spec.ClusterDeploymentName; ref != nil {
		wanted[labelClusterNamespace] = ref.Namespace
	}
	if inv != nil {
		maps.Copy(wanted, inventoryLabels(inv))
		a.Annotations[annotationInventory] = inventoryVersion
		a.Annotations[annotationAgentInventory] = host.Inventory
	}
	for name, text := range wanted {
		if value, ok := labelValue(text); ok {
			a.Labels[name] = value
		}
	}
	a.Annotations[annotationAgentState] = conv.Value(host.Status)
	a.Annotations[annotationAgentRole] = string(host.Role)
	a.Annotations[annotationAgentValidations] = host.ValidationsInfo
	if host.Progress != nil {
		a.Annotations[annotationAgentStage] = string(host.Progress.CurrentStage)
	}
}

func cloned(m map[string]string) map[string]string {
	if m == nil {
		return map[string]string{}
	}
	return maps.Clone(m)
}

func ntpSourcesOf(host *models.Host) ([]agentinstall.HostNTPSource, error) {
	if host.NtpSources == "" {
		return nil, nil
	}
	var reported []*models.NtpSource
	if err := fastjson.UnmarshalText(host.NtpSources, &reported); err != nil {
		return nil, fmt.Errorf("read the NTP sources of host %s: %w", host.ID, err)
	}
	var sources []agentinstall.HostNTPSource
	for _, source := range reported {
		if source != nil {
			sources = append(sources, agentinstall.HostNTPSource{SourceName: source.SourceName,
				SourceState: source.SourceState})
		}
	}
	return sources, nil
}

func progressOf(host *models.Host) agentinstall.HostProgress {
	if host.Progress == nil || host.Progress.CurrentStage == "" {
		return agentinstall.HostProgress{}
	}
	return agentinstall.HostProgress{
		CurrentStage: host.Progress.CurrentStage, ProgressInfo: host.Progress.ProgressInfo,
		ProgressStages:         host.ProgressStages,
		InstallationPercentage: host.Progress.InstallationPercentage,
		StageStartTime:         timeOf(host.Progress.StageStartedAt),
		StageUpdateTime:        timeOf(host.Progress.StageUpdatedAt),
	}
}

// timeOf converts a time to whole seconds; nil for the zero time.
func timeOf(t strfmt.DateTime) *metav1.Time {
	if time.Time(t).IsZero() {
		return nil
	}
	shown := metav1.NewTime(time.Time(t).UTC().Truncate(time.Second))
	return &shown
}
