package appliance

import (
	"context"
	"net/netip"

	"github.com/go-openapi/swag/conv"
	"github.com/jonboulle/clockwork"

	"landfall/appliance/engine"
	"landfall/appliance/hive"
	"landfall/appliance/joining"
	"landfall/appliance/spoke"
	"landfall/store"
)

// spokes are the clusters that are installed, as the appliance reaches into them.
type spokes struct {
	a     *Appliance
	names map[string]string
}

func newSpokes(a *Appliance) (*spokes, error) {
	names, err := joining.ParseNames(a.config.Joining.Addresses)
	return &spokes{a, names}, err
}

// follows tells whether hosts are followed into a cluster: one that was described to the Kubernetes API, where a kubeconfig may come yet,
// and any other that there is a kubeconfig of.
func (s *spokes) follows(tx *store.Tx, id string) (bool, error) {
	if !s.a.config.Joining.Follow {
		return false, nil
	}
	found, _, err := s.find(tx, id)
	return found.Described || len(found.Kubeconfig) > 0, err
}

// find looks for a cluster's kubeconfig: in the Secret that its ClusterDeployment names, then among the files of its installation.
func (s *spokes) find(tx *store.Tx, id string) (found hive.SpokeKubeconfig, view *engine.ClusterView, err error) {
	rows := s.a.engine.Rows(tx)
	if view, err = rows.Cluster(id); err != nil {
		return found, nil, err
	}
	if k := s.a.kubernetes; k != nil {
		if found, err = k.hive.clusters.SpokeKubeconfig(tx, view); err != nil || found.Kubeconfig != nil {
			return found, view, err
		}
	}
	file := "kubeconfig-noingress"
	if view.Complete {
		file = "kubeconfig"
	}
	content, err := rows.ClusterFile(id, file)
	if engine.KindOf(err) == engine.NotFound {
		return found, view, nil
	}
	if err == nil {
		found.Kubeconfig, found.From = content, "the files of cluster "+view.Name
	}
	return found, view, err
}

// way is how a cluster is reached. It is a *spoke.MissingError if nobody has a kubeconfig of it.
func (s *spokes) way(id string) (way joining.Cluster, err error) {
	err = s.a.db.View(func(tx *store.Tx) error {
		found, view, err := s.find(tx, id)
		if err != nil {
			return err
		}
		way.Lenient = !found.Described
		if found.Kubeconfig == nil && found.From != "" {
			return &spoke.MissingError{Where: found.From + " is not there, or has no key kubeconfig"}
		}
		if found.Kubeconfig == nil {
			return &spoke.MissingError{Where: "cluster " + view.Name + " was not installed from here"}
		}
		way.Access = spoke.Access{Kubeconfig: found.Kubeconfig, From: found.From, Names: s.names}
		for _, vip := range view.APIVips {
			way.Addresses = append(way.Addresses, string(vip.IP))
		}
		if address := conv.Value(view.APIVipDNSName); isAddress(address) && len(way.Addresses) == 0 {
			way.Addresses = append(way.Addresses, address)
		}
		return nil
	})
	return way, err
}

func isAddress(text string) bool {
	_, err := netip.ParseAddr(text)
	return err == nil
}

// run follows hosts into their clusters until the context ends.
func (s *spokes) run(ctx context.Context) error {
	if !s.a.config.Joining.Follow {
		return nil
	}
	return joining.New(joining.Options{
		Engine: s.a.engine, Cluster: s.way, GiveUp: s.a.config.Joining.GiveUp, Interval: s.a.config.Joining.Interval,
		Clock: clockwork.NewRealClock(), Logger: s.a.log,
	}).Run(ctx)
}
