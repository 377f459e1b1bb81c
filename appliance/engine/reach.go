package engine

import (
	"math"
	"reflect"
	"slices"

	"github.com/openshift/assisted-service/models"
)

// How much a round trip may differ from the one that is kept without that being news, in ms and as
// a share. No two measurements are the same, and a report that differs in nothing else would be
// written by each host each minute.
const (
	roundTripJitter = 5
	roundTripShare  = 0.2
)

// sameReach tells whether a connectivity report says nothing new against the one that is kept:
// round trips may differ a little, on the same side of the limit (in ms, nil for none).
func sameReach(kept, reported *models.ConnectivityReport, limit *float64) bool {
	if kept == nil || reported == nil {
		return kept == reported
	}
	return slices.EqualFunc(kept.RemoteHosts, reported.RemoteHosts, func(a, b *models.ConnectivityRemoteHost) bool {
		if a == nil || b == nil {
			return a == b
		}
		return a.HostID == b.HostID && reflect.DeepEqual(a.L2Connectivity, b.L2Connectivity) &&
			reflect.DeepEqual(a.MtuReport, b.MtuReport) &&
			slices.EqualFunc(a.L3Connectivity, b.L3Connectivity,
				func(a, b *models.L3Connectivity) bool { return sameTrip(a, b, limit) })
	})
}

func sameTrip(kept, reported *models.L3Connectivity, limit *float64) bool {
	if kept == nil || reported == nil {
		return kept == reported
	}
	before, now := kept.AverageRTTMs, reported.AverageRTTMs
	if math.Abs(before-now) > roundTripJitter+roundTripShare*before || limit != nil &&
		(before > *limit) != (now > *limit) {
		return false
	}
	alike := *reported
	alike.AverageRTTMs = before
	return alike == *kept
}

// sameInventory tells whether an inventory says nothing new against the one that is kept: what
// disks say of themselves, by which nothing is decided, differs each time in their temperature and
// hours.
func sameInventory(kept, reported *models.Inventory) bool {
	if kept == nil || reported == nil {
		return kept == reported
	}
	if !reflect.DeepEqual(kept.Memory, reported.Memory) { // it differs most often, and costs least to compare
		return false
	}
	a, b := *kept, *reported
	a.Disks, b.Disks = nil, nil
	return reflect.DeepEqual(a, b) && slices.EqualFunc(kept.Disks, reported.Disks, func(a, b *models.Disk) bool {
		if a == nil || b == nil {
			return a == b
		}
		alike := *b
		alike.Smart = a.Smart
		return reflect.DeepEqual(*a, alike)
	})
}
