package metal

import (
	"errors"
	"strings"
	"sync"

	metal3 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"

	"landfall/appliance/kube/controller"
	"landfall/appliance/kube/objects"
	"landfall/store"
)

// ref identifies an object whose kind is known.
type ref struct{ namespace, name string }

// index maps related objects to each other, so that a reconcile does not read all objects. It is
// loaded from the store once and updated with each change. It contains only names and addresses;
// the objects are read from the store.
type index struct {
	mu     sync.Mutex
	filled bool
	hosts  map[ref]hostIndex
	agents map[ref][]string // MAC addresses of the Agents, in lower case; nil if there never were hosts
	images map[ref]string   // names of the InfraEnvs of PreprovisioningImages
}

type hostIndex struct {
	mac, infraEnv, secret, server string
}

func hostIndexOf(host *metal3.BareMetalHost) hostIndex {
	return hostIndex{
		mac: strings.ToLower(host.Spec.BootMACAddress), infraEnv: host.Labels[infraEnvLabel],
		secret: host.Spec.BMC.CredentialsName, server: string(host.UID),
	}
}

// agentInterfaces is the part of an Agent that the index needs. The rest of it is large.
type agentInterfaces struct {
	Metadata struct {
		Namespace string `json:"namespace"`
		Name      string `json:"name"`
	} `json:"metadata"`
	Status struct {
		Inventory struct {
			Interfaces []struct {
				MACAddress string `json:"macAddress"`
			} `json:"interfaces"`
		} `json:"inventory"`
	} `json:"status"`
}

func (a *agentInterfaces) macs() []string {
	var macs []string
	for _, nic := range a.Status.Inventory.Interfaces {
		if nic.MACAddress != "" {
			macs = append(macs, strings.ToLower(nic.MACAddress))
		}
	}
	return macs
}

// load fills the index from the store once. It reads Agents when the first BareMetalHost exists.
func (l *index) load(tx *store.Tx) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.filled {
		l.hosts, l.images = map[ref]hostIndex{}, map[ref]string{}
		if err := errors.Join(
			objects.EachStored(tx, objects.BareMetalHosts, func(host *metal3.BareMetalHost) error {
				l.hosts[ref{host.Namespace, host.Name}] = hostIndexOf(host)
				return nil
			}),
			objects.EachStored(tx, objects.PreprovisioningImages, func(image *metal3.PreprovisioningImage) error {
				l.images[ref{image.Namespace, image.Name}] = image.Labels[infraEnvLabel]
				return nil
			})); err != nil {
			return err
		}
		l.filled = true
	}
	if l.agents != nil {
		return nil
	}
	any := false
	if err := objects.Names(tx, objects.BareMetalHosts, "", func(string, string) error {
		any = true
		return store.ErrStop
	}); err != nil || !any {
		return err
	}
	agents := map[ref][]string{}
	err := objects.EachStored(tx, objects.Agents, func(agent *agentInterfaces) error {
		agents[ref{agent.Metadata.Namespace, agent.Metadata.Name}] = agent.macs()
		return nil
	})
	if err == nil {
		l.agents = agents
	}
	return err
}

// setHost returns the UID of the host that had the name before, if another one or none has it now.
func (l *index) setHost(at ref, host *metal3.BareMetalHost) (gone string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	before := l.hosts[at].server
	if host == nil {
		delete(l.hosts, at)
		return before
	}
	l.hosts[at] = hostIndexOf(host)
	if before == string(host.UID) {
		return ""
	}
	return before
}

// secretOf returns the Secret that a host named in its last pass; "" if there was none.
func (l *index) secretOf(at ref) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.hosts[at].secret
}

// namesOtherSecret reports whether a host named another Secret than the given one in its last pass.
func (l *index) namesOtherSecret(at ref, secret string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	host, known := l.hosts[at]
	return known && host.secret != secret
}

func (l *index) setImage(at ref, image *metal3.PreprovisioningImage) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if image == nil {
		delete(l.images, at)
		return
	}
	l.images[at] = image.Labels[infraEnvLabel]
}

// hostsWith lists the keys of a namespace's hosts that match.
func (l *index) hostsWith(namespace string, fits func(hostIndex) bool) []controller.Key {
	l.mu.Lock()
	defer l.mu.Unlock()
	var keys []controller.Key
	for at, host := range l.hosts {
		if at.namespace == namespace && fits(host) {
			keys = append(keys, controller.Key{Kind: objects.BareMetalHosts, Namespace: at.namespace, Name: at.name})
		}
	}
	return keys
}

// hostOfServer finds the host of the server with an id.
func (c *Controllers) hostOfServer(tx *store.Tx, _, id string) ([]controller.Key, error) {
	if err := c.index.load(tx); err != nil {
		return nil, err
	}
	l := &c.index
	l.mu.Lock()
	defer l.mu.Unlock()
	for at, host := range l.hosts {
		if host.server == id {
			return []controller.Key{{Kind: objects.BareMetalHosts, Namespace: at.namespace, Name: at.name}}, nil
		}
	}
	return nil, nil
}

// agentsWith lists the Agents of a namespace that have a network interface with the MAC address.
func (l *index) agentsWith(namespace, mac string) []ref {
	l.mu.Lock()
	defer l.mu.Unlock()
	var found []ref
	for at, macs := range l.agents {
		if at.namespace != namespace {
			continue
		}
		for _, own := range macs {
			if own == mac {
				found = append(found, at)
				break
			}
		}
	}
	return found
}

// hostsOfAgent lists the hosts that an Agent belongs to, or belonged to before its change.
// A damaged Agent still belongs to the same hosts.
func (c *Controllers) hostsOfAgent(tx *store.Tx, namespace, name string) ([]controller.Key, error) {
	if err := c.index.load(tx); err != nil {
		return nil, err
	}
	l, at := &c.index, ref{namespace, name}
	l.mu.Lock()
	unused := l.agents == nil
	l.mu.Unlock()
	if unused {
		return nil, nil
	}
	agent, err := objects.FindStored[agentInterfaces](tx, objects.Agents, namespace, name)
	damaged := store.IsDamaged(err)
	if err != nil && !damaged {
		return nil, err
	}
	l.mu.Lock()
	macs := map[string]bool{}
	for _, mac := range l.agents[at] {
		macs[mac] = true
	}
	if !damaged {
		delete(l.agents, at)
	}
	if agent != nil {
		l.agents[at] = agent.macs()
		for _, mac := range l.agents[at] {
			macs[mac] = true
		}
	}
	l.mu.Unlock()
	return l.hostsWith(namespace, func(host hostIndex) bool { return macs[host.mac] }), nil
}

func (c *Controllers) hostsOfInfraEnv(tx *store.Tx, namespace, name string) ([]controller.Key, error) {
	if err := c.index.load(tx); err != nil {
		return nil, err
	}
	return c.index.hostsWith(namespace, func(host hostIndex) bool { return host.infraEnv == name }), nil
}

// hostsOfSecret lists the hosts with the Secret of their BMC, or with a fencing Secret, which is
// written again when it is gone.
func (c *Controllers) hostsOfSecret(tx *store.Tx, namespace, name string) ([]controller.Key, error) {
	if err := c.index.load(tx); err != nil {
		return nil, err
	}
	keys := c.index.hostsWith(namespace, func(host hostIndex) bool { return host.secret == name })
	agent, ok := strings.CutSuffix(name, fencingSuffix)
	if !ok {
		return keys, nil
	}
	fenced, err := c.hostsOfAgent(tx, namespace, agent)
	return append(keys, fenced...), err
}

func (c *Controllers) hostOfImage(_ *store.Tx, namespace, name string) ([]controller.Key, error) {
	return []controller.Key{{Kind: objects.BareMetalHosts, Namespace: namespace, Name: name}}, nil
}

func (c *Controllers) imageOfHost(_ *store.Tx, namespace, name string) ([]controller.Key, error) {
	return []controller.Key{{Kind: objects.PreprovisioningImages, Namespace: namespace, Name: name}}, nil
}

func (c *Controllers) imagesOfInfraEnv(tx *store.Tx, namespace, name string) ([]controller.Key, error) {
	if err := c.index.load(tx); err != nil {
		return nil, err
	}
	c.index.mu.Lock()
	defer c.index.mu.Unlock()
	var keys []controller.Key
	for at, infraEnv := range c.index.images {
		if at.namespace == namespace && infraEnv == name {
			keys = append(keys, controller.Key{Kind: objects.PreprovisioningImages, Namespace: at.namespace,
				Name: at.name})
		}
	}
	return keys, nil
}
