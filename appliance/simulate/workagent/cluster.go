package workagent

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// Operator is the stand-in for an operator: it returns the status of an object, or nil for kinds
// without one.
type Operator func(object map[string]any, now time.Time) map[string]any

// Cluster is a small management cluster in memory: objects, and the records of the agent about what
// it has applied. It outlives the agents, like a cluster outlives the restarts of its pods.
type Cluster struct {
	operator Operator

	mu      sync.Mutex
	objects map[Ref]map[string]any
	applied map[string]*appliedWork // by the name of the ManifestWork
	deleted []Ref
}

// Ref names an object.
type Ref struct{ Group, Version, Kind, Namespace, Name string }

// String returns a text such as HostedCluster ocm-1a2b/prod.
func (r Ref) String() string {
	return strings.TrimPrefix(fmt.Sprintf("%s %s/%s", r.Kind, r.Namespace, r.Name), "/")
}

// resource returns the plural of the kind in lower case.
func (r Ref) resource() string { return strings.ToLower(r.Kind) + "s" }

// appliedWork is an AppliedManifestWork: the objects that a ManifestWork has made.
type appliedWork struct {
	objects []Ref
	// missing is since when no ManifestWork of the name is known to the agent; zero: it is known.
	missing time.Time
}

// NewCluster returns an empty cluster. operator may be nil.
func NewCluster(operator Operator) *Cluster {
	return &Cluster{operator: operator, objects: map[Ref]map[string]any{}, applied: map[string]*appliedWork{}}
}

// refOf returns the name of a manifest's object.
func refOf(manifest map[string]any) Ref {
	apiVersion, _ := manifest["apiVersion"].(string)
	group, version, found := strings.Cut(apiVersion, "/")
	if !found {
		group, version = "", apiVersion
	}
	kind, _ := manifest["kind"].(string)
	metadata, _ := manifest["metadata"].(map[string]any)
	namespace, _ := metadata["namespace"].(string)
	name, _ := metadata["name"].(string)
	return Ref{group, version, kind, namespace, name}
}

// apply applies the manifests of a ManifestWork, and deletes the objects that it had before and has
// no longer. observed reports which manifests are only observed.
func (c *Cluster) apply(work string, manifests []json.RawMessage, observed func(Ref) bool) ([]Ref, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	refs := make([]Ref, 0, len(manifests))
	for _, text := range manifests {
		var manifest map[string]any
		if err := json.Unmarshal(text, &manifest); err != nil {
			return nil, fmt.Errorf("read a manifest: %w", err)
		}
		ref := refOf(manifest)
		refs = append(refs, ref)
		if observed(ref) {
			continue
		}
		if held := c.objects[ref]; held != nil && held["status"] != nil {
			manifest["status"] = held["status"]
		}
		c.objects[ref] = manifest
	}
	before := c.applied[work]
	if before != nil {
		for _, ref := range before.objects {
			if !slices.Contains(refs, ref) {
				c.delete(ref)
			}
		}
	}
	c.applied[work] = &appliedWork{objects: refs}
	return refs, nil
}

// delete deletes an object. The caller holds the lock.
func (c *Cluster) delete(ref Ref) {
	if c.objects[ref] != nil {
		delete(c.objects, ref)
		c.deleted = append(c.deleted, ref)
	}
}

// remove deletes the objects of a ManifestWork.
func (c *Cluster) remove(work string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.removeLocked(work)
}

func (c *Cluster) removeLocked(work string) {
	if held := c.applied[work]; held != nil {
		for _, ref := range slices.Backward(held.objects) {
			c.delete(ref)
		}
		delete(c.applied, work)
	}
}

// evict deletes the objects of each ManifestWork that the agent has not known for the grace period,
// as Open Cluster Management's agent does.
func (c *Cluster) evict(known func(work string) bool, grace time.Duration, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for work, held := range c.applied {
		switch {
		case known(work):
			held.missing = time.Time{}
		case held.missing.IsZero():
			held.missing = now
		case now.Sub(held.missing) >= grace:
			c.removeLocked(work)
		}
	}
}

// reconcile lets the operator write the statuses of objects.
func (c *Cluster) reconcile(refs []Ref, now time.Time) {
	if c.operator == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, ref := range refs {
		if object := c.objects[ref]; object != nil {
			if status := c.operator(object, now); status != nil {
				object["status"] = status
			}
		}
	}
}

// status returns the status of an object as JSON, or nil.
func (c *Cluster) status(ref Ref) (status []byte, exists bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	object := c.objects[ref]
	if object == nil || object["status"] == nil {
		return nil, object != nil
	}
	text, err := json.Marshal(object["status"])
	if err != nil {
		return nil, true
	}
	return text, true
}

// Objects returns the names of the objects, in the order of their texts.
func (c *Cluster) Objects() []Ref {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.SortedFunc(maps.Keys(c.objects), func(a, b Ref) int {
		return strings.Compare(a.String(), b.String())
	})
}

// Object returns the JSON of an object, or nil.
func (c *Cluster) Object(ref Ref) []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.objects[ref] == nil {
		return nil
	}
	text, err := json.Marshal(c.objects[ref])
	if err != nil {
		return nil
	}
	return text
}

// Deleted returns the objects of a kind that were deleted, in order; "" returns those of all kinds.
func (c *Cluster) Deleted(kind string) []Ref {
	c.mu.Lock()
	defer c.mu.Unlock()
	var found []Ref
	for _, ref := range c.deleted {
		if kind == "" || ref.Kind == kind {
			found = append(found, ref)
		}
	}
	return found
}
