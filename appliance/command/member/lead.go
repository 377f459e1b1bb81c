package member

import (
	"context"
	"errors"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"landfall/appliance"
	"landfall/appliance/ams"
	"landfall/appliance/config"
	"landfall/appliance/fleet"
	"landfall/store"
	"landfall/store/wal"
)

// lead runs the appliance until the context ends.
func (m *member) lead(ctx context.Context, leadership fleet.Leadership) error {
	// A machine that joins copies the files of the data directory once, so the key must be there.
	if err := ams.CreateKey(m.Config.DataDir); err != nil {
		return err
	}
	m.leadership.Store(&leadership)
	defer m.leadership.Store(nil)
	opened, err := m.sockets.take()
	if err != nil {
		return err
	}
	front := &fleet.Front{Leads: func() bool { return leadership.Leads() || m.membership.IsAlone() },
		Ending: ctx.Done(), Peers: m.peersOf(), Refuse: refuse}
	front.Peers.Permit = func(ctx context.Context, follower, sum string, own fleet.Contents) error {
		if err := m.copies.Permit(ctx, follower, sum, own); err != nil || leadership.Leads() {
			return err
		}
		return fleet.ErrNoLeader // another member may lead since then
	}
	service := m.service()
	service.Missing = front.MissingContents
	running, err := appliance.Lead(ctx, m.Config, m.Logger, m.Version, &fleet.Leading{
		Log: leadership, Credential: m.credential, Opened: opened, Member: m.membership.Peer().Name,
		URL: m.membership.Peer().URL, Directory: m.membership.Directory(), Copies: m.copies, Keys: m.membership.Keys(),
		MissingBlobs: m.membership.NoteMissingBlobs, Reads: m.otherReads,
		Collectors: []prometheus.Collector{m.metrics},
		Tasks: []func(context.Context, *store.DB){
			func(ctx context.Context, db *store.DB) { m.copies.Run(ctx, db, true) },
			func(ctx context.Context, db *store.DB) { m.membership.Compact(ctx, leadership, db) },
			func(ctx context.Context, db *store.DB) { m.resignIfDamaged(ctx, leadership, db) },
			func(ctx context.Context, _ *store.DB) {
				m.resignIfIsolated(ctx, leadership, &isolation{requests: front.Requests, linked: m.address.Linked})
			},
			func(ctx context.Context, _ *store.DB) { m.address.Hold(ctx, leadership.Remaining) },
		},
		Front: front,
	}, service)
	if err != nil {
		return afterLoss(err)
	}
	if err := m.Leading(running); err != nil {
		return errors.Join(err, running.Close())
	}
	m.checkURL(running.URLs()[0])
	return afterLoss(running.Run(ctx))
}

// checkURL warns if the URL for hosts is one of this machine.
func (m *member) checkURL(used string) {
	plain := m.Config
	plain.URL = nil
	own, err := plain.URLs(m.sockets.main)
	virtual := slices.ContainsFunc(config.Hosts([]string{used}), m.address.Is)
	if err == nil && slices.Contains(own, used) && !virtual {
		m.Logger.Warn("Images contain the URL of this member. Hosts that boot from them do not reach the fleet while "+
			"this machine is down. Use the address of a load balancer or a name in DNS: set url, or use landfall "+
			"settings set --url-for-hosts.", "url", used)
	}
}

// afterLoss returns nil for the error of an appliance whose database must read the log again.
func afterLoss(err error) error {
	if failed, ok := errors.AsType[*store.WriteError](err); errors.Is(err, wal.ErrBroken) || ok && failed.Shared {
		return nil
	}
	return err
}
