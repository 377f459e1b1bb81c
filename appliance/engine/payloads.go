package engine

import (
	"context"
	"errors"

	"landfall/appliance/mirror"
	"landfall/appliance/release"
	"landfall/store"
)

// payload resolves a release through the mirror. What is resolved is remembered, so that hosts can boot while the
// registry is away.
func (e *Engine) payload(ctx context.Context, pullSpec, arch, secret string) (*release.Payload, error) {
	credentials, err := mirror.ParsePullSecret(secret)
	if err != nil {
		return nil, &Error{Kind: Invalid, Reason: sentence(err), Err: err}
	}
	payload, err := e.Releases.Payload(ctx, pullSpec, arch, credentials)
	if err != nil {
		return nil, err
	}
	if err := e.DB.Update(ctx, func(tx *store.Tx) error {
		return payloadRows.Put(tx, payloadKey(pullSpec, arch), &payloadRecord{
			Image: payload.Image, Digest: payload.Digest, Version: payload.Version, Arch: payload.Architecture,
			Images: payload.Images,
		})
	}); err != nil && ctx.Err() == nil {
		// It can be read again: a full disk must not keep a host from its image.
		e.Logger.Warn("A release payload that was read could not be remembered.", "release", payload.Image, "error", err)
	}
	return payload, nil
}

func payloadKey(pullSpec, arch string) string { return arch + "/" + pullSpec }

// rememberedPayload returns what an earlier [Engine.payload] found, or nil.
func (e *Engine) rememberedPayload(pullSpec, arch string) (*payloadRecord, error) {
	var row *payloadRecord
	err := e.DB.View(func(tx *store.Tx) error {
		var err error
		row, err = payloadRows.Get(tx, payloadKey(pullSpec, arch))
		if errors.Is(err, store.ErrNotFound) {
			return nil
		}
		return err
	})
	return row, err
}

// agentImage returns the pull spec of the agent for an infra-env.
func (e *Engine) agentImage(ctx context.Context, row *infraEnvRecord) (string, error) {
	if e.Images.Agent != "" {
		return e.Images.Agent, nil
	}
	version, arch, pullSpec := row.API.OpenshiftVersion, row.API.CPUArchitecture, ""
	if row.API.ClusterID != "" {
		if cluster, err := e.clusterRow(row.API.ClusterID.String()); err == nil {
			pullSpec = cluster.API.OcpReleaseImage
		}
	}
	if pullSpec == "" {
		image, err := e.releaseImage(version, arch, "")
		if err != nil {
			return "", err
		}
		pullSpec = image.URL
	}
	remembered, err := e.rememberedPayload(pullSpec, arch)
	if err != nil {
		return "", err
	}
	if remembered != nil {
		if image := remembered.Images[release.TagAgent]; image != "" {
			return image, nil
		}
	}
	payload, err := e.payload(ctx, pullSpec, arch, row.PullSecret)
	if err != nil {
		return "", unavailable(err, "The discovery image needs to know the agent's image, which the release payload names: %s", clause(err))
	}
	image, err := payload.Component(release.TagAgent)
	if err != nil {
		return "", unavailable(err, "%s", sentence(err))
	}
	return image, nil
}
