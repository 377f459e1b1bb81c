package clusters

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/go-openapi/swag/conv"
	"github.com/openshift/assisted-service/api/common"
	hiveext "github.com/openshift/assisted-service/api/hiveextension/v1beta1"
	"github.com/openshift/assisted-service/models"
	hivev1 "github.com/openshift/hive/apis/hive/v1"
	corev1 "k8s.io/api/core/v1"

	"landfall/appliance/engine"
	"landfall/appliance/engine/record"
	"landfall/appliance/engine/view"
	"landfall/appliance/kube/objects"
	"landfall/appliance/kube/objects/agentinstall"
	"landfall/store"
	"landfall/store/fastjson"
)

// Projector writes the ClusterDeployments and AgentClusterInstalls of the engine's clusters.
type Projector struct {
	Objects *objects.Objects
	URL     string // the appliance's URL for hosts and users, without a trailing slash
}

// Project implements engine.Projector.
func (c Projector) Project(tx *store.Tx, touched engine.Touched) error {
	for _, row := range touched.Clusters {
		var err error
		if row.Deleted {
			err = c.projectDeletion(tx, row.Object, touched.Now)
		} else {
			err = c.project(tx, touched.Rows, row.ID, touched.Now)
		}
		if err != nil {
			return fmt.Errorf("project cluster %s: %w", row.ID, err)
		}
	}
	return nil
}

// pairEdit is a cluster's objects while they are projected. Each is written once.
type pairEdit struct {
	cd  *objects.Editing[hivev1.ClusterDeployment]
	aci *objects.Editing[hiveext.AgentClusterInstall]
}

// project writes a cluster into its objects. It creates the objects if the cluster has none.
func (c Projector) project(tx *store.Tx, rows view.Rows, id string, now time.Time) error {
	view, err := rows.Cluster(id)
	if err != nil {
		return err
	}
	s, edit := &snapshot{view: view}, &pairEdit{}
	if view.Object.Key == "" {
		edit, err = c.generate(tx, rows, s, now)
	} else {
		edit, err = c.edit(tx, s)
	}
	if err != nil || edit == nil {
		return err
	}
	setMetadata(s.cd, s.aci, now)
	applied, err := c.writeBack(s)
	if err != nil {
		return err
	}
	metadata, err := c.writeSecrets(tx, rows, s, now)
	if err != nil {
		return err
	}
	if err := c.setStatuses(tx, rows, s, metadata, now); err != nil {
		return err
	}
	generation, err := edit.aci.Save(c.Objects, tx, now)
	if err != nil {
		return err
	}
	if _, err := edit.cd.Save(c.Objects, tx, now); err != nil || applied == nil {
		return err
	}
	applied.Generation = generation
	return record.NoteClusterObject(tx, id, *applied)
}

// edit reads the objects of a cluster into a snapshot, to change them. It returns nil if an object
// does not exist.
func (c Projector) edit(tx *store.Tx, s *snapshot) (*pairEdit, error) {
	s.namespace, s.name, _ = strings.Cut(s.view.Object.Key, "/")
	edit, err := c.editPair(tx, s.namespace, s.name)
	if err != nil || edit == nil {
		return nil, err
	}
	s.cd, s.aci = edit.cd.Object, edit.aci.Object
	if s.ntp, err = c.ntpSources(tx, s.namespace, s.aci.Name); err != nil {
		return nil, err
	}
	s.applied, err = readApplied(s.view.Object)
	return edit, err
}

// editPair reads a ClusterDeployment and its AgentClusterInstall, to change them. It returns nil if
// one of them does not exist.
func (c Projector) editPair(tx *store.Tx, namespace, name string) (*pairEdit, error) {
	cd, err := objects.Edit[hivev1.ClusterDeployment](c.Objects, tx, objects.ClusterDeployments, namespace, name)
	if err != nil || cd.Object.Spec.ClusterInstallRef == nil {
		return nil, objects.IgnoreNotFound(err)
	}
	aci, err := objects.Edit[hiveext.AgentClusterInstall](c.Objects, tx, objects.AgentClusterInstalls, namespace,
		cd.Object.Spec.ClusterInstallRef.Name)
	if err != nil {
		return nil, objects.IgnoreNotFound(err)
	}
	return &pairEdit{cd, aci}, nil
}

// setStatuses sets the statuses of a cluster's objects.
func (c Projector) setStatuses(tx *store.Tx, rows view.Rows, s *snapshot, metadata *hivev1.ClusterMetadata,
	now time.Time) error {
	state, err := c.stateOf(tx, rows, s.view, s.clusterPair)
	if err != nil {
		return err
	}
	groups, failing, err := readValidations(s.view.ValidationsInfo)
	if err != nil {
		return err
	}
	state.failing = failing
	hasLogs := s.aci.Status.DebugInfo.LogsURL != ""
	if !hasLogs {
		if hasLogs, err = rows.HasLogs(s.view.ID.String()); err != nil {
			return err
		}
	}
	if metadata != nil {
		s.aci.Spec.ClusterMetadata = metadata
	}
	c.setStatus(s.aci, s.view.Cluster, groups, hasLogs)
	setInstallConditions(s.aci, now, clusterConditions(state)...)
	copyInstall(s.cd, s.aci, now)
	c.setRelease(s.cd, s.view.Cluster)
	setHiveConditions(s.cd, now, hiveCondition{hivev1.ClusterImageSetNotFoundCondition, corev1.ConditionFalse,
		reasonImageSetThere, "ClusterImageSet is available"})
	return nil
}

// setStatus sets an AgentClusterInstall's status except the conditions.
func (c Projector) setStatus(aci *hiveext.AgentClusterInstall, cluster *models.Cluster,
	groups common.ValidationsStatus, hasLogs bool) {
	is := &aci.Status
	is.Progress.TotalPercentage = 0
	if cluster.Progress != nil {
		is.Progress.TotalPercentage = cluster.Progress.TotalPercentage
	}
	is.ConnectivityMajorityGroups = cluster.ConnectivityMajorityGroups
	is.MachineNetwork = machineNetworkEntries(cluster)
	is.APIVIPs, is.IngressVIPs = apiVIPTexts(cluster.APIVips), ingressVIPTexts(cluster.IngressVips)
	is.APIVIP, is.IngressVIP = first(is.APIVIPs), first(is.IngressVIPs)
	is.UserManagedNetworking = conv.Pointer(conv.Value(cluster.UserManagedNetworking))
	is.PlatformType = platformName(cluster.Platform)
	is.ValidationsInfo = groups
	is.DebugInfo.State, is.DebugInfo.StateInfo = *cluster.Status, conv.Value(cluster.StatusInfo)
	if is.DebugInfo.EventsURL == "" && *cluster.Status != models.ClusterStatusInstalled {
		is.DebugInfo.EventsURL = c.URL + "/api/assisted-install/v2/events?cluster_id=" + cluster.ID.String()
	}
	if is.DebugInfo.LogsURL == "" && hasLogs {
		is.DebugInfo.LogsURL = c.URL + "/api/assisted-install/v2/clusters/" + cluster.ID.String() + "/logs"
	}
}

func first(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return list[0]
}

// readValidations parses the validation results of a cluster, and returns the messages of failed
// and pending validations, ordered by id.
func readValidations(info string) (common.ValidationsStatus, []string, error) {
	if info == "" {
		return nil, nil, nil
	}
	groups := common.ValidationsStatus{}
	if err := fastjson.UnmarshalText(info, &groups); err != nil {
		return nil, nil, fmt.Errorf("read the validations: %w", err)
	}
	var failing []string
	for _, group := range slices.Sorted(maps.Keys(groups)) {
		for _, result := range groups[group] {
			if result.Status != "success" && result.Status != "disabled" {
				failing = append(failing, result.Message)
			}
		}
	}
	return groups, failing, nil
}

// setRelease sets the fields in which Hive reports the release.
func (c Projector) setRelease(cd *hivev1.ClusterDeployment, cluster *models.Cluster) {
	if cluster.OpenshiftVersion == "" {
		return
	}
	version := cluster.OpenshiftVersion
	cd.Status.InstallVersion = &version
	cd.Labels = withLabel(cd.Labels, labelClusterVersion, version)
	if cd.Spec.Installed {
		cd.Status.APIURL = "https://api." + cluster.Name + "." + cluster.BaseDNSDomain + ":6443"
		cd.Status.WebConsoleURL = "https://console-openshift-console.apps." + cluster.Name + "." + cluster.BaseDNSDomain
	}
}

// setImageSetCondition sets the condition that reports whether the ClusterImageSet exists.
func (c Projector) setImageSetCondition(cd *hivev1.ClusterDeployment, s *snapshot, now time.Time) {
	ref := s.aci.Spec.ImageSetRef
	switch {
	case ref == nil:
	case s.imageSet != nil:
		setHiveConditions(cd, now, hiveCondition{hivev1.ClusterImageSetNotFoundCondition, corev1.ConditionFalse,
			reasonImageSetThere, "ClusterImageSet is available"})
	case s.err != nil && strings.HasPrefix(s.err.Error(), "ClusterImageSet "):
		setHiveConditions(cd, now, hiveCondition{hivev1.ClusterImageSetNotFoundCondition, corev1.ConditionTrue,
			reasonImageSetGone, "ClusterImageSet " + ref.Name + " is not available"})
	}
}

// stateOf reads the inputs of the conditions and of the decision to start the installation. It
// reads hosts and Agents only if the cluster is ready.
func (c Projector) stateOf(tx *store.Tx, rows view.Rows, view *view.Cluster,
	p clusterPair) (clusterState, error) {
	state := clusterState{cluster: view.Cluster, onHold: p.onHold(), required: requiredOf(p.aci)}
	if *view.Status != models.ClusterStatusReady {
		return state, nil
	}
	hosts, err := rows.ClusterHosts(view.ID.String())
	if err != nil {
		return state, err
	}
	for _, host := range hosts {
		agent, err := c.agentOf(tx, host)
		if err != nil {
			return state, err
		}
		if agent != nil && agentUnsynced(agent) {
			state.unsynced++
		}
		if *host.Status != models.HostStatusKnown {
			continue
		}
		switch role := host.Role; {
		case role == models.HostRoleAutoAssign && host.SuggestedRole == models.HostRoleMaster,
			role == models.HostRoleMaster, role == models.HostRoleBootstrap:
			state.known.masters++
		case role == models.HostRoleAutoAssign && host.SuggestedRole == models.HostRoleArbiter,
			role == models.HostRoleArbiter:
			state.known.arbiters++
		default:
			state.known.workers++
		}
		if agent != nil && agent.Spec.Approved {
			state.approved++
			if agentPending(agent, host) {
				state.pendingAgents++
			}
		}
	}
	return state, nil
}

// agentOf returns the Agent of a host, which is shared with other readers; nil if it has none.
func (c Projector) agentOf(tx *store.Tx, host *view.Host) (*agentinstall.Agent, error) {
	namespace, name, ok := strings.Cut(host.Object.Key, "/")
	if !ok {
		return nil, nil
	}
	return objects.SharedAs[agentinstall.Agent](c.Objects, tx, objects.Agents, namespace, name)
}

func agentUnsynced(agent *agentinstall.Agent) bool {
	return slices.ContainsFunc(agent.Status.Conditions, func(condition agentinstall.Condition) bool {
		return string(condition.Type) == string(hiveext.ClusterSpecSyncedCondition) &&
			condition.Status == corev1.ConditionFalse
	})
}

// agentPending reports whether the current generation of an Agent is not applied to its host yet.
func agentPending(agent *agentinstall.Agent, host *view.Host) bool {
	return agent.Generation != host.Object.Generation
}

// approvedHosts returns the hosts that can join an installed cluster now, and the number of
// approved hosts to which their Agents are not applied yet.
func (c Projector) approvedHosts(tx *store.Tx, rows view.Rows,
	view *view.Cluster) (approved []*view.Host, behind int, err error) {
	hosts, err := rows.ReadableClusterHosts(view.ID.String())
	if err != nil {
		return nil, 0, err
	}
	for _, host := range hosts {
		if *host.Status != models.HostStatusKnown || conv.Value(host.Kind) != models.HostKindAddToExistingClusterHost {
			continue
		}
		agent, err := c.agentOf(tx, host)
		switch {
		case err != nil:
			return nil, 0, err
		case agent == nil || !agent.Spec.Approved || agentUnsynced(agent):
		case agentPending(agent, host):
			behind++
		default:
			approved = append(approved, host)
		}
	}
	return approved, behind, nil
}

// writeBack writes changes of the cluster that were made over REST or in the browser into the
// specs. It does nothing while the specs are newer than the cluster, that is, not applied to it
// yet. It returns the applied state to record, without the generation; nil if it changed nothing.
func (c Projector) writeBack(s *snapshot) (*record.Object, error) {
	if s.applied.Spec == "" {
		return nil, nil
	}
	w, err := desiredCluster(s.clusterPair, s.view.Cluster)
	if err != nil {
		return nil, nil // a user has just changed the specs, and they are invalid
	}
	if spec, err := s.specDigest(w); err != nil || spec != s.applied.Spec {
		return nil, err
	}
	var changed []clusterField
	for _, field := range clusterFields() {
		if field.differs(w, s.view.Cluster) &&
			s.applied.Kept[field.name] != digest(fmt.Sprint(field.actual(s.view.Cluster))) {
			changed = append(changed, field)
		}
	}
	override, overridden := s.aci.Annotations[annotationInstallConfigOverrides]
	// Without an installation, the annotations stay unchanged; see applyAnnotations.
	dayOne := *s.view.Kind == models.ClusterKindCluster
	newOverride := dayOne && s.view.InstallConfigOverrides != override
	newIgnored := dayOne && c.ignoredChanged(s)
	if len(changed) == 0 && !newOverride && !newIgnored {
		return nil, nil
	}
	p := s.clusterPair // keeps spec.ntpSources, which the Go type lacks
	for _, field := range changed {
		field.write(&p, s.view.Cluster)
	}
	if newOverride {
		setAnnotation(s.aci, annotationInstallConfigOverrides, s.view.InstallConfigOverrides, overridden)
	}
	if newIgnored {
		writeIgnored(s.aci, s.view.Cluster)
	}
	return c.writtenBack(s)
}

// writtenBack returns the state of the objects as applied to the cluster, without the generation.
func (c Projector) writtenBack(s *snapshot) (*record.Object, error) {
	w, err := desiredCluster(s.clusterPair, s.view.Cluster)
	if err != nil {
		return nil, err
	}
	if s.applied.Spec, err = s.specDigest(w); err != nil {
		return nil, err
	}
	s.applied.Kept = differingFields(w, s.view.Cluster)
	note, err := s.applied.object()
	return &note, err
}

func setAnnotation(aci *hiveext.AgentClusterInstall, name, value string, was bool) {
	if value == "" && !was {
		return
	}
	aci.Annotations = withLabel(aci.Annotations, name, value)
	if value == "" {
		delete(aci.Annotations, name)
	}
}

// ignoredChanged reports whether the ignored validations of the cluster differ from those in the
// annotations. A missing annotation equals an empty list.
func (c Projector) ignoredChanged(s *snapshot) bool {
	changed := func(annotation, held string) bool {
		list, set, err := ignoredOf(s.aci, annotation)
		if err != nil {
			return false
		}
		if !set {
			return strings.Trim(held, "[] ") != ""
		}
		return strings.Trim(list, "[] ") != strings.Trim(strings.ReplaceAll(held, " ", ""), "[] ")
	}
	return changed(annotationIgnoredClusterValidations, s.view.IgnoredClusterValidations) ||
		changed(annotationIgnoredHostValidations, s.view.IgnoredHostValidations)
}

func writeIgnored(aci *hiveext.AgentClusterInstall, cluster *models.Cluster) {
	for annotation, held := range map[string]string{
		annotationIgnoredClusterValidations: cluster.IgnoredClusterValidations,
		annotationIgnoredHostValidations:    cluster.IgnoredHostValidations} {
		var ids []string
		if held != "" && json.Unmarshal([]byte(held), &ids) != nil {
			continue
		}
		_, set := aci.Annotations[annotation]
		if len(ids) > 0 || set {
			aci.Annotations = withLabel(aci.Annotations, annotation, strings.Join(ids, ","))
		}
	}
}
