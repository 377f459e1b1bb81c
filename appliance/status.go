package appliance

import (
	"context"

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
