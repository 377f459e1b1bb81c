package engine

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/openshift/assisted-service/models"

	"landfall/appliance/engine/event"
	"landfall/appliance/engine/record"
	"landfall/appliance/mirror"
	"landfall/store"
)

// InstallSource describes the images that an installation pulls, and the credentials for them.
type InstallSource struct {
	ClusterID    string
	Name         string
	Release      string // pull spec
	Version      string
	Architecture string // as in the API
	Platform     string // as in install-config
	PullSecret   string
	// TrustBundle holds additional CA certificates (PEM) for the nodes, on top of those in the
	// mirror rules.
	TrustBundle []byte
	// Also lists images that are not in the release: those of the programs on hosts, if the
	// appliance's configuration sets them.
	Also []string
}

// MirrorProof is the result of checking the mirror for the images of an installation.
type MirrorProof struct {
	// Complete is true if no image is missing. It is also true if nothing was checked, because the
	// release does not come from a mirror.
	Complete bool
	Images   int    // number of checked images; 0 if nothing was checked
	Gaps     int    // number of images that cannot be pulled
	Summary  string // a sentence
}

// MirrorProver checks that the site's mirror has all images that an installation pulls. It calls
// progress with the number of checked images.
type MirrorProver interface {
	ProveMirror(ctx context.Context, source InstallSource, progress func(done, total int)) (MirrorProof, error)
}

// InstallSource returns the images that the installation of a cluster would pull.
func (e *Engine) InstallSource(id string) (InstallSource, error) {
	row, err := record.ReadCluster(e.options.DB, id)
	if err != nil {
		return InstallSource{}, err
	}
	secret, err := record.OpenSecret(e.options.Secrets, row.PullSecret)
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
		keys, err := record.ClusterHostKeys(tx, id)
		if err != nil {
			return err
		}
		for _, key := range keys {
			h, err := record.Hosts.Get(tx, key)
			if err != nil {
				return err
			}
			env, err := record.InfraEnvs.Get(tx, h.API.InfraEnvID.String())
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

// AcceptMirrorGaps sets whether a cluster may be installed although the mirror lacks images.
func (e *Engine) AcceptMirrorGaps(ctx context.Context, id string, accept bool) error {
	return e.update(ctx, func(c *change) error {
		row, err := c.cluster(id)
		if err != nil || row.MirrorGapsAccepted == accept {
			return err
		}
		row.MirrorGapsAccepted = accept
		c.saveCluster(row)
		if !accept {
			return c.clusterEvent(row, event.MirrorGapsAccepted, models.EventSeverityInfo,
				"Cluster %s: the installation again requires a mirror without gaps.", row.API.Name)
		}
		return c.clusterEvent(row, event.MirrorGapsAccepted, models.EventSeverityWarning,
			"Cluster %s: a user accepted that the mirror lacks images.", row.API.Name)
	})
}

// NoteMirrorProof adds the result of a mirror check to the events of a cluster.
func (e *Engine) NoteMirrorProof(ctx context.Context, id string, proof MirrorProof) error {
	return e.noteMirrorProof(ctx, id, proof, true)
}

// NoteNewMirrorProof is like NoteMirrorProof, but adds no event if the result is the same as the
// last one. After each start, the appliance checks the mirror again for clusters that are ready.
func (e *Engine) NoteNewMirrorProof(ctx context.Context, id string, proof MirrorProof) error {
	return e.noteMirrorProof(ctx, id, proof, false)
}

func (e *Engine) noteMirrorProof(ctx context.Context, id string, proof MirrorProof, repeat bool) error {
	if proof.Images == 0 {
		return nil
	}
	return e.update(ctx, func(c *change) error {
		row, err := c.cluster(id)
		if err != nil {
			return err
		}
		result := fmt.Sprintf("%s: %d images, %d gaps", row.API.OcpReleaseImage, proof.Images, proof.Gaps)
		if row.MirrorProof == result && !repeat {
			return nil
		}
		row.MirrorProof = result
		c.saveCluster(row)
		if proof.Complete {
			return c.clusterEvent(row, event.MirrorProven, models.EventSeverityInfo, "Cluster %s: %s", row.API.Name,
				proof.Summary)
		}
		return c.clusterEvent(row, event.MirrorGaps, models.EventSeverityWarning, "Cluster %s: %s", row.API.Name,
			proof.Summary)
	})
}

// proveMirror checks the mirror before an installation. Missing images are an error unless a user
// has accepted them.
func (e *Engine) proveMirror(ctx context.Context, id string, note func(format string, args ...any) error) error {
	if e.options.MirrorProver == nil {
		return nil
	}
	source, err := e.InstallSource(id)
	if err != nil {
		return err
	}
	const step = 25 // number of images between two progress updates, each of which is a transaction
	proof, err := e.options.MirrorProver.ProveMirror(ctx, source, func(done, total int) {
		if done%step != 0 {
			return
		}
		if err := note("Preparing the installation: checking the images in the mirror, %d of %d.", done,
			total); err != nil {
			e.options.Logger.Debug("The progress of the mirror check could not be recorded.", "cluster", id, "error",
				err)
		}
	})
	if err != nil {
		return err
	}
	if err := e.NoteMirrorProof(ctx, id, proof); err != nil || proof.Complete {
		return err
	}
	row, err := record.ReadCluster(e.options.DB, id)
	if err != nil || row.MirrorGapsAccepted {
		return err
	}
	return fmt.Errorf("%s Import the missing images (the Mirror page lists them), or accept the gaps: "+
		"landfall mirror accept-gaps --cluster %s", proof.Summary, id)
}
