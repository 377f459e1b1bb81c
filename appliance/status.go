package appliance

import (
	"context"
	"strings"

	"landfall/web/api"
	"landfall/web/console"
)

// view tells the console what the appliance is and has.
type view struct {
	appliance *Appliance
	images    *discoveryImages
}

// Status says what the appliance is and has.
func (v view) Status(context.Context) (*console.Status, error) {
	a := v.appliance
	status := &console.Status{Version: a.version, URL: a.urls[0], Addresses: a.urls[1:], OSImages: a.images.states(), Releases: []console.Release{}}
	for _, release := range a.config.ReleaseImages {
		status.Releases = append(status.Releases, console.Release{OpenshiftVersion: release.OpenshiftVersion, CPUArchitecture: release.CPUArchitecture})
	}
	return status, nil
}

// Image describes an infra-env's discovery image. Its digest is computed in the background and empty until it is there.
func (v view) Image(ctx context.Context, id string) (*console.Image, error) {
	env, err := v.appliance.engine.InfraEnv(id)
	if err != nil {
		return nil, api.Problem(err)
	}
	made, err := v.images.Image(ctx, id, "", v.appliance.networks[0])
	if err != nil {
		return nil, err
	}
	return &console.Image{
		URL: env.DownloadURL, FileName: made.FileName, SizeBytes: made.Size(),
		SHA256: made.Digest(true), ETag: made.ETag(), Type: string(*env.Type),
	}, nil
}

// states returns the states of the OS images in the console's words.
func (o *osImages) states() []console.OSImage {
	o.mu.Lock()
	defer o.mu.Unlock()
	states := make([]console.OSImage, 0, len(o.images))
	for _, image := range o.images {
		state := console.OSImage{OpenshiftVersion: image.config.OpenshiftVersion, CPUArchitecture: image.config.CPUArchitecture, State: "ready"}
		switch image.state {
		case imageBad:
			state.State, state.Message = "failed", image.message
		case imageWaiting, imageDownloading:
			state.State, state.Message = "fetching", strings.TrimSpace("being downloaded "+image.message)
		}
		states = append(states, state)
	}
	return states
}
