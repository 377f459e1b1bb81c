package workers

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"landfall/appliance/sentence"
	"landfall/store"
)

// Offered is a host whose Agent this appliance has written to a management cluster.
type Offered struct {
	HostID string `json:"host_id"`
	UID    string `json:"uid,omitempty"` // of the Agent; "": the appliance has not seen it yet
	// Sequence counts the changes of this row. It is committed before the Agent gets it in an
	// annotation, so an Agent with a greater one was written by a state of the store that is lost.
	Sequence uint64 `json:"sequence"`
	// Choice is the choice of the provider that was followed last; nil: the host is free.
	Choice *Choice `json:"choice,omitempty"`
	// Generation is the generation of the Agent's spec with that choice.
	Generation int64 `json:"generation,omitempty"`
	// Bound is the cluster of the engine to which the host was bound for the choice, or "".
	Bound string `json:"bound,omitempty"`
	// Token is the digest of the ignition token that the host has, or "".
	Token string `json:"token,omitempty"`
	// Installed says that the installation of the host was started for the choice.
	Installed bool `json:"installed,omitempty"`
}

// Choice is what the provider of node pools writes into an Agent that it chooses. An Agent that is
// written again gets it back.
type Choice struct {
	Namespace         string            `json:"namespace"` // of the ClusterDeployment
	Name              string            `json:"name"`
	MachineConfigPool string            `json:"machine_config_pool,omitempty"`
	TokenNamespace    string            `json:"token_namespace,omitempty"`
	TokenName         string            `json:"token_name,omitempty"`
	Headers           map[string]string `json:"headers,omitempty"`
	Machine           string            `json:"machine,omitempty"`
	MachineNamespace  string            `json:"machine_namespace,omitempty"`
}

// cluster returns the key of the ClusterDeployment, or "".
func (c *Choice) cluster() string {
	if c == nil {
		return ""
	}
	return c.Namespace + "/" + c.Name
}

// joined is a cluster of the engine that stands for a hosted cluster whose workers join it.
type joined struct {
	Consumer string `json:"consumer"`
	CID      string `json:"cid"` // of the hosted cluster
}

// State says what keeps the hosts of a management cluster from being followed.
type State struct {
	// Problem concerns all hosts; "" for none.
	Problem string    `json:"problem,omitempty"`
	Since   time.Time `json:"since,omitzero"` // UTC; of the problem
	// Hosts are the problems of single hosts by their IDs.
	Hosts map[string]string `json:"hosts,omitempty"`
}

var (
	offers   = store.NewBucket[Offered]("hosted-worker-hosts", 1)   // <consumer>/<host>
	clusters = store.NewBucket[joined]("hosted-worker-clusters", 1) // <cluster of the engine>
	states   = store.NewBucket[State]("hosted-worker-states", 1)    // <consumer>
)

// Offers returns the hosts of a management cluster in the order of their IDs.
func Offers(tx *store.Tx, consumer string) (all []*Offered, err error) {
	err = offers.Each(tx, consumer+"/", func(_ string, o *Offered) error {
		all = append(all, o)
		return nil
	})
	return all, err
}

// GetState returns the state of a management cluster. It is empty if there is no problem.
func GetState(tx *store.Tx, consumer string) (*State, error) {
	state, err := states.Get(tx, consumer)
	if errors.Is(err, store.ErrNotFound) {
		return &State{}, nil
	}
	return state, err
}

// EachProblem calls fn with each management cluster whose hosts, or some of them, are not followed,
// and the reason.
func EachProblem(tx *store.Tx, fn func(consumer, reason string) error) error {
	return states.Each(tx, "", func(consumer string, state *State) error {
		reason := state.Problem
		if reason == "" && len(state.Hosts) > 0 {
			first := slices.Min(slices.Collect(maps.Keys(state.Hosts)))
			reason = fmt.Sprintf("%d hosts wait for a person. The host %s: %s", len(state.Hosts), first,
				state.Hosts[first])
			if len(state.Hosts) == 1 {
				reason = fmt.Sprintf("The host %s waits for a person: %s", first, state.Hosts[first])
			}
		}
		if reason == "" {
			return nil
		}
		return fn(consumer, sentence.Close(reason))
	})
}

// Forget removes what is stored about the hosts of a management cluster. The hosts and their Agents
// stay as they are.
func Forget(tx *store.Tx, consumer string) error {
	return errors.Join(
		offers.Keys(tx, consumer+"/", func(key string) error { return offers.Delete(tx, key) }),
		clusters.Each(tx, "", func(id string, row *joined) error {
			if row.Consumer != consumer {
				return nil
			}
			return clusters.Delete(tx, id)
		}),
		states.Delete(tx, consumer))
}

// offering returns the names of the management clusters that have hosts of this appliance.
func offering(tx *store.Tx) (consumers map[string]bool, err error) {
	consumers = map[string]bool{}
	err = offers.Keys(tx, "", func(key string) error {
		consumer, _, _ := strings.Cut(key, "/")
		consumers[consumer] = true
		return nil
	})
	return consumers, err
}
