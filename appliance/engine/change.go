package engine

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/go-openapi/strfmt"
	"github.com/openshift/assisted-service/models"

	"landfall/appliance/engine/event"
	"landfall/appliance/engine/inventory"
	"landfall/appliance/engine/record"
	"landfall/appliance/engine/validationcache"
	"landfall/store"
)

// change is one transaction: the records that it has loaded and changed, and the notifications to
// send after its commit.
type change struct {
	ctx context.Context
	e   *Engine
	tx  *store.Tx
	now time.Time

	clusters                                  map[string]*record.Cluster
	infraEnvs                                 map[string]*record.InfraEnv
	hosts                                     map[string]*record.Host
	dirtyClusters, dirtyInfraEnvs, dirtyHosts map[string]bool

	refresh      []string // clusters whose states and validations must be recomputed
	unboundHosts []string // hosts without a cluster that must be recomputed

	facts     map[string]*inventory.Facts      // of hosts, with the edits of this change
	validated map[string]validationcache.Entry // results of the validations that the change ran
	digester  validationcache.Digester
	reading   bool // the change only reads committed records
	reported  bool // an agent or the clock causes the change; see Touched.Reported

	events          int
	written         []*models.Event         // only if there is a projector
	firstEvent      event.ID                // of written
	budgets         map[string]event.Budget // budgets from which the change took events
	touchedHosts    []string
	deletedHosts    []string
	deletedClusters []string

	deletedHostObjects, deletedClusterObjects, deletedInfraEnvObjects map[string]record.Object

	deadline            time.Time // the earliest deadline that the change set
	preparationsChanged bool      // the set of clusters to prepare changed
	joiningChanged      bool      // the set of awaited hosts may have changed
	logLines            []logLine
	readResult          func() error // reads the result for the caller, after settling
}

type logLine struct {
	level   slog.Level
	message string
	attrs   []any
}

func newChange(ctx context.Context, e *Engine, tx *store.Tx) *change {
	return &change{
		ctx: ctx, e: e, tx: tx, now: e.checkClock().UTC(),
		clusters:  make(map[string]*record.Cluster),
		infraEnvs: make(map[string]*record.InfraEnv),
		hosts:     make(map[string]*record.Host),
		facts:     make(map[string]*inventory.Facts),
		validated: make(map[string]validationcache.Entry),

		dirtyClusters:  make(map[string]bool),
		dirtyInfraEnvs: make(map[string]bool),
		dirtyHosts:     make(map[string]bool),

		deletedHostObjects: make(map[string]record.Object), deletedClusterObjects: make(map[string]record.Object),
		deletedInfraEnvObjects: make(map[string]record.Object),
	}
}

// newReading returns a change that only loads committed records. It is never settled.
func newReading(ctx context.Context, e *Engine, tx *store.Tx) *change {
	c := newChange(ctx, e, tx)
	c.reading = true
	return c
}

func (c *change) dateTime() strfmt.DateTime { return strfmt.DateTime(c.now) }

func (c *change) log(level slog.Level, message string, attrs ...any) {
	c.logLines = append(c.logLines, logLine{level, message, attrs})
}

// load reads a record once per change, so that all parts of a change share one copy.
func load[T any](c *change, held map[string]*T, rows store.Bucket[T], key, what string) (*T, error) {
	if row, ok := held[key]; ok {
		return row, nil
	}
	row, err := rows.Get(c.tx, key)
	if errors.Is(err, store.ErrNotFound) {
		return nil, notFound("There is no %s %s.", what, key)
	}
	if err != nil {
		return nil, err
	}
	held[key] = row
	return row, nil
}

func (c *change) cluster(id string) (*record.Cluster, error) {
	return load(c, c.clusters, record.Clusters, id, "cluster")
}

func (c *change) infraEnv(id string) (*record.InfraEnv, error) {
	return load(c, c.infraEnvs, record.InfraEnvs, id, "infra-env")
}

func (c *change) host(key string) (*record.Host, error) {
	return load(c, c.hosts, record.Hosts, key, "host")
}

// settleLater marks the host's cluster, or the host if it has none, for recomputation before the
// commit.
func (c *change) settleLater(h *record.Host) {
	if h.API.ClusterID != nil {
		c.settleCluster(h.API.ClusterID.String())
		return
	}
	if key := record.HostKey(h); !slices.Contains(c.unboundHosts, key) {
		c.unboundHosts = append(c.unboundHosts, key)
	}
}

func (c *change) settleCluster(id string) {
	if !slices.Contains(c.refresh, id) {
		c.refresh = append(c.refresh, id)
	}
}

// hostsOf returns all hosts of a cluster. It fails if the row of one is damaged.
func (c *change) hostsOf(clusterID string) ([]*record.Host, error) {
	hosts, damaged, err := c.readableHostsOf(clusterID)
	if err == nil && len(damaged) > 0 {
		_, err = c.host(damaged[0])
	}
	return hosts, err
}

// readableHostsOf returns the hosts of a cluster without those whose rows are damaged, and the keys
// of these.
func (c *change) readableHostsOf(clusterID string) (hosts []*record.Host, damaged []string, err error) {
	keys, err := record.ClusterHostKeys(c.tx, clusterID)
	if err != nil {
		return nil, nil, err
	}
	hosts = make([]*record.Host, 0, len(keys))
	for _, key := range keys {
		h, err := c.host(key)
		if store.IsDamaged(err) {
			damaged = append(damaged, key)
			continue
		}
		if err != nil {
			return nil, nil, err
		}
		hosts = append(hosts, h)
	}
	return hosts, damaged, nil
}

// settle recomputes everything that depends on the changed records and writes all records.
func (c *change) settle() error {
	for _, id := range c.refresh {
		if err := c.refreshCluster(id); err != nil {
			return err
		}
	}
	for _, key := range c.unboundHosts {
		if err := c.refreshUnbound(key); err != nil {
			return err
		}
	}
	return c.write()
}

// saveCluster, saveInfraEnv and saveHost mark a loaded record as changed. Settling writes only
// changed records.
func (c *change) saveCluster(row *record.Cluster) {
	id := row.API.ID.String()
	c.clusters[id] = row
	c.dirtyClusters[id] = true
}

func (c *change) saveInfraEnv(row *record.InfraEnv) {
	id := row.API.ID.String()
	c.infraEnvs[id] = row
	c.dirtyInfraEnvs[id] = true
}

func (c *change) saveHost(row *record.Host) {
	key := record.HostKey(row)
	c.hosts[key] = row
	c.dirtyHosts[key] = true
}

// write writes the changed records. The instructions of a host depend on its cluster and on the
// other hosts, so a changed cluster invalidates the prepared instructions of all its hosts.
func (c *change) write() error {
	for id := range c.dirtyClusters {
		row := c.clusters[id]
		row.API.UpdatedAt = c.now
		if err := errors.Join(record.Seal(c.e.options.Secrets, &row.PullSecret), record.Clusters.Put(c.tx, id, row),
			c.setClusterDeadline(id, row),
			c.updateOutbox(row)); err != nil {
			return err
		}
		keys, err := record.ClusterHostKeys(c.tx, id)
		if err != nil {
			return err
		}
		c.touchedHosts = append(c.touchedHosts, keys...)
	}
	for id := range c.dirtyInfraEnvs {
		row := c.infraEnvs[id]
		if err := errors.Join(record.Seal(c.e.options.Secrets, &row.PullSecret),
			record.InfraEnvs.Put(c.tx, id, row)); err != nil {
			return err
		}
	}
	for key := range c.dirtyHosts {
		row := c.hosts[key]
		row.API.UpdatedAt = c.now
		if err := errors.Join(record.Hosts.Put(c.tx, key, row), c.setHostDeadline(key, row),
			c.indexJoining(key, row)); err != nil {
			return err
		}
		c.touchedHosts = append(c.touchedHosts, key)
	}
	return nil
}
