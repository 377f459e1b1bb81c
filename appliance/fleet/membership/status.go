package membership

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"landfall/appliance/fault"
	"landfall/appliance/fleet"
	"landfall/appliance/fleet/forwarding"
	"landfall/appliance/fleet/sequence"
	"landfall/appliance/sentence"
)

// Status describes a fleet as one member sees it.
type Status struct {
	Fleet string `json:"fleet"` // ID; "" on a single machine
	// Member is the member that was asked.
	Member string `json:"member"`
	// Leader reports whether that member leads. A single machine does.
	Leader bool `json:"leader"`
	// Leading is the member that leads; "" if none does or if it is not known.
	Leading string    `json:"leading"`
	Since   time.Time `json:"since,omitzero"` // it leads since then
	// Records is the number of the newest record of the log.
	Records uint64   `json:"records"`
	Etcd    []string `json:"etcd,omitempty"` // URLs of the configuration
	Prefix  string   `json:"prefix,omitempty"`
	// Servers are those of etcd, Voters is the number of those that vote (0: not known), and
	// WriteSeconds is the longest time that a write to etcd took in the last minute.
	Servers      []Server `json:"etcd_servers,omitempty"`
	Voters       int      `json:"etcd_voters,omitempty"`
	WriteSeconds float64  `json:"write_seconds,omitempty"`
	// Problem says why etcd can't be asked. The members are then those that were known last.
	Problem string   `json:"problem,omitempty"`
	Members []Member `json:"members"`
	// VirtualIP is nil if none is configured.
	VirtualIP *VirtualIP `json:"virtual_ip,omitempty"`
	// Loss says what a loss of a machine now would cost. Safe reports that it costs nothing,
	// whichever machine it is.
	Loss string `json:"loss"`
	Safe bool   `json:"safe"`
}

// URLs returns the URLs of the members of a fleet.
func (s *Status) URLs() (urls []string) {
	if s.Fleet == "" {
		return nil
	}
	for _, member := range s.Members {
		urls = append(urls, member.URL)
	}
	return urls
}

// Roles of a member.
const (
	RoleLeader    = "leader"
	RoleFollower  = "follower"
	RoleRestoring = "restoring" // it waits for a snapshot of another member
	RoleAway      = "away"      // it is not connected to etcd
)

// Member is a member of a fleet.
type Member struct {
	Name    string `json:"name"`
	URL     string `json:"url"`
	Version string `json:"version"`
	Role    string `json:"role"`
	Leader  bool   `json:"leader"`
	// Seen is when a member that is away was seen last. It is up to ten seconds too early.
	Seen time.Time `json:"seen,omitzero"`
	// Records is the number of the newest record in its database.
	Records uint64 `json:"records"`
	// Behind is the number of records that its database lacks. LagSeconds is for how long the
	// oldest of them has existed, as far as the member that answers knows.
	Behind     uint64  `json:"behind"`
	LagSeconds float64 `json:"lag_seconds"`
	// MissingContents is the number of contents of files that it does not have yet.
	MissingContents int `json:"missing_contents"`
	// MissingLiveISOs is the number of live ISOs that were imported and that it does not have yet.
	MissingLiveISOs int `json:"missing_live_isos"`
	// MissingBlobs is the number of blobs of pushed images that it does not have yet.
	MissingBlobs int `json:"missing_blobs"`
	// ClockSeconds is how far its clock is ahead of that of the member that answers.
	ClockSeconds float64 `json:"clock_seconds"`
	// Problem says why the member could not be asked at its URL, though it is connected to etcd.
	Problem string `json:"problem,omitempty"`

	// Answered reports whether it answered at its URL. Without an answer it is not known which
	// contents, live ISOs and blobs it lacks.
	Answered bool `json:"-"`

	missing []string
	data    int // version of the data that its program supports; 0: not known
}

// VirtualIP is the address of the leader, as the member sees it that answers.
type VirtualIP struct {
	Address   string `json:"address"`
	Interface string `json:"interface"`
	// Problem says why clients may not reach the leader at the address. Only the leader knows it.
	Problem string `json:"problem,omitempty"`
}

// Server is a server of etcd.
type Server struct {
	URL     string `json:"url"`
	Version string `json:"version,omitempty"`
	// Configured reports whether fleet.etcd names it.
	Configured bool `json:"configured"`
	Leader     bool `json:"leader"` // of etcd's consensus
	// Problem says why it does not answer.
	Problem string `json:"problem,omitempty"`
	// LatencySeconds is the time of a read that needs the majority of the servers.
	LatencySeconds float64 `json:"latency_seconds"`
	// ClockSeconds is how far the clock of its machine is ahead; 0 if it is not known.
	ClockSeconds float64 `json:"clock_seconds"`
	// Bytes is the size of its database, UsedBytes what a defragmentation would leave, and
	// QuotaBytes its limit (0: not known).
	Bytes      int64 `json:"bytes"`
	UsedBytes  int64 `json:"used_bytes"`
	QuotaBytes int64 `json:"quota_bytes,omitempty"`
	NoSpace    bool  `json:"no_space"` // it accepts no writes because the quota is used up
	Damaged    bool  `json:"damaged"`  // the databases of the servers differ
}

// Status implements Service. The request may have come through another member, which is then the
// one that was asked. If etcd does not answer, the status has what was known last.
func (l *Leader) Status(ctx context.Context) (*Status, error) {
	m := l.Membership
	s := &Status{Fleet: m.state.Fleet, Member: cmp.Or(forwarding.Of(ctx).Member, m.state.Member), Etcd: m.state.Etcd,
		Prefix: m.state.Prefix, WriteSeconds: m.writes.longest().Seconds(), Members: []Member{},
		VirtualIP: l.VirtualIP()}
	var cluster sequence.Cluster
	var leader *sequence.Leader
	var all []sequence.Registration
	asking := new(errgroup.Group) // each has a time limit of its own
	asking.Go(func() error {
		cluster = m.sequence.Cluster(ctx)
		return nil
	})
	asking.Go(func() (err error) {
		if leader, err = m.sequence.Leader(ctx); err != nil {
			return err
		}
		head, err := m.sequence.Head(ctx)
		if err != nil {
			return err
		}
		s.Records = head.Number
		all, err = m.registrations(ctx)
		return err
	})
	err := asking.Wait()
	if ctx.Err() != nil {
		return nil, fault.Wrap(fault.Unavailable, ctx.Err())
	}
	if err != nil {
		s.Problem, leader, all = sentence.New(err), nil, m.known.get()
		s.Records = m.applied.Load()
	}
	if leader != nil {
		s.Leading, s.Since = leader.Member.Name, leader.Since
	}
	s.Leader = s.Leading == s.Member
	s.Voters = cluster.Voters
	for _, server := range cluster.Servers {
		s.Servers = append(s.Servers, describeServer(server))
	}
	s.Members = l.describeAll(ctx, s, all)
	s.Loss, s.Safe = s.loss(m.state.Member)
	return s, nil
}

func describeServer(of sequence.Server) Server {
	server := Server{URL: of.URL, Version: of.Version, Configured: of.Configured, Leader: of.Leader,
		LatencySeconds: of.Latency.Seconds(), ClockSeconds: of.Ahead.Seconds(), Bytes: of.Size, UsedBytes: of.Used,
		QuotaBytes: of.Quota, NoSpace: of.NoSpace, Damaged: of.Damaged}
	if of.Err != nil {
		server.Problem = sentence.New(of.Err)
	}
	return server
}

// describeAll describes the members, and asks those that are connected.
func (l *Leader) describeAll(ctx context.Context, s *Status, all []sequence.Registration) []Member {
	members := make([]Member, len(all))
	var asking sync.WaitGroup
	for i, row := range all {
		asking.Go(func() { members[i] = l.describeMember(ctx, s, row) })
	}
	asking.Wait()
	return members
}

func (l *Leader) describeMember(ctx context.Context, s *Status, row sequence.Registration) Member {
	own := row.ID == l.state.ID
	if own {
		row.Member = l.Membership.describe()
		row.Clock = l.Clock.Now()
	}
	m := Member{Name: row.Name, URL: row.URL, Version: row.Version, Leader: row.Name == s.Leading,
		Role: RoleFollower, Records: row.Applied, data: row.Data}
	switch {
	case !row.Connected && !own && s.Problem == "":
		m.Role, m.Seen = RoleAway, row.Clock
	case row.Restoring:
		m.Role = RoleRestoring
	case m.Leader:
		m.Role = RoleLeader
	}
	if m.Role != RoleAway {
		l.ask(ctx, &m, own)
	}
	if m.Leader { // the head may be older than its answer
		m.Records = max(m.Records, s.Records)
	}
	m.Behind = s.Records - min(s.Records, m.Records)
	m.LagSeconds = l.progress.lag(l.Clock.Now(), m.Records, s.Records).Seconds()
	return m
}

// ask asks a member at its URL.
func (l *Leader) ask(ctx context.Context, m *Member, own bool) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	began := l.Clock.Now()
	answer, err := l.Peers.Condition(ctx, fleet.Peer{Name: m.Name, URL: m.URL})
	switch {
	case err == nil:
		middle := began.Add(l.Clock.Since(began) / 2)
		m.Answered, m.missing, m.MissingContents = true, answer.Missing, answer.MissingCount
		m.MissingLiveISOs, m.MissingBlobs = answer.MissingLiveISOs, answer.MissingBlobs
		m.Records = max(m.Records, answer.Applied)
		if !own {
			m.ClockSeconds = answer.Clock.Sub(middle).Seconds()
		}
	case !own: // a machine may not reach its own address
		m.Problem = sentence.New(err)
	}
}

// askTime is the longest time for the answer of a member.
const askTime = 3 * time.Second

// known are the members that were known last.
type known struct {
	mu  sync.Mutex
	all []sequence.Registration
}

func (k *known) set(all []sequence.Registration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.all = all
}

func (k *known) get() []sequence.Registration {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.all)
}

// registrations returns all members, and keeps them for a time in which etcd does not answer.
func (m *Membership) registrations(ctx context.Context) ([]sequence.Registration, error) {
	all, err := m.sequence.Registrations(ctx)
	if err == nil {
		m.known.set(all)
	}
	return all, err
}

// Condition returns the state of this member for others. missing are the contents that it lacks.
func (m *Membership) Condition(missing []string) fleet.Condition {
	return fleet.Condition{Applied: m.applied.Load(), Clock: m.Clock.Now().UTC(), Missing: missing,
		MissingLiveISOs: int(m.liveISOs.Load()), MissingBlobs: int(m.blobs.Load())}
}

// Invitation is what a machine needs to join a fleet, besides a snapshot.
type Invitation struct {
	Fleet  string   `json:"fleet"`
	Etcd   []string `json:"etcd"`
	Prefix string   `json:"prefix"`
}

// Invitation returns the invitation of the fleet.
func (m *Membership) Invitation(context.Context) (*Invitation, error) {
	return &Invitation{Fleet: m.state.Fleet, Etcd: m.state.Etcd, Prefix: m.state.Prefix}, nil
}
