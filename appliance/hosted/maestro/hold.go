package maestro

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"landfall/appliance/fault"
	"landfall/appliance/hosted/broker"
	"landfall/appliance/hosted/bundle"
	"landfall/store"
)

// Cause is why a consumer is held.
type Cause string

const (
	// HoldFindings: an agent holds bundles that contradict the rows.
	HoldFindings Cause = "findings"
	// HoldCopied: the database is a copy. The agent's statuses can confirm the rows.
	HoldCopied Cause = "copied"
	// HoldPerson: a person asked for it.
	HoldPerson Cause = "person"
	// HoldDamaged: the row is damaged. It may say that a person must decide.
	HoldDamaged Cause = "damaged"
)

// Hold says that nothing is sent to a consumer.
type Hold struct {
	Consumer string    `json:"consumer"`
	Cause    Cause     `json:"cause"`
	Reason   string    `json:"reason"`         // a sentence for people
	Since    time.Time `json:"since,omitzero"` // UTC; zero if the row is damaged
}

// Kind is the kind of a finding.
type Kind string

const (
	// Unknown: the bundle runs there, and has neither a row nor a tombstone here.
	Unknown Kind = "unknown"
	// Newer: the agent holds a version above the one of the row.
	Newer Kind = "newer"
	// Foreign: another appliance, or a lost state of this one, has sent the bundle.
	Foreign Kind = "foreign"
	// Gone: the agent removed the bundle, which nobody deleted here.
	Gone Kind = "gone"
)

// Finding is a contradiction between a bundle that an agent holds and the rows.
type Finding struct {
	Consumer string            `json:"consumer"`
	ID       string            `json:"id"`
	Kind     Kind              `json:"kind"`
	Found    time.Time         `json:"found_at"` // UTC
	Name     string            `json:"name,omitempty"`
	Labels   map[string]string `json:"labels,omitempty"`
	// Version is the version that the agent holds; 0 if it is not known.
	Version int64 `json:"version"`
	Stamp   Stamp `json:"stamp,omitzero"`
	// Objects are the objects of the bundle on the management cluster, once the agent has reported
	// them.
	Objects []Object `json:"objects,omitempty"`
	// Decision is what a person decided, or "".
	Decision Decision  `json:"decision,omitempty"`
	By       string    `json:"by,omitempty"`
	Decided  time.Time `json:"decided_at,omitzero"` // UTC
}

// Object is an object on a management cluster.
type Object struct {
	Group     string `json:"group"`
	Version   string `json:"version"`
	Kind      string `json:"kind"`
	Resource  string `json:"resource"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
}

// Decision is a person's decision about a finding.
type Decision string

const (
	// Adopt takes the bundle over. An unknown bundle gets a row that only observes its objects. For
	// another finding, this appliance sends its row with a version above the agent's.
	Adopt Decision = "adopt"
	// DeleteThere removes an unknown bundle and its objects from the management cluster.
	DeleteThere Decision = "delete"
	// Ignore leaves the bundle as it is there. It is neither shown nor asked about again.
	Ignore Decision = "ignore"
)

var (
	holds    = store.NewBucket[Hold]("hosted-holds", 1)
	findings = store.NewBucket[Finding]("hosted-findings", 1)
)

// HoldPrefix returns the prefix of the keys of holds in the store. The rest of a key is the
// consumer.
func HoldPrefix() string { return holds.Prefix() }

// FindingPrefix returns the prefix of the keys of findings. The rest of a key is consumer/ID.
func FindingPrefix() string { return findings.Prefix() }

// GetHold returns the hold of a consumer, or nil. A damaged row counts as a hold.
func GetHold(tx *store.Tx, consumer string) (*Hold, error) {
	hold, err := holds.Get(tx, consumer)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil, nil
	case store.IsDamaged(err):
		return &Hold{Consumer: consumer, Cause: HoldDamaged, Reason: "The stored hold is damaged, so its reason is " +
			"not known. Look at the findings, then release it (landfall hcp connection release)."}, nil
	}
	return hold, err
}

// EachHold calls fn with the holds in the order of the consumers, also with damaged ones.
func EachHold(tx *store.Tx, fn func(*Hold) error) error {
	return holds.Keys(tx, "", func(consumer string) error {
		hold, err := GetHold(tx, consumer)
		if err != nil || hold == nil {
			return err
		}
		return fn(hold)
	})
}

// ReplaceHold writes a hold in place of a damaged row that a repair removed, because without a row
// everything would be sent again. It does nothing for the keys of other rows.
func ReplaceHold(tx *store.Tx, removed string, now time.Time) error {
	consumer, ok := strings.CutPrefix(removed, HoldPrefix())
	if !ok {
		return nil
	}
	return holds.Put(tx, consumer, &Hold{consumer, HoldPerson, "Its former reason was in a damaged row, which was " +
		"repaired.", now.UTC()})
}

// EachFinding calls fn with the findings of a consumer ("" for all), also those that are decided.
func EachFinding(tx *store.Tx, consumer string, fn func(*Finding) error) error {
	prefix := ""
	if consumer != "" {
		prefix = consumer + "/"
	}
	return findings.Each(tx, prefix, func(_ string, f *Finding) error { return fn(f) })
}

func findingKey(consumer, id string) string { return consumer + "/" + id }

func getFinding(tx *store.Tx, consumer, id string) (*Finding, error) {
	finding, err := findings.Get(tx, findingKey(consumer, id))
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	return finding, err
}

// hold holds a consumer, unless it is held already.
func (s *Service) hold(tx *store.Tx, consumer string, cause Cause, reason string, now time.Time) error {
	held, err := GetHold(tx, consumer)
	if err != nil {
		return err
	}
	switch {
	case held == nil:
	case cause == HoldFindings && held.Cause != HoldFindings:
	case cause == HoldPerson && held.Cause == HoldDamaged: // not HoldCopied, which an agent's statuses can end
	default:
		return nil
	}
	s.log.Error("Nothing is sent to a management cluster until a person decides.", "consumer", consumer,
		"reason", reason)
	return holds.Put(tx, consumer, &Hold{consumer, cause, reason, now.UTC()})
}

// find records a finding and holds its consumer. A decided finding of the same kind changes
// nothing. The result reports whether the finding is open.
func (s *Service) find(tx *store.Tx, f Finding, now time.Time) (open bool, err error) {
	held, err := getFinding(tx, f.Consumer, f.ID)
	if err != nil {
		return false, err
	}
	f.Found = now.UTC()
	if held != nil {
		if held.Decision == Ignore && held.Kind == f.Kind || held.covers(f.Version) {
			return false, nil
		}
		if held.Decision == "" {
			f.Found = held.Found
		}
		if f.Name == "" {
			f.Name, f.Labels = held.Name, held.Labels
		}
		if f.Objects == nil {
			f.Objects = held.Objects
		}
		if f.Stamp == (Stamp{}) {
			f.Stamp = held.Stamp
		}
		if f.Version == 0 {
			f.Version = held.Version
		}
	}
	if err := findings.Put(tx, findingKey(f.Consumer, f.ID), &f); err != nil {
		return false, err
	}
	return true, s.hold(tx, f.Consumer, HoldFindings, f.Sentence(), now)
}

// covers reports whether a person decided that the row replaces what the agent holds in a version.
func (f *Finding) covers(version int64) bool {
	return f.Decision == Adopt && f.Kind != Unknown && version <= f.Version
}

// Sentence says what was found.
func (f *Finding) Sentence() string {
	name := f.ID
	if f.Name != "" && f.Name != f.ID {
		name = fmt.Sprintf("%s (%s)", f.Name, f.ID)
	}
	if cluster := f.Labels[bundle.LabelName]; cluster != "" {
		name += " of the hosted cluster " + cluster
	}
	switch f.Kind {
	case Newer:
		return fmt.Sprintf("The bundle %s has version %d on the management cluster, which this appliance never "+
			"sent: it was restored from an older backup, or another appliance manages the cluster.", name, f.Version)
	case Foreign:
		return fmt.Sprintf("The bundle %s on the management cluster was sent by another appliance, or by this one "+
			"before it was restored from an older backup.", name)
	case Gone:
		return fmt.Sprintf("The bundle %s was removed from the management cluster, but nobody deleted it here.", name)
	}
	return fmt.Sprintf("The bundle %s runs on the management cluster and is unknown here: this appliance was restored "+
		"from an older backup, or another appliance manages the cluster.", name)
}

// isOpen reports whether a person must decide.
func (f *Finding) isOpen() bool { return f.Decision == "" }

// HoldConsumer holds a consumer because a person asks for it, for example before an appliance that
// was restored meets its management clusters.
func (s *Service) HoldConsumer(ctx context.Context, consumer, by string) error {
	return s.db.Update(ctx, func(tx *store.Tx) error {
		if _, err := bundle.GetConsumer(tx, consumer); err != nil {
			return err
		}
		return s.hold(tx, consumer, HoldPerson, by+" asked for it.", s.clock.Now())
	})
}

// Release ends a hold. It fails while findings are open.
func (s *Service) Release(ctx context.Context, consumer, by string) error {
	err := s.db.Update(ctx, func(tx *store.Tx) error {
		held, err := GetHold(tx, consumer)
		if err != nil {
			return err
		}
		if held == nil {
			return fault.New(fault.NotFound, "The consumer %s is not held.", consumer)
		}
		open, err := openFindings(tx, consumer)
		switch {
		case err != nil:
			return err
		case open > 0:
			return fault.New(fault.Conflict, "%d bundles of the consumer %s wait for a decision.", open, consumer)
		}
		return holds.Delete(tx, consumer)
	})
	if err != nil {
		return err
	}
	s.log.Info("The hold of a management cluster was ended.", "consumer", consumer, "by", by)
	return s.again(ctx, consumer)
}

func openFindings(tx *store.Tx, consumer string) (open int, err error) {
	return open, EachFinding(tx, consumer, func(f *Finding) error {
		if f.isOpen() {
			open++
		}
		return nil
	})
}

// Decide applies a person's decision about a finding. name is the name that the person typed; a
// deletion needs the name of the bundle, or its ID if the name is unknown. The last decision ends
// the hold.
func (s *Service) Decide(ctx context.Context, consumer, id string, decision Decision, name, by string) error {
	now := s.clock.Now()
	err := s.db.Update(ctx, func(tx *store.Tx) error {
		f, err := getFinding(tx, consumer, id)
		if err != nil {
			return err
		}
		if f == nil {
			return fault.New(fault.NotFound, "There is no finding about the bundle %s of the consumer %s.", id,
				consumer)
		}
		if !f.isOpen() && f.Decision != Ignore {
			return fault.New(fault.Conflict, "%s has already decided about the bundle %s.", f.By, id)
		}
		switch decision {
		case Adopt:
			err = s.adopt(tx, f, now)
		case DeleteThere:
			err = deleteThere(tx, f, name, by, now)
		case Ignore:
		default:
			err = fault.New(fault.Invalid, "The decision %q is unknown; use adopt, delete or ignore.", decision)
		}
		if err != nil {
			return err
		}
		f.Decision, f.By, f.Decided = decision, by, now.UTC()
		if err := findings.Put(tx, findingKey(consumer, id), f); err != nil {
			return err
		}
		held, err := GetHold(tx, consumer)
		if err != nil || held == nil || held.Cause != HoldFindings {
			return err
		}
		if open, err := openFindings(tx, consumer); err != nil || open > 0 {
			return err
		}
		return holds.Delete(tx, consumer)
	})
	if err != nil {
		return err
	}
	s.log.Info("A person decided about a bundle on a management cluster.", "consumer", consumer, "bundle", id,
		"decision", string(decision), "by", by)
	return s.again(ctx, consumer)
}

// deleteThere writes the tombstone of an unknown bundle.
func deleteThere(tx *store.Tx, f *Finding, name, by string, now time.Time) error {
	if f.Kind != Unknown {
		return fault.New(fault.Conflict, "The bundle %s has a row here. Delete its hosted cluster or node pool.", f.ID)
	}
	wanted := f.Name
	if wanted == "" {
		wanted = f.ID
	}
	if name != wanted && name != f.ID {
		return fault.New(fault.Invalid, "To delete the bundle and its objects on the management cluster, repeat its "+
			"name: %s.", wanted)
	}
	return bundle.PutTombstone(tx, &bundle.Tombstone{ID: f.ID, Name: f.Name, Consumer: f.Consumer, At: now.UTC(),
		By: by})
}

// adopt takes a bundle over.
func (s *Service) adopt(tx *store.Tx, f *Finding, now time.Time) error {
	if f.Kind != Unknown {
		return bundle.RaiseVersion(tx, f.ID, f.Version)
	}
	if f.Version == 0 || len(f.Objects) == 0 {
		return fault.New(fault.Conflict, "The agent has not yet reported which objects the bundle %s has. Wait until "+
			"the management cluster is connected.", f.ID)
	}
	b := &bundle.Bundle{ID: f.ID, Name: f.Name, Consumer: f.Consumer, Labels: f.Labels,
		// If the bundle is deleted later, its objects are deleted too, as usual.
		Annotations: map[string]string{observedAnnotation: "true"}}
	for _, object := range f.Objects {
		manifest, config, err := object.observed()
		if err != nil {
			return fmt.Errorf("write the %s %s of the bundle %s: %w", object.Kind, object.Name, f.ID, err)
		}
		b.Manifests, b.Configs = append(b.Manifests, manifest), append(b.Configs, config)
	}
	if err := bundle.Create(tx, b, now); err != nil {
		return err
	}
	// With the agent's own version, nothing is sent, and its statuses are accepted.
	return bundle.RaiseVersion(tx, f.ID, f.Version-1)
}

// observedAnnotation marks an adopted bundle. Its manifests have names only, and the agent never
// applies them: it would remove the fields that it had applied before.
const observedAnnotation = "landfall.io/observed"

// observed returns a manifest with the object's name, and the config with which an agent reports
// the object's status and changes nothing.
func (o Object) observed() (manifest, config json.RawMessage, err error) {
	apiVersion := o.Version
	if o.Group != "" {
		apiVersion = o.Group + "/" + o.Version
	}
	metadata := map[string]string{"name": o.Name}
	if o.Namespace != "" {
		metadata["namespace"] = o.Namespace
	}
	manifest, err = json.Marshal(map[string]any{"apiVersion": apiVersion, "kind": o.Kind, "metadata": metadata})
	if err != nil {
		return nil, nil, err
	}
	config, err = json.Marshal(map[string]any{
		"resourceIdentifier": map[string]string{"group": o.Group, "resource": o.Resource, "namespace": o.Namespace,
			"name": o.Name},
		"updateStrategy": map[string]string{"type": "ReadOnly"},
		"feedbackRules": []map[string]any{{"type": "JSONPaths",
			"jsonPaths": []map[string]string{{"name": "status", "path": ".status"}}}},
	})
	return manifest, config, err
}

// DeleteConsumer removes a consumer without bundles. With it go its certificates, so that none is
// valid for a later consumer of the same name, its hold and its findings.
func DeleteConsumer(tx *store.Tx, name string) error {
	if err := bundle.DeleteConsumer(tx, name); err != nil {
		return err
	}
	return errors.Join(broker.RemoveCredentials(tx, name), holds.Delete(tx, name),
		EachFinding(tx, name, func(f *Finding) error { return findings.Delete(tx, findingKey(f.Consumer, f.ID)) }))
}
