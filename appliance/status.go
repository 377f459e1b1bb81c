package appliance

import (
	"context"

	"landfall/appliance/config"

	"landfall/isogen"
	"landfall/web/console"
)

// view tells the console what the appliance is and has.
type view struct{ appliance *Appliance }

// Status says what the appliance is and has.
func (v view) Status(context.Context) (*console.Status, error) {
	a := v.appliance
	images, err := a.images.states()
	if err != nil {
		return nil, err
	}
	status := &console.Status{Version: a.version, URL: a.urls[0], Addresses: a.urls[1:], OSImages: images,
		Releases: []console.Release{}}
	for _, release := range a.config.ReleaseImages {
		status.Releases = append(status.Releases, a.releaseStatus(release))
	}
	return status, nil
}

// releaseStatus says of a release whether hosts can be discovered for it: whether there is a live
// ISO that fits.
func (a *Appliance) releaseStatus(release config.ReleaseImage) console.Release {
	status := console.Release{OpenshiftVersion: release.OpenshiftVersion, CPUArchitecture: release.CPUArchitecture}
	architectures := []string{release.CPUArchitecture}
	if release.CPUArchitecture == "multi" {
		architectures = []string{isogen.X86_64, isogen.AArch64, isogen.PPC64LE, isogen.S390X}
	}
	var missing error
	for _, arch := range architectures {
		_, err := a.images.Find(release.OpenshiftVersion, arch)
		if err == nil {
			return status
		}
		if missing == nil {
			missing = err
		}
	}
	status.State, status.Message = "failed", missing.Error()
	return status
}
