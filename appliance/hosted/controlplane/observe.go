package controlplane

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"landfall/appliance/hosted/bundle"
	"landfall/appliance/hosted/record"
)

// Report is a report of the management cluster about a bundle. It is about the manifests within the
// ManifestWork of a nested bundle.
type Report struct {
	// Current reports whether the report is about the current version of the bundle. The other
	// fields of a flat bundle are zero if it is not.
	Current    bool
	Conditions []record.Condition
	Manifests  []ManifestReport
}

// ManifestReport is the report about a manifest.
type ManifestReport struct {
	Meta struct {
		Group     string `json:"group"`
		Kind      string `json:"kind"`
		Name      string `json:"name"`
		Namespace string `json:"namespace"`
	} `json:"resourceMeta"`
	Feedback struct {
		Values []struct {
			Name  string `json:"name"`
			Value struct {
				Integer *int64  `json:"integer"`
				String  *string `json:"string"`
				Boolean *bool   `json:"boolean"`
				JSON    *string `json:"jsonRaw"`
			} `json:"fieldValue"`
		} `json:"values"`
	} `json:"statusFeedback"`
	Conditions []record.Condition `json:"conditions"`
}

// ReadReport reads the status of a bundle. A status of another version, or with conditions of
// another version, is not current: the first report after a change carries the new version with
// the old conditions.
func ReadReport(b *bundle.Bundle, status *bundle.Status) (Report, error) {
	if status == nil || status.ResourceVersion != b.Version {
		return Report{}, nil
	}
	var data struct {
		Conditions     []record.Condition `json:"conditions"`
		ResourceStatus []ManifestReport   `json:"resourceStatus"`
	}
	if err := json.Unmarshal(status.Data, &data); err != nil {
		return Report{}, fmt.Errorf("read the status of the bundle %s: %w", b.Name, err)
	}
	applied := condition(data.Conditions, "Applied")
	if applied == nil || applied.ObservedGeneration != b.Version {
		return Report{}, nil
	}
	report := Report{Current: true, Conditions: data.Conditions, Manifests: data.ResourceStatus}
	_, inner, nested := nestedWork(b)
	if !nested || report.Refused() != "" {
		return report, nil
	}
	report, err := report.unwrap(inner)
	if err != nil {
		return Report{}, fmt.Errorf("read the manifests of the bundle %s: %w", b.Name, err)
	}
	return report, nil
}

// The states of bundles.
const (
	BundleWaiting  = "waiting"
	BundleApplied  = "applied"
	BundleRefused  = "refused"
	BundleDeleting = "deleting"
)

// BundleState returns the state of a bundle by its last status, and why it is refused.
func BundleState(b *bundle.Bundle, status *bundle.Status) (state, reason string) {
	report, err := ReadReport(b, status)
	switch {
	case err != nil:
		return BundleRefused, err.Error()
	case b.Deleting():
		return BundleDeleting, ""
	case report.Refused() != "":
		return BundleRefused, report.Refused()
	case report.Current:
		return BundleApplied, ""
	}
	return BundleWaiting, ""
}

// LastStatus returns the status of the object of a kind in the last report about a bundle, also in
// one about an older version. ok is false if the report has none.
func LastStatus(status *bundle.Status, kind string) (content map[string]any, ok bool) {
	var report struct {
		Manifests []ManifestReport `json:"resourceStatus"`
	}
	if json.Unmarshal(status.Data, &report) != nil {
		return nil, false
	}
	last := Report{Manifests: report.Manifests}
	if kind != workKind {
		last = last.within()
	}
	found, ok := last.objectStatus(kind)
	if !ok || json.Unmarshal(found.status, &content) != nil {
		return nil, false
	}
	return content, true
}

func condition(all []record.Condition, name string) *record.Condition {
	for i := range all {
		if all[i].Type == name {
			return &all[i]
		}
	}
	return nil
}

// Refused returns why the management cluster could not apply a manifest, or "".
func (r Report) Refused() string {
	for _, m := range r.Manifests {
		if c := condition(m.Conditions, "Applied"); c != nil && c.Status == "False" {
			return fmt.Sprintf("The management cluster did not apply the %s %s: %s", m.Meta.Kind, m.Meta.Name,
				sentence(c)) + missingKind(c)
		}
	}
	if c := condition(r.Conditions, "Applied"); r.Current && c != nil && c.Status != "True" {
		return "The management cluster did not apply the manifests: " + sentence(c)
	}
	return ""
}

// missingKind returns the advice for a condition that names a kind without a definition, or "".
func missingKind(c *record.Condition) string {
	if strings.Contains(c.Message, "no matches for kind") ||
		strings.Contains(c.Message, "could not find the requested") {
		if strings.Contains(c.Message, workKind) || strings.Contains(c.Message, "manifestworks") {
			return " The cluster does not have this kind: install the multicluster engine operator there."
		}
		return " The cluster does not have this kind: install HyperShift's operator there."
	}
	return ""
}

// sentence returns the text of a condition with a full stop.
func sentence(c *record.Condition) string {
	text := strings.TrimSpace(c.Message)
	if text == "" {
		text = c.Reason
	}
	if text != "" && !strings.HasSuffix(text, ".") {
		text += "."
	}
	return text
}

// Text returns the text that a feedback rule read from the object of a kind. ok is false without
// one.
func (r Report) Text(kind, name string) (value string, ok bool) {
	for _, m := range r.Manifests {
		if m.Meta.Kind != kind {
			continue
		}
		for _, v := range m.Feedback.Values {
			if v.Name == name && v.Value.String != nil {
				return *v.Value.String, true
			}
		}
	}
	return "", false
}

// unread returns why the agent could not read the status of the object of a kind, or "".
func (r Report) unread(kind string) string {
	for _, m := range r.Manifests {
		c := condition(m.Conditions, "StatusFeedbackSynced")
		if m.Meta.Kind == kind && c != nil && c.Status == "False" {
			return "The agent can't report the status of the " + kind + ": " + sentence(c)
		}
	}
	return ""
}

// live is an object's status with its generation.
type live struct {
	generation int64
	status     json.RawMessage
	conditions []record.Condition
}

// objectStatus returns the status of the object of a kind. ok is false while the report has none.
func (r Report) objectStatus(kind string) (o live, ok bool) {
	for _, m := range r.Manifests {
		if m.Meta.Kind != kind {
			continue
		}
		for _, v := range m.Feedback.Values {
			switch {
			case v.Name == "status" && v.Value.JSON != nil:
				o.status = json.RawMessage(*v.Value.JSON)
			case v.Name == "generation" && v.Value.Integer != nil:
				o.generation = *v.Value.Integer
			}
		}
		if len(o.status) == 0 {
			o.status = m.assembled()
		}
	}
	var content struct {
		Conditions []record.Condition `json:"conditions"`
	}
	if len(o.status) == 0 || json.Unmarshal(o.status, &content) != nil {
		return live{}, false
	}
	o.conditions = content.Conditions
	return o, true
}

// current returns a condition that is about the object's present generation, or nil.
func (o live) current(name string) *record.Condition {
	if c := condition(o.conditions, name); c != nil && c.ObservedGeneration >= o.generation {
		return c
	}
	return nil
}

// Finding is the state of a hosted cluster or a node pool by the reports about it.
type Finding struct {
	State   string // of Clusters Service: pending, installing, ready, error
	Reason  string // in words; "" for ready
	Code    string // of an error
	APIURL  string
	Version string // completed
	// Ready is the number of nodes of a node pool.
	Ready         int64
	Conditions    []record.Condition
	KubeconfigRef string
}

// States of Clusters Service.
const (
	Pending      = "pending"
	Installing   = "installing"
	Ready        = "ready"
	Failed       = "error"
	Uninstalling = "uninstalling"
	Changing     = "updating"
)

// obstacles are the conditions of a HostedCluster that explain why it is not available, the cause
// before the effect.
var obstacles = []string{"ValidConfiguration", "SupportedHostedCluster", "ValidReleaseImage", "ValidReleaseInfo",
	"ReconciliationSucceeded", "InfrastructureReady", "EtcdAvailable", "KubeAPIServerAvailable",
	"IgnitionEndpointAvailable", "Available"}

// fatal are the conditions whose failure only a change of the request can remove.
var fatal = []string{"ValidConfiguration", "SupportedHostedCluster"}

// ObserveCluster returns the state of a cluster. delivered is false until the management cluster
// reports the current version of the namespaces and the control plane.
func ObserveCluster(c *record.Cluster, m *record.Management, namespaces, control Report) Finding {
	for _, report := range []Report{namespaces, control} {
		if reason := report.Refused(); reason != "" {
			return Finding{State: Installing, Reason: reason}
		}
	}
	if !namespaces.Current || !control.Current {
		return Finding{State: Pending, Reason: "The management cluster " + m.Consumer +
			" has not reported yet that it applied the manifests."}
	}
	hosted, ok := control.objectStatus("HostedCluster")
	if !ok {
		return Finding{State: Installing, Reason: cmp.Or(control.unread("HostedCluster"),
			"HyperShift's operator has not reported about the HostedCluster yet.")}
	}
	var status struct {
		Version struct {
			History []struct {
				State   string `json:"state"`
				Version string `json:"version"`
				Image   string `json:"image"`
			} `json:"history"`
		} `json:"version"`
		Endpoint struct {
			Host string `json:"host"`
			Port int    `json:"port"`
		} `json:"controlPlaneEndpoint"`
		Kubeconfig struct {
			Name string `json:"name"`
		} `json:"kubeconfig"`
	}
	if err := json.Unmarshal(hosted.status, &status); err != nil {
		return Finding{State: Installing, Reason: "The status of the HostedCluster can't be read: " + err.Error() + "."}
	}
	found := Finding{State: Installing, Conditions: hosted.conditions, KubeconfigRef: status.Kubeconfig.Name}
	if status.Endpoint.Host != "" && status.Endpoint.Port != 0 {
		found.APIURL = "https://" + net.JoinHostPort(APIName(c, m), strconv.Itoa(status.Endpoint.Port))
	}
	for _, entry := range status.Version.History {
		if entry.State == "Completed" {
			found.Version = entry.Version
			break
		}
	}
	for _, name := range fatal {
		if failed := hosted.current(name); failed != nil && failed.Status == "False" {
			found.State, found.Code, found.Reason = Failed, name, sentence(failed)
			return found
		}
	}
	for _, name := range obstacles {
		if wrong := hosted.current(name); wrong != nil && wrong.Status == "False" {
			found.Reason = name + ": " + sentence(wrong)
			return found
		}
	}
	completed := slices.IndexFunc(status.Version.History, func(entry struct {
		State   string `json:"state"`
		Version string `json:"version"`
		Image   string `json:"image"`
	}) bool {
		return entry.State == "Completed" && (entry.Image == c.Release.Image || entry.Version == c.Release.Version)
	})
	available := hosted.current("Available")
	switch {
	case available == nil || available.Status != "True":
		found.Reason = "HyperShift's operator has not reported about the present HostedCluster yet."
	case completed < 0:
		found.Reason = "The control plane has not completed the version " + c.Release.Version + " yet."
	case found.APIURL == "":
		found.Reason = "The address of the API server is not known yet."
	case found.KubeconfigRef == "":
		found.Reason = "The CA of the API server is not known yet."
	default:
		found.State = Ready
	}
	return found
}

// poolObstacles are the conditions of a NodePool that explain why nodes are missing.
var poolObstacles = []string{"ValidReleaseImage", "ValidMachineConfig", "ValidPlatformConfig",
	"ClusterNetworkCIDRConflict",
	"SupportedVersionSkew", "ReachedIgnitionEndpoint", "AllMachinesReady", "AllNodesHealthy", "Ready"}

// ObserveNodePool returns the state of a node pool. wanted is the number of nodes; profile names
// the hardware that they need.
func ObserveNodePool(m *record.Management, report Report, wanted int64, profile string) Finding {
	if reason := report.Refused(); reason != "" {
		return Finding{State: Installing, Reason: reason}
	}
	if !report.Current {
		return Finding{State: Pending, Reason: "The management cluster " + m.Consumer +
			" has not reported yet that it applied the node pool."}
	}
	pool, ok := report.objectStatus("NodePool")
	if !ok {
		return Finding{State: Installing, Reason: "HyperShift's operator has not reported about the node pool yet."}
	}
	var status struct {
		Replicas int64  `json:"replicas"`
		Version  string `json:"version"`
	}
	if err := json.Unmarshal(pool.status, &status); err != nil {
		return Finding{State: Installing, Reason: "The status of the node pool can't be read: " + err.Error() + "."}
	}
	found := Finding{State: Installing, Ready: status.Replicas, Version: status.Version, Conditions: pool.conditions}
	for _, name := range poolObstacles {
		c := pool.current(name)
		if c == nil || c.Status == "True" && name != "ClusterNetworkCIDRConflict" ||
			c.Status != "True" && name == "ClusterNetworkCIDRConflict" {
			continue
		}
		found.Reason = name + ": " + sentence(c)
		if name == "AllMachinesReady" && status.Replicas < wanted {
			found.Reason = fmt.Sprintf("%d of %d nodes are there. They need free agents of the profile %s in the "+
				"namespace %s. "+
				"%s", status.Replicas, wanted, profile, m.AgentNamespace, sentence(c))
		}
		return found
	}
	ready := pool.current("Ready")
	switch {
	case ready == nil && wanted > 0:
		found.Reason = "HyperShift's operator has not reported about the present node pool yet."
	case status.Replicas < wanted:
		found.Reason = fmt.Sprintf("%d of %d nodes are there. They need free agents of the profile %s in the "+
			"namespace %s.",
			status.Replicas, wanted, profile, m.AgentNamespace)
	default:
		found.State = Ready
	}
	return found
}

// Certificate returns the signed certificate of a credential and the CA of the API server, in
// base64. ok is false until the report has both.
func (r Report) Certificate() (certificate, ca string, ok bool) {
	certificate, signed := r.Text("CertificateSigningRequest", "certificate")
	ca, known := r.Text("Secret", "ca")
	return certificate, ca, signed && known && certificate != ""
}

// Denied returns why a certificate signing request was refused finally, or "".
func (r Report) Denied() string {
	request, ok := r.objectStatus("CertificateSigningRequest")
	if !ok {
		return ""
	}
	for _, name := range []string{"Denied", "Failed"} {
		if c := condition(request.conditions, name); c != nil && c.Status == "True" {
			return "The management cluster refused the certificate signing request: " + sentence(c)
		}
	}
	return ""
}

// Revoked reports whether the management cluster has revoked the credentials of a cluster.
func (r Report) Revoked() bool {
	request, ok := r.objectStatus("CertificateRevocationRequest")
	if !ok {
		return false
	}
	c := condition(request.conditions, "PreviousCertificatesRevoked")
	return c != nil && c.Status == "True"
}
