// Package workagent simulates the work agent of Open Cluster Management on a management cluster,
// and the cluster. It speaks the agent's protocol: MQTT 5 over TLS, CloudEvents, resyncs in both
// directions. It applies ManifestWorks to objects in memory. What an operator would do with the
// objects is up to an Operator, which is simulated too.
//
// The state is lost as in the real agent: a restarted agent knows no ManifestWork, but the cluster
// keeps the objects, and evicts those of ManifestWorks that stay unknown.
package workagent

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jonboulle/clockwork"

	"landfall/appliance/hosted/cloudevent"
)

// Agent is a running agent. Its methods are safe for concurrent use.
type Agent struct {
	consumer string
	cluster  *Cluster
	clock    clockwork.Clock
	// clockError is added to the time of the clock.
	clockError time.Duration

	mu       sync.Mutex
	works    map[string]*work
	lastMS   int64
	counter  int64
	received int
	requests int
}

// work is a ManifestWork in the agent's memory.
type work struct {
	version  int64
	source   string // that has sent it
	metadata json.RawMessage
	data     cloudevent.BundleData
	applied  int64 // the version that was applied last
	refs     []Ref
	failure  string
	sent     string // hash of the status that was sent last
}

// NewAgent returns an agent without ManifestWorks. clockError is added to the time of its clock.
func NewAgent(consumer string, cluster *Cluster, clock clockwork.Clock, clockError time.Duration) *Agent {
	return &Agent{consumer: consumer, cluster: cluster, clock: clock, clockError: clockError, works: map[string]*work{}}
}

// WithClockError returns the agent with another error of its clock.
func (a *Agent) WithClockError(clockError time.Duration) *Agent {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.clockError = clockError
	return a
}

func (a *Agent) now() time.Time { return a.clock.Now().Add(a.clockError) }

// Known returns the number of ManifestWorks that the agent knows.
func (a *Agent) Known() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.works)
}

// Received returns the number of specs that the agent received.
func (a *Agent) Received() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.received
}

// Requests returns the number of requests for statuses that the agent received.
func (a *Agent) Requests() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.requests
}

// Hello returns the message with which an agent starts a session: what it holds.
func (a *Agent) Hello() cloudevent.Message {
	a.mu.Lock()
	defer a.mu.Unlock()
	list := cloudevent.HeldList{Versions: []cloudevent.Held{}}
	for _, id := range slices.Sorted(maps.Keys(a.works)) {
		list.Versions = append(list.Versions, cloudevent.Held{ID: id, Version: a.works[id].version})
	}
	event := a.event(cloudevent.Spec, cloudevent.ResyncRequest)
	event.Data = encode(list)
	return event.Message()
}

func (a *Agent) event(part cloudevent.SubResource, action cloudevent.Action) *cloudevent.Event {
	return &cloudevent.Event{ID: uuid.NewString(), Source: a.consumer + "-work-agent", SubResource: part,
		Action: action, Time: a.now(), Consumer: a.consumer}
}

// Handle processes a message of the source and returns the agent's messages that follow from it. A
// message that is wrong has no effect, as in the real agent.
func (a *Agent) Handle(m cloudevent.Message) []cloudevent.Message {
	event, err := cloudevent.Parse(m)
	if err != nil || event.Consumer != a.consumer {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case event.SubResource == cloudevent.Status && event.Action == cloudevent.ResyncRequest:
		a.requests++
		return a.resync(event)
	case event.SubResource == cloudevent.Spec && event.ResourceID != "":
		a.received++
		return a.spec(event)
	}
	return nil
}

// spec takes a bundle.
func (a *Agent) spec(event *cloudevent.Event) []cloudevent.Message {
	id, held := event.ResourceID, a.works[event.ResourceID]
	if !event.Deleted.IsZero() {
		if held == nil {
			held = &work{version: event.ResourceVersion, source: event.Source, metadata: event.Metadata}
		}
		a.cluster.remove(id)
		delete(a.works, id)
		return []cloudevent.Message{a.status(id, held, cloudevent.Update, []condition{a.condition("Deleted", true,
			"ManifestsDeleted", "", held.version)}, nil)}
	}
	if held != nil && event.ResourceVersion != 0 && event.ResourceVersion < held.version {
		return nil
	}
	next := &work{version: event.ResourceVersion, source: event.Source, metadata: event.Metadata}
	if json.Unmarshal(event.Data, &next.data) != nil {
		return nil
	}
	var messages []cloudevent.Message
	if held != nil {
		next.applied, next.refs = held.applied, held.refs
		if held.version != next.version {
			// The first status has the new version with the old conditions.
			messages = append(messages, a.report(id, next, cloudevent.Update))
		}
	}
	a.works[id] = next
	refs, err := a.cluster.apply(id, next, a.now())
	if err != nil {
		next.failure = err.Error()
	} else {
		next.refs, next.failure = refs, ""
		a.cluster.reconcile(refs, a.now())
	}
	next.applied = next.version
	return append(messages, a.report(id, next, cloudevent.Update))
}

// manifestConfig is a member of manifestConfigs.
type manifestConfig struct {
	Identifier struct {
		Group     string `json:"group"`
		Resource  string `json:"resource"`
		Namespace string `json:"namespace"`
		Name      string `json:"name"`
	} `json:"resourceIdentifier"`
	Strategy struct {
		Type string `json:"type"`
	} `json:"updateStrategy"`
	Feedback []struct {
		Paths []feedbackRule `json:"jsonPaths"`
	} `json:"feedbackRules"`
}

// config returns the config of an object.
func (w *work) config(ref Ref) manifestConfig {
	for _, text := range w.data.Configs {
		var config manifestConfig
		if json.Unmarshal(text, &config) == nil && config.Identifier.Group == ref.Group &&
			config.Identifier.Resource == ref.resource() && config.Identifier.Namespace == ref.Namespace &&
			config.Identifier.Name == ref.Name {
			return config
		}
	}
	return manifestConfig{}
}

// observed reports whether the agent only reads an object.
func (w *work) observed(ref Ref) bool { return w.config(ref).Strategy.Type == "ReadOnly" }

// own returns the objects that the agent applies.
func (w *work) own(refs []Ref) []Ref { return slices.DeleteFunc(slices.Clone(refs), w.observed) }

// orphans reports whether the objects stay when the ManifestWork is deleted.
func (w *work) orphans() bool {
	var option struct {
		Policy string `json:"propagationPolicy"`
	}
	return json.Unmarshal(w.data.DeleteOption, &option) == nil && option.Policy == "Orphan"
}

// rules returns the values of an object that the source wants.
func (w *work) rules(ref Ref) (all []feedbackRule) {
	for _, rule := range w.config(ref).Feedback {
		all = append(all, rule.Paths...)
	}
	return all
}

// resync answers a request for statuses.
func (a *Agent) resync(event *cloudevent.Event) []cloudevent.Message {
	var asked cloudevent.KnownStatuses
	if json.Unmarshal(event.Data, &asked) != nil {
		return nil
	}
	known := make(map[string]string, len(asked.Hashes))
	for _, one := range asked.Hashes {
		known[one.ID] = one.Hash
	}
	var messages []cloudevent.Message
	for _, id := range slices.Sorted(maps.Keys(a.works)) {
		w := a.works[id]
		hash, listed := known[id]
		if len(known) > 0 && (!listed || hash == a.hash(w)) {
			continue
		}
		messages = append(messages, a.report(id, w, cloudevent.ResyncResponse))
	}
	return messages
}

// Poll returns the statuses that have changed since they were sent, as the real agent does every 10
// seconds. It also evicts the objects of unknown ManifestWorks after the grace period.
func (a *Agent) Poll(grace time.Duration) []cloudevent.Message {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.now()
	a.cluster.evict(func(id string) bool { return a.works[id] != nil }, grace, now)
	var messages []cloudevent.Message
	for _, id := range slices.Sorted(maps.Keys(a.works)) {
		w := a.works[id]
		a.cluster.reconcile(w.refs, now)
		if a.hash(w) != w.sent {
			messages = append(messages, a.report(id, w, cloudevent.Update))
		}
	}
	return messages
}

// condition is a condition of Kubernetes.
type condition struct {
	Type               string    `json:"type"`
	Status             string    `json:"status"`
	ObservedGeneration int64     `json:"observedGeneration"`
	LastTransitionTime time.Time `json:"lastTransitionTime"`
	Reason             string    `json:"reason"`
	Message            string    `json:"message"`
}

func (a *Agent) condition(kind string, holds bool, reason, message string, version int64) condition {
	status := "False"
	if holds {
		status = "True"
	}
	return condition{kind, status, version, time.Unix(0, 0).UTC(), reason, message}
}

// data returns the status of a ManifestWork.
func (a *Agent) data(w *work) ([]condition, []any) {
	var conditions []condition
	if w.applied != 0 {
		reason := "AppliedManifestWorkComplete"
		if w.failure != "" {
			reason = "AppliedManifestWorkFailed"
		}
		conditions = append(conditions, a.condition("Applied", w.failure == "", reason, w.failure, w.applied))
	}
	resources := []any{}
	for i, ref := range w.refs {
		values, exists := a.cluster.feedback(ref, w.rules(ref))
		feedback := map[string]any{}
		if len(values) > 0 {
			feedback["values"] = values
		}
		reason := "AppliedManifestComplete"
		if !exists {
			reason = "AppliedManifestFailed"
		}
		resources = append(resources, map[string]any{
			"resourceMeta": map[string]any{"ordinal": i, "group": ref.Group, "version": ref.Version, "kind": ref.Kind,
				"resource": ref.resource(), "name": ref.Name, "namespace": ref.Namespace},
			"statusFeedback": feedback,
			"conditions":     []condition{a.condition("Applied", exists, reason, "", w.applied)},
		})
	}
	return conditions, resources
}

func statusData(conditions []condition, resources []any) json.RawMessage {
	return encode(map[string]any{"conditions": conditions, "resourceStatus": resources})
}

func (a *Agent) hash(w *work) string {
	sum := sha256.Sum256(statusData(a.data(w)))
	return hex.EncodeToString(sum[:])
}

// report returns the message with the status of a ManifestWork.
func (a *Agent) report(id string, w *work, action cloudevent.Action) cloudevent.Message {
	w.sent = a.hash(w)
	conditions, resources := a.data(w)
	return a.status(id, w, action, conditions, resources)
}

func (a *Agent) status(id string, w *work, action cloudevent.Action, conditions []condition,
	resources []any) cloudevent.Message {
	event := a.event(cloudevent.Status, action)
	event.ResourceID, event.ResourceVersion, event.OriginalSource = id, w.version, w.source
	event.SequenceID = a.sequence()
	event.Metadata = w.metadata
	event.Data = statusData(conditions, resources)
	sum := sha256.Sum256(event.Data)
	event.StatusHash = hex.EncodeToString(sum[:])
	return event.Message()
}

// sequence returns the next snowflake of node 1.
func (a *Agent) sequence() string {
	const epoch = 1288834974657
	now := a.now().UnixMilli() - epoch
	if now <= a.lastMS {
		a.counter++
	} else {
		a.lastMS, a.counter = now, 0
	}
	return fmt.Sprint((a.lastMS+a.counter/4096)<<22 | 1<<12 | a.counter%4096)
}

// encode returns the JSON of a value of this package.
func encode(value any) json.RawMessage {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		panic("a type of this package can't be encoded as JSON")
	}
	return bytes.TrimRight(text.Bytes(), "\n")
}
