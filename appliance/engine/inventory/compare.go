package inventory

import (
	"math"
	"reflect"
	"slices"

	"github.com/openshift/assisted-service/models"
)

// Tolerances for round trips: an absolute difference in ms plus a share of the stored time. Two
// measurements are never equal. Without the tolerances, each host would write a report every
// minute.
const (
	roundTripJitter = 5
	roundTripShare  = 0.2
)

// SameConnectivity reports whether a connectivity report has the same facts as the stored one.
// Round trips may differ slightly, but not if only one of them is above the limit (in ms). A nil
// limit is ignored.
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

// SameInventory reports whether an inventory has the same facts as the stored one. It ignores the
// SMART data of disks, because temperature and hours always differ and no decision depends on them.
func SameInventory(kept, reported *models.Inventory) bool {
	if kept == nil || reported == nil {
		return kept == reported
	}
	// the part that differs most often and is cheapest to compare
	if !reflect.DeepEqual(kept.Memory, reported.Memory) {
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
