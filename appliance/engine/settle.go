package engine

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/go-openapi/swag/conv"
	"github.com/openshift/assisted-service/models"

	"landfall/appliance/engine/event"
	"landfall/appliance/engine/inventory"
	"landfall/appliance/engine/lifecycle"
	"landfall/appliance/engine/network"
	"landfall/appliance/engine/operator"
	"landfall/appliance/engine/record"
	"landfall/appliance/engine/validation"
	"landfall/appliance/engine/validationcache"
	"landfall/appliance/fault"
)

// settleRounds limits how often host and cluster states may affect each other within one change.
// The longest chain of transitions in the state tables is shorter.
const settleRounds = 6

// refreshCluster recomputes everything that depends on a cluster's description and on its hosts'
// facts: networks, groups of connected hosts, roles, validations and states. It repeats this until
// no state changes.
func (c *change) refreshCluster(id string) error {
	m, err := c.members(id)
	if fault.KindOf(err) == fault.NotFound {
		return nil
	}
	if err != nil {
		return err
	}
	for _, h := range m.records {
		// The instructions of each host depend on the reports of the other hosts.
		c.touchedHosts = append(c.touchedHosts, record.HostKey(h))
	}
	if err := errors.Join(c.deriveClusterFields(m), c.noteFeatures(m)); err != nil {
		return err
	}
	for range settleRounds {
		hostChanged, err := c.refreshHosts(m)
		if err != nil {
			return err
		}
		if hostChanged { // the input of the cluster's validations may have changed
			m.inputs = nil
		}
		clusterChanged, err := c.refreshState(m)
		if err != nil {
			return err
		}
		if !hostChanged && !clusterChanged {
			break
		}
	}
	return nil
}

// members returns a cluster and its hosts. A missing cluster is an error of kind NotFound. Damaged
// hosts are left out, so that they stop neither the other hosts nor the limits of the cluster.
func (c *change) members(id string) (*clusterMembers, error) {
	row, err := c.cluster(id)
	if err != nil {
		return nil, err
	}
	m := &clusterMembers{row: row}
	if m.records, m.damaged, err = c.readableHostsOf(id); err != nil {
		return nil, err
	}
	for _, h := range m.records {
		host, err := c.inventoryHost(h)
		if err != nil {
			return nil, err
		}
		m.hosts = append(m.hosts, host)
	}
	return m, nil
}

// clusterMembers is a cluster with its hosts, in the form that the validations read.
type clusterMembers struct {
	row        *record.Cluster
	records    []*record.Host
	hosts      []*inventory.Host // same indexes as records
	damaged    []string          // keys of the hosts whose rows are damaged
	groups     *network.Groups
	collisions map[string][]string
	// digest of the validations' input, see [clusterMembers.digest]; valid for one round, until the
	// state of a host changes
	inputs []byte
}

func (m *clusterMembers) installing() bool {
	return slices.Contains([]string{lifecycle.ClusterInstalling, lifecycle.ClusterPendingUserAction,
		lifecycle.ClusterFinalizing, lifecycle.ClusterInstalled}, *m.row.API.Status)
}

// deriveClusterFields sets the fields of a cluster that are derived and not entered: groups of
// connected hosts, host networks, machine networks of the VIPs, and suggested roles.
func (c *change) deriveClusterFields(m *clusterMembers) error {
	api := &m.row.API
	if m.installing() {
		return nil
	}
	if len(m.damaged) > 0 {
		m.group() // the fields keep the values that follow from all hosts
		return nil
	}
	roles := validation.SuggestRoles(api, m.hosts, c.e.options.Requirements(api.OpenshiftVersion))
	for _, h := range m.records {
		if role, ok := roles[*h.API.ID]; ok && replace(&h.API.SuggestedRole, role) {
			c.saveHost(h)
			if err := c.hostEventOf(h, event.Props{"suggested_role": role}, event.HostRole, models.EventSeverityInfo,
				"Host %s: its role will be %s.", c.hostName(h), role); err != nil {
				return err
			}
		}
	}
	if schedulable := validation.MastersSchedulable(api,
		m.hosts); conv.Value(api.SchedulableMastersForcedTrue) != schedulable {
		api.SchedulableMastersForcedTrue = &schedulable
		c.saveCluster(m.row)
	}
	m.group()
	groups, err := m.groups.JSON()
	if err != nil {
		return err
	}
	networks := network.HostNetworks(m.hosts)
	changed := replace(&api.ConnectivityMajorityGroups, groups)
	if !slices.EqualFunc(api.HostNetworks, networks, network.SameHostNetwork) {
		api.HostNetworks, changed = networks, true
	}
	if c.followMachineNetwork(m) {
		changed = true
	}
	if changed {
		c.saveCluster(m.row)
	}
	return nil
}

// group finds the groups of connected hosts and the addresses that several hosts have.
func (m *clusterMembers) group() {
	m.groups = network.MajorityGroups(m.hosts, validation.SmallestGroup(&m.row.API, m.hosts))
	m.collisions = network.Collisions(m.hosts)
}

// followMachineNetwork sets the machine network of a cluster to the network of its VIPs or hosts,
// unless the user has set one.
func (c *change) followMachineNetwork(m *clusterMembers) (changed bool) {
	api := &m.row.API
	if len(api.MachineNetworks) > 0 && !m.row.Follows {
		return false
	}
	machine, text := network.OfMachines(api, m.hosts), ""
	if machine.IsValid() {
		text = machine.String()
	}
	// A host without an inventory may be connected to the network of the other hosts.
	withoutInventory := func(host *inventory.Host) bool { return host.Inventory == nil }
	if text == api.MachineNetworkCidr || text == "" && slices.ContainsFunc(m.hosts, withoutInventory) {
		return false
	}
	api.MachineNetworkCidr, m.row.Follows = text, text != ""
	api.MachineNetworks = []*models.MachineNetwork{}
	if text != "" {
		api.MachineNetworks = []*models.MachineNetwork{{Cidr: models.Subnet(text), ClusterID: *api.ID}}
	}
	return true
}

// refreshHosts validates the hosts of a cluster and runs the trigger refresh on each.
func (c *change) refreshHosts(m *clusterMembers) (changed bool, err error) {
	m.inputs = nil
	for i, h := range m.records {
		found, err := c.validateHost(h, m.hosts[i], m)
		if err != nil {
			return changed, err
		}
		s := c.situation(h, &m.row.API, found)
		// Only a host that waits too long for a user action is expendable.
		s.Expendable = s.TimedOut && *h.API.Status == lifecycle.HostPendingUserAction &&
			lifecycle.SufficientHosts(m.hosts, lifecycle.HostInstalled)
		transitioned, err := c.transitionHost(h, lifecycle.OnRefresh, s)
		if err != nil {
			return changed, err
		}
		changed = changed || transitioned
	}
	return changed, nil
}

func (c *change) runHostValidations(h *record.Host, host *inventory.Host, env *record.InfraEnv,
	m *clusterMembers) (*validation.Report, error) {
	input := validation.HostInput{
		Host: host, InfraEnv: &env.API, Now: c.now, Polled: time.Time(h.API.CheckedInAt), Connected: c.connected(h),
		Restarts: h.IsRestarting(), Disabled: c.e.options.DisabledValidations,
		AgentImage: c.e.options.Images.Agent,
	}
	version := env.API.OpenshiftVersion
	if m != nil {
		input.Cluster, input.Peers, input.Groups, input.Collisions = &m.row.API, m.hosts, m.groups, m.collisions
		version = m.row.API.OpenshiftVersion
	}
	input.Requirements = c.e.options.Requirements(version)
	report := validation.Host(input)
	before, changed, err := record.SetValidations(c.tx, record.HostSubject(record.HostKey(h)), report.JSON())
	if err != nil {
		return nil, err
	}
	if changed {
		c.saveHost(h)
		for _, change := range validation.Changes(before, report.Results()) {
			name := change.Choose(event.ValidationFailed, event.ValidationFixed)
			severity := change.Choose(models.EventSeverityWarning, models.EventSeverityInfo)
			if err := c.hostEventOf(h, event.Props(change.Properties()), name, severity,
				"Host %s: %s", host.Name(), change.Text()); err != nil {
				return nil, err
			}
		}
	}
	return report, nil
}

// situation returns the facts about a host that its state table reads.
func (c *change) situation(h *record.Host, cluster *models.Cluster,
	found validationcache.Result) lifecycle.HostSituation {
	s := lifecycle.HostSituation{
		Readiness: found.Status, Failing: found.Failing, DiskError: h.DiskError, ImagesError: h.ImagesError,
		Connected: c.connected(h), Restarting: h.IsRestarting(), Joins: h.IsDay2(), WarnOnly: c.e.WarnsOnly(cluster),
		ConnectionTimedOut: h.API.ConnectionTimedOut, DiskReady: h.DiskOK, ImagesReady: h.ImagesOK,
	}
	if h.Joining != nil {
		s.Joining = h.Joining.Facts()
	}
	if h.API.Progress != nil {
		s.Stage = h.API.Progress.CurrentStage
	}
	if cluster != nil {
		s.ClusterStatus = *cluster.Status
	}
	if at, limit := c.hostLimit(h); !at.IsZero() {
		s.TimedOut, s.Limit = !c.now.Before(at), limit
	}
	return s
}

// messages joins the messages of failing validations. Validations that wait for the same data have
// the same message, which occurs once.
func messages(results []validation.Result) string {
	texts := make([]string, 0, len(results))
	for _, result := range results {
		if !slices.Contains(texts, result.Message) {
			texts = append(texts, result.Message)
		}
	}
	return strings.Join(texts, " ")
}

// triggerHost runs a trigger other than refresh on a host and reports whether the host's state
// changed. A trigger that the host's state does not allow is rejected with kind Conflict.
func (c *change) triggerHost(h *record.Host, on lifecycle.Trigger, reason string) (bool, error) {
	var cluster *models.Cluster
	if h.API.ClusterID != nil {
		row, err := c.cluster(h.API.ClusterID.String())
		if err != nil {
			return false, err
		}
		cluster = &row.API
	}
	s := c.situation(h, cluster, validationcache.Result{Status: validation.Ready})
	s.Reason = reason
	return c.transitionHost(h, on, s)
}

func (c *change) transitionHost(h *record.Host, on lifecycle.Trigger, s lifecycle.HostSituation) (bool, error) {
	from := *h.API.Status
	row := c.e.hosts.Next(on, from, s)
	if row == nil {
		if on == lifecycle.OnRefresh {
			return false, nil
		}
		return false, conflict("Host %s is %s; %s is not possible in this state.", c.hostName(h), from, on)
	}
	to, info := row.To, *h.API.StatusInfo
	if to == lifecycle.Same {
		to = from
	}
	if row.Info != nil {
		info = row.Info(s)
	}
	marked := c.applyHostMark(h, row.Mark)
	if to == from && !marked && (row.To == lifecycle.Same || info == *h.API.StatusInfo) {
		return false, nil
	}
	name := c.hostName(h)
	c.enterHostState(h, to, info)
	c.saveHost(h)
	if to == from {
		if marked && row.Event != "" {
			return false, c.hostEventOf(h, event.Props{"stage": s.Stage, "minutes": int64(s.Limit.Minutes())},
				row.Event, models.EventSeverityWarning, "Host %s: %s", name, info)
		}
		return false, nil
	}
	if from == lifecycle.HostInitial { // another event announces a new host
		return true, nil
	}
	return true, errors.Join(
		c.hostEventOf(h, event.Props{"src_status": from, "new_status": to, "info": info}, event.HostStatus,
			event.Severity(to),
			"%s", lifecycle.HostStateSentence(name, to, info, s.Stage)),
		c.emitHostStateEvents(h, from, to),
	)
}

// applyHostMark applies the mark of a state transition to a host's record and reports whether the
// record changed.
func (c *change) applyHostMark(h *record.Host, mark lifecycle.Mark) bool {
	switch mark {
	case lifecycle.MarkConnectionTimedOut:
		return replace(&h.API.ConnectionTimedOut, true)
	case lifecycle.MarkConnectionBack:
		return replace(&h.API.ConnectionTimedOut, false)
	case lifecycle.MarkStageResumed:
		h.API.StageUpdatedAt = c.dateTime()
		return true
	case lifecycle.MarkStageTimedOut:
		return replace(&h.API.Progress.StageTimedOut, true)
	case lifecycle.MarkDiskRejected:
		return replace(&h.DiskError, "")
	case lifecycle.MarkLogsTimedOut:
		return replace(&h.API.LogsInfo, models.LogsStateTimeout)
	}
	return false
}

// applyClusterMark applies the mark of a state transition to a cluster's record and reports whether
// the record changed.
func applyClusterMark(row *record.Cluster, mark lifecycle.Mark) bool {
	switch mark {
	case lifecycle.MarkFinalizingStageTimedOut:
		return replace(&row.API.Progress.FinalizingStageTimedOut, true)
	case lifecycle.MarkLogsTimedOut:
		return replace(&row.API.LogsInfo, models.LogsStateTimeout)
	}
	return false
}

// enterHostState sets a host's state and the fields that depend on it.
func (c *change) enterHostState(h *record.Host, to, info string) {
	if h.API.Status == nil || *h.API.Status != to {
		h.API.StatusUpdatedAt = c.dateTime()
	}
	h.API.Status, h.API.StatusInfo = &to, &info
	if to == lifecycle.HostInstalling {
		h.API.StageStartedAt, h.API.StageUpdatedAt = c.dateTime(), c.dateTime()
	}
}

// connected reports whether a host contacted the engine within the limit and is not restarting.
func (c *change) connected(h *record.Host) bool {
	return !h.IsRestarting() && c.now.Sub(c.e.presence.LastContact(record.HostKey(h), time.Time(h.API.CheckedInAt),
		c.now)) < c.e.options.Timeouts.HostDisconnected
}

// refreshUnbound validates a host without a cluster and runs the trigger refresh on it.
func (c *change) refreshUnbound(key string) error {
	h, err := c.host(key)
	if fault.KindOf(err) == fault.NotFound {
		return nil
	}
	if err != nil {
		return err
	}
	host, err := c.inventoryHost(h)
	if err != nil {
		return err
	}
	found, err := c.validateHost(h, host, nil)
	if err != nil {
		return err
	}
	_, err = c.transitionHost(h, lifecycle.OnRefresh, c.situation(h, nil, found))
	return err
}

// refreshState validates a cluster and runs the trigger refresh on it.
func (c *change) refreshState(m *clusterMembers) (bool, error) {
	row := m.row
	s := clusterSituation(row)
	s.Readiness, s.WarnOnly, s.Damaged = validation.Ready, c.e.WarnsOnly(&row.API), m.damaged
	if slices.Contains(lifecycle.ClusterOpenStates, *row.API.Status) {
		found, err := c.validateCluster(m)
		if err != nil {
			return false, err
		}
		s.Readiness, s.Failing = found.Status, found.Failing
	}
	s.CountHosts(m.hosts)
	if limit, ok := c.e.clusterLimit(row); ok {
		s.TimedOut = !c.now.Before(limit)
	}
	if at, limit := c.e.finalizingLimit(row); !at.IsZero() {
		s.StageTimedOut, s.StageLimit = !c.now.Before(at), limit
	}
	s.TotalTimedOut = !c.now.Before(c.e.installationLimit(row))
	return c.transitionCluster(row, lifecycle.OnRefresh, s)
}

// clusterInput returns the input of a cluster's validations.
func (c *change) clusterInput(m *clusterMembers) (validation.ClusterInput, error) {
	row := m.row
	custom, err := c.hasManifests(row.API.ID.String())
	return validation.ClusterInput{
		Cluster: &row.API, Hosts: m.hosts, Requirements: c.e.options.Requirements(row.API.OpenshiftVersion),
		PullSecretSet:   row.API.PullSecretSet,
		MissingCatalogs: c.e.missingCatalogs(row), CustomManifests: custom,
	}, err
}

func (c *change) runClusterValidations(row *record.Cluster, input validation.ClusterInput) (*validation.Report, error) {
	report := validation.Cluster(input)
	before, changed, err := record.SetValidations(c.tx, record.ClusterSubject(row.API.ID.String()), report.JSON())
	if err != nil || !changed {
		return report, err
	}
	c.saveCluster(row)
	for _, change := range validation.Changes(before, report.Results()) {
		name := change.Choose(event.ClusterValidationFailed, event.ClusterValidationFixed)
		severity := change.Choose(models.EventSeverityWarning, models.EventSeverityInfo)
		if err := c.clusterEventOf(row, event.Props(change.Properties()), name, severity,
			"Cluster %s: %s", row.API.Name, change.Text()); err != nil {
			return nil, err
		}
	}
	return report, nil
}

// clusterSituation returns the facts in a cluster's record that the state table of clusters reads.
func clusterSituation(row *record.Cluster) lifecycle.ClusterSituation {
	s := lifecycle.ClusterSituation{IngressCA: row.IngressCA}
	if row.API.Progress != nil {
		s.FinalizingStage = row.API.Progress.FinalizingStage
	}
	if p := row.Preparation; p != nil {
		s.PreparationFailed, s.PreparationDone = p.Failed, p.Done
	}
	if end := row.Completion; end != nil {
		s.Completed, s.CompletionFailed, s.CompletionError = end.Success, !end.Success, end.Error
	}
	if *row.API.Status == lifecycle.ClusterFinalizing {
		s.OperatorsDone, s.FailedOperators = operator.Finished(&row.API), operator.Failed(&row.API)
		s.PlatformAvailable = operator.PlatformAvailable(&row.API)
	}
	return s
}

func (c *change) triggerCluster(row *record.Cluster, on lifecycle.Trigger) error {
	_, err := c.transitionCluster(row, on, clusterSituation(row))
	return err
}

func (c *change) transitionCluster(row *record.Cluster, on lifecycle.Trigger,
	s lifecycle.ClusterSituation) (bool, error) {
	from := *row.API.Status
	rule := c.e.clusters.Next(on, from, s)
	if rule == nil {
		if on == lifecycle.OnRefresh {
			return false, nil
		}
		return false, conflict("Cluster %s is %s; %s is not possible in this state: %s", row.API.Name, from,
			on, *row.API.StatusInfo)
	}
	to, info := rule.To, *row.API.StatusInfo
	if to == lifecycle.Same {
		to = from
	}
	if rule.Info != nil {
		info = rule.Info(s)
	}
	marked := applyClusterMark(row, rule.Mark)
	if to == from && !marked && (rule.To == lifecycle.Same || info == *row.API.StatusInfo) {
		return false, nil
	}
	row.API.StatusInfo = &info
	c.saveCluster(row)
	if to == from {
		if marked && rule.Event != "" {
			return false, errors.Join(
				c.clusterEventOf(row, event.Props{"stage": row.API.Progress.FinalizingStage,
					"minutes": int64(s.StageLimit.Minutes())}, rule.Event, models.EventSeverityWarning,
					"Cluster %s: %s", row.API.Name, info),
				c.emitOperatorReport(row),
			)
		}
		return false, nil
	}
	row.API.Status, row.API.StatusUpdatedAt = &to, c.dateTime()
	if err := c.enterClusterState(row, from, to, info); err != nil {
		return false, err
	}
	return true, errors.Join(
		c.clusterEventOf(row, event.Props{"src_status": from, "cluster_status": to, "status_info": info},
			event.ClusterStatus, event.Severity(to),
			"%s", lifecycle.ClusterStateSentence(row.API.Name, to, info)),
		c.emitClusterStateEvents(row, from, s.TimedOut),
	)
}

func replace[T comparable](field *T, value T) bool {
	if *field == value {
		return false
	}
	*field = value
	return true
}
