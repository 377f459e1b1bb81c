package siteservice

import (
	"context"
	"regexp"
	"time"

	"github.com/jonboulle/clockwork"

	"landfall/appliance/engine"
	"landfall/appliance/fault"
	"landfall/appliance/osimage"
)

// buildDate is the date in the version of a live ISO: 418.94.202501221327-0, 9.6.20250523-0.
var buildDate = regexp.MustCompile(`\.(20\d{6})(?:\d{4})?-`)

// CheckClock returns an error if a clock is before the day on which a live ISO of the site was
// built. Such a clock is wrong, and the certificates of a new cluster would not be valid yet by
// other clocks, or expire too early. versions are those of the live ISOs.
func CheckClock(now time.Time, versions []string) error {
	for _, version := range versions {
		found := buildDate.FindStringSubmatch(version)
		if found == nil {
			continue
		}
		built, err := time.Parse("20060102", found[1])
		if err != nil || !now.Before(built) {
			continue
		}
		return fault.New(fault.Conflict, "The clock of the appliance's machine shows %s, but the live ISO %s was "+
			"built on %s, so the clock is wrong. Set it before you install: the certificates of the cluster depend "+
			"on it.",
			now.UTC().Format(time.DateTime), version, built.Format(time.DateOnly))
	}
	return nil
}

// zones is the largest difference between a local time and UTC. File systems of sticks store local
// times without their zone.
const zones = 14 * time.Hour

// CheckClockOfMedium returns an error if a clock is before the newest time on a medium.
func CheckClockOfMedium(now time.Time, label string, written time.Time) error {
	if !now.Before(written.Add(-zones)) {
		return nil
	}
	return fault.New(fault.Conflict, "The clock of the appliance's machine shows %s, but the medium %s was written at "+
		"%s, so the clock is wrong. Set it before you install: the certificates of the cluster depend on it.",
		now.UTC().Format(time.DateTime), label, written.UTC().Format(time.DateTime))
}

// CheckClockBefore returns a hook of the engine that checks the clock with the live ISOs and the
// media of the registry before an installation begins, and then calls another hook.
func CheckClockBefore(next func(context.Context, *engine.Engine, string) error,
	images func() ([]osimage.Image, error), newest func() (label string, at time.Time),
	clock clockwork.Clock) func(context.Context, *engine.Engine, string) error {
	return func(ctx context.Context, e *engine.Engine, clusterID string) error {
		label, written := newest()
		if err := CheckClockOfMedium(clock.Now(), label, written); err != nil {
			return err
		}
		list, err := images()
		if err != nil {
			return err
		}
		var versions []string
		for _, image := range list {
			versions = append(versions, image.CoreOSVersion)
		}
		if err := CheckClock(clock.Now(), versions); err != nil {
			return err
		}
		return next(ctx, e, clusterID)
	}
}
