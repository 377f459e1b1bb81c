package engine

import (
	"context"

	"landfall/appliance/engine/description"
	"landfall/appliance/engine/record"
	"landfall/appliance/fault"
	"landfall/appliance/mirror"
	"landfall/appliance/release"
	"landfall/appliance/sentence"
	"landfall/store"
)

// payload resolves a release through the mirror. The result is stored, so that hosts can boot while
// the registry is unavailable.
func (e *Engine) payload(ctx context.Context, releases Releases, pullSpec, arch,
	secret string) (*release.Payload, error) {
	secret, err := record.OpenSecret(e.options.Secrets, secret)
	if err != nil {
		return nil, err
	}
	credentials, err := mirror.ParsePullSecret(secret)
	if err != nil {
		return nil, &fault.Error{Kind: fault.Invalid, Reason: sentence.New(err), Err: err}
	}
	payload, err := releases.Payload(ctx, pullSpec, arch, credentials)
	if err != nil {
		return nil, err
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

// ReadRelease reads the version and the architecture of a release through the site's mirror.
func (e *Engine) ReadRelease(ctx context.Context, pullSpec, pullSecret string) (*ReleaseImage, error) {
	payload, err := e.payload(ctx, e.access(mirror.Level{}).Releases, pullSpec, "", pullSecret)
	if err != nil {
		return nil, err
	}
	image := &ReleaseImage{OpenshiftVersion: payload.Version, CPUArchitecture: payload.Architecture, URL: pullSpec}
	if payload.Multi {
		image.CPUArchitecture = description.MultiCPU
	}
	return image, nil
}
