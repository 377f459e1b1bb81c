package sequence

import (
	"context"
	"errors"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"golang.org/x/sync/errgroup"
)

// Server is the state of one of etcd's servers.
type Server struct {
	URL     string
	Err     error // it did not answer; the fields below are empty
	Version string
	Leader  bool // of etcd's consensus
	// Latency is the time that a read took which needs the majority of the servers.
	Latency time.Duration
	// Size is that of its database, in bytes. Used is what remains after a defragmentation. Quota
	// is 0 if the server does not report it (before 3.6).
	Size, Used, Quota int64
	// NoSpace reports that etcd accepts no writes because a quota is used up.
	NoSpace bool
	// Damaged reports that the databases of the servers differ.
	Damaged bool
}

// Servers returns the state of each of Options.Endpoints.
func (s *Sequence) Servers(ctx context.Context) []Server {
	servers := make([]Server, len(s.Endpoints))
	var group errgroup.Group
	for i, url := range s.Endpoints {
		group.Go(func() error {
			servers[i] = s.server(ctx, url)
			return nil
		})
	}
	_ = group.Wait() // the functions return no errors
	return servers
}

func (s *Sequence) server(ctx context.Context, url string) Server {
	one := s.Options
	one.Endpoints = []string{url}
	single, err := Open(one)
	if err != nil {
		return Server{URL: url, Err: err}
	}
	defer single.client.Close()
	limited, cancel := single.limit(ctx)
	defer cancel()
	status, err := single.client.Status(limited, url)
	if err != nil {
		return Server{URL: url, Err: single.explain(ctx, err)}
	}
	alarms, err := single.client.AlarmList(limited)
	if err != nil {
		return Server{URL: url, Err: single.explain(ctx, err)}
	}
	began := s.Clock.Now()
	_, err = single.Fleet(ctx)
	if _, unreachable := errors.AsType[*UnreachableError](err); unreachable {
		return Server{URL: url, Err: err}
	}
	server := Server{URL: url, Version: status.Version, Leader: status.Leader == status.Header.MemberId,
		Latency: s.Clock.Since(began), Size: status.DbSize, Used: status.DbSizeInUse, Quota: status.DbSizeQuota}
	for _, alarm := range alarms.Alarms {
		server.NoSpace = server.NoSpace || alarm.Alarm == pb.AlarmType_NOSPACE
		server.Damaged = server.Damaged || alarm.Alarm == pb.AlarmType_CORRUPT
	}
	return server
}
