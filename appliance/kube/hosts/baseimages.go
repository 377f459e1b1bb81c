package hosts

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"landfall/appliance/architecture"
	"landfall/appliance/osimage"
)

// BaseImages implements [OSImages] and [ImageFetcher] with the library of base images.
type BaseImages struct{ Library *osimage.Library }

// Known implements OSImages.
func (b BaseImages) Known(version, architecture string) bool {
	images, err := b.Library.List()
	return err == nil && slices.ContainsFunc(images, func(image osimage.Image) bool {
		return osimage.Minor(image.OpenshiftVersion) == osimage.Minor(version) &&
			image.CPUArchitecture == orX86(architecture)
	})
}

// FetchImages implements ImageFetcher.
func (b BaseImages) FetchImages(_ context.Context,
	wanted []WantedImage) (waiting []string, failure string, err error) {
	additions := map[string]osimage.Additions{}
	for _, want := range wanted {
		if len(want.Headers)+len(want.Query) > 0 {
			additions[want.URL] = osimage.Additions{Headers: want.Headers, Query: want.Query}
		}
	}
	b.Library.SetAdditions(additions)
	for _, want := range wanted {
		held, err := b.Library.List()
		if err != nil {
			return nil, "", err
		}
		image, found := imageFrom(held, want)
		if !found {
			image, err = b.Library.Fetch(osimage.Request{URL: want.URL, OpenshiftVersion: want.OpenshiftVersion,
				CPUArchitecture: want.CPUArchitecture})
			if _, same := errors.AsType[*osimage.ContentError](err); same {
				continue // the image was downloaded in the meantime
			}
			if err != nil {
				failure = fmt.Sprintf("The OS image %s can't be downloaded: %v.", want.URL, err)
				continue
			}
		}
		switch image.State {
		case osimage.StateBad:
			failure = fmt.Sprintf("The OS image %s can't be used: %s", want.URL, image.Message)
		case osimage.StateWaiting, osimage.StateDownloading:
			waiting = append(waiting, want.URL+": "+image.Progress())
		}
	}
	return waiting, failure, nil
}

// imageFrom finds the image that was downloaded from a URL, or another image of the same minor
// version: a site without internet access has imported the images of the hub's list as files.
func imageFrom(held []osimage.Image, want WantedImage) (osimage.Image, bool) {
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
