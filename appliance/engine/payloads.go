package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/openshift/assisted-service/models"

	"landfall/appliance/architecture"
	"landfall/appliance/engine/description"
	"landfall/appliance/engine/event"
	"landfall/appliance/engine/record"
	"landfall/appliance/fault"
	"landfall/appliance/mirror"
	"landfall/appliance/release"
	"landfall/appliance/sentence"
	"landfall/store"
)

// payload resolves a release through the mirror and rejects a release that the site does not allow.
// The result is stored, so that hosts can boot while the registry is unavailable.
func (e *Engine) payload(ctx context.Context, releases Releases, pullSpec, arch,
	secret string) (*release.Payload, error) {
	credentials, err := e.credentials(secret)
	if err != nil {
		return nil, err
	}
	payload, err := releases.Payload(ctx, pullSpec, arch, credentials)
	if err != nil {
		return nil, err
	}
	if e.options.ReleasePolicy != nil {
		if err := e.options.ReleasePolicy.Check(ctx, pullSpec, payload.Digest, credentials); err != nil {
			return nil, err
		}
	}
	if err := e.options.DB.Update(ctx, func(tx *store.Tx) error {
		return record.Payloads.Put(tx, record.PayloadKey(pullSpec, arch), &record.Payload{
			Image: payload.Image, Digest: payload.Digest, Version: payload.Version, Arch: payload.Architecture,
			Images: payload.Images,
		})
	}); err != nil && ctx.Err() == nil {
		// The payload can be read again later. A full disk must not prevent hosts from booting.
		e.options.Logger.Warn("A release payload could not be cached.", "release", payload.Image, "error", err)
	}
	return payload, nil
}

// credentials returns the credentials of a stored pull secret.
func (e *Engine) credentials(secret string) (authn.Keychain, error) {
	secret, err := record.OpenSecret(e.options.Secrets, secret)
	if err != nil {
		return nil, err
	}
	credentials, err := mirror.ParsePullSecret(secret)
	if err != nil {
		return nil, &fault.Error{Kind: fault.Invalid, Reason: sentence.New(err), Err: err}
	}
	return credentials, nil
}

// agentImage returns the pull spec of an infra-env's agent. If it is not stored, agentImage reads
// it from the registry.
func (e *Engine) agentImage(ctx context.Context, row *record.InfraEnv) (string, error) {
	var stored, pullSpec string
	err := e.options.DB.View(func(tx *store.Tx) (err error) {
		if stored, err = e.localAgentImage(tx, row); err != nil || stored != "" {
			return err
		}
		pullSpec, err = e.agentRelease(tx, row)
		return err
	})
	if err != nil || stored != "" {
		return stored, err
	}
	payload, err := e.payload(ctx, e.infraEnvAccess(&row.API).Releases, pullSpec, row.API.CPUArchitecture,
		row.PullSecret)
	if err != nil {
		return "", unavailable(err,
			"The discovery image can't be generated, because the agent's image can't be read from the release "+
				"payload: %s",
			sentence.Ending(err))
	}
	image, err := payload.Component(release.TagAgent)
	if err != nil {
		return "", unavailable(err, "%s", sentence.New(err))
	}
	return image, nil
}

// ReleaseAllowed adds an event to each cluster whose release an administrator allowed.
func (e *Engine) ReleaseAllowed(ctx context.Context, digest, by string) error {
	return e.addReleaseEvents(ctx, digest, event.ReleaseAllowed, "release %s was allowed by %s", digest, by)
}

// ReleaseForgotten adds an event to each cluster whose release an administrator no longer allows.
func (e *Engine) ReleaseForgotten(ctx context.Context, digest, by string) error {
	return e.addReleaseEvents(ctx, digest, event.ReleaseForgotten, "release %s is no longer allowed, by %s", digest, by)
}

// addReleaseEvents adds an event to each cluster that names a release by its digest.
func (e *Engine) addReleaseEvents(ctx context.Context, digest, name, format string, args ...any) error {
	var ids []string
	if err := e.options.DB.View(func(tx *store.Tx) error {
		return record.Clusters.Each(tx, "", func(id string, row *record.Cluster) error {
			if strings.HasSuffix(row.API.OcpReleaseImage, "@"+digest) {
				ids = append(ids, id)
			}
			return nil
		})
	}); err != nil || len(ids) == 0 {
		return err
	}
	return e.update(ctx, func(c *change) error {
		for _, id := range ids {
			row, err := c.cluster(id)
			if errors.Is(err, store.ErrNotFound) {
				continue
			}
			if err != nil {
				return err
			}
			if err := c.clusterEvent(row, name, models.EventSeverityInfo, "Cluster %s: %s.", row.API.Name,
				fmt.Sprintf(format, args...)); err != nil {
				return err
			}
		}
		return nil
	})
}

// ReadRelease reads the version and the architecture of a release through the site's mirror.
func (e *Engine) ReadRelease(ctx context.Context, pullSpec, pullSecret string) (*ReleaseImage, error) {
	payload, err := e.payload(ctx, e.access(mirror.Level{}).Releases, pullSpec, "", pullSecret)
	if err != nil {
		return nil, err
	}
	image := &ReleaseImage{OpenshiftVersion: payload.Version, URL: pullSpec,
		CPUArchitecture: architecture.Of(payload.Architecture).API()}
	if payload.Multi {
		image.CPUArchitecture = description.MultiCPU
	}
	return image, nil
}
