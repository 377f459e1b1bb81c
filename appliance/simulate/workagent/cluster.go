package workagent

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"k8s.io/client-go/util/jsonpath"
)

// Operator is the stand-in for the operators of a cluster.
type Operator interface {
	// Reconcile returns the status of an object, or nil for a kind without one.
	Reconcile(object map[string]any, now time.Time) map[string]any
	// Owned returns the objects that the operator makes because of an object.
	Owned(object map[string]any) []map[string]any
}

// Cluster is a small management cluster in memory: objects, and the records of the agent about what
// it has applied. It outlives the agents, like a cluster outlives the restarts of its pods.
type Cluster struct {
	operator Operator

	mu      sync.Mutex
	objects map[Ref]map[string]any
	applied map[string]*appliedWork // by the name of the ManifestWork
	local   map[Ref]*localWork
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
	objects []Ref // that it has applied, without those that it only reads
	orphan  bool  // the objects stay when the ManifestWork goes
	// missing is since when no ManifestWork of the name is known to the agent; zero: it is known.
	missing time.Time
}

// NewCluster returns an empty cluster. operator may be nil.
func NewCluster(operator Operator) *Cluster {
	return &Cluster{operator: operator, objects: map[Ref]map[string]any{}, applied: map[string]*appliedWork{},
		local: map[Ref]*localWork{}}
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
// no longer.
func (c *Cluster) apply(name string, w *work, now time.Time) ([]Ref, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	refs, err := c.putAll(w.data.Manifests, w.observed, now)
	if err != nil {
		return nil, err
	}
	if before := c.applied[name]; before != nil && !before.orphan {
		c.deleteMissing(before.objects, refs)
	}
	c.applied[name] = &appliedWork{objects: w.own(refs), orphan: w.orphans()}
	return refs, nil
}

// putAll stores the manifests that are not only observed. The caller holds the lock.
func (c *Cluster) putAll(manifests []json.RawMessage, observed func(Ref) bool, now time.Time) ([]Ref, error) {
	refs := make([]Ref, 0, len(manifests))
	for _, text := range manifests {
		var manifest map[string]any
		if err := json.Unmarshal(text, &manifest); err != nil {
			return nil, fmt.Errorf("read a manifest: %w", err)
		}
		ref := refOf(manifest)
		refs = append(refs, ref)
		if !observed(ref) {
			c.put(ref, manifest, now)
		}
	}
	return refs, nil
}

// deleteMissing deletes the objects that were applied before and no longer are. The caller holds
// the lock.
func (c *Cluster) deleteMissing(before, now []Ref) {
	for _, ref := range before {
		if !slices.Contains(now, ref) {
			c.delete(ref)
		}
	}
}

// put stores an object as a Kubernetes API does: with an UID, the time of its creation, and a
// generation that counts the changes of its spec. The caller holds the lock.
func (c *Cluster) put(ref Ref, object map[string]any, now time.Time) {
	metadata, _ := object["metadata"].(map[string]any)
	if metadata == nil {
		return
	}
	metadata["uid"], metadata["creationTimestamp"] = uuid.NewString(), now.UTC().Format(time.RFC3339)
	metadata["generation"] = 1.0
	if held := c.objects[ref]; held != nil {
		before, _ := held["metadata"].(map[string]any)
		generation, _ := before["generation"].(float64)
		if !reflect.DeepEqual(held["spec"], object["spec"]) {
			generation++
		}
		metadata["uid"], metadata["creationTimestamp"] = before["uid"], before["creationTimestamp"]
		metadata["generation"] = generation
		if held["status"] != nil {
			object["status"] = held["status"]
		}
	}
	c.objects[ref] = object
	if c.operator == nil {
		return
	}
	for _, owned := range c.operator.Owned(object) {
		if other := refOf(owned); c.objects[other] == nil {
			c.objects[other] = owned
		}
	}
}

// delete deletes an object. The caller holds the lock.
func (c *Cluster) delete(ref Ref) {
	if c.objects[ref] != nil {
		c.deleteLocal(ref)
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
	held := c.applied[work]
	if held == nil {
		return
	}
	delete(c.applied, work)
	if !held.orphan {
		for _, ref := range slices.Backward(held.objects) {
			c.delete(ref)
		}
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

// reconcile lets the operator and the cluster's own agent write the statuses of objects.
func (c *Cluster) reconcile(refs []Ref, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reconcileLocked(refs, now)
}

func (c *Cluster) reconcileLocked(refs []Ref, now time.Time) {
	for _, ref := range refs {
		object := c.objects[ref]
		switch {
		case object == nil:
		case isLocalWork(ref):
			c.applyLocal(ref, object, now)
		case c.operator != nil:
			if status := c.operator.Reconcile(object, now); status != nil {
				object["status"] = status
			}
		}
	}
}

// feedback returns the values of an object that an agent reports, and whether the object exists.
// rules are the names and the paths of the values.
func (c *Cluster) feedback(ref Ref, rules []feedbackRule) (values []any, exists bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.feedbackLocked(ref, rules)
}

func (c *Cluster) feedbackLocked(ref Ref, rules []feedbackRule) (values []any, exists bool) {
	object := c.objects[ref]
	for _, rule := range rules {
		if value := valueAt(object, rule.Path); value != nil {
			values = append(values, map[string]any{"name": rule.Name, "fieldValue": fieldValue(value)})
		}
	}
	return values, object != nil
}

// feedbackRule is a value that a ManifestWork asks for.
type feedbackRule struct {
	Name string `json:"name"`
	Path string `json:"path"`
}

// valueAt returns the value at a path such as .data.ca\.crt, or nil.
func valueAt(object map[string]any, path string) any {
	if strings.Contains(path, "[") {
		return filtered(object, path)
	}
	var value any = object
	const dot = "\x00"
	for part := range strings.SplitSeq(strings.Trim(strings.ReplaceAll(path, `\.`, dot), ".@"), ".") {
		if part == "" {
			break
		}
		members, ok := value.(map[string]any)
		if !ok {
			return nil
		}
		value = members[strings.ReplaceAll(part, dot, ".")]
	}
	return value
}

// filtered returns the first value at a path with filters, or nil.
func filtered(object map[string]any, path string) any {
	parser := jsonpath.New("feedback").AllowMissingKeys(true)
	if parser.Parse("{"+path+"}") != nil {
		return nil
	}
	found, err := parser.FindResults(object)
	if err != nil || len(found) == 0 || len(found[0]) == 0 {
		return nil
	}
	return found[0][0].Interface()
}

// fieldValue returns a value in the form of the agent's reports.
func fieldValue(value any) map[string]any {
	switch v := value.(type) {
	case string:
		return map[string]any{"type": "String", "string": v}
	case bool:
		return map[string]any{"type": "Boolean", "boolean": v}
	case int64:
		return map[string]any{"type": "Integer", "integer": v}
	case float64:
		return map[string]any{"type": "Integer", "integer": int64(v)}
	}
	return map[string]any{"type": "JsonRaw", "jsonRaw": string(encode(value))}
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
