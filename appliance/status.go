package appliance

import (
	"context"

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
	images, err := a.images.states()
	if err != nil {
		return nil, err
	}
	status := &console.Status{Version: a.version, URL: a.urls[0], Addresses: a.urls[1:], OSImages: images, Releases: []console.Release{}}
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
