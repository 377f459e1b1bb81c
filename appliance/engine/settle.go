package engine

import (
	"encoding/json"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/go-openapi/swag/conv"
	"github.com/openshift/assisted-service/models"

	"landfall/appliance/engine/inventory"
	"landfall/appliance/engine/network"
	"landfall/appliance/engine/validation"
	"landfall/store/fastjson"
)

// settleRounds bounds how often a change of a host's state may move its cluster and the other way
// round within one change. The longest chain of the tables is shorter.
const settleRounds = 6

// refreshCluster computes anew what follows from a cluster's description and its hosts' facts:
// networks, groups, roles, validations and states, until nothing moves any more.
func (c *change) refreshCluster(id string) error {
	w, err := c.rosterOf(id)
	if KindOf(err) == NotFound {
		return nil
	}
	if err != nil {
		return err
	}
	for _, h := range w.records {
		// what one host reports is in the instructions of the others
		c.touchedHosts = append(c.touchedHosts, hostKey(h))
	}
	if err := errors.Join(c.derive(w), c.noteFeatures(w)); err != nil {
		return err
	}
	for range settleRounds {
		hostMoved, err := c.refreshHosts(w)
		if err != nil {
			return err
		}
		if hostMoved { // its cluster may have changed with it
			w.inputs = nil
		}
		clusterMoved, err := c.refreshState(w)
		if err != nil {
			return err
		}
		if !hostMoved && !clusterMoved {
			break
		}
	}
	return nil
}

// rosterOf gathers a cluster and its hosts. It is refused with kind NotFound where there is no such
// cluster.
func (c *change) rosterOf(id string) (*roster, error) {
	row, err := c.cluster(id)
	if err != nil {
		return nil, err
	}
	w := &roster{row: row}
	if w.records, err = c.hostsOf(id); err != nil {
		return nil, err
	}
	for _, h := range w.records {
		host, err := c.inventoryHost(h)
		if err != nil {
			return nil, err
		}
		w.hosts = append(w.hosts, host)
	}
	return w, nil
}

// roster is a cluster with its hosts, as the rules look at them.
type roster struct {
	row        *clusterRecord
	records    []*hostRecord
	hosts      []*inventory.Host // at the index of their records
	groups     *network.Groups
	collisions map[string][]string
	inputs     []byte // of the validations, see [roster.digest]; they hold for one round, and until a host moves
}

func (w *roster) installing() bool {
	return slices.Contains([]string{clusterInstalling, clusterUserAction, clusterFinalizing, clusterInstalled},
		*w.row.API.Status)
}

// derive fills in what the API shows of a cluster and nobody enters: groups of connected hosts,
// host networks, machine networks that follow from the VIPs, and the roles that hosts will have.
func (c *change) derive(w *roster) error {
	api := &w.row.API
	if w.installing() {
		return nil
	}
	roles := validation.SuggestRoles(api, w.hosts, c.e.Requirements(api.OpenshiftVersion))
	for _, h := range w.records {
		if role, ok := roles[*h.API.ID]; ok && replace(&h.API.SuggestedRole, role) {
			c.saveHost(h)
			if err := c.hostEventOf(h, props{"suggested_role": role}, eventHostRole, models.EventSeverityInfo,
				"Host %s: its role will be %s.", c.hostName(h), role); err != nil {
				return err
			}
		}
	}
	if schedulable := validation.MastersSchedulable(api,
		w.hosts); conv.Value(api.SchedulableMastersForcedTrue) != schedulable {
		api.SchedulableMastersForcedTrue = &schedulable
		c.saveCluster(w.row)
	}
	w.groups, w.collisions = network.MajorityGroups(w.hosts, validation.SmallestGroup(api, w.hosts)),
		network.Collisions(w.hosts)
	groups, err := w.groups.JSON()
	if err != nil {
		return err
	}
	networks := network.HostNetworks(w.hosts)
	changed := replace(&api.ConnectivityMajorityGroups, groups)
	if !slices.EqualFunc(api.HostNetworks, networks, sameHostNetwork) {
		api.HostNetworks, changed = networks, true
	}
	if c.followMachineNetwork(w) {
		changed = true
	}
	if changed {
		c.saveCluster(w.row)
	}
	return nil
}

// followMachineNetwork keeps the machine network of a cluster for which nobody has entered one to
// where its VIPs and hosts are.
func (c *change) followMachineNetwork(w *roster) (changed bool) {
	api := &w.row.API
	if len(api.MachineNetworks) > 0 && !w.row.Follows {
		return false
	}
	machine, text := machineNetwork(api, w.hosts), ""
	if machine.IsValid() {
		text = machine.String()
	}
	unknown := func(host *inventory.Host) bool { return host.Inventory == nil } // it may have the network
	if text == api.MachineNetworkCidr || text == "" && slices.ContainsFunc(w.hosts, unknown) {
		return false
	}
	api.MachineNetworkCidr, w.row.Follows = text, text != ""
	api.MachineNetworks = []*models.MachineNetwork{}
	if text != "" {
		api.MachineNetworks = []*models.MachineNetwork{{Cidr: models.Subnet(text), ClusterID: *api.ID}}
	}
	return true
}

func sameHostNetwork(a, b *models.HostNetwork) bool {
	return a.Cidr == b.Cidr && slices.Equal(a.HostIds, b.HostIds)
}

// machineNetwork is the network that the API VIP lies in, or, without VIPs, the only one that all
// hosts have.
func machineNetwork(cluster *models.Cluster, hosts []*inventory.Host) netip.Prefix {
	if len(cluster.APIVips) > 0 {
		if vip, err := netip.ParseAddr(string(cluster.APIVips[0].IP)); err == nil {
			found, _ := network.NetworkOf(vip, hosts)
			return found
		}
	}
	if !conv.Value(cluster.UserManagedNetworking) || len(hosts) == 0 || hosts[0].Inventory == nil {
		return netip.Prefix{}
	}
	if networks := network.HostNetworks(hosts); len(networks) == 1 {
		prefix, err := netip.ParsePrefix(networks[0].Cidr)
		if err == nil {
			return prefix
		}
	}
	return netip.Prefix{}
}

// refreshHosts validates the hosts of a cluster and moves those whose lifecycle says so.
func (c *change) refreshHosts(w *roster) (moved bool, err error) {
	w.inputs = nil
	for i, h := range w.records {
		found, err := c.judgeHost(h, w.hosts[i], w)
		if err != nil {
			return moved, err
		}
		s := c.situation(h, &w.row.API, found)
		s.expendable = func() bool { return enough(&w.row.API, w.records, installed) }
		did, err := c.moveHost(h, onRefresh, s)
		if err != nil {
			return moved, err
		}
		moved = moved || did
	}
	return moved, nil
}

// validated tells whether a host's validations matter in its state.
func validated(status string) bool {
	return slices.Contains(undecided, status) || slices.Contains(undecidedUnbound, status) ||
		slices.Contains([]string{preparing, preparingFailed, prepared, binding, unbinding}, status)
}

func (c *change) validateHost(h *hostRecord, host *inventory.Host, env *infraEnvRecord,
	w *roster) (*validation.Report, error) {
	input := validation.HostInput{
		Host: host, InfraEnv: &env.API, Now: c.now, Polled: time.Time(h.API.CheckedInAt), Connected: c.connected(h),
		Restarts: h.restarts(), Disabled: c.e.DisabledValidations,
		AgentImage: c.e.Images.Agent,
	}
	version := env.API.OpenshiftVersion
	if w != nil {
		input.Cluster, input.Peers, input.Groups, input.Collisions = &w.row.API, w.hosts, w.groups, w.collisions
		version = w.row.API.OpenshiftVersion
	}
	input.Requirements = c.e.Requirements(version)
	report := validation.Host(input)
	before, changed, err := c.setValidations(hostSubject(hostKey(h)), report.JSON())
	if err != nil {
		return nil, err
	}
	if changed {
		c.saveHost(h)
		for _, turn := range turns(before, report.Results()) {
			if err := c.hostEventOf(h, turn.props(), turn.name(eventValidationFailed, eventValidationFixed),
				turn.severity(), "Host %s: validation %s %s", host.Name(), turn.id, turn.text()); err != nil {
				return nil, err
			}
		}
	}
	return report, nil
}

// situation gathers what the host table looks at.
func (c *change) situation(h *hostRecord, cluster *models.Cluster, found judgement) hostSituation {
	s := hostSituation{host: h, now: c.now, connected: c.connected(h), verdict: found.verdict, failing: found.failing,
		warnOnly: c.e.warnsOnly(cluster)}
	if h.API.Progress != nil {
		s.stage = h.API.Progress.CurrentStage
	}
	if cluster != nil {
		s.clusterStatus = *cluster.Status
	}
	if at, limit := c.hostLimit(h); !at.IsZero() {
		s.timedOut, s.limit = !c.now.Before(at), limit
	}
	return s
}

// messages joins what failing validations say.
func messages(results []validation.Result) string {
	texts := make([]string, 0, len(results))
	for _, result := range results {
		texts = append(texts, result.Message)
	}
	return strings.Join(texts, " ")
}

// fireHost runs a trigger other than a refresh on a host. It reports whether the host's state
// changed, and refuses with kind Conflict what the host's state does not allow.
func (c *change) fireHost(h *hostRecord, on trigger, reason string) (bool, error) {
	var cluster *models.Cluster
	if h.API.ClusterID != nil {
		row, err := c.cluster(h.API.ClusterID.String())
		if err != nil {
			return false, err
		}
		cluster = &row.API
	}
	s := c.situation(h, cluster, judgement{verdict: validation.Ready})
	s.reason = reason
	return c.moveHost(h, on, s)
}

func (c *change) moveHost(h *hostRecord, on trigger, s hostSituation) (bool, error) {
	from := *h.API.Status
	row := c.e.hosts.next(on, from, s)
	if row == nil {
		if on == onRefresh {
			return false, nil
		}
		return false, conflict("Host %s is %s, where %s is not possible.", c.hostName(h), from, on)
	}
	to, info := row.to, *h.API.StatusInfo
	if to == same {
		to = from
	}
	if row.info != nil {
		info = row.info(s)
	}
	marked := row.mark != nil && row.mark(s)
	if to == from && !marked && (row.to == same || info == *h.API.StatusInfo) {
		return false, nil
	}
	name := c.hostName(h)
	c.enterHostState(h, to, info)
	c.saveHost(h)
	if to == from {
		if marked && row.event != "" {
			return false, c.hostEventOf(h, props{"stage": s.stage, "minutes": int64(s.limit.Minutes())}, row.event,
				models.EventSeverityWarning, "Host %s: %s", name, info)
		}
		return false, nil
	}
	if from == initial { // a new host has an event of its own
		return true, nil
	}
	return true, errors.Join(
		c.hostEventOf(h, props{"src_status": from, "new_status": to, "info": info}, eventHostStatus, severityOf(to),
			"Host %s: %s -> %s. %s", name, from, to, info),
		c.hostArrived(h, from, to),
	)
}

// enterHostState sets a host's state and does what belongs to being in it.
func (c *change) enterHostState(h *hostRecord, to, info string) {
	if h.API.Status == nil || *h.API.Status != to {
		h.API.StatusUpdatedAt = c.dateTime()
	}
	h.API.Status, h.API.StatusInfo = &to, &info
	if to == installing {
		h.API.StageStartedAt, h.API.StageUpdatedAt = c.dateTime(), c.dateTime()
	}
}

func severityOf(state string) string {
	switch state {
	case failed:
		return models.EventSeverityError
	case insufficient, disconnected, preparingFailed, pendingUserAction, cancelled, insufficientUnbound,
		disconnectedUnbound:
		return models.EventSeverityWarning
	}
	return models.EventSeverityInfo
}

// connected tells whether a host was heard within the limit, and is not about to be switched off.
func (c *change) connected(h *hostRecord) bool {
	return !h.restarts() && c.now.Sub(c.e.presence.lastSeen(hostKey(h), time.Time(h.API.CheckedInAt),
		c.now)) < c.e.Timeouts.HostDisconnected
}

// refreshUnbound validates and moves a host that belongs to no cluster.
func (c *change) refreshUnbound(key string) error {
	h, err := c.host(key)
	if KindOf(err) == NotFound {
		return nil
	}
	if err != nil {
		return err
	}
	host, err := c.inventoryHost(h)
	if err != nil {
		return err
	}
	found, err := c.judgeHost(h, host, nil)
	if err != nil {
		return err
	}
	_, err = c.moveHost(h, onRefresh, c.situation(h, nil, found))
	return err
}

// refreshState validates a cluster and moves it when its lifecycle says so.
func (c *change) refreshState(w *roster) (bool, error) {
	row := w.row
	s := clusterSituation{cluster: row, now: c.now, verdict: validation.Ready, warnOnly: c.e.warnsOnly(&row.API)}
	if slices.Contains([]string{clusterPending, clusterReady, clusterInsufficient}, *row.API.Status) {
		found, err := c.judgeCluster(w)
		if err != nil {
			return false, err
		}
		s.verdict, s.failing = found.verdict, found.failing
	}
	c.countHosts(&s, w)
	if limit, ok := c.e.clusterLimit(row); ok {
		s.timedOut = !c.now.Before(limit)
	}
	if at, limit := c.e.finalizingLimit(row); !at.IsZero() {
		s.stageTimedOut, s.stageLimit = !c.now.Before(at), limit
	}
	if started := time.Time(row.API.InstallStartedAt); !started.IsZero() {
		s.totalTimedOut = c.now.Sub(started) >= c.e.Timeouts.Installation
	}
	return c.moveCluster(row, onRefresh, s)
}

// clusterInput gathers what the validations of a cluster look at.
func (c *change) clusterInput(w *roster) (validation.ClusterInput, error) {
	row := w.row
	custom, err := c.hasManifests(row.API.ID.String())
	return validation.ClusterInput{
		Cluster: &row.API, Hosts: w.hosts, Requirements: c.e.Requirements(row.API.OpenshiftVersion),
		PullSecretSet:   row.API.PullSecretSet,
		MissingCatalogs: c.e.missingCatalogs(row), CustomManifests: custom,
	}, err
}

func (c *change) validateCluster(row *clusterRecord, input validation.ClusterInput) (*validation.Report, error) {
	report := validation.Cluster(input)
	before, changed, err := c.setValidations(clusterSubject(row.API.ID.String()), report.JSON())
	if err != nil || !changed {
		return report, err
	}
	c.saveCluster(row)
	for _, turn := range turns(before, report.Results()) {
		if err := c.clusterEventOf(row, turn.props(), turn.name(eventClusterValidationFail,
			eventClusterValidationFixed), turn.severity(), "Cluster %s: validation %s %s", row.API.Name, turn.id,
			turn.text()); err != nil {
			return nil, err
		}
	}
	return report, nil
}

// countHosts sums up the hosts' states for the cluster table.
func (c *change) countHosts(s *clusterSituation, w *roster) {
	s.allPrepared, s.allDone = len(w.records) > 0, len(w.records) > 0
	s.enoughUp = enough(&w.row.API, w.records, installed)
	s.enoughLeft = enough(&w.row.API, w.records, prepared, installing, inProgress, pendingUserAction, installed)
	for i, h := range w.records {
		status := *h.API.Status
		s.allPrepared = s.allPrepared && status == prepared
		s.allDone = s.allDone && (status == installed || status == failed)
		switch status {
		case failed, cancelled:
			if s.hostFailed == "" {
				s.hostFailed = "host " + w.hosts[i].Name() + ": " + *h.API.StatusInfo
			}
		case pendingUserAction:
			s.pendingAction = true
		case preparingFailed:
			if s.notPreparable == "" {
				s.notPreparable = "host " + w.hosts[i].Name() + ": " + *h.API.StatusInfo
			}
		case known, preparing, prepared:
		default:
			if s.notPrepared == "" {
				s.notPrepared = "host " + w.hosts[i].Name() + " is " + status + ": " + *h.API.StatusInfo
			}
		}
	}
}

func (c *change) fireCluster(row *clusterRecord, on trigger) error {
	_, err := c.moveCluster(row, on, clusterSituation{cluster: row, now: c.now})
	return err
}

func (c *change) moveCluster(row *clusterRecord, on trigger, s clusterSituation) (bool, error) {
	from := *row.API.Status
	rule := c.e.clusters.next(on, from, s)
	if rule == nil {
		if on == onRefresh {
			return false, nil
		}
		return false, conflict("Cluster %s is %s, where %s is not possible: %s", row.API.Name, from,
			on, *row.API.StatusInfo)
	}
	to, info := rule.to, *row.API.StatusInfo
	if to == same {
		to = from
	}
	if rule.info != nil {
		info = rule.info(s)
	}
	marked := rule.mark != nil && rule.mark(s)
	if to == from && !marked && (rule.to == same || info == *row.API.StatusInfo) {
		return false, nil
	}
	row.API.StatusInfo = &info
	c.saveCluster(row)
	if to == from {
		if marked && rule.event != "" {
			return false, errors.Join(
				c.clusterEventOf(row, props{"stage": row.API.Progress.FinalizingStage,
					"minutes": int64(s.stageLimit.Minutes())}, rule.event, models.EventSeverityWarning,
					"Cluster %s: %s", row.API.Name, info),
				c.tellOfOperators(row),
			)
		}
		return false, nil
	}
	row.API.Status, row.API.StatusUpdatedAt = &to, c.dateTime()
	if err := c.enterClusterState(row, from, to, info); err != nil {
		return false, err
	}
	return true, errors.Join(
		c.clusterEventOf(row, props{"cluster_status": to, "status_info": info}, eventClusterStatus, severityOf(to),
			"Cluster %s: %s -> %s. %s", row.API.Name, from, to, info),
		c.clusterLeft(row, from, s.timedOut),
	)
}

// turn is a validation that came to pass or ceased to.
type turn struct {
	id      validation.ID
	failed  bool
	message string
}

func (t turn) name(failing, fixed string) string {
	if t.failed {
		return failing
	}
	return fixed
}

func (t turn) severity() string {
	if t.failed {
		return models.EventSeverityWarning
	}
	return models.EventSeverityInfo
}

func (t turn) props() props {
	if t.failed {
		return props{"validation_id": t.id, "validation_msg": t.message, "failure_message": "fails now"}
	}
	return props{"validation_id": t.id, "validation_msg": t.message}
}

func (t turn) text() string {
	if t.failed {
		return "fails now: " + t.message
	}
	return "passes now."
}

// turns compares a report with the one before. A first report, and one that says a thing for the
// first time, has none.
func turns(before json.RawMessage, after []validation.Result) []turn {
	if len(before) == 0 {
		return nil
	}
	var groups map[string][]struct {
		ID     validation.ID     `json:"id"`
		Status validation.Status `json:"status"`
	}
	if err := fastjson.UnmarshalOwn(before, &groups); err != nil {
		return nil
	}
	held := make(map[validation.ID]validation.Status)
	for _, group := range groups {
		for _, result := range group {
			held[result.ID] = result.Status
		}
	}
	var found []turn
	for _, result := range after {
		was := held[result.ID]
		if was == validation.Success && result.Status == validation.Failure || was == validation.Failure &&
			result.Status == validation.Success {
			found = append(found, turn{result.ID, result.Status == validation.Failure, result.Message})
		}
	}
	return found
}

func replace[T comparable](field *T, value T) bool {
	if *field == value {
		return false
	}
	*field = value
	return true
}
