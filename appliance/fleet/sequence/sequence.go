package sequence

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jonboulle/clockwork"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
)

const (
	// DefaultPrefix is the prefix of a fleet's keys.
	DefaultPrefix = "/landfall/"
	// DefaultLease is the time after which another member may become the leader.
	DefaultLease = 3 * time.Second
	// DefaultTimeout limits a request to etcd.
	DefaultTimeout = 5 * time.Second
	// Format is the version of the keys and values in etcd. A member refuses a fleet with a newer
	// one.
	Format = 1
	// defaultPartSize is the largest value that is written, in bytes. etcd limits a request to 1.5
	// MiB by default (--max-request-bytes).
	defaultPartSize = 1 << 20
)

// window is the number of bytes that a server of etcd may send before this program has read them.
// gRPC would adapt it by itself, but pings the server during each answer for that, which is a tenth
// of the CPU time of a fleet.
const window = 4 << 20

// Options configures Open. Only Endpoints and Clock are required.
type Options struct {
	// Endpoints are the URLs of etcd's servers.
	Endpoints []string
	// Prefix is DefaultPrefix by default. It begins and ends with a slash.
	Prefix string
	// Fleet is the ID of the fleet to which the caller belongs. It is empty before Create and in a
	// program that only looks.
	Fleet string
	// CAFile, CertFile and KeyFile are PEM files for connections to https URLs. Without CAFile, the
	// authorities of the system are used; without CertFile, no client certificate.
	CAFile, CertFile, KeyFile string
	// Data is the newest version of the data that this program supports; 0: it is not compared.
	Data int
	// Lease is the time after which another member may become the leader when this one is silent.
	// etcd counts in seconds and has a minimum, 2 s by default.
	Lease time.Duration
	// Timeout limits a request.
	Timeout time.Duration
	Clock   clockwork.Clock

	partSize int // for tests
}

// Sequence is a fleet's log in etcd, with the leader and the members. Its methods are safe for
// concurrent use. They return the typed errors of this package; a request that does not reach etcd
// ends after Options.Timeout with an *UnreachableError.
type Sequence struct {
	Options
	client *clientv3.Client
	tls    *tls.Config // nil: connections without TLS
}

// Open returns the sequence of a fleet. It does not connect to etcd: the first request does.
func Open(options Options) (*Sequence, error) {
	options.Prefix = cmp.Or(options.Prefix, DefaultPrefix)
	options.Lease = cmp.Or(options.Lease, DefaultLease)
	options.Timeout = cmp.Or(options.Timeout, DefaultTimeout)
	options.partSize = cmp.Or(options.partSize, defaultPartSize)
	if !strings.HasPrefix(options.Prefix, "/") || !strings.HasSuffix(options.Prefix, "/") {
		return nil, fmt.Errorf("the prefix %q of the fleet's keys must begin and end with a slash", options.Prefix)
	}
	config, err := loadTLS(options)
	if err != nil {
		return nil, err
	}
	// By default, the pause between two attempts to connect grows to two minutes.
	connect := grpc.ConnectParams{MinConnectTimeout: options.Lease, Backoff: backoff.Config{
		BaseDelay: 50 * time.Millisecond, Multiplier: 2, Jitter: 0.2, MaxDelay: time.Second}}
	client, err := clientv3.New(clientv3.Config{
		Endpoints: options.Endpoints,
		TLS:       config,
		Logger:    zap.NewNop(), // its errors are returned, too
		// The server ends a connection that is probed more often than every 5 s.
		DialKeepAliveTime:    10 * time.Second,
		DialKeepAliveTimeout: options.Lease,
		DialOptions: []grpc.DialOption{grpc.WithConnectParams(connect), grpc.WithStaticStreamWindowSize(window),
			grpc.WithStaticConnWindowSize(window)},
	})
	if err != nil {
		return nil, fmt.Errorf("use the addresses %s of etcd: %w", strings.Join(options.Endpoints, ", "), err)
	}
	return &Sequence{Options: options, client: client, tls: config}, nil
}

// Close ends all requests.
func (s *Sequence) Close() error {
	if err := s.client.Close(); err != nil && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("close the connections to etcd: %w", err)
	}
	return nil
}

// The keys below the prefix.
func (s *Sequence) fleetKey() string    { return s.Prefix + "fleet" }
func (s *Sequence) headKey() string     { return s.Prefix + "head" }
func (s *Sequence) electionKey() string { return s.Prefix + "leader" }
func (s *Sequence) membersKey() string  { return s.Prefix + "members/" }

// endedKey is the key of a fleet that has ended. Its value is the ID of the member that ended it.
func (s *Sequence) endedKey(fleet string) string { return s.Prefix + "ended/" + fleet }

// registrationsKey is the prefix of what is known of members that may be away, by their names.
func (s *Sequence) registrationsKey() string { return s.Prefix + "registrations/" }

func (s *Sequence) logKey(number uint64) string {
	return fmt.Sprintf("%slog/%016x", s.Prefix, number)
}

// partsKey is the prefix of the parts of a record. It contains the digest: a delayed request of an
// attempt that was given up cannot change the parts of the next attempt.
func (s *Sequence) partsKey(p Position) string {
	return fmt.Sprintf("%sparts/%016x/%016x/", s.Prefix, p.Number, p.Digest)
}

func (s *Sequence) partKey(p Position, part int) string {
	return fmt.Sprintf("%s%08x", s.partsKey(p), part)
}

// Fleet describes a fleet.
type Fleet struct {
	ID      string    `json:"id"`
	Format  int       `json:"format"`
	Created time.Time `json:"created"`
	// Data is the version of the data that the log leads to; 0 is the first one. A member whose
	// program does not support it can't take part.
	Data int `json:"data,omitempty"`

	revision int64
}

// Create makes a fleet whose log begins after a position. It returns an *ExistsError if the prefix
// already has a fleet. If the outcome of an earlier call is not known, it can be repeated.
func (s *Sequence) Create(ctx context.Context, id string, after Position) error {
	value, err := json.Marshal(Fleet{ID: id, Format: Format, Created: s.Clock.Now().UTC()})
	if err != nil {
		return fmt.Errorf("encode the fleet: %w", err)
	}
	response, err := s.transaction(ctx, func(txn clientv3.Txn) clientv3.Txn {
		return txn.If(clientv3.Compare(clientv3.CreateRevision(s.fleetKey()), "=", 0)).
			Then(clientv3.OpPut(s.fleetKey(), string(value)),
				clientv3.OpPut(s.headKey(), head{Position: after}.encode())).
			Else(clientv3.OpGet(s.fleetKey()), clientv3.OpGet(s.headKey()))
	})
	if err != nil {
		return err
	}
	if response.Succeeded {
		return nil
	}
	found, err := s.fleetOf(response.Responses[0].GetResponseRange().Kvs, nil)
	if other, ok := errors.AsType[*OtherFleetError](err); ok {
		return &ExistsError{Prefix: s.Prefix, ID: other.Found}
	}
	if err != nil {
		return err
	}
	newest, err := headOf(response.Responses[1].GetResponseRange().Kvs)
	if err != nil {
		return err
	}
	if found.ID == id && newest.Position == after {
		return nil
	}
	return &ExistsError{Prefix: s.Prefix, ID: found.ID}
}

// ErrNotLeading is the error of [Sequence.Remove] for a member that does not lead. The fleet was
// not removed.
var ErrNotLeading = errors.New("this member does not lead any more")

// Remove deletes a fleet with its log while the member with an ID leads it. Another member can then
// no longer lead. A key stays with the ID of this member: see EndedBy and ForgetEnd.
func (s *Sequence) Remove(ctx context.Context, leader string) error {
	fleet, err := s.Fleet(ctx)
	if err != nil {
		return err
	}
	elected, err := s.get(ctx, s.electionKey()+"/", clientv3.WithFirstCreate()...)
	if err != nil {
		return err
	}
	if len(elected.Kvs) == 0 {
		return ErrNotLeading
	}
	key, is := elected.Kvs[0], Leader{}
	if err := json.Unmarshal(key.Value, &is); err != nil {
		return &DamagedError{Key: string(key.Key), Err: err}
	}
	if is.Member.ID != leader {
		return ErrNotLeading
	}
	response, err := s.transaction(ctx, func(txn clientv3.Txn) clientv3.Txn {
		return txn.If(clientv3.Compare(clientv3.ModRevision(s.fleetKey()), "=", fleet.revision),
			clientv3.Compare(clientv3.CreateRevision(string(key.Key)), "=", key.CreateRevision)).
			Then(clientv3.OpPut(s.endedKey(fleet.ID), leader),
				clientv3.OpDelete(s.fleetKey()), clientv3.OpDelete(s.headKey()),
				clientv3.OpDelete(s.electionKey()+"/", clientv3.WithPrefix()),
				clientv3.OpDelete(s.membersKey(), clientv3.WithPrefix()),
				clientv3.OpDelete(s.registrationsKey(), clientv3.WithPrefix()),
				clientv3.OpDelete(s.Prefix+"log/", clientv3.WithPrefix()),
				clientv3.OpDelete(s.Prefix+"parts/", clientv3.WithPrefix()))
	})
	if err != nil {
		return err
	}
	if !response.Succeeded {
		_, err := s.Fleet(ctx)
		return cmp.Or(err, ErrNotLeading)
	}
	return nil
}

// ForgetEnd deletes what EndedBy reads.
func (s *Sequence) ForgetEnd(ctx context.Context) error {
	_, err := s.transaction(ctx, func(txn clientv3.Txn) clientv3.Txn {
		return txn.Then(clientv3.OpDelete(s.endedKey(s.Options.Fleet)))
	})
	return err
}

// Fleet returns the fleet at the prefix. It returns a *NoFleetError if there is none, an
// *OtherFleetError if it is not Options.Fleet, and a *FormatError or a *DataError if it is of a
// newer version. The first two say who has ended Options.Fleet: see [EndedBy].
func (s *Sequence) Fleet(ctx context.Context) (Fleet, error) {
	response, err := s.transaction(ctx, func(txn clientv3.Txn) clientv3.Txn {
		return txn.Then(clientv3.OpGet(s.fleetKey()), clientv3.OpGet(s.endedKey(s.Options.Fleet)))
	})
	if err != nil {
		return Fleet{}, err
	}
	return s.fleetOf(response.Responses[0].GetResponseRange().Kvs, response.Responses[1].GetResponseRange().Kvs)
}

// fleetOf reads the key of the fleet. ended is the key of the end of Options.Fleet; nil: unknown.
func (s *Sequence) fleetOf(kvs, ended []*mvccpb.KeyValue) (Fleet, error) {
	by := ""
	if len(ended) > 0 {
		by = string(ended[0].Value)
	}
	if len(kvs) == 0 {
		return Fleet{}, &NoFleetError{Prefix: s.Prefix, Expected: s.Options.Fleet, EndedBy: by}
	}
	fleet := Fleet{revision: kvs[0].ModRevision}
	if err := json.Unmarshal(kvs[0].Value, &fleet); err != nil {
		return Fleet{}, &DamagedError{Key: s.fleetKey(), Err: err}
	}
	switch {
	case fleet.Format > Format:
		return Fleet{}, &FormatError{Found: fleet.Format, Known: Format}
	case s.Options.Fleet != "" && fleet.ID != s.Options.Fleet:
		return Fleet{}, &OtherFleetError{Prefix: s.Prefix, Found: fleet.ID, Expected: s.Options.Fleet,
			EndedBy: by}
	case s.Options.Data != 0 && fleet.Data > s.Options.Data:
		return Fleet{}, &DataError{Found: fleet.Data, Known: s.Options.Data}
	}
	return fleet, nil
}

// Head returns the position of the newest record.
func (s *Sequence) Head(ctx context.Context) (Position, error) {
	state, err := s.read(ctx)
	return state.head.Position, err
}

// state is what one transaction reads.
type state struct {
	fleet    Fleet
	head     head
	revision int64
}

// read reads the fleet and the head, linearizably.
func (s *Sequence) read(ctx context.Context) (state, error) {
	response, err := s.transaction(ctx, func(txn clientv3.Txn) clientv3.Txn {
		return txn.Then(clientv3.OpGet(s.fleetKey()), clientv3.OpGet(s.headKey()),
			clientv3.OpGet(s.endedKey(s.Options.Fleet)))
	})
	if err != nil {
		return state{}, err
	}
	fleet, err := s.fleetOf(response.Responses[0].GetResponseRange().Kvs, response.Responses[2].GetResponseRange().Kvs)
	if err != nil {
		return state{}, err
	}
	newest, err := headOf(response.Responses[1].GetResponseRange().Kvs)
	return state{fleet: fleet, head: newest, revision: response.Header.Revision}, err
}

var errMissing = errors.New("it is missing")

func headOf(kvs []*mvccpb.KeyValue) (head, error) {
	if len(kvs) == 0 {
		return head{}, &DamagedError{Key: "head", Err: errMissing}
	}
	return decodeHead(kvs[0].Value)
}

// get reads a key or a range.
func (s *Sequence) get(ctx context.Context, key string,
	options ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	limited, cancel := s.limit(ctx)
	defer cancel()
	response, err := s.client.Get(limited, key, options...)
	if err != nil {
		return nil, s.explain(ctx, err)
	}
	return response, nil
}

func (s *Sequence) transaction(ctx context.Context,
	compose func(clientv3.Txn) clientv3.Txn) (*clientv3.TxnResponse, error) {
	limited, cancel := s.limit(ctx)
	defer cancel()
	response, err := compose(s.client.Txn(limited)).Commit()
	if err != nil {
		return nil, s.explain(ctx, err)
	}
	return response, nil
}

// limit returns the context of a request. Without a leader, etcd answers at once with an error.
func (s *Sequence) limit(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(clientv3.WithRequireLeader(ctx), s.Timeout)
}
