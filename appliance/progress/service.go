package progress

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"github.com/go-openapi/strfmt"
	"github.com/jonboulle/clockwork"

	"landfall/appliance/engine/event"
	"landfall/appliance/engine/lifecycle"
	"landfall/appliance/engine/record"
	"landfall/appliance/fault"
	"landfall/store"
)

// finished holds the records of finished installations by <time of the end>/<digest of cluster id>.
var finished = store.NewBucket[Past]("finished-installations", 1)

// keepPast is the number of records that are kept.
const keepPast = 50

// keyTime is a time format whose texts sort like the times.
const keyTime = "20060102T150405.000"

// Options are the parts that a service needs.
type Options struct {
	DB     *store.DB
	Events func(event.Filter) (*event.Page, error)
	Clock  clockwork.Clock
	Logger *slog.Logger
}

// Service explains the installations of a site.
type Service struct{ Options }

// NewService returns a service.
func NewService(options Options) *Service { return &Service{options} }

// Progress explains the newest installation of a cluster.
func (s *Service) Progress(clusterID string) (*Progress, error) {
	e, err := s.evidence(clusterID)
	if err != nil {
		return nil, err
	}
	return Derive(e), nil
}

func (s *Service) evidence(clusterID string) (Evidence, error) {
	e := Evidence{Now: s.Clock.Now()}
	err := s.DB.View(func(tx *store.Tx) error {
		row, err := record.Clusters.Get(tx, clusterID)
		if errors.Is(err, store.ErrNotFound) {
			return fault.New(fault.NotFound, "There is no cluster %s.", clusterID)
		}
		if err != nil {
			return err
		}
		e.Cluster = &row.API
		keys, err := record.ClusterHostKeys(tx, clusterID)
		if err != nil {
			return err
		}
		for _, key := range keys {
			host, err := record.Hosts.Get(tx, key)
			if store.IsDamaged(err) {
				continue // the installation goes on without it
			}
			if err != nil {
				return err
			}
			e.Hosts = append(e.Hosts, host)
		}
		return finished.Each(tx, "", func(_ string, past *Past) error {
			e.Past = append(e.Past, past)
			return nil
		})
	})
	if err != nil {
		return e, fmt.Errorf("read the installation: %w", err)
	}
	page, err := s.Events(event.Filter{ClusterID: clusterID})
	if err != nil {
		return e, fmt.Errorf("read the events of the installation: %w", err)
	}
	e.Events = page.Events
	return e, nil
}

// Run records finished installations until the context ends. It first records those that ended
// while the appliance was off.
func (s *Service) Run(ctx context.Context) error {
	const prefix = "/clusters/"
	for ctx.Err() == nil {
		from := s.DB.Revision()
		if err := s.recordAll(ctx); err != nil {
			s.Logger.Warn("The durations of some installations could not be recorded.", "error", err)
		}
		watcher := s.DB.Watch(ctx, from, prefix)
		for changes := range watcher.C() {
			for _, change := range changes {
				if change.Deleted {
					continue
				}
				err := s.recordIfFinished(ctx, strings.TrimPrefix(change.Key, prefix))
				if err != nil && ctx.Err() == nil {
					s.Logger.Warn("The durations of an installation could not be recorded.", "error", err)
				}
			}
		}
		if err := watcher.Err(); !errors.Is(err, store.ErrCompacted) && ctx.Err() == nil {
			return fmt.Errorf("follow the changes of clusters: %w", err)
		}
	}
	return nil
}

// recordAll records those of the newest finished installations that have no record.
func (s *Service) recordAll(ctx context.Context) error {
	clusters := make(map[string]string) // cluster IDs by the key of the record
	err := s.DB.View(func(tx *store.Tx) error {
		return record.ClusterSummaries.Each(tx, "", func(id string, row *record.ClusterSummary) error {
			if key := keyOf(row); key != "" {
				clusters[key] = id
			}
			return nil
		})
	})
	keys := slices.Sorted(maps.Keys(clusters))
	for _, key := range keys[max(0, len(keys)-keepPast):] {
		err = errors.Join(err, s.recordIfFinished(ctx, clusters[key]))
	}
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("record finished installations: %w", err)
	}
	return nil
}

// keyOf returns the key of the record of a cluster's installation, or "" if it has not succeeded.
func keyOf(row *record.ClusterSummary) string {
	if row.API.Status != lifecycle.ClusterInstalled && row.API.Status != lifecycle.ClusterAddingHosts {
		return ""
	}
	started, err := strfmt.ParseDateTime(row.API.InstallStartedAt)
	ended, err2 := strfmt.ParseDateTime(row.API.InstallCompletedAt)
	if err != nil || err2 != nil || moment(started).IsZero() || moment(ended).IsZero() {
		return ""
	}
	digest := sha256.Sum256([]byte(row.API.ID.String()))
	return moment(ended).Format(keyTime) + "/" + hex.EncodeToString(digest[:8])
}

// recordIfFinished records the durations of a cluster's installation if it has succeeded and has no
// record.
func (s *Service) recordIfFinished(ctx context.Context, id string) error {
	key := ""
	err := s.DB.View(func(tx *store.Tx) error {
		row, err := record.ClusterSummaries.Get(tx, id)
		if err != nil {
			return err
		}
		if key = keyOf(row); finished.Exists(tx, key) {
			key = ""
		}
		return nil
	})
	if errors.Is(err, store.ErrNotFound) || err == nil && key == "" {
		return nil
	}
	if err != nil {
		return err
	}
	e, err := s.evidence(id)
	if err != nil {
		return err
	}
	e.Past = nil
	past := Summarize(Derive(e), shapeOf(e.Cluster, e.Hosts))
	return s.DB.Update(ctx, func(tx *store.Tx) error {
		if err := finished.Put(tx, key, past); err != nil {
			return err
		}
		var keys []string
		if err := finished.Keys(tx, "", func(key string) error {
			keys = append(keys, key)
			return nil
		}); err != nil {
			return err
		}
		for _, old := range keys[:max(0, len(keys)-keepPast)] {
			if err := finished.Delete(tx, old); err != nil {
				return err
			}
		}
		return nil
	})
}
