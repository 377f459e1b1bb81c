package controlplane

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	"landfall/appliance/hosted/bundle"
	"landfall/appliance/hosted/record"
)

// The layouts of bundles. A nested bundle contains one ManifestWork for the management cluster's
// own work agent, which applies the manifests within. A flat bundle contains the manifests.
const (
	Flat   = "flat"
	Nested = "nested"
)

// LocalCluster is the namespace by which a management cluster with the multicluster engine manages
// itself. ManifestWorks in it are applied by the cluster's own work agent.
const LocalCluster = "local-cluster"

const (
	workGroup = "work.open-cluster-management.io"
	workKind  = "ManifestWork"
)

// annotationContent is the annotation of a manifest in a nested bundle with the digest of its
// content. The feedback contains it and so shows which content the cluster's own agent has applied.
// That agent does not receive the version of the bundle.
const annotationContent = "landfall.io/content"

// single are the values that the feedback of a nested bundle reads one by one. The work agent of
// the multicluster engine reports no objects and lists, as Maestro's agent does.
var single = map[string][]string{
	"HostedCluster": append(conditionPaths(obstacles...), "controlPlaneEndpoint.host=.status.controlPlaneEndpoint.host",
		"controlPlaneEndpoint.port=.status.controlPlaneEndpoint.port", "kubeconfig.name=.status.kubeconfig.name",
		completedVersion+`=.status.version.history[?(@.state=="Completed")].version`,
		completedImage+`=.status.version.history[?(@.state=="Completed")].image`),
	"NodePool": append(conditionPaths(poolObstacles...), "replicas=.status.replicas", "version=.status.version"),
	"ManagedCluster": conditionPaths("HubAcceptedManagedCluster", "ManagedClusterJoined",
		"ManagedClusterConditionAvailable"),
}

// The names of single values that do not follow from their paths.
const (
	conditionPrefix  = "conditions."
	completedVersion = "version.completed"
	completedImage   = "version.image"
)

// conditionPaths returns the feedback rules that read conditions.
func conditionPaths(types ...string) (rules []string) {
	for _, name := range types {
		for _, field := range []string{"status", "reason", "message", "observedGeneration"} {
			rules = append(rules, fmt.Sprintf(`%s%s.%s=.status.conditions[?(@.type=="%s")].%s`, conditionPrefix, name,
				field, name, field))
		}
	}
	return rules
}

// singleRules returns the feedback rules of a manifest in a nested bundle.
func singleRules(kind string, rules []string) (all []string) {
	for _, rule := range rules {
		if rule == statusRule {
			all = append(all, single[kind]...)
			continue
		}
		all = append(all, rule)
	}
	return append(all, `content=.metadata.annotations.landfall\.io/content`)
}

// annotateContent adds the digest of a manifest's content to its annotations.
func annotateContent(body, metadata object) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(text)
	annotations := object{annotationContent: hex.EncodeToString(sum[:8])}
	for name, value := range stringsOf(metadata["annotations"]) {
		annotations[name] = value
	}
	metadata["annotations"] = annotations
	return nil
}

func stringsOf(value any) map[string]string {
	found, _ := value.(map[string]string)
	return found
}

// done returns the content in the layout of its management cluster.
func (s *set) done() (Content, error) {
	if s.err != nil || !s.nested {
		return s.content, s.err
	}
	inner := s.content
	outer := &set{content: Content{Name: inner.Name, Labels: inner.Labels}}
	outer.add(manifest{group: workGroup, version: "v1", kind: workKind, resource: "manifestworks",
		namespace: LocalCluster, name: inner.Name, labels: inner.Labels,
		body: object{"spec": object{"workload": object{"manifests": inner.Manifests},
			"manifestConfigs": inner.Configs}}, feedback: []string{statusRule}})
	return outer.content, outer.err
}

// ManagedCluster returns the bundle with which the multicluster engine manages a hosted cluster.
// Only nested layouts have it.
func ManagedCluster(c *record.Cluster, m *record.Management) (Content, error) {
	s := newSet(m, c.CID+"-managed-cluster", labels(c, "managedcluster"))
	s.add(manifest{group: "cluster.open-cluster-management.io", version: "v1", kind: "ManagedCluster",
		resource: "managedclusters", name: c.CID, labels: map[string]string{"name": c.CID, "vendor": "OpenShift",
			"cloud": "auto-detect", "cluster.open-cluster-management.io/clusterset": "default",
			bundle.LabelCluster: c.CID},
		annotations: map[string]string{
			"import.open-cluster-management.io/klusterlet-deploy-mode": "Hosted",
			"import.open-cluster-management.io/hosting-cluster-name":   LocalCluster,
			"open-cluster-management/created-via":                      "hypershift"},
		body:     object{"spec": object{"hubAcceptsClient": true, "leaseDurationSeconds": 60}},
		feedback: []string{statusRule}})
	return s.done()
}

// ManagedCluster returns the conditions of the ManagedCluster in a report, if there is one.
func (r Report) ManagedCluster() []record.Condition {
	managed, _ := r.objectStatus("ManagedCluster")
	return managed.conditions
}

// Work returns the name of the ManifestWork in a nested bundle. nested is false for a flat bundle.
func Work(b *bundle.Bundle) (name string, nested bool) {
	name, _, nested = nestedWork(b)
	return name, nested
}

// Manifests returns the manifests of a bundle, without the ManifestWork around those of a nested
// one.
func Manifests(b *bundle.Bundle) []json.RawMessage {
	if _, inner, nested := nestedWork(b); nested {
		return inner
	}
	return b.Manifests
}

func nestedWork(b *bundle.Bundle) (name string, manifests []json.RawMessage, ok bool) {
	if len(b.Manifests) != 1 {
		return "", nil, false
	}
	var work struct {
		Kind     string `json:"kind"`
		Metadata struct {
			Name string `json:"name"`
		} `json:"metadata"`
		Spec struct {
			Workload struct {
				Manifests []json.RawMessage `json:"manifests"`
			} `json:"workload"`
		} `json:"spec"`
	}
	if json.Unmarshal(b.Manifests[0], &work) != nil || work.Kind != workKind {
		return "", nil, false
	}
	return work.Metadata.Name, work.Spec.Workload.Manifests, true
}

// unwrap returns the report of the management cluster's own agent, which is in the feedback about a
// ManifestWork. It is current when that agent has applied each manifest with its present content.
func (r Report) unwrap(manifests []json.RawMessage) (Report, error) {
	inner := r.within()
	applied := map[string]string{}
	for _, m := range inner.Manifests {
		for _, v := range m.Feedback.Values {
			if v.Name == "content" && v.Value.String != nil {
				applied[objectKey(m.Meta.Kind, m.Meta.Namespace, m.Meta.Name)] = *v.Value.String
			}
		}
	}
	for _, text := range manifests {
		var m struct {
			Kind     string `json:"kind"`
			Metadata struct {
				Name        string            `json:"name"`
				Namespace   string            `json:"namespace"`
				Annotations map[string]string `json:"annotations"`
			} `json:"metadata"`
		}
		if err := json.Unmarshal(text, &m); err != nil {
			return Report{}, err
		}
		if applied[objectKey(m.Kind, m.Metadata.Namespace, m.Metadata.Name)] !=
			m.Metadata.Annotations[annotationContent] {
			inner.Current = false
		}
	}
	return inner, nil
}

func objectKey(kind, namespace, name string) string { return kind + " " + namespace + "/" + name }

// within returns the report in the feedback about a ManifestWork, or the report itself.
func (r Report) within() Report {
	for _, m := range r.Manifests {
		if m.Meta.Kind != workKind {
			continue
		}
		inner := Report{Current: r.Current}
		for _, v := range m.Feedback.Values {
			if v.Name != "status" || v.Value.JSON == nil {
				continue
			}
			var status struct {
				Conditions []record.Condition `json:"conditions"`
				Resources  struct {
					Manifests []ManifestReport `json:"manifests"`
				} `json:"resourceStatus"`
			}
			if json.Unmarshal([]byte(*v.Value.JSON), &status) == nil {
				inner.Conditions, inner.Manifests = status.Conditions, status.Resources.Manifests
			}
		}
		return inner
	}
	return r
}

// assembled returns the status of an object of which single values were read, or nil.
func (m ManifestReport) assembled() json.RawMessage {
	status, conditions, order := object{}, map[string]object{}, []string(nil)
	completed := object{}
	for _, v := range m.Feedback.Values {
		var value any
		switch {
		case v.Value.String != nil:
			value = *v.Value.String
		case v.Value.Integer != nil:
			value = *v.Value.Integer
		default:
			continue
		}
		first, rest, _ := strings.Cut(v.Name, ".")
		switch {
		case strings.HasPrefix(v.Name, conditionPrefix):
			name, field, _ := strings.Cut(rest, ".")
			if conditions[name] == nil {
				conditions[name] = object{"type": name}
				order = append(order, name)
			}
			conditions[name][field] = value
		case v.Name == completedVersion:
			completed["version"] = value
		case v.Name == completedImage:
			completed["image"] = value
		case v.Name == "generation" || v.Name == "content":
		case rest == "":
			status[first] = value
		default:
			part, _ := status[first].(object)
			if part == nil {
				part = object{}
				status[first] = part
			}
			part[rest] = value
		}
	}
	if len(order) == 0 {
		return nil
	}
	list := []object{}
	for _, name := range order {
		list = append(list, conditions[name])
	}
	status["conditions"] = list
	if len(completed) > 0 {
		completed["state"] = "Completed"
		status["version"] = object{"history": []object{completed}}
	}
	text, err := json.Marshal(status)
	if err != nil {
		return nil
	}
	return text
}
