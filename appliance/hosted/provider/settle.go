package provider

import (
	"cmp"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"time"

	"landfall/appliance/hosted/arm"
	"landfall/appliance/hosted/bundle"
	"landfall/appliance/hosted/controlplane"
	"landfall/appliance/hosted/maestro"
	"landfall/appliance/hosted/record"
	"landfall/store"
)

// creationTime limits the time of a creation or a change while nothing keeps the management cluster
// from applying it and from reporting.
const creationTime = 2 * time.Hour

// settle writes the bundles of a cluster, computes its state from the reports, and writes the
// cluster and its node pools.
func (ch *change) settle(c *record.Cluster) error {
	pools, err := record.NodePools(ch.tx, c.CID)
	if err != nil {
		return err
	}
	if c.State == record.Deleting {
		return ch.settleDeletion(c, pools)
	}
	if c.Consumer == "" {
		reason, err := ch.place(c, pools)
		if err != nil {
			return err
		}
		if c.Consumer == "" {
			return ch.settleUnplaced(c, pools, reason)
		}
	}
	m, err := record.GetManagement(ch.tx, c.Consumer)
	if err != nil {
		return err
	}
	if m == nil {
		return ch.settleUnplaced(c, pools, "The management cluster "+c.Consumer+" is not known any more.")
	}
	in, err := ch.input(c, m)
	if err != nil {
		return err
	}
	if err := ch.writeClusterBundles(c, in); err != nil {
		return err
	}
	if err := ch.observeCluster(c, m); err != nil {
		return err
	}
	for _, p := range pools {
		if err := ch.settleNodePool(c, in, p); err != nil {
			return err
		}
	}
	if err := ch.settleAuths(c, in.Auths); err != nil {
		return err
	}
	if err := errors.Join(ch.settleCredentials(c), ch.endOldCredentials(c)); err != nil {
		return err
	}
	return record.PutCluster(ch.tx, c)
}

// settleUnplaced settles a cluster without a management cluster, for a reason. What is deleted is
// gone at once, because nobody has received it.
func (ch *change) settleUnplaced(c *record.Cluster, pools []*record.NodePool, reason string) error {
	c.Observed.State, c.Reason = controlplane.Pending, reason
	for _, p := range pools {
		if p.State == record.Deleting {
			if _, err := ch.settlePoolDeletion(p); err != nil {
				return err
			}
			continue
		}
		p.Observed.State, p.Reason = controlplane.Pending, c.Reason
		if err := record.PutNodePool(ch.tx, p); err != nil {
			return err
		}
	}
	auths, err := record.ExternalAuths(ch.tx, c.CID)
	if err != nil {
		return err
	}
	for _, a := range auths {
		if a.State == record.Deleting {
			if err := ch.removeAuth(a); err != nil {
				return err
			}
		}
	}
	return record.PutCluster(ch.tx, c)
}

// input collects what the bundles of a cluster depend on.
func (ch *change) input(c *record.Cluster, m *record.Management) (in controlplane.Input, err error) {
	in = controlplane.Input{Cluster: c, Management: m}
	if in.Properties, err = arm.ClusterPropertiesOf(c.Document); err != nil {
		return in, err
	}
	if in.Site, err = ch.s.Site.HostedSite(); err != nil {
		return in, err
	}
	if in.EtcdKey, err = ch.s.Secrets.Open(c.EtcdKey); err != nil {
		return in, err
	}
	in.Auths, err = record.ExternalAuths(ch.tx, c.CID)
	return in, err
}

// writeClusterBundles writes the bundles of the namespaces and of the control plane, and of the
// ManagedCluster in a nested layout.
func (ch *change) writeClusterBundles(c *record.Cluster, in controlplane.Input) error {
	namespaces, err := controlplane.Namespaces(c, in.Management)
	if err != nil {
		return err
	}
	if c.Namespaces, err = ch.writeBundle(c, c.Namespaces, namespaces); err != nil {
		return err
	}
	wanted := in
	wanted.Auths = nil
	for _, auth := range in.Auths {
		if auth.State != record.Deleting {
			wanted.Auths = append(wanted.Auths, auth)
		}
	}
	control, err := controlplane.Control(wanted)
	if err != nil {
		return err
	}
	if c.Control, err = ch.writeBundle(c, c.Control, control); err != nil ||
		in.Management.Layout != controlplane.Nested {
		return err
	}
	managed, err := controlplane.ManagedCluster(c, in.Management)
	if err != nil {
		return err
	}
	c.Managed, err = ch.writeBundle(c, c.Managed, managed)
	return err
}

// writeBundle creates or updates a bundle and returns its ID. A bundle that a person deletes by
// itself stays as it is until it is gone; then it is made again.
func (ch *change) writeBundle(c *record.Cluster, id string, content controlplane.Content) (string, error) {
	if id == "" {
		return ch.createBundle(c, content, nil)
	}
	b, err := bundle.Get(ch.tx, id)
	switch {
	case errors.Is(err, bundle.ErrNotFound):
		return ch.createBundle(c, content, nil)
	case err != nil || b.Deleting():
		return id, err
	}
	_, err = bundle.Update(ch.tx, id, 0, ch.now, func(b *bundle.Bundle) error {
		b.Labels, b.Manifests, b.Configs = content.Labels, content.Manifests, content.Configs
		return nil
	})
	return id, err
}

func (ch *change) createBundle(c *record.Cluster, content controlplane.Content, option json.RawMessage) (string,
	error) {
	b := &bundle.Bundle{Name: content.Name, Consumer: c.Consumer, Labels: content.Labels, Manifests: content.Manifests,
		Configs: content.Configs, DeleteOption: option}
	err := bundle.Create(ch.tx, b, ch.now)
	return b.ID, err
}

// deleteBundle deletes a bundle, if there is one. Deletions follow from a request of the caller.
func (ch *change) deleteBundle(id string) error {
	if id == "" {
		return nil
	}
	return ignoreMissing(bundle.Delete(ch.tx, id, cmp.Or(ch.caller.Name, "landfall"), ch.now))
}

func ignoreMissing(err error) error {
	if errors.Is(err, bundle.ErrNotFound) {
		return nil
	}
	return err
}

// observeCluster computes the state of a cluster from the reports.
func (ch *change) observeCluster(c *record.Cluster, m *record.Management) error {
	namespaces, err := ch.report(c.Namespaces)
	if err != nil {
		return err
	}
	control, err := ch.report(c.Control)
	if err != nil {
		return err
	}
	managed, err := ch.report(c.Managed)
	if err != nil {
		return err
	}
	obstacle, err := ch.s.obstacle(ch.tx, c.Consumer)
	if err != nil {
		return err
	}
	found := controlplane.ObserveCluster(c, m, namespaces, control)
	if found.State == controlplane.Pending {
		found.Reason = cmp.Or(obstacle, found.Reason)
	}
	o := &c.Observed
	o.State, o.Delivered = found.State, control.Current
	if control.Current {
		o.APIURL, o.Version, o.KubeconfigRef = found.APIURL, found.Version, found.KubeconfigRef
		o.Conditions = append(found.Conditions, managed.ManagedCluster()...)
	}
	status, err := bundle.GetStatus(ch.tx, c.Control)
	if err != nil {
		return err
	}
	if status != nil {
		o.At = status.Received
	}
	if c.State != record.Failed { // a failure keeps its reason until the request changes
		c.Reason, o.ErrorCode = found.Reason, found.Code
	}
	ch.watch(c, obstacle == "")
	return ch.advance(&c.Resource, found, c.Watched >= creationTime)
}

// obstacle says why a management cluster does not apply or report what it is to run, or returns "".
func (s *Service) obstacle(tx *store.Tx, consumer string) (string, error) {
	hold, err := maestro.GetHold(tx, consumer)
	switch {
	case err != nil:
		return "", err
	case hold != nil:
		return "The management cluster " + consumer + " is held, so nothing is sent to it. Show why with landfall " +
			"hcp connection " + consumer + ".", nil
	case !s.Connected(consumer):
		return "The management cluster " + consumer + " is not connected.", nil
	case s.ClockWrong(consumer):
		return "The clock of the management cluster " + consumer + " was set back, so its reports do not count yet. " +
			"Show until when with landfall hcp connection " + consumer + ".", nil
	}
	return "", nil
}

// watch adds to the time for which the management cluster could work on the request.
func (ch *change) watch(c *record.Cluster, connected bool) {
	if connected && !c.WatchedAt.IsZero() && !record.IsTerminal(c.State) {
		c.Watched += max(0, min(ch.now.Sub(c.WatchedAt), watchInterval))
	}
	if connected && !record.IsTerminal(c.State) {
		c.WatchedAt = ch.now
	} else {
		c.WatchedAt = time.Time{}
	}
}

// advance changes the provisioning state of a resource by the state of Clusters Service, and the
// status of its operation with it. A resource that failed because its time expired succeeds when it
// is ready. Its operation has ended.
func (ch *change) advance(resource *record.Resource, found controlplane.Finding, expired bool) error {
	if record.IsTerminal(resource.State) {
		if expired && resource.State == record.Failed && found.State == controlplane.Ready {
			resource.State, resource.Reason = record.Succeeded, ""
		}
		return nil
	}
	working := record.Provisioning
	if operation, err := record.GetOperation(ch.tx, resource.Operation, ch.now); err != nil {
		return err
	} else if operation != nil && operation.Kind == record.Update {
		working = record.Updating
	}
	switch {
	case found.State == controlplane.Ready:
		resource.State = record.Succeeded
		return ch.end(resource, record.Succeeded, nil)
	case found.State == controlplane.Failed:
		resource.State = record.Failed
		return ch.end(resource, record.Failed, arm.Errorf(0, found.Code, "%s", found.Reason))
	case expired:
		resource.State = record.Failed
		resource.Reason = "It was not ready within " + creationTime.String() + " of connection with its management " +
			"cluster. The last state: " + found.Reason
		return ch.end(resource, record.Failed, arm.Errorf(0, "OCM4001", "%s", resource.Reason))
	case found.State == controlplane.Installing && resource.State != working:
		resource.State = working
		return ch.progress(resource.Operation, working)
	}
	return nil
}

// settleNodePool writes the bundle of a node pool and computes its state. It removes a node pool
// whose deletion is complete.
func (ch *change) settleNodePool(c *record.Cluster, in controlplane.Input, p *record.NodePool) error {
	if p.State == record.Deleting {
		_, err := ch.settlePoolDeletion(p)
		return err
	}
	properties, err := arm.NodePoolPropertiesOf(p.Document)
	if err != nil {
		return err
	}
	content, err := controlplane.NodePool(in, p, properties)
	if err != nil {
		return err
	}
	if p.Bundle, err = ch.writeBundle(c, p.Bundle, content); err != nil {
		return err
	}
	report, err := ch.report(p.Bundle)
	if err != nil {
		return err
	}
	wanted := properties.Replicas
	if properties.AutoScaling != nil {
		wanted = properties.AutoScaling.Min
	}
	found := controlplane.ObserveNodePool(in.Management, report, wanted, properties.Platform.VMSize)
	if found.State == controlplane.Pending {
		obstacle, err := ch.s.obstacle(ch.tx, c.Consumer)
		if err != nil {
			return err
		}
		found.Reason = cmp.Or(obstacle, found.Reason)
	}
	p.Reason, p.Observed.State, p.Observed.ErrorCode, p.Observed.Delivered = found.Reason, found.State, found.Code,
		report.Current
	if report.Current {
		p.Observed.NodesReady, p.Observed.Version, p.Observed.Conditions = found.Ready, found.Version, found.Conditions
		status, err := bundle.GetStatus(ch.tx, p.Bundle)
		if err != nil {
			return err
		}
		p.Observed.At = status.Received
	}
	if err := ch.advance(&p.Resource, found, false); err != nil {
		return err
	}
	return record.PutNodePool(ch.tx, p)
}

// settleAuths completes changes of external auths when the management cluster has the control
// plane's present version.
func (ch *change) settleAuths(c *record.Cluster, auths []*record.ExternalAuth) error {
	for _, a := range auths {
		if record.IsTerminal(a.State) || !c.Observed.Delivered {
			continue
		}
		if a.State == record.Deleting {
			if err := ch.removeAuth(a); err != nil {
				return err
			}
			continue
		}
		a.State = record.Succeeded
		if err := errors.Join(ch.end(&a.Resource, record.Succeeded, nil),
			record.PutExternalAuth(ch.tx, a)); err != nil {
			return err
		}
	}
	return nil
}

// removeAuth removes an external auth whose deletion is complete.
func (ch *change) removeAuth(a *record.ExternalAuth) error {
	return errors.Join(ch.end(&a.Resource, record.Succeeded, nil), record.DeleteExternalAuth(ch.tx, a))
}

// settlePoolDeletion deletes the bundle of a node pool, and removes the node pool when nothing of
// it is left.
func (ch *change) settlePoolDeletion(p *record.NodePool) (gone bool, err error) {
	left, err := ch.deleteAndWait(p.Bundle)
	if err != nil {
		return false, err
	}
	if left == nil {
		return true, errors.Join(ch.end(&p.Resource, record.Succeeded, nil), record.DeleteNodePool(ch.tx, p))
	}
	if p.Reason, err = ch.waitReason(left); err != nil {
		return false, err
	}
	p.Observed.State = controlplane.Uninstalling
	return false, record.PutNodePool(ch.tx, p)
}

// deleteAndWait deletes a bundle. It returns the bundle until nothing of it is left.
func (ch *change) deleteAndWait(id string) (*bundle.Bundle, error) {
	if id == "" {
		return nil, nil
	}
	if err := ch.deleteBundle(id); err != nil {
		return nil, err
	}
	b, err := bundle.Get(ch.tx, id)
	return b, ignoreMissing(err)
}

// settleDeletion deletes the bundles of a cluster one after the other: first the node pools, then
// what reads credentials, the ManagedCluster, the control plane, and at last the namespaces. It
// removes the cluster when nothing is left.
func (ch *change) settleDeletion(c *record.Cluster, pools []*record.NodePool) error {
	c.Observed.State = controlplane.Uninstalling
	if ch.caller.Name == "" {
		ch.caller.Name = c.DeletedBy
	}
	left := false
	for _, p := range pools {
		gone, err := ch.settlePoolDeletion(p)
		if err != nil {
			return err
		}
		if !gone {
			left, c.Reason = true, "The node pool "+p.ID.Child+" is being deleted. "+p.Reason
		}
	}
	if left {
		return record.PutCluster(ch.tx, c)
	}
	helpers, err := ch.helperBundles(c)
	if err != nil {
		return err
	}
	for _, id := range append(helpers, c.Managed, c.Control, c.Namespaces) {
		b, err := ch.deleteAndWait(id)
		if err != nil {
			return err
		}
		if b != nil {
			if c.Reason, err = ch.waitReason(b); err != nil {
				return err
			}
			return record.PutCluster(ch.tx, c)
		}
	}
	auths, err := record.ExternalAuths(ch.tx, c.CID)
	if err != nil {
		return err
	}
	for _, a := range auths {
		if err := ch.end(&a.Resource, record.Canceled, nil); err != nil {
			return err
		}
	}
	return errors.Join(ch.end(&c.Resource, record.Succeeded, nil), record.DeleteCluster(ch.tx, c))
}

// helperBundles returns the IDs of the bundles of credentials. Their operations end as canceled.
func (ch *change) helperBundles(c *record.Cluster) (ids []string, err error) {
	all, err := record.Credentials(ch.tx, c.CID)
	if err != nil {
		return nil, err
	}
	for _, credential := range all {
		if credential.Status == credentialCreated || credential.Status == credentialRevoking {
			if err := ch.endOperation(credential.Operation, record.Canceled, arm.Errorf(0, arm.CodeCanceled,
				"The cluster was deleted.")); err != nil {
				return nil, err
			}
		}
		if credential.Bundle != "" {
			ids = append(ids, credential.Bundle)
		}
	}
	if c.Revocation != "" {
		ids = append(ids, c.Revocation)
	}
	return ids, nil
}

// waitReason says what the deletion of a bundle waits for.
func (ch *change) waitReason(b *bundle.Bundle) (string, error) {
	status, err := bundle.GetStatus(ch.tx, b.ID)
	if err != nil {
		return "", err
	}
	if status != nil {
		var data struct {
			Conditions []record.Condition `json:"conditions"`
		}
		if json.Unmarshal(status.Data, &data) == nil {
			for _, c := range data.Conditions {
				if c.Type == "Deleting" && c.Message != "" {
					return "The management cluster deletes " + b.Name + ": " + strings.TrimSuffix(c.Message, ".") + ".",
						nil
				}
			}
		}
	}
	obstacle, err := ch.s.obstacle(ch.tx, b.Consumer)
	if err != nil {
		return "", err
	}
	if obstacle != "" {
		return obstacle + " It deletes " + b.Name + " later.", nil
	}
	return "The management cluster " + b.Consumer + " has not reported yet that it deleted " + b.Name + ".", nil
}

// compareVersions compares versions X.Y.Z[-suffix].
func compareVersions(a, b string) int {
	coreA, preA, _ := strings.Cut(a, "-")
	coreB, preB, _ := strings.Cut(b, "-")
	partsA, partsB := strings.Split(coreA, "."), strings.Split(coreB, ".")
	for i := range max(len(partsA), len(partsB)) {
		var x, y int
		if i < len(partsA) {
			x, _ = strconv.Atoi(partsA[i])
		}
		if i < len(partsB) {
			y, _ = strconv.Atoi(partsB[i])
		}
		if x != y {
			return cmp.Compare(x, y)
		}
	}
	switch {
	case preA == preB:
		return 0
	case preA == "":
		return 1
	case preB == "":
		return -1
	}
	return cmp.Compare(preA, preB)
}

// settleOne settles a cluster by its ID.
func (s *Service) settleOne(tx *store.Tx, cid string) error {
	c, err := record.GetCluster(tx, cid)
	if err != nil || c == nil {
		return err
	}
	return (&change{s: s, tx: tx, now: s.now()}).settle(c)
}
