package workers

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/go-openapi/strfmt"
	"github.com/go-openapi/swag/conv"
	"github.com/openshift/assisted-service/models"
	core "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"landfall/appliance/engine/view"
	"landfall/appliance/fault"
	"landfall/appliance/hosted/controlplane"
	"landfall/appliance/hosted/record"
	"landfall/store"
)

const ignitionToken = "ignition-token" // key of the token in its Secret

// readHosts reads the hosts that are offered, and those that have an Agent.
func (c *comparison) readHosts(tx *store.Tx) error {
	rows := c.Engine.Rows(tx)
	for _, source := range c.m.Workers {
		c.profiles[source.InfraEnvID] = source.Profile
		ids, err := rows.InfraEnvHostIDs(source.InfraEnvID)
		if err != nil {
			return err
		}
		for _, id := range ids {
			if err := c.addHost(rows, source.InfraEnvID+"/"+id); err != nil {
				return err
			}
		}
	}
	all, err := Offers(tx, c.m.Consumer)
	if err != nil {
		return err
	}
	elsewhere := map[string]bool{}
	for _, row := range all {
		c.offers[row.HostID] = row
		if c.hosts[row.HostID] == nil {
			elsewhere[row.HostID] = true
		}
	}
	if len(elsewhere) == 0 {
		return nil
	}
	keys, err := rows.HostKeys()
	if err != nil {
		return err
	}
	for _, key := range keys {
		_, id, _ := strings.Cut(key, "/")
		if elsewhere[id] {
			if err := c.addHost(rows, key); err != nil {
				return err
			}
		}
	}
	return nil
}

// addHost reads a host by its key. A damaged host is noted, so that its Agent stays: that of a
// missing host would be removed.
func (c *comparison) addHost(rows view.Rows, key string) (err error) {
	_, id, _ := strings.Cut(key, "/")
	host, err := rows.Host(key)
	switch {
	case store.IsDamaged(err):
		c.damaged[id] = true
		return nil
	case err != nil:
		return err
	}
	c.hosts[id] = host
	return nil
}

// readClusters reads the hosted clusters of the management cluster, and the clusters of the engine
// that stand for them.
func (c *comparison) readClusters(tx *store.Tx) error {
	rows := c.Engine.Rows(tx)
	if err := record.EachCluster(tx, "", "", func(row *record.Cluster) error {
		if row.Consumer == c.m.Consumer {
			c.hosted[controlplane.ControlPlaneNamespace(row)] = row
		}
		return nil
	}); err != nil {
		return err
	}
	if err := record.Subscriptions.Each(tx, "", func(id string, row *record.Subscription) error {
		if row.Seeded {
			c.owner = id
		}
		return nil
	}); err != nil {
		return err
	}
	return clusters.Each(tx, "", func(id string, row *joined) error {
		if row.Consumer != c.m.Consumer {
			return nil
		}
		_, err := rows.Cluster(id)
		if fault.KindOf(err) == fault.NotFound {
			return nil // a person deleted it
		}
		c.joined[row.CID] = id
		return err
	})
}

// worker is the comparison of one host with its Agent.
type worker struct {
	*comparison
	situation
	id string
	of *record.Cluster // the hosted cluster that the Agent's spec names, or nil
}

// perform does what was decided, and reports the host's state in its Agent.
func (w *worker) perform(ctx context.Context, act action) error {
	var err error
	switch act {
	case create:
		if w.row == nil {
			w.row = &Offered{HostID: w.id}
		}
		w.row.UID = ""
		if err := w.change(ctx); err != nil {
			return err
		}
		return w.createAgent(ctx)
	case remove:
		return w.removeAgent(ctx)
	case forget:
		return w.forget(ctx)
	case adopt:
		err = w.adoptAgent(ctx)
	case bind:
		err = w.bindHost(ctx)
	case follow:
		err = w.followChoice(ctx)
	case unbind:
		err = w.unbindHost(ctx)
	case done:
		err = w.leave(ctx)
	case nothing, hold:
	}
	reason, refused := refusal(err)
	if err != nil && !refused {
		return err
	}
	if reason != "" {
		w.problems[w.id] = reason
	}
	if w.row == nil || w.agent == nil || w.foreign || w.host == nil || w.isLost() ||
		w.agent.DeletionTimestamp != nil {
		return nil // such an Agent stays untouched
	}
	if w.row.UID == "" {
		w.row.UID = string(w.agent.UID)
		if err := w.save(ctx); err != nil {
			return err
		}
	}
	return w.report(ctx)
}

// change stores a change of the host's row. The Agent gets the row's new sequence afterwards.
func (w *worker) change(ctx context.Context) error {
	w.row.Sequence++
	return w.save(ctx)
}

func (w *worker) save(ctx context.Context) error {
	w.offers[w.id] = w.row
	return w.DB.Update(ctx, func(tx *store.Tx) error {
		if m, err := record.GetManagement(tx, w.m.Consumer); err != nil || m == nil {
			return errors.Join(err, fault.New(fault.NotFound, "The management cluster %s was removed.", w.m.Consumer))
		}
		return offers.Put(tx, w.m.Consumer+"/"+w.id, w.row)
	})
}

func (w *worker) forget(ctx context.Context) error {
	return w.DB.Update(ctx, func(tx *store.Tx) error { return offers.Delete(tx, w.m.Consumer+"/"+w.id) })
}

// adoptAgent accepts an Agent that agrees with the host. A host that a lost state of the store may
// have installed is not installed again.
func (w *worker) adoptAgent(ctx context.Context) error {
	lost := w.isLost()
	if w.row == nil {
		w.row = &Offered{HostID: w.id}
	}
	sequence, err := strconv.ParseUint(w.agent.Annotations[annotationSequence], 10, 64)
	if err != nil {
		sequence = 0
	}
	w.row.UID, w.row.Sequence = string(w.agent.UID), max(w.row.Sequence, sequence)
	w.row.Bound, w.row.Installed = w.cluster(), w.cluster() != "" && (lost || w.row.Installed)
	w.noteChoice()
	return w.change(ctx)
}

func (w *worker) noteChoice() {
	w.row.Choice, w.row.Generation = choiceOf(w.agent), w.agent.Generation
}

// bindHost binds the host to the engine's cluster for the chosen hosted cluster.
func (w *worker) bindHost(ctx context.Context) error {
	cluster, err := w.ensureCluster(ctx)
	if err != nil {
		return err
	}
	if _, err := w.Engine.BindHost(ctx, w.host.InfraEnvID.String(), w.id, cluster); err != nil {
		return err
	}
	w.row.Bound, w.row.Installed, w.row.Token = cluster, false, ""
	w.noteChoice()
	if err := w.change(ctx); err != nil {
		return err
	}
	if err := w.readHost(); err != nil {
		return err
	}
	return w.configure(ctx)
}

// followChoice gives the host what its Agent's spec says, and installs it once.
func (w *worker) followChoice(ctx context.Context) error {
	if w.agent.Generation != w.row.Generation {
		w.noteChoice()
		if err := w.change(ctx); err != nil {
			return err
		}
	}
	if err := w.configure(ctx); err != nil {
		return err
	}
	switch w.status() {
	case models.HostStatusKnown:
		if w.row.Installed {
			return fault.New(fault.Conflict, "The host was installed once for this node pool, and runs the discovery "+
				"image again. It is not installed again without a person: landfall host install %s.", w.id)
		}
		if _, err := w.ensureCluster(ctx); err != nil {
			return err // the endpoint may have changed since the host was bound
		}
		if _, err := w.Engine.InstallHost(ctx, w.host.InfraEnvID.String(), w.id); err != nil {
			return err
		}
		if err := w.readHost(); err != nil {
			return err
		}
	case models.HostStatusInstalling, models.HostStatusInstallingInProgress, models.HostStatusAddedToExistingCluster,
		models.HostStatusInstallingPendingUserAction, models.HostStatusError:
	default:
		return nil
	}
	if w.row.Installed {
		return nil
	}
	w.row.Installed = true
	return w.change(ctx)
}

// configure sets the pool, the token and the headers with which the host fetches its Ignition
// config.
func (w *worker) configure(ctx context.Context) error {
	choice := w.row.Choice
	if !slices.Contains([]string{models.HostStatusBinding, models.HostStatusDiscovering, models.HostStatusKnown,
		models.HostStatusInsufficient, models.HostStatusPendingForInput, models.HostStatusDisconnected}, w.status()) ||
		choice.TokenName == "" {
		return nil
	}
	if choice.TokenNamespace != choice.Namespace {
		return fault.New(fault.Invalid, "The Agent names the Secret %s/%s with its token, which is not in the "+
			"namespace of the control plane.", choice.TokenNamespace, choice.TokenName)
	}
	token, err := w.secret(ctx, choice.TokenNamespace, choice.TokenName, ignitionToken)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(token)
	digest := hex.EncodeToString(sum[:])
	if w.row.Token == digest && w.host.MachineConfigPoolName == choice.MachineConfigPool &&
		maps.Equal(w.host.EndpointHeaders, choice.Headers) {
		return nil
	}
	params := &models.HostUpdateParams{IgnitionEndpointToken: conv.Pointer(string(token)),
		MachineConfigPoolName:       &choice.MachineConfigPool,
		IgnitionEndpointHTTPHeaders: []*models.IgnitionEndpointHTTPHeadersParams{}}
	for _, name := range slices.Sorted(maps.Keys(choice.Headers)) {
		params.IgnitionEndpointHTTPHeaders = append(params.IgnitionEndpointHTTPHeaders,
			&models.IgnitionEndpointHTTPHeadersParams{Key: conv.Pointer(name),
				Value: conv.Pointer(choice.Headers[name])})
	}
	if _, err := w.Engine.UpdateHost(ctx, w.host.InfraEnvID.String(), w.id, params); err != nil {
		return err
	}
	w.row.Token = digest
	if err := w.save(ctx); err != nil {
		return err
	}
	return w.readHost()
}

// secret returns a value of a Secret of the management cluster.
func (w *worker) secret(ctx context.Context, namespace, name, key string) ([]byte, error) {
	var found core.Secret
	err := w.client.Get(ctx, secretKind, namespace, name, &found)
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("read the Secret %s/%s: %w", namespace, name, err)
	}
	if len(found.Data[key]) == 0 {
		return nil, fault.New(fault.NotFound, "The management cluster has no Secret %s/%s with the key %s.", namespace,
			name, key)
	}
	return found.Data[key], nil
}

// unbindHost takes the host out of its cluster. An installed host keeps its disk: it joins again
// only after it was restarted from the discovery image.
func (w *worker) unbindHost(ctx context.Context) error {
	env := w.host.InfraEnvID.String()
	if slices.Contains([]string{models.HostStatusInstalling, models.HostStatusInstallingInProgress,
		models.HostStatusInstallingPendingUserAction}, w.status()) {
		if _, err := w.Engine.ResetHost(ctx, env, w.id); err != nil {
			return err
		}
	}
	if _, err := w.Engine.UnbindHost(ctx, env, w.id); err != nil {
		return err
	}
	if err := w.readHost(); err != nil {
		return err
	}
	return w.leave(ctx)
}

// leave notes that the host has left its cluster.
func (w *worker) leave(ctx context.Context) error {
	w.row.Bound, w.row.Choice, w.row.Token, w.row.Installed = "", nil, "", false
	w.row.Generation = w.agent.Generation
	return w.change(ctx)
}

// readHost reads the host again after a change.
func (w *worker) readHost() error {
	return w.DB.View(func(tx *store.Tx) (err error) {
		w.host, err = w.Engine.Rows(tx).Host(w.host.Key())
		return err
	})
}

// ensureCluster returns the cluster of the engine that stands for the chosen hosted cluster, with
// its ignition endpoint. It registers the cluster if necessary.
func (w *worker) ensureCluster(ctx context.Context) (id string, err error) {
	if !w.of.Deleted.IsZero() {
		return "", fault.New(fault.Conflict, "The hosted cluster %s is being deleted.", w.of.ID.Cluster)
	}
	endpoint, err := w.endpoint(ctx)
	if err != nil {
		return "", err
	}
	if id = w.joined[w.of.CID]; id == "" {
		if id, err = w.registerCluster(ctx); err != nil {
			return "", err
		}
		w.joined[w.of.CID] = id
	}
	var held *models.IgnitionEndpoint
	if err := w.DB.View(func(tx *store.Tx) error {
		cluster, err := w.Engine.Rows(tx).Cluster(id)
		if err == nil {
			held = cluster.IgnitionEndpoint
		}
		return err
	}); err != nil {
		return "", err
	}
	if held != nil && conv.Value(held.URL) == *endpoint.URL &&
		conv.Value(held.CaCertificate) == conv.Value(endpoint.CaCertificate) {
		return id, nil
	}
	_, err = w.Engine.UpdateCluster(ctx, id, &models.V2ClusterUpdateParams{IgnitionEndpoint: endpoint})
	return id, err
}

// endpoint returns the ignition endpoint of the hosted cluster, which the provider writes into an
// AgentClusterInstall.
func (w *worker) endpoint(ctx context.Context) (*models.IgnitionEndpoint, error) {
	var install struct {
		Spec struct {
			Endpoint *struct {
				URL string `json:"url"`
				CA  *struct {
					Namespace string `json:"namespace"`
					Name      string `json:"name"`
				} `json:"caCertificateReference"`
			} `json:"ignitionEndpoint"`
		} `json:"spec"`
	}
	choice := choiceOf(w.agent)
	err := w.client.Get(ctx, installKind, choice.Namespace, choice.Name, &install)
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("read the AgentClusterInstall %s: %w", choice.cluster(), err)
	}
	given := install.Spec.Endpoint
	if given == nil || given.URL == "" {
		return nil, fault.New(fault.Unavailable, "The hosted cluster %s has no ignition endpoint yet: the "+
			"AgentClusterInstall %s does not name one.", w.of.ID.Cluster, choice.cluster())
	}
	endpoint := &models.IgnitionEndpoint{URL: &given.URL, CaCertificate: conv.Pointer("")}
	if given.CA != nil {
		ca, err := w.secret(ctx, given.CA.Namespace, given.CA.Name, core.TLSCertKey)
		if err != nil {
			return nil, err
		}
		endpoint.CaCertificate = conv.Pointer(base64.StdEncoding.EncodeToString(ca))
	}
	return endpoint, nil
}

// registerCluster registers the hosted cluster in the engine as a cluster that accepts more hosts.
// After a crash it finds the cluster that it has registered.
func (w *worker) registerCluster(ctx context.Context) (id string, err error) {
	uuid := strfmt.UUID(w.of.UUID)
	if err := w.DB.View(func(tx *store.Tx) error {
		rows := w.Engine.Rows(tx)
		ids, err := rows.ClusterIDs()
		if err != nil {
			return err
		}
		for _, other := range ids {
			cluster, err := rows.Cluster(other)
			if err != nil {
				return err
			}
			if conv.Value(cluster.Imported) && cluster.OpenshiftClusterID == uuid {
				id = other
			}
		}
		return nil
	}); err != nil {
		return "", err
	}
	if id == "" {
		cluster, err := w.Engine.ImportCluster(ctx, &models.ImportClusterParams{Name: &w.of.Prefix,
			APIVipDnsname:      conv.Pointer("api." + w.of.Prefix + "." + w.m.BaseDomain),
			OpenshiftClusterID: &uuid, OpenshiftVersion: w.of.Release.Version})
		if err != nil {
			return "", err
		}
		id = cluster.ID.String()
	}
	return id, w.DB.Update(ctx, func(tx *store.Tx) error {
		return clusters.Put(tx, id, &joined{w.m.Consumer, w.of.CID})
	})
}

// removeClusters removes the clusters of the engine whose hosted clusters are gone, once they have
// no hosts.
func (c *comparison) removeClusters(ctx context.Context) error {
	there := map[string]bool{}
	for _, hosted := range c.hosted {
		there[hosted.CID] = true
	}
	for cid, id := range c.joined {
		if there[cid] {
			continue
		}
		left := 0
		if err := c.DB.View(func(tx *store.Tx) error {
			hosts, err := c.Engine.Rows(tx).ClusterHosts(id)
			left = len(hosts)
			if store.IsDamaged(err) {
				left, err = 1, nil
			}
			return err
		}); err != nil {
			return err
		}
		if left > 0 {
			continue
		}
		if err := c.Engine.DeregisterCluster(ctx, id, false); err != nil && fault.KindOf(err) != fault.NotFound {
			return err
		}
		if err := c.DB.Update(ctx, func(tx *store.Tx) error { return clusters.Delete(tx, id) }); err != nil {
			return err
		}
	}
	return nil
}
