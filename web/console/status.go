package console

import (
	"context"

	"landfall/appliance/osimage"
	"landfall/appliance/release"
)

// SiteStatus implements [Appliance].
type SiteStatus struct {
	Version  string   // of the program
	URLs     []string // the preferred one first
	Releases []release.Image
	OSImages *osimage.Library
}

// Status returns the state of the appliance, its base images and its releases. A release has failed
// if it has no live ISO.
func (s SiteStatus) Status(context.Context) (*Status, error) {
	images, err := s.OSImages.List()
	if err != nil {
		return nil, err
	}
	status := &Status{Version: s.Version, URL: s.URLs[0], Addresses: s.URLs[1:],
		OSImages: make([]OSImage, 0, len(images)), Releases: []Release{}}
	for _, image := range images {
		status.OSImages = append(status.OSImages, osImageStatus(image))
	}
	for _, image := range s.Releases {
		shown := Release{OpenshiftVersion: image.OpenshiftVersion, CPUArchitecture: image.CPUArchitecture}
		if err := s.OSImages.CheckRelease(image.OpenshiftVersion, image.CPUArchitecture); err != nil {
			shown.State, shown.Message = "failed", err.Error()
		}
		status.Releases = append(status.Releases, shown)
	}
	return status, nil
}

func osImageStatus(image osimage.Image) OSImage {
	status := OSImage{OpenshiftVersion: image.OpenshiftVersion, CPUArchitecture: image.CPUArchitecture,
		State: "ready", Message: image.Message}
	switch image.State {
	case osimage.StateBad:
		status.State = "failed"
	case osimage.StateWaiting, osimage.StateDownloading:
		status.State, status.Message = "fetching", image.Progress()
	}
	return status
}
