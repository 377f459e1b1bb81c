package provider

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"landfall/appliance/fault"
	"landfall/appliance/hosted/agent"
	"landfall/appliance/hosted/arm"
	"landfall/appliance/hosted/broker"
	"landfall/appliance/hosted/bundle"
	"landfall/appliance/hosted/controlplane"
	"landfall/appliance/hosted/maestro"
	"landfall/appliance/hosted/record"
	"landfall/appliance/hosted/workers"
	"landfall/appliance/sentence"
	"landfall/store"
)

var domainForm = regexp.MustCompile(`^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

// candidates returns the management clusters for a new cluster, the best one first: only the one
// with the name of the location, or else all, those with the fewest clusters first.
func candidates(tx *store.Tx, location string) ([]*record.Management, error) {
	all, err := record.Managements(tx)
	if err != nil || len(all) < 2 {
		return all, err
	}
	for _, m := range all {
		if strings.EqualFold(m.Consumer, location) {
			return []*record.Management{m}, nil
		}
	}
	clusters := map[string]int{}
	if err := record.EachCluster(tx, "", "", func(c *record.Cluster) error {
		clusters[c.Consumer]++
		return nil
	}); err != nil {
		return nil, err
	}
	slices.SortStableFunc(all, func(a, b *record.Management) int {
		return cmp.Compare(clusters[a.Consumer], clusters[b.Consumer])
	})
	return all, nil
}

// place gives a cluster that waits for a management cluster the best one that it fits, and chooses
// the networks that its request omitted. The reason says why it fits none.
func (ch *change) place(c *record.Cluster, pools []*record.NodePool) (reason string, err error) {
	all, err := candidates(ch.tx, c.Document.Text("location"))
	if err != nil {
		return "", err
	}
	for _, m := range all {
		document, err := fitted(c, pools, m)
		if _, ok := errors.AsType[*arm.Error](err); ok {
			reason = cmp.Or(reason, "The cluster does not fit the management cluster "+m.Consumer+": "+
				sentence.Close(err.Error())+" Delete what does not fit and create it again, or add another management "+
				"cluster.")
			continue
		} else if err != nil {
			return "", err
		}
		c.Consumer, c.Document, c.Chosen = m.Consumer, document, nil
		return "", nil
	}
	return cmp.Or(reason, "No management cluster is set up at this site yet."), nil
}

// fitted returns the document of a cluster with the networks for a management cluster, or an error
// of the resource provider if the cluster or a node pool can't run there.
func fitted(c *record.Cluster, pools []*record.NodePool, m *record.Management) (arm.Document, error) {
	document := c.Document.Clone()
	for _, path := range c.Chosen {
		document.Set(path, nil)
	}
	document, _ = withNetworks(document, m)
	if document, err := arm.Cluster.Replace(document, document, identification(c.ID)); err != nil {
		return nil, err
	} else if err := checkManagement(document, m); err != nil {
		return nil, err
	}
	for _, p := range pools {
		if p.State == record.Deleting {
			continue
		}
		if err := checkProfile(p.Document, m); err != nil {
			return nil, fmt.Errorf("the node pool %s: %w", p.ID.Child, err)
		}
	}
	return document, nil
}

// AddManagement makes a cluster a management cluster, and a consumer of bundles. Clusters that wait
// for a management cluster get it.
func (s *Service) AddManagement(ctx context.Context, m record.Management) (*record.Management, error) {
	if err := checkManagementForm(&m); err != nil {
		return nil, err
	}
	err := s.DB.Update(ctx, func(tx *store.Tx) error {
		present, err := record.GetManagement(tx, m.Consumer)
		if err != nil {
			return err
		}
		if present != nil {
			return fault.New(fault.Conflict, "There is already a management cluster %s.", m.Consumer)
		}
		all, err := record.Managements(tx)
		if err != nil {
			return err
		}
		m.Created, m.Number = s.now(), 1
		for _, other := range all {
			if m.ClusterID != "" && other.ClusterID == m.ClusterID {
				return fault.New(fault.Conflict, "This cluster is already the management cluster %s.", other.Consumer)
			}
			m.Number = max(m.Number, other.Number+1)
		}
		if _, err := bundle.GetConsumer(tx, m.Consumer); errors.Is(err, bundle.ErrNotFound) {
			if err := bundle.CreateConsumer(tx, &bundle.Consumer{Name: m.Consumer, ClusterID: m.ClusterID},
				m.Created); err != nil {
				return err
			}
		} else if err != nil {
			return err
		}
		return record.PutManagement(tx, &m)
	})
	return &m, err
}

func checkManagementForm(m *record.Management) error {
	m.BaseDomain = strings.TrimSuffix(strings.ToLower(m.BaseDomain), ".")
	if m.Publish == "" {
		m.Publish = controlplane.NodePort
	}
	if m.AgentNamespace == "" {
		m.AgentNamespace = record.DefaultAgentNamespace
	}
	if m.Layout == "" {
		m.Layout = controlplane.Flat
	}
	switch {
	case m.Layout != controlplane.Flat && m.Layout != controlplane.Nested:
		return fault.New(fault.Invalid, "The layout of bundles is flat or nested, not %q.", m.Layout)
	case !domainForm.MatchString(m.BaseDomain):
		return fault.New(fault.Invalid, "The base domain %q is not a DNS domain such as hosted.example.com.",
			m.BaseDomain)
	case m.Publish != controlplane.NodePort && m.Publish != controlplane.LoadBalancer:
		return fault.New(fault.Invalid, "The services can be published by NodePort or LoadBalancer, not by %q.",
			m.Publish)
	case m.Publish == controlplane.NodePort && m.Address == "":
		return fault.New(fault.Invalid, "NodePort needs the address of the management cluster's nodes.")
	case m.Address != "" && !isHost(m.Address):
		return fault.New(fault.Invalid, "The address %q of the management cluster's nodes is not an IP address or a "+
			"DNS name, such as 192.168.1.10 or nodes.example.com.", m.Address)
	case len(validation.IsDNS1123Label(m.AgentNamespace)) > 0:
		return fault.New(fault.Invalid, "The namespace %q of the Agents is not a name of a namespace, such as %s.",
			m.AgentNamespace, record.DefaultAgentNamespace)
	case m.StorageClass != "" && len(validation.IsDNS1123Subdomain(m.StorageClass)) > 0:
		return fault.New(fault.Invalid, "The storage class %q is not a name of a storage class, such as lvms-vg1.",
			m.StorageClass)
	}
	for _, profile := range m.Profiles {
		if profile == "" || len(validation.IsValidLabelValue(profile)) > 0 {
			return fault.New(fault.Invalid, "The hardware profile %q is not a label value, such as large.", profile)
		}
	}
	if m.AgentImage != "" {
		if err := agent.CheckImage(m.AgentImage); err != nil {
			return err
		}
	}
	for _, networks := range [][]string{m.PodNetworks, m.ServiceNetworks, m.MachineNetworks} {
		for _, network := range networks {
			if prefix, err := netip.ParsePrefix(network); err != nil || prefix != prefix.Masked() {
				return fault.New(fault.Invalid, "The network %q is not in CIDR notation, such as 10.128.0.0/14.",
					network)
			}
		}
	}
	return nil
}

// isHost reports whether a text is an IP address or a DNS name by which other machines reach a
// host.
func isHost(text string) bool {
	if ip, err := netip.ParseAddr(text); err == nil {
		return ip.Zone() == "" && !ip.IsUnspecified() && !ip.IsLoopback() && !ip.IsMulticast()
	}
	last := text[strings.LastIndexByte(text, '.')+1:]
	return len(validation.IsDNS1123Subdomain(strings.ToLower(text))) == 0 && strings.Trim(last, "0123456789") != ""
}

// Broker is a name of the broker: a host and a port.
type Broker struct {
	Address string
	// Configured is set if the host is that of a URL which a person chose for the appliance, and
	// other machines can reach it.
	Configured bool
}

// AgentOf returns the name by which the agent of a management cluster knows the broker, which the
// first call decides, and the agent's image. An empty image is the one of the last call.
//
// While no agent has used the name, the configured one replaces it, and so does any name if it
// leads nowhere from other machines. A name with another port than the broker's gets that. The
// certificates that were issued with the former name are revoked, so that no agent uses it later:
// it must never change for an agent.
func (s *Service) AgentOf(ctx context.Context, consumer string, candidate Broker, image string) (name, used string,
	err error) {
	err = s.DB.Update(ctx, func(tx *store.Tx) error {
		m, err := record.GetManagement(tx, consumer)
		if err != nil {
			return err
		}
		if m == nil {
			return fault.New(fault.NotFound, "There is no management cluster %s.", consumer)
		}
		m.AgentImage = cmp.Or(image, m.AgentImage)
		if err := agent.CheckImage(m.AgentImage); err != nil {
			return err
		}
		wanted := candidate.Address
		if !candidate.Configured && !agent.IsLocal(m.Broker) {
			wanted = withPortOf(m.Broker, candidate.Address)
		}
		if m.Broker != "" && m.Broker != wanted {
			if err := s.forgetBroker(tx, m); err != nil {
				return err
			}
		}
		m.Broker = cmp.Or(m.Broker, wanted)
		name, used = m.Broker, m.AgentImage
		return record.PutManagement(tx, m)
	})
	return name, used, err
}

// withPortOf returns a name of the broker with the port of another name, or the other name if it
// can't be read.
func withPortOf(name, other string) string {
	host, _, err := net.SplitHostPort(name)
	_, port, otherErr := net.SplitHostPort(other)
	if err != nil || otherErr != nil {
		return other
	}
	return net.JoinHostPort(host, port)
}

// forgetBroker removes the name of the broker from a management cluster whose agent has not used
// it.
func (s *Service) forgetBroker(tx *store.Tx, m *record.Management) error {
	used, err := broker.WasUsed(tx, m.Consumer)
	if err != nil || used {
		return err
	}
	m.Broker = ""
	return broker.RevokeAll(tx, m.Consumer, s.now())
}

// Managements returns the management clusters.
func (s *Service) Managements() (all []*record.Management, err error) {
	err = s.DB.View(func(tx *store.Tx) error {
		all, err = record.Managements(tx)
		return err
	})
	return all, err
}

// RemoveManagement removes a management cluster without hosted clusters. The error of one with
// hosted clusters names them.
func (s *Service) RemoveManagement(ctx context.Context, consumer string) error {
	return s.DB.Update(ctx, func(tx *store.Tx) error {
		m, err := record.GetManagement(tx, consumer)
		if err != nil {
			return err
		}
		if m == nil {
			return fault.New(fault.NotFound, "There is no management cluster %s.", consumer)
		}
		names, err := hostedOn(tx, m.Consumer)
		if err != nil {
			return err
		}
		if len(names) > 0 {
			return fault.New(fault.Conflict, "The management cluster %s runs the control planes of %s; delete them "+
				"first.", m.Consumer, strings.Join(names, ", "))
		}
		return errors.Join(record.DeleteManagement(tx, m.Consumer), maestro.DeleteConsumer(tx, m.Consumer),
			workers.Forget(tx, m.Consumer))
	})
}

// KeepCluster returns an error that names the hosted clusters whose control planes run on a cluster
// of the appliance, or nil if there are none. Damaged rows count, because control planes may run
// there.
func KeepCluster(tx *store.Tx, clusterID string) error {
	return record.EachManagementName(tx, func(consumer string) error {
		id, err := clusterOfConsumer(tx, consumer)
		if err != nil || id != clusterID {
			return err
		}
		names, err := hostedOn(tx, consumer)
		if err != nil {
			return err
		}
		if len(names) > 0 {
			return fault.New(fault.Conflict, "The cluster is the management cluster %s and runs the control planes of "+
				"the hosted clusters %s. Delete them first (landfall hcp delete), or use force.", consumer,
				strings.Join(names, ", "))
		}
		used, err := bundle.IsUsed(tx, consumer)
		if used {
			return fault.New(fault.Conflict, "The cluster is the management cluster %s and has bundles of hosted "+
				"clusters. Delete them first (landfall hcp bundles lists them, landfall check the damaged rows), or "+
				"use force.", consumer)
		}
		return err
	})
}

// clusterOfConsumer returns the ID of the cluster of the appliance that is a management cluster, or
// "".
func clusterOfConsumer(tx *store.Tx, consumer string) (string, error) {
	m, err := record.GetManagement(tx, consumer)
	if m != nil {
		return m.ClusterID, nil
	}
	if !store.IsDamaged(err) {
		return "", err
	}
	row, err := bundle.GetConsumer(tx, consumer)
	switch {
	case err == nil:
		return row.ClusterID, nil
	case store.IsDamaged(err):
		return "", fault.New(fault.Conflict, "The rows of the management cluster %s are damaged, so it is not known "+
			"which cluster it is. landfall check says how to repair them; or use force.", consumer)
	}
	return "", ignoreMissing(err)
}

func hostedOn(tx *store.Tx, consumer string) (names []string, err error) {
	err = record.EachCluster(tx, "", "", func(c *record.Cluster) error {
		if c.Consumer == consumer {
			names = append(names, c.ID.Cluster)
		}
		return nil
	})
	slices.Sort(names)
	return names, err
}
