package appliance

import (
	"context"
	"errors"
	"fmt"

	"landfall/appliance/architecture"
	"landfall/appliance/kube/hosts"
	"landfall/appliance/osimage"
)

// FetchImages implements hosts.ImageFetcher with the library of base images.
func (s hiveSite) FetchImages(_ context.Context,
	wanted []hosts.WantedImage) (waiting []string, fault string, err error) {
	additions := map[string]osimage.Additions{}
	for _, want := range wanted {
		if len(want.Headers)+len(want.Query) > 0 {
			additions[want.URL] = osimage.Additions{Headers: want.Headers, Query: want.Query}
		}
	}
	s.a.images.SetAdditions(additions)
	for _, want := range wanted {
		held, err := s.a.images.List()
		if err != nil {
			return nil, "", err
		}
		image, there := imageFrom(held, want)
		if !there {
			image, err = s.a.images.Fetch(osimage.Request{URL: want.URL, OpenshiftVersion: want.OpenshiftVersion,
				CPUArchitecture: want.CPUArchitecture})
			if _, same := errors.AsType[*osimage.ContentError](err); same {
				continue // it has come meanwhile
			}
			if err != nil {
				fault = fmt.Sprintf("The OS image %s can't be had: %v.", want.URL, err)
				continue
			}
		}
		switch image.State {
		case osimage.StateBad:
			fault = fmt.Sprintf("The OS image %s can't be used: %s", want.URL, image.Message)
		case osimage.StateWaiting, osimage.StateDownloading:
			waiting = append(waiting, want.URL+": "+image.Progress())
		}
	}
	return waiting, fault, nil
}

// imageFrom finds the image that came from a URL, or a configured one that stands in for it: a site
// without internet has the images of the hub's list as files.
func imageFrom(held []osimage.Image, want hosts.WantedImage) (osimage.Image, bool) {
	for _, image := range held {
		if image.URL == want.URL {
			return image, true
		}
	}
	for _, image := range held {
		if image.State == osimage.StateReady && image.CPUArchitecture == orX86(want.CPUArchitecture) &&
			osimage.Minor(image.OpenshiftVersion) == osimage.Minor(want.OpenshiftVersion) {
			return image, true
		}
	}
	return osimage.Image{}, false
}

func orX86(arch string) string {
	if arch == "" {
		return "x86_64"
	}
	return architecture.Of(arch).RPM()
}
