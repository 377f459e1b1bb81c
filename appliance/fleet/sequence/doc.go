// Package sequence keeps the log of a fleet in etcd. A fleet is several appliances with the same
// data. One member, the leader, appends records; the others follow. The package does not read the
// content of a record.
//
// # Keys
//
// All keys are below a prefix, /landfall/ by default:
//
//	fleet                          ID and format of the fleet (JSON)
//	head                           number and digest of the newest record
//	log/NUMBER                     a record, or the header of a record in parts
//	parts/NUMBER/DIGEST/PART       a part of a record that is larger than a request may be
//	leader/LEASE                   candidates; the oldest is the leader (concurrency.Election)
//	members/ID                     the members that are connected
//	registrations/NAME             all members, also those that are away
//
// # Appending
//
// One transaction writes a record and the head. Its condition is that the leader's key has the
// revision of its creation, that the head is the record before, and that the key fleet is
// unchanged. So a record is in the log once, in order, and never from a former leader. A change of
// the fleet's format ends the leadership of a member that does not know it. The parts of a record
// are written before that transaction, with the same condition; parts without their record are
// removed by the next leader.
//
// # What a caller of etcd must know
//
//   - An error does not mean that a transaction was not carried out: the answer may be lost, etcd
//     may give up waiting (ErrTimeout, ErrLeaderChanged), and even ErrNoSpace is returned for
//     transactions that were carried out (etcd-io/etcd#16659). Append therefore repeats the
//     transaction or reads the log.
//   - A keep-alive's answer can be old when it is read, after SIGSTOP or a suspended machine. The
//     lease counts from the time at which the request was sent, by the monotonic clock and by the
//     wall clock: the former stands still while a machine is suspended. A wall clock that is set
//     forward by more than the lease costs the leadership, which is won again.
//   - Session.Done reports the end of a lease up to a second late and not while the process is
//     stopped. Campaign alone uses it.
//   - A server of etcd that was its leader and hangs may confirm leases that its successor lets
//     expire (etcd-io/etcd#15247). A renewal can also be confirmed while the lease is being revoked
//     (etcd-io/etcd#20547). So a renewal counts only if a later read, which needs the majority,
//     finds the leader's key in the same term. A former leader of etcd may still revoke a lease
//     early; the newest versions of etcd do not. The condition of Append holds even then.
//   - Election.Campaign does not notice that its own lease has expired, and can then return as if
//     the election was won. It leaves its key behind after some errors (etcd-io/etcd#21128), and
//     waits for etcd without a limit after its context has ended.
//   - The client waits for a connection and keeps the reason to itself, such as a wrong
//     certificate. diagnose finds it. clientv3.New does not connect.
//   - gRPC waits for up to two minutes before it connects again to a server that was away for long.
//     Open limits this to a second.
//   - A watch reports neither a lost connection nor that etcd was restored from an older snapshot:
//     it then waits for a revision that comes much later (etcd-io/etcd#14303). Follow looks at the
//     head regularly. Without WithRequireLeader, a watch at a server without a leader waits as
//     well.
//   - A compaction by others ends watches and campaigns with ErrCompacted, but keeps the newest
//     value of each key. The log's keys are written once, so Follow reads them again.
//   - etcd limits requests to 1.5 MiB, a transaction to 128 operations, and its database to 2 GiB
//     by default. Deleted keys occupy space until etcd is compacted, which Compact does.
package sequence
