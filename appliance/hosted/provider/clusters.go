package provider

import (
	"cmp"
	"context"
	"encoding/base64"
	"regexp"
	"slices"
	"strings"

	"github.com/google/uuid"

	"landfall/appliance/hosted/arm"
	"landfall/appliance/hosted/record"
	"landfall/store"
)

func encode64(content []byte) string { return base64.StdEncoding.EncodeToString(content) }

// PutCluster creates or replaces a hosted cluster.
func (s *Service) PutCluster(ctx context.Context, caller Caller, id arm.ID, body arm.Document) (*Result, error) {
	var result *Result
	err := s.update(ctx, id, caller, true, func(ch *change) (err error) {
		result, err = ch.putCluster(id, body)
		return err
	})
	return result, err
}

// NewNodePool is a node pool that is created with its cluster.
type NewNodePool struct {
	Name string
	Body arm.Document
}

// CreateCluster creates a hosted cluster with its node pools, or nothing. A node pool of its own
// request is refused once the cluster is being provisioned.
func (s *Service) CreateCluster(ctx context.Context, caller Caller, id arm.ID, body arm.Document,
	pools []NewNodePool) (*Result, error) {
	var result *Result
	err := s.update(ctx, id, caller, true, func(ch *change) error {
		present, err := record.FindCluster(ch.tx, id)
		if err != nil {
			return err
		}
		if present != nil {
			return conflict("There is already a hosted cluster %s in the resource group %s.", id.Cluster, id.Group)
		}
		if result, err = ch.putCluster(id, body); err != nil {
			return err
		}
		named := map[string]bool{}
		for _, pool := range pools {
			if named[strings.ToLower(pool.Name)] {
				return arm.Fieldf(arm.NodePools, "The node pool %s is named twice.", pool.Name)
			}
			named[strings.ToLower(pool.Name)] = true
			child := id
			child.Child, child.ChildType = pool.Name, arm.NodePools
			if err := child.Check(); err != nil {
				return err
			}
			if _, err := ch.putNodePool(child, pool.Body); err != nil {
				return err
			}
		}
		return nil
	})
	return result, err
}

func (ch *change) putCluster(id arm.ID, body arm.Document) (*Result, error) {
	c, err := record.FindCluster(ch.tx, id)
	if err != nil {
		return nil, err
	}
	if c == nil {
		return ch.createCluster(id, body)
	}
	return ch.changeCluster(c, func(shown arm.Document) (arm.Document, error) {
		return arm.Cluster.Replace(c.Document, body, shown)
	})
}

// PatchCluster changes fields of a hosted cluster.
func (s *Service) PatchCluster(ctx context.Context, caller Caller, id arm.ID, body arm.Document) (*Result, error) {
	var result *Result
	err := s.update(ctx, id, caller, true, func(ch *change) error {
		c, err := record.FindCluster(ch.tx, id)
		if err != nil {
			return err
		}
		if c == nil {
			return notFound(id)
		}
		result, err = ch.changeCluster(c, func(shown arm.Document) (arm.Document, error) {
			return arm.Cluster.Patch(c.Document, body, shown)
		})
		return err
	})
	return result, err
}

func (ch *change) createCluster(id arm.ID, body arm.Document) (*Result, error) {
	m, document, chosen, err := ch.newDocument(id, body)
	if err != nil {
		return nil, err
	}
	cid, err := newCID(ch.now)
	if err != nil {
		return nil, err
	}
	key, err := ch.s.newEtcdKey()
	if err != nil {
		return nil, err
	}
	c := &record.Cluster{Resource: record.Resource{ID: id, Document: document, State: record.Accepted}, CID: cid,
		UUID: uuid.NewString(), EtcdKey: key, FIPS: document.Text("properties.cryptoRestrictions") == "FIPS"}
	if c.Prefix = document.Text("properties.dns.baseDomainPrefix"); c.Prefix == "" {
		if c.Prefix, err = ch.newPrefix(id.Cluster); err != nil {
			return nil, err
		}
		document.Set("properties.dns.baseDomainPrefix", c.Prefix)
	}
	if err := ch.checkPrefix(c); err != nil {
		return nil, err
	}
	if c.Release, err = ch.s.release(document, record.Release{}); err != nil {
		return nil, err
	}
	if m != nil {
		c.Consumer = m.Consumer
	} else {
		c.Chosen = chosen
	}
	ch.stamp(&c.Resource, true)
	operation, err := ch.begin(&c.Resource, record.Create)
	if err != nil {
		return nil, err
	}
	if err := ch.settle(c); err != nil {
		return nil, err
	}
	return &Result{ch.s.showCluster(ch.tx, c), operation, true}, nil
}

// newDocument returns the document of a new cluster, and the best management cluster that it fits,
// or nil if there is none. chosen are the fields of the networks that the request omits.
func (ch *change) newDocument(id arm.ID, body arm.Document) (m *record.Management, document arm.Document,
	chosen []string, err error) {
	all, err := candidates(ch.tx, body.Text("location"))
	if err != nil {
		return nil, nil, nil, err
	}
	if len(all) == 0 {
		all = append(all, nil)
	}
	var first error
	for _, m := range all {
		complete, chosen := withNetworks(body, m)
		document, err := arm.Cluster.Create(complete, identification(id))
		if err == nil {
			err = checkManagement(document, m)
		}
		if err == nil {
			return m, document, chosen, nil
		}
		first = cmp.Or(first, err)
	}
	return nil, nil, nil, first
}

// changeCluster changes the document of a cluster.
func (ch *change) changeCluster(c *record.Cluster, alter func(shown arm.Document) (arm.Document, error)) (
	*Result, error) {
	if !record.IsTerminal(c.State) {
		return nil, conflict("The cluster %s is in the state %s; wait until its operation has ended, or delete it and "+
			"create it again.", c.ID.Cluster, c.State)
	}
	document, err := alter(ch.s.showCluster(ch.tx, c))
	if err != nil {
		return nil, err
	}
	if c.Release, err = ch.s.release(document, c.Release); err != nil {
		return nil, err
	}
	m, err := record.GetManagement(ch.tx, c.Consumer)
	if err != nil {
		return nil, err
	}
	if err := checkManagement(document, m); err != nil {
		return nil, err
	}
	c.Document, c.State, c.Reason, c.Watched = document, record.Accepted, "", 0
	ch.stamp(&c.Resource, false)
	operation, err := ch.begin(&c.Resource, record.Update)
	if err != nil {
		return nil, err
	}
	if err := ch.settle(c); err != nil {
		return nil, err
	}
	return &Result{ch.s.showCluster(ch.tx, c), operation, false}, nil
}

// DeleteCluster deletes a hosted cluster with its node pools. The result is nil if the cluster does
// not exist.
func (s *Service) DeleteCluster(ctx context.Context, caller Caller, id arm.ID) (*Result, error) {
	var result *Result
	err := s.update(ctx, id, caller, false, func(ch *change) error {
		c, err := record.FindCluster(ch.tx, id)
		if err != nil || c == nil {
			return err
		}
		if c.State == record.Deleting {
			return conflict("The cluster %s is already being deleted.", c.ID.Cluster)
		}
		pools, err := record.NodePools(ch.tx, c.CID)
		if err != nil {
			return err
		}
		for _, pool := range pools {
			if pool.State == record.Deleting {
				continue
			}
			if _, err := ch.beginDeletion(&pool.Resource, true); err != nil {
				return err
			}
			if err := record.PutNodePool(ch.tx, pool); err != nil {
				return err
			}
		}
		operation, err := ch.beginDeletion(&c.Resource, false)
		if err != nil {
			return err
		}
		shown := s.showCluster(ch.tx, c)
		result = &Result{shown, operation, false}
		return ch.settle(c)
	})
	return result, err
}

// beginDeletion marks a resource as being deleted. Its running operation ends as canceled.
func (ch *change) beginDeletion(resource *record.Resource, implicit bool) (*record.Operation, error) {
	if err := ch.end(resource, record.Canceled, arm.Errorf(0, arm.CodeCanceled,
		"The operation was superseded by a deletion.")); err != nil {
		return nil, err
	}
	resource.State, resource.Reason, resource.Deleted, resource.DeletedBy = record.Deleting, "", ch.now, ch.caller.Name
	operation, err := ch.begin(resource, record.Delete)
	if err != nil || !implicit {
		return operation, err
	}
	operation.Implicit = true
	return operation, record.PutOperation(ch.tx, operation, ch.now)
}

// release returns the release of a document's version. Without a version, it is the present
// release, or for a new resource the site's default, and the document gets its version. An
// unchanged version keeps the present release, also if the site no longer offers it.
func (s *Service) release(document arm.Document, present record.Release) (record.Release, error) {
	const target = "properties.version.id"
	all := s.Site.Releases()
	slices.SortFunc(all, func(a, b Release) int { return compareVersions(b.Version, a.Version) })
	wanted := document.Text(target)
	if wanted == "" && present.Version != "" {
		wanted = minorOf(present.Version)
		document.Set(target, wanted)
	}
	if wanted == "" {
		if len(all) == 0 {
			return record.Release{}, arm.Fieldf(target, "The site offers no release; add one to the settings.")
		}
		at := max(0, slices.IndexFunc(all, func(r Release) bool { return r.Default }))
		document.Set(target, minorOf(all[at].Version))
		return record.Release{Version: all[at].Version, Image: all[at].Image}, nil
	}
	unchanged := present.Version != "" && (present.Version == wanted || minorOf(present.Version) == wanted)
	at := slices.IndexFunc(all, func(r Release) bool {
		if unchanged {
			return r.Version == present.Version
		}
		return r.Version == wanted || minorOf(r.Version) == wanted
	})
	switch {
	case at < 0 && unchanged:
		return present, nil
	case at < 0:
		var offered []string
		for _, r := range all {
			offered = append(offered, r.Version)
		}
		return record.Release{}, arm.Fieldf(target, "The site has no release %s; it offers %s.", wanted,
			cmp.Or(strings.Join(offered, ", "), "no other release"))
	case present.Version != "" && compareVersions(all[at].Version, present.Version) < 0:
		return record.Release{}, arm.Fieldf(target, "The version %s is older than the present version %s; OpenShift "+
			"can't go back.", all[at].Version, present.Version)
	}
	return record.Release{Version: all[at].Version, Image: all[at].Image}, nil
}

// minorOf returns X.Y of a version.
func minorOf(version string) string {
	parts := strings.SplitN(version, ".", 3)
	return strings.Join(parts[:min(2, len(parts))], ".")
}

var notPrefix = regexp.MustCompile(`[^a-z0-9-]+`)

// prefixOf derives the first label of a cluster's domain from its name.
func prefixOf(name string) string {
	prefix := notPrefix.ReplaceAllString(strings.ToLower(name), "-")
	return strings.Trim(prefix[:min(15, len(prefix))], "-")
}

// newPrefix derives the first label of a cluster's domain from its name. If another cluster has it,
// the label ends with random characters.
func (ch *change) newPrefix(name string) (string, error) {
	prefix := prefixOf(name)
	taken, err := record.FindPrefix(ch.tx, prefix)
	if err != nil || taken == "" {
		return prefix, err
	}
	id, err := newCID(ch.now)
	if err != nil {
		return "", err
	}
	return strings.Trim(prefix[:min(10, len(prefix))], "-") + "-" + id[len(id)-4:], nil
}

// checkPrefix returns an error if another cluster has the domain of a new one.
func (ch *change) checkPrefix(c *record.Cluster) error {
	cid, err := record.FindPrefix(ch.tx, c.Prefix)
	if err != nil || cid == "" {
		return err
	}
	other, err := record.GetCluster(ch.tx, cid)
	if err != nil || other == nil {
		return err
	}
	return arm.Fieldf("properties.dns.baseDomainPrefix", "The cluster %s already has the domain prefix %s; choose "+
		"another one in properties.dns.baseDomainPrefix.", other.ID.Cluster, c.Prefix)
}

// The networks of a cluster that names none: those of the resource provider, and those of
// HyperShift, which do not overlap a management cluster with default networks.
var (
	providerNetworks = map[string]string{"podCidr": "10.128.0.0/14", "serviceCidr": "172.30.0.0/16",
		"machineCidr": "10.0.0.0/16"}
	hypershiftNetworks = map[string]string{"podCidr": "10.132.0.0/14", "serviceCidr": "172.31.0.0/16"}
)

// withNetworks returns a request with the networks that it omits, and their fields.
func withNetworks(body arm.Document, m *record.Management) (complete arm.Document, chosen []string) {
	body = body.Clone()
	var taken []arm.NamedNetwork
	if m != nil {
		taken = slices.Concat(managementNetworks(m))
	}
	for _, name := range []string{"podCidr", "serviceCidr", "machineCidr"} {
		path := "properties.network." + name
		if !body.Settable(path) || body.Has(path) {
			continue
		}
		network := providerNetworks[name]
		other, own := hypershiftNetworks[name], []arm.NamedNetwork{{Name: path, CIDR: network}}
		if other != "" && len(arm.Overlaps(own, taken)) > 0 {
			network = other
		}
		if name == "machineCidr" && m != nil && len(m.MachineNetworks) > 0 {
			network = m.MachineNetworks[0]
		}
		body.Set(path, network)
		chosen = append(chosen, path)
	}
	return body, chosen
}

// managementNetworks returns the networks in which a management cluster has pods and services, and
// those of its machines.
func managementNetworks(m *record.Management) (inner, machines []arm.NamedNetwork) {
	named := func(name string, networks []string) (all []arm.NamedNetwork) {
		for _, network := range networks {
			all = append(all, arm.NamedNetwork{Name: name + " of the management cluster " + m.Consumer, CIDR: network})
		}
		return all
	}
	return append(named("the pod network", m.PodNetworks), named("the service network", m.ServiceNetworks)...),
		named("the machine network", m.MachineNetworks)
}

// checkManagement returns an error if a cluster does not fit its management cluster.
func checkManagement(document arm.Document, m *record.Management) error {
	if m == nil {
		return nil
	}
	p, err := arm.ClusterPropertiesOf(document)
	if err != nil {
		return err
	}
	networks := p.Network.Networks()
	pods, machines := networks[:2], networks[2:]
	inner, others := managementNetworks(m)
	// The machine networks may be the same: workers stand beside the management cluster.
	if errs := slices.Concat(arm.Overlaps(pods, slices.Concat(inner, others)),
		arm.Overlaps(machines, inner)); len(errs) > 0 {
		return errs[0]
	}
	return nil
}

// ShowCluster returns a hosted cluster as clients see it.
func (s *Service) ShowCluster(id arm.ID) (shown arm.Document, err error) {
	err = s.view(id, func(tx *store.Tx) error {
		c, err := record.FindCluster(tx, id)
		if err != nil {
			return err
		}
		if c == nil {
			return notFound(id)
		}
		shown = s.showCluster(tx, c)
		return nil
	})
	return shown, err
}

// view checks an ID and its subscription, and reads.
func (s *Service) view(id arm.ID, fn func(*store.Tx) error) error {
	if err := id.Check(); err != nil {
		return err
	}
	return s.DB.View(func(tx *store.Tx) error {
		if _, err := checkSubscription(tx, id.Subscription, false); err != nil {
			return err
		}
		return fn(tx)
	})
}

// PageSize is the number of resources on a page of a list.
const PageSize = 20

// ListClusters returns at most limit clusters of a subscription or a resource group whose keys are
// greater than after. next is the key to continue with, or "".
func (s *Service) ListClusters(id arm.ID, after string, limit int) (shown []arm.Document, next string, err error) {
	prefix := strings.ToLower(id.Subscription) + "/"
	if id.Group != "" {
		prefix += strings.ToLower(id.Group) + "/"
	}
	shown = []arm.Document{}
	err = s.view(id, func(tx *store.Tx) error {
		last := ""
		return record.EachCluster(tx, prefix, after, func(c *record.Cluster) error {
			if len(shown) == limit {
				next = last
				return store.ErrStop
			}
			last = c.ID.Key()
			shown = append(shown, s.showCluster(tx, c))
			return nil
		})
	})
	return shown, next, err
}
