package membership

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"landfall/appliance/audittrail"
	"landfall/appliance/fault"
	"landfall/appliance/fleet"
	"landfall/appliance/fleet/sequence"
)

// OwnTrail is the audit trail of this member. *audittrail.Trail and audittrail.Reader implement it.
type OwnTrail interface {
	fleet.Trail
	// Head returns the number and the hash of the newest record.
	Head() audittrail.Head
	// Kept returns the head that the store keeps of the trail of a member.
	Kept(member string) (audittrail.Head, error)
}

// Trails returns the audit trail of the member with a name.
type Trails func(ctx context.Context, member string) (fleet.Trail, error)

// membersTime limits how long the reading of an audit trail waits for etcd.
const membersTime = time.Second

var errAway = errors.New("it is away")

// Trails implements Service.
func (s *Single) Trails(OwnTrail) Trails {
	return func(context.Context, string) (fleet.Trail, error) {
		return nil, fault.New(fault.Invalid, "this appliance is in no fleet, so its audit trail is the only one; "+
			"leave out the name of a member")
	}
}

// Trails implements Service. If etcd does not answer, it asks a member at the URL that was known
// last.
func (l *Leader) Trails(own OwnTrail) Trails {
	return func(ctx context.Context, member string) (fleet.Trail, error) {
		if member == l.state.Member {
			return own, nil
		}
		asking, cancel := context.WithTimeout(ctx, membersTime)
		all, err := l.registrations(asking)
		cancel()
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
