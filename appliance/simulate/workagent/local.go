package workagent

import (
	"encoding/json"
	"slices"
	"time"
)

// localNamespace is the namespace whose ManifestWorks the cluster's own work agent applies, as in a
// cluster with the multicluster engine.
const localNamespace = "local-cluster"

// isLocalWork reports whether an object is a ManifestWork for the cluster's own agent.
func isLocalWork(ref Ref) bool { return ref.Kind == "ManifestWork" && ref.Namespace == localNamespace }

// applyLocal does what the cluster's own work agent does with a ManifestWork: it applies the
// manifests within and writes the status. Unlike Maestro's agent, it reports single values only.
// The caller holds the lock.
func (c *Cluster) applyLocal(ref Ref, object map[string]any, now time.Time) {
	text, err := json.Marshal(object["spec"])
	if err != nil {
		return
	}
	var spec struct {
		Workload struct {
			Manifests []json.RawMessage `json:"manifests"`
		} `json:"workload"`
		Configs []json.RawMessage `json:"manifestConfigs"`
	}
	if json.Unmarshal(text, &spec) != nil {
		return
	}
	metadata, _ := object["metadata"].(map[string]any)
	generation := integer(metadata["generation"])
	held := c.local[ref]
	if held == nil || held.generation != generation {
		w := &work{}
		w.data.Manifests, w.data.Configs = spec.Workload.Manifests, spec.Configs
		refs, err := c.putAll(w.data.Manifests, w.observed, now)
		if err != nil {
			return
		}
		if held != nil {
			c.deleteMissing(held.work.own(held.refs), refs)
		}
		held = &localWork{generation: generation, refs: refs, work: w}
		c.local[ref] = held
	}
	c.reconcileLocked(held.refs, now)
	applied := localCondition("Applied", "True", "AppliedManifestWorkComplete", generation)
	manifests := []any{}
	for i, inner := range held.refs {
		conditions := []any{localCondition("Applied", "True", "AppliedManifestComplete", generation)}
		values := []any{}
		found, exists := c.feedbackLocked(inner, held.work.rules(inner))
		if !exists {
			conditions = []any{localCondition("Applied", "False", "AppliedManifestFailed", generation)}
		}
		for _, value := range found {
			if value.(map[string]any)["fieldValue"].(map[string]any)["type"] == "JsonRaw" {
				conditions = append(conditions, localCondition("StatusFeedbackSynced", "False", "StatusFeedbackFailed",
					generation))
				continue
			}
			values = append(values, value)
		}
		manifests = append(manifests, map[string]any{"conditions": conditions,
			"resourceMeta": map[string]any{"ordinal": i, "group": inner.Group, "version": inner.Version,
				"kind": inner.Kind, "resource": inner.resource(), "name": inner.Name, "namespace": inner.Namespace},
			"statusFeedback": map[string]any{"values": values}})
	}
	object["status"] = map[string]any{"conditions": []any{applied},
		"resourceStatus": map[string]any{"manifests": manifests}}
}

// localWork is what the cluster's own agent has applied of a ManifestWork.
type localWork struct {
	generation int64
	refs       []Ref
	work       *work
}

func localCondition(kind, status, reason string, generation int64) map[string]any {
	return map[string]any{"type": kind, "status": status, "reason": reason, "message": "",
		"observedGeneration": generation, "lastTransitionTime": time.Unix(0, 0).UTC().Format(time.RFC3339)}
}

func integer(value any) int64 {
	switch value := value.(type) {
	case float64:
		return int64(value)
	case int64:
		return value
	}
	return 0
}

// deleteLocal deletes what the cluster's own agent has applied of a ManifestWork, in reverse order.
// The caller holds the lock.
func (c *Cluster) deleteLocal(ref Ref) {
	if held := c.local[ref]; held != nil {
		delete(c.local, ref)
		for _, inner := range slices.Backward(held.work.own(held.refs)) {
			c.delete(inner)
		}
	}
}
