package membership

import (
	"context"
	"errors"
	"slices"
	"strings"

	"landfall/appliance/audittrail"
	"landfall/appliance/fault"
	"landfall/appliance/fleet"
	"landfall/appliance/fleet/sequence"
)

// Trails returns the audit trail of the member with a name.
type Trails func(ctx context.Context, member string) (fleet.Trail, error)

var errAway = errors.New("it is away")

// Trails implements Service.
func (s *Single) Trails(*audittrail.Trail) Trails {
	return func(context.Context, string) (fleet.Trail, error) {
		return nil, fault.New(fault.Invalid, "this appliance is in no fleet, so its audit trail is the only one; "+
			"leave out the name of a member")
	}
}

// Trails implements Service. If etcd does not answer, it asks a member at the URL that was known
// last.
func (l *Leader) Trails(own *audittrail.Trail) Trails {
	return func(ctx context.Context, member string) (fleet.Trail, error) {
		if member == l.state.Member {
			return own, nil
		}
		all, err := l.registrations(ctx)
		if err != nil {
			all = l.known.get()
		}
		i := slices.IndexFunc(all, func(r sequence.Registration) bool { return r.Name == member })
		switch {
		case i < 0 && err != nil:
			return nil, fault.Wrap(fault.Unavailable, err)
		case i < 0:
			return nil, fault.New(fault.NotFound, "the fleet has no member %s; its members are %s", member, names(all))
		}
		of := fleet.Peer{Name: all[i].Name, URL: all[i].URL}
		if err == nil && !all[i].Connected {
			return nil, fleet.TrailAway(of, errAway)
		}
		kept, err := own.Kept(fleet.TrailName(all[i].Name, all[i].ID))
		if err != nil {
			return nil, err
		}
		return l.Peers.Trail(of, kept), nil
	}
}

func names(of []sequence.Registration) string {
	var all []string
	for _, member := range of {
		all = append(all, member.Name)
	}
	return strings.Join(all, ", ")
}
