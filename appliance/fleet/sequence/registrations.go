package sequence

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// registrationInterval is the number of updates of a member's key between two of its registration.
const registrationInterval = 10

// Registration is what etcd has of a member, which may be away.
type Registration struct {
	// Member is what it says now, or what it said about ten seconds before it went away.
	Member
	Connected bool // to etcd
}

// Registrations returns all members, also those that are away, in the order of their names.
func (s *Sequence) Registrations(ctx context.Context) ([]Registration, error) {
	response, err := s.transaction(ctx, func(txn clientv3.Txn) clientv3.Txn {
		return txn.Then(clientv3.OpGet(s.membersKey(), clientv3.WithPrefix()),
			clientv3.OpGet(s.registrationsKey(), clientv3.WithPrefix()))
	})
	if err != nil {
		return nil, err
	}
	connected, err := membersOf(response.Responses[0].GetResponseRange().Kvs)
	if err != nil {
		return nil, err
	}
	registered, err := membersOf(response.Responses[1].GetResponseRange().Kvs)
	if err != nil {
		return nil, err
	}
	all := make([]Registration, 0, len(registered))
	names := make(map[string]bool, len(connected))
	for _, member := range connected {
		all, names[member.Name] = append(all, Registration{member, true}), true
	}
	for _, member := range registered {
		if !names[member.Name] {
			all = append(all, Registration{Member: member})
		}
	}
	slices.SortFunc(all, func(a, b Registration) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

// Forget removes the registration of the member with a name. It returns false if etcd has none, or
// if the member is connected.
func (s *Sequence) Forget(ctx context.Context, name string) (bool, error) {
	all, err := s.Registrations(ctx)
	if err != nil {
		return false, err
	}
	i := slices.IndexFunc(all, func(r Registration) bool { return r.Name == name && !r.Connected })
	if i < 0 {
		return false, nil
	}
	// The member can connect meanwhile. Its key then exists.
	response, err := s.transaction(ctx, func(txn clientv3.Txn) clientv3.Txn {
		return txn.If(clientv3.Compare(clientv3.CreateRevision(s.membersKey()+all[i].ID), "=", 0)).
			Then(clientv3.OpDelete(s.registrationsKey() + name))
	})
	if err != nil {
		return false, err
	}
	return response.Succeeded, nil
}

func membersOf(kvs []*mvccpb.KeyValue) ([]Member, error) {
	members := make([]Member, len(kvs))
	for i, kv := range kvs {
		if err := json.Unmarshal(kv.Value, &members[i]); err != nil {
			return nil, &DamagedError{Key: string(kv.Key), Err: err}
		}
	}
	return members, nil
}
