package inventory

import (
	"math"
	"reflect"
	"slices"

	"github.com/openshift/assisted-service/models"
)

// A round trip may differ from the stored one by this many ms plus this share of it without being a
// change. No two measurements are equal. Without the tolerance, each host would write a report each
// minute.
const (
	roundTripJitter = 5
	roundTripShare  = 0.2
)

// SameConnectivity reports whether a connectivity report holds the same facts as the stored one.
// Round trips may differ a little on the same side of the limit (in ms, nil for none).
func SameConnectivity(kept, reported *models.ConnectivityReport, limit *float64) bool {
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
				func(a, b *models.L3Connectivity) bool { return sameRoundTrip(a, b, limit) })
	})
}

func sameRoundTrip(kept, reported *models.L3Connectivity, limit *float64) bool {
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

// SameInventory reports whether an inventory holds the same facts as the stored one. The SMART data
// of disks is ignored: no decision depends on it, and temperature and hours always differ.
func SameInventory(kept, reported *models.Inventory) bool {
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
