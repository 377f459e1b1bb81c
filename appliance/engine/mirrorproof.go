package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/openshift/assisted-service/models"

	"landfall/appliance/mirror"
	"landfall/store"
)

const (
	eventMirrorProven       = "mirror_proven"        // ours: the mirror holds all that an installation pulls
	eventMirrorGaps         = "mirror_gaps_found"    // ours: it does not
	eventMirrorGapsAccepted = "mirror_gaps_accepted" // ours: a person wants the installation all the same
)

// InstallSource is what an installation pulls, and as whom.
type InstallSource struct {
	ClusterID    string
	Name         string
	Release      string // pull spec
	Version      string
	Architecture string // as the API calls it
	Platform     string // as install-config calls it
	PullSecret   string
	// TrustBundle are the CAs (PEM) that the nodes trust beside those of the mirror rules.
	TrustBundle []byte
	// Also are images beside the release's: the programs on the hosts, where the site has its own.
	Also []string
}

// MirrorProof is what a proof of the mirror came to.
type MirrorProof struct {
	// Complete: nothing is missing, or nothing is to be proven, since the release does not come
	// from a mirror.
	Complete bool
	Images   int    // proven; 0 if nothing was to be
	Gaps     int    // images that can't be had
	Summary  string // a sentence
}

// MirrorProver proves that the site's mirror holds what an installation pulls. The progress is a
// clause.
type MirrorProver interface {
	ProveMirror(ctx context.Context, source InstallSource, progress func(done, total int)) (MirrorProof, error)
}

// InstallSource says what the installation of a cluster would pull.
func (e *Engine) InstallSource(id string) (InstallSource, error) {
	row, err := e.clusterRow(id)
	if err != nil {
		return InstallSource{}, err
	}
	secret, err := e.openSecret(row.PullSecret)
	if err != nil {
		return InstallSource{}, err
	}
	source := InstallSource{
		ClusterID: id, Name: row.API.Name, Release: row.API.OcpReleaseImage, Version: row.API.OpenshiftVersion,
		Architecture: row.API.CPUArchitecture,
		PullSecret:   secret, Also: []string{e.options.Images.Agent, e.options.Images.Installer,
			e.options.Images.Controller},
	}
	if row.API.Platform != nil && row.API.Platform.Type != nil {
		source.Platform = string(*row.API.Platform.Type)
	}
	bundles := map[string]bool{}
	err = e.options.DB.View(func(tx *store.Tx) error {
		keys, err := clusterHostKeys(tx, id)
		if err != nil {
			return err
		}
		for _, key := range keys {
			h, err := hostRows.Get(tx, key)
			if err != nil {
				return err
			}
			env, err := infraEnvRows.Get(tx, h.API.InfraEnvID.String())
			if err != nil {
				return err
			}
			bundles[env.API.AdditionalTrustBundle] = true
		}
		return nil
	})
	source.TrustBundle = mirror.JoinBundles(slices.Sorted(maps.Keys(bundles))...)
	return source, err
}

// AcceptMirrorGaps has a cluster be installed although the mirror lacks images, or takes that back.
func (e *Engine) AcceptMirrorGaps(ctx context.Context, id string, accept bool) error {
	return e.update(ctx, func(c *change) error {
		row, err := c.cluster(id)
		if err != nil || row.MirrorGapsAccepted == accept {
			return err
		}
		row.MirrorGapsAccepted = accept
		c.saveCluster(row)
		if !accept {
			return c.clusterEvent(row, eventMirrorGapsAccepted, models.EventSeverityInfo,
				"Cluster %s: gaps of the mirror keep it from being installed again.", row.API.Name)
		}
		return c.clusterEvent(row, eventMirrorGapsAccepted, models.EventSeverityWarning,
			"Cluster %s: it is to be installed although images are missing in the mirror, at the wish of a person.",
			row.API.Name)
	})
}

// NoteMirrorProof tells the people who look at a cluster what a proof of the mirror came to.
func (e *Engine) NoteMirrorProof(ctx context.Context, id string, proof MirrorProof) error {
	if proof.Images == 0 {
		return nil
	}
	return e.update(ctx, func(c *change) error {
		row, err := c.cluster(id)
		if err != nil {
			return err
		}
		if proof.Complete {
			return c.clusterEvent(row, eventMirrorProven, models.EventSeverityInfo, "Cluster %s: %s", row.API.Name,
				proof.Summary)
		}
		return c.clusterEvent(row, eventMirrorGaps, models.EventSeverityWarning, "Cluster %s: %s", row.API.Name,
			proof.Summary)
	})
}

// proveMirror has the mirror proven before an installation. Gaps end the preparation unless a
// person accepted them.
func (e *Engine) proveMirror(ctx context.Context, id string, note func(format string, args ...any) error) error {
	if e.options.MirrorProver == nil {
		return nil
	}
	source, err := e.InstallSource(id)
	if err != nil {
		return err
	}
	const step = 25 // images between two notes: each is a transaction
	proof, err := e.options.MirrorProver.ProveMirror(ctx, source, func(done, total int) {
		if done%step != 0 {
			return
		}
		if err := note("Preparing the installation: asking the mirror for all images, %d of %d.", done,
			total); err != nil {
			e.options.Logger.Debug("The proof's progress could not be noted.", "cluster", id, "error", err)
		}
	})
	if err != nil {
		return err
	}
	if err := e.NoteMirrorProof(ctx, id, proof); err != nil || proof.Complete {
		return err
	}
	row, err := e.clusterRow(id)
	if err != nil || row.MirrorGapsAccepted {
		return err
	}
	return fmt.Errorf("%s Bring what is missing (the Mirror page has the list), or have it installed all the same: "+
		"landfall mirror accept-gaps --cluster %s", proof.Summary, id)
}

// ReadyToInstall tells whether a cluster only waits for a person to press Install. One that is gone
// does not.
func (e *Engine) ReadyToInstall(id string) (ready bool, err error) {
	err = e.options.DB.View(func(tx *store.Tx) error {
		row, err := clusterStatuses.Get(tx, id)
		if errors.Is(err, store.ErrNotFound) {
			return nil
		}
		ready = err == nil && row.API.Status == clusterReady
		return err
	})
	return ready, err
}
