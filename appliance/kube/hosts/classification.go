package hosts

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"landfall/appliance/kube/controller"
	"landfall/appliance/kube/objects"
	"landfall/appliance/kube/objects/agentinstall"
	"landfall/appliance/kube/query"
	"landfall/store"
)

const (
	classificationFinalizer = "agentclassification.agent-install.openshift.io"
	classificationPrefix    = "agentclassification.agent-install.openshift.io/"
	queryError              = "QUERYERROR" // prefix of the label that marks an Agent on which a query failed
)

// classifications reconciles AgentClassifications by counting the matching Agents. The reconciler
// of Agents sets the labels; see classify.
type classifications struct{ *Controllers }

// Kind implements controller.Reconciler.
func (classifications) Kind() objects.Kind { return objects.AgentClassifications }

// Watches implements controller.Reconciler. The reconciler of Agents queues AgentClassifications.
func (classifications) Watches() []controller.Watch {
	return []controller.Watch{{Kind: objects.Agents, Map: classificationsOfNamespace, Missed: true}}
}

func classificationsOfNamespace(tx *store.Tx, namespace, _ string) ([]key, error) {
	var keys []key
	err := objects.Names(tx, objects.AgentClassifications, namespace, func(namespace, name string) error {
		keys = append(keys, key{Kind: objects.AgentClassifications, Namespace: namespace, Name: name})
		return nil
	})
	return keys, err
}

// Reconcile counts the Agents that a classification matches. If the classification is being
// deleted, it removes the finalizer once no Agent has the label.
func (r classifications) Reconcile(ctx context.Context, namespace, name string) (time.Duration, error) {
	err := r.DB.Update(ctx, func(tx *store.Tx) error {
		var held agentinstall.AgentClassification
		if err := r.Objects.Get(tx, objects.AgentClassifications, namespace, name, &held); err != nil {
			return err
		}
		matched, failed, err := r.count(tx, &held)
		if err != nil {
			return err
		}
		return r.Objects.Update(tx, objects.AgentClassifications, namespace, name,
			func(u *unstructured.Unstructured) error {
				switch {
				case held.DeletionTimestamp == nil:
					objects.AddFinalizer(u, classificationFinalizer)
				case matched+failed == 0:
					objects.RemoveFinalizer(u, classificationFinalizer)
				}
				status := held.Status
				status.MatchedCount, status.ErrorCount = matched, failed
				status.Conditions = setAgentCondition(status.Conditions, r.Clock.Now(), queryErrors(failed))
				return objects.SetStatus(u, &status)
			})
	})
	if errors.Is(err, store.ErrNotFound) {
		return 0, nil
	}
	return 0, err
}

func (r classifications) count(tx *store.Tx, c *agentinstall.AgentClassification) (matched, failed int64, err error) {
	err = r.Objects.Each(tx, objects.Agents, c.Namespace, func(u *unstructured.Unstructured) error {
		switch u.GetLabels()[classificationPrefix+c.Spec.LabelKey] {
		case "":
		case c.Spec.LabelValue:
			matched++
		case queryErrorValue(c.Spec.LabelValue):
			failed++
		}
		return nil
	})
	return matched, failed, err
}

func queryErrors(failed int64) agentinstall.Condition {
	if failed == 0 {
		return agentinstall.Condition{Type: "QueryErrors", Status: corev1.ConditionFalse, Reason: "NoQueryErrors",
			Message: "No Agents failed to apply the classification"}
	}
	return agentinstall.Condition{Type: "QueryErrors", Status: corev1.ConditionTrue, Reason: "HasQueryErrors",
		Message: fmt.Sprintf("%d Agents failed to apply the classification", failed)}
}

func queryErrorValue(value string) string { return queryError + "-" + value }

// classify returns the labels of an Agent, extended by the labels of the namespace's
// classifications. It does not overwrite labels that have other values, because another
// classification may have set them.
func classify(ctx context.Context, queries *query.Evaluator, agent *agentinstall.Agent,
	all []agentinstall.AgentClassification) (map[string]string, error) {
	labels := cloned(agent.Labels)
	if len(all) == 0 {
		return labels, nil
	}
	inventory, err := json.Marshal(agent.Status.Inventory)
	if err != nil {
		return nil, fmt.Errorf("write the inventory of Agent %s: %w", agent.Name, err)
	}
	for _, c := range all {
		name, value := classificationPrefix+c.Spec.LabelKey, c.Spec.LabelValue
		matches, err := false, error(nil)
		if c.DeletionTimestamp == nil {
			matches, err = queries.Matches(ctx, c.Spec.Query, inventory)
		}
		switch {
		case err != nil && !errors.Is(err, query.ErrFailed):
			return nil, err
		case err != nil:
			labels[name] = queryErrorValue(value)
		case matches:
			labels[name] = value
		case labels[name] == value || labels[name] == queryErrorValue(value):
			delete(labels, name)
		}
	}
	return labels, nil
}

// classificationsOf lists the classifications of a namespace.
func (h *Controllers) classificationsOf(tx *store.Tx, namespace string) ([]agentinstall.AgentClassification, error) {
	var all []agentinstall.AgentClassification
	err := h.Objects.Each(tx, objects.AgentClassifications, namespace, func(u *unstructured.Unstructured) error {
		var c agentinstall.AgentClassification
		if err := objects.Into(u, &c); err != nil {
			return err
		}
		all = append(all, c)
		return nil
	})
	return all, err
}

// classify sets the labels of the classifications on an Agent. It queues the classifications if a
// label changed.
func (r agents) classify(ctx context.Context, s *agentSnapshot) error {
	labels, err := classify(ctx, &r.queries, s.object, s.classifications)
	if err != nil || sameClasses(labels, s.object.Labels) {
		return err
	}
	namespace, name := objects.SplitKey(s.key)
	err = r.DB.Update(ctx, func(tx *store.Tx) error {
		return r.Objects.Update(tx, objects.Agents, namespace, name, func(u *unstructured.Unstructured) error {
			held := cloned(u.GetLabels())
			maps.DeleteFunc(held, func(name, _ string) bool { return strings.HasPrefix(name, classificationPrefix) })
			for name, value := range labels {
				if strings.HasPrefix(name, classificationPrefix) {
					held[name] = value
				}
			}
			u.SetLabels(held)
			return nil
		})
	})
	err = objects.IgnoreNotFound(err)
	r.enqueueClassifications(s)
	return err
}

func (r agents) enqueueClassifications(s *agentSnapshot) {
	for _, c := range s.classifications {
		r.Loop.Enqueue(key{Kind: objects.AgentClassifications, Namespace: c.Namespace, Name: c.Name})
	}
}

func sameClasses(a, b map[string]string) bool {
	names := func(labels map[string]string) []string {
		var found []string
		for _, name := range slices.Sorted(maps.Keys(labels)) {
			if strings.HasPrefix(name, classificationPrefix) {
				found = append(found, name+"="+labels[name])
			}
		}
		return found
	}
	return slices.Equal(names(a), names(b))
}
