package sequence

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"golang.org/x/sync/errgroup"
)

// Server is the state of one of etcd's servers.
type Server struct {
	URL string
	Err error // it did not answer; most fields below are empty
	// ID is that of etcd's configuration; 0 if it is not known.
	ID      uint64
	Version string
	Leader  bool // of etcd's consensus
	// Configured reports whether it is one of Options.Endpoints.
	Configured bool
	// Latency is the time that a read took which needs the majority of the servers.
	Latency time.Duration
	// Ahead is how far its machine's clock is ahead of this machine's, with an error of up to a
	// second. Its zero value means that the clock is not known, or equal.
	Ahead time.Duration
	// Size is that of its database, in bytes. Used is what remains after a defragmentation. Quota
	// is 0 if the server does not report it (before 3.6).
	Size, Used, Quota int64
	// NoSpace reports that etcd accepts no writes because a quota is used up.
	NoSpace bool
	// Damaged reports that the databases of the servers differ.
	Damaged bool
}

// Cluster is the state of etcd.
type Cluster struct {
	// Servers are those of Options.Endpoints and the others that vote.
	Servers []Server
	// Voters is the number of servers that vote; 0 if it is not known.
	Voters int
}

// Cluster returns the state of etcd.
func (s *Sequence) Cluster(ctx context.Context) Cluster {
	var voters []*pb.Member
	var group errgroup.Group
	group.Go(func() error {
		limited, cancel := s.limit(ctx)
		defer cancel()
		list, err := s.client.MemberList(limited)
		if err == nil { // else the number is not known
			voters = slices.DeleteFunc(list.Members, func(m *pb.Member) bool { return m.IsLearner })
		}
		return nil
	})
	servers := s.servers(ctx, s.Endpoints)
	_ = group.Wait() // the function returns no error
	for i := range servers {
		servers[i].Configured = true
	}
	var others []string
	for _, voter := range voters {
		known := slices.ContainsFunc(servers, func(s Server) bool {
			return s.ID == voter.ID || slices.Contains(voter.ClientURLs, s.URL)
		})
		if !known && len(voter.ClientURLs) > 0 {
			others = append(others, voter.ClientURLs[0])
		}
	}
	return Cluster{Servers: append(servers, s.servers(ctx, others)...), Voters: len(voters)}
}

func (s *Sequence) servers(ctx context.Context, urls []string) []Server {
	servers := make([]Server, len(urls))
	var group errgroup.Group
	for i, url := range urls {
		group.Go(func() error {
			servers[i] = s.server(ctx, url)
			return nil
		})
	}
	_ = group.Wait() // the functions return no errors
	return servers
}

func (s *Sequence) server(ctx context.Context, url string) Server {
	server := Server{URL: url}
	one := s.Options
	one.Endpoints = []string{url}
	single, err := Open(one)
	if err != nil {
		server.Err = err
		return server
	}
	defer single.client.Close()
	limited, cancel := single.limit(ctx)
	defer cancel()
	status, err := single.client.Status(limited, url)
	if err != nil {
		server.Err = single.explain(ctx, err)
		return server
	}
	server.ID, server.Version = status.Header.MemberId, status.Version
	server.Leader = status.Leader == server.ID
	server.Size, server.Used, server.Quota = status.DbSize, status.DbSizeInUse, status.DbSizeQuota
	began := s.Clock.Now()
	if _, err := single.Fleet(ctx); err != nil {
		if _, unreachable := errors.AsType[*UnreachableError](err); unreachable {
			server.Err = err
			return server
		}
	}
	server.Latency = s.Clock.Since(began)
	server.Ahead = single.ahead(limited)
	alarms := strings.Join(status.Errors, " ")
	if list, err := single.client.AlarmList(limited); err == nil { // a user needs the role root for it
		for _, alarm := range list.Alarms {
			alarms += " " + alarm.Alarm.String()
		}
	}
	server.NoSpace = strings.Contains(alarms, pb.AlarmType_NOSPACE.String())
	server.Damaged = strings.Contains(alarms, pb.AlarmType_CORRUPT.String())
	return server
}

// ahead returns how far the clock of a server's machine is ahead of this one, by the header Date of
// its HTTP answers, which has whole seconds. It returns 0 if the server does not answer: its HTTP
// may have an address of its own.
func (s *Sequence) ahead(ctx context.Context) time.Duration {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(s.Endpoints[0], "/")+"/version",
		nil)
	if err != nil {
		return 0
	}
	through := &http.Transport{TLSClientConfig: s.tls.Clone(), DisableKeepAlives: true}
	began := s.Clock.Now()
	answer, err := through.RoundTrip(request)
	if err != nil {
		return 0
	}
	defer answer.Body.Close()
	middle := began.Add(s.Clock.Since(began) / 2)
	date, err := http.ParseTime(answer.Header.Get("Date"))
	if err != nil {
		return 0
	}
	// The header leaves out what is less than a second.
	if ahead := date.Add(time.Second / 2).Sub(middle); ahead.Abs() > time.Second {
		return ahead
	}
	return 0
}
