// Package controlplane translates a hosted cluster into the manifests that its management cluster
// applies, and reads the reports about them. The manifests are HyperShift's kinds for the platform
// Agent. The package has no state and no store.
//
// Sources: openshift/hypershift, api/hypershift/v1beta1; open-cluster-management.io/api, work/v1.
//
// Design: docs/design.md#hosted-control-planes.
package controlplane

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"landfall/appliance/hosted/arm"
	"landfall/appliance/hosted/bundle"
	"landfall/appliance/hosted/record"
)

// Environment is the part of namespaces that names the program that made them.
const Environment = "landfall"

// LabelProfile is the label of Agents that names their hardware profile, and LabelZone their zone.
const (
	LabelProfile = "landfall.io/hardware-profile"
	LabelZone    = "landfall.io/zone"
)

const hypershift = "hypershift.openshift.io"

// Ways to publish the services of control planes.
const (
	NodePort     = "NodePort"
	LoadBalancer = "LoadBalancer"
)

// Site is what all hosted clusters of a site have in common.
type Site struct {
	PullSecret   string // JSON
	SSHPublicKey string
	CABundle     string // PEM, or ""
	Mirrors      []arm.ImageMirror
}

// Input is everything from which the bundles of a cluster follow.
type Input struct {
	Cluster    *record.Cluster
	Properties *arm.ClusterProperties
	Management *record.Management
	Site       Site
	EtcdKey    string // 32 bytes in base64
	Auths      []*record.ExternalAuth
}

// Content is the content of a bundle.
type Content struct {
	Name      string
	Labels    map[string]string
	Manifests []json.RawMessage
	Configs   []json.RawMessage
}

// Namespace returns the namespace of a cluster's HostedCluster.
func Namespace(cid string) string { return "ocm-" + Environment + "-" + cid }

// ControlPlaneNamespace returns the namespace of a cluster's pods.
func ControlPlaneNamespace(c *record.Cluster) string { return Namespace(c.CID) + "-" + c.Prefix }

// Domain returns the domain of a cluster.
func Domain(c *record.Cluster, m *record.Management) string { return c.Prefix + "." + m.BaseDomain }

// APIName returns the DNS name of a cluster's API server.
func APIName(c *record.Cluster, m *record.Management) string { return "api." + Domain(c, m) }

type object = map[string]any

func labels(c *record.Cluster, kind string) map[string]string {
	return map[string]string{
		bundle.LabelCluster: c.CID, bundle.LabelName: strings.ToLower(c.ID.Cluster),
		"api.openshift.com/environment": Environment, bundle.LabelType: kind,
	}
}

// set collects the manifests of a bundle.
type set struct {
	content Content
	nested  bool
	err     error
}

func newSet(m *record.Management, name string, labels map[string]string) *set {
	return &set{content: Content{Name: name, Labels: labels}, nested: m.Layout == Nested}
}

// statusRule is the feedback rule that reads the whole status of an object.
const statusRule = "status=.status"

// manifest is one manifest with what the agent needs to apply it.
type manifest struct {
	group, version, kind, resource string
	namespace, name                string
	labels, annotations            map[string]string
	body                           object
	feedback                       []string // name=path
	readOnly                       bool     // read the object, and change nothing
}

func (s *set) add(m manifest) {
	metadata := object{"name": m.name}
	if m.namespace != "" {
		metadata["namespace"] = m.namespace
	}
	if len(m.labels) > 0 {
		metadata["labels"] = m.labels
	}
	if len(m.annotations) > 0 {
		metadata["annotations"] = m.annotations
	}
	feedback := m.feedback
	if s.nested {
		feedback = singleRules(m.kind, feedback)
		if err := annotateContent(m.body, metadata); err != nil && s.err == nil {
			s.err = fmt.Errorf("write %s %s: %w", m.kind, m.name, err)
		}
	}
	apiVersion := m.version
	if m.group != "" {
		apiVersion = m.group + "/" + m.version
	}
	m.body["apiVersion"], m.body["kind"], m.body["metadata"] = apiVersion, m.kind, metadata
	var rules []object
	for _, rule := range feedback {
		name, path, _ := strings.Cut(rule, "=")
		rules = append(rules, object{"name": name, "path": path})
	}
	strategy := object{"type": "ServerSideApply", "serverSideApply": object{"force": true}}
	if m.readOnly {
		strategy = object{"type": "ReadOnly"}
	}
	config := object{
		"resourceIdentifier": object{"group": m.group, "resource": m.resource, "name": m.name,
			"namespace": m.namespace},
		"updateStrategy": strategy,
		"feedbackRules":  []object{{"type": "JSONPaths", "jsonPaths": rules}},
	}
	for _, part := range []struct {
		value any
		to    *[]json.RawMessage
	}{{m.body, &s.content.Manifests}, {config, &s.content.Configs}} {
		text, err := json.Marshal(part.value)
		if err != nil && s.err == nil {
			s.err = fmt.Errorf("write %s %s: %w", m.kind, m.name, err)
		}
		*part.to = append(*part.to, text)
	}
}

// Namespaces returns the bundle with the namespaces of a cluster. It is delivered first and deleted
// last.
func Namespaces(c *record.Cluster, m *record.Management) (Content, error) {
	s := newSet(m, c.CID+"-00-namespaces", labels(c, "namespaces"))
	s.content.Labels["containsNamespaces"] = "true"
	for _, name := range []string{Namespace(c.CID), ControlPlaneNamespace(c)} {
		s.add(manifest{version: "v1", kind: "Namespace", resource: "namespaces", name: name,
			labels: map[string]string{bundle.LabelCluster: c.CID}, body: object{},
			feedback: []string{"phase=.status.phase"}})
	}
	return s.done()
}

// Control returns the bundle with the HostedCluster and what it refers to.
func Control(in Input) (Content, error) {
	c := in.Cluster
	s := newSet(in.Management, c.CID, labels(c, "hostedcluster"))
	namespace := Namespace(c.CID)
	uid := []string{"uid=.metadata.uid"}
	secret := func(name string, data object) {
		s.add(manifest{version: "v1", kind: "Secret", resource: "secrets", namespace: namespace, name: name,
			body: object{"type": "Opaque", "stringData": data}, feedback: uid})
	}
	s.add(manifest{version: "v1", kind: "Secret", resource: "secrets", namespace: namespace, name: "pull-secret",
		body: object{"type": "kubernetes.io/dockerconfigjson",
			"stringData": object{".dockerconfigjson": in.Site.PullSecret}},
		feedback: uid})
	secret("ssh-key", object{"id_rsa.pub": in.Site.SSHPublicKey})
	s.add(manifest{version: "v1", kind: "Secret", resource: "secrets", namespace: namespace,
		name: "etcd-encryption-key",
		body: object{"type": "Opaque", "data": object{"key": in.EtcdKey}}, feedback: uid})
	if in.Site.CABundle != "" {
		s.add(manifest{version: "v1", kind: "ConfigMap", resource: "configmaps", namespace: namespace,
			name: "user-ca-bundle", body: object{"data": object{"ca-bundle.crt": in.Site.CABundle}}, feedback: uid})
	}
	if err := s.addIssuerAuthorities(namespace, in.Auths); err != nil {
		return Content{}, err
	}
	spec, err := hostedClusterSpec(in)
	if err != nil {
		return Content{}, err
	}
	var annotations map[string]string
	if s.nested { // or the multicluster engine makes a second ManagedCluster
		annotations = map[string]string{"cluster.open-cluster-management.io/managedcluster-name": c.CID}
	}
	s.add(manifest{group: hypershift, version: "v1beta1", kind: "HostedCluster", resource: "hostedclusters",
		namespace: namespace, name: c.Prefix, labels: map[string]string{bundle.LabelCluster: c.CID,
			bundle.LabelName: strings.ToLower(c.ID.Cluster)}, annotations: annotations,
		body: object{"spec": spec}, feedback: []string{statusRule, "generation=.metadata.generation"}})
	return s.done()
}

func hostedClusterSpec(in Input) (object, error) {
	c, p, m := in.Cluster, in.Properties, in.Management
	availability := "SingleReplica"
	if m.HighlyAvailable {
		availability = "HighlyAvailable"
	}
	volume := object{"size": "8Gi"}
	if m.StorageClass != "" {
		volume["storageClassName"] = m.StorageClass
	}
	spec := object{
		"release":              object{"image": c.Release.Image},
		"platform":             object{"type": "Agent", "agent": object{"agentNamespace": m.AgentNamespace}},
		"dns":                  object{"baseDomain": Domain(c, m)},
		"kubeAPIServerDNSName": APIName(c, m),
		"services":             services(c, m),
		"networking": object{
			"networkType":    p.Network.Type,
			"clusterNetwork": []object{{"cidr": p.Network.PodCIDR, "hostPrefix": p.Network.HostPrefix}},
			"serviceNetwork": []object{{"cidr": p.Network.ServiceCIDR}},
			"machineNetwork": []object{{"cidr": p.Network.MachineCIDR}},
		},
		"etcd": object{"managementType": "Managed", "managed": object{"storage": object{"type": "PersistentVolume",
			"persistentVolume": volume}}},
		"pullSecret": object{"name": "pull-secret"},
		"sshKey":     object{"name": "ssh-key"},
		"secretEncryption": object{"type": "aescbc",
			"aescbc": object{"activeKey": object{"name": "etcd-encryption-key"}}},
		"controllerAvailabilityPolicy":     availability,
		"infrastructureAvailabilityPolicy": availability,
		"clusterID":                        c.UUID,
		"infraID":                          c.CID,
		"channel":                          channel(p.Version.ChannelGroup, c.Release.Version),
	}
	mirrors := append(append([]arm.ImageMirror{}, in.Site.Mirrors...), p.ImageDigestMirrors...)
	if len(mirrors) > 0 {
		spec["imageContentSources"] = mirrors
	}
	if in.Site.CABundle != "" {
		spec["additionalTrustBundle"] = object{"name": "user-ca-bundle"}
	}
	if p.ClusterImageRegistry.State == "Disabled" {
		spec["capabilities"] = object{"disabled": []string{"ImageRegistry"}}
	}
	if len(p.API.AuthorizedCIDRs) > 0 {
		spec["networking"].(object)["apiServer"] = object{"allowedCIDRBlocks": p.API.AuthorizedCIDRs}
	}
	providers, err := oidcProviders(in.Auths)
	if err != nil {
		return nil, err
	}
	if len(providers) > 0 {
		spec["configuration"] = object{"authentication": object{"type": "OIDC", "oidcProviders": providers}}
	}
	if c.FIPS {
		spec["fips"] = true
	}
	if autoscaling := autoscaling(&p.Autoscaling); autoscaling != nil {
		spec["autoscaling"] = autoscaling
	}
	return spec, nil
}

// autoscaling returns the limits of the cluster autoscaler, or nil for its defaults, so that the
// manifests of a cluster without a limit stay the same.
func autoscaling(a *arm.Autoscaling) object {
	if a.IsDefault() {
		return nil
	}
	limits := object{"maxPodGracePeriod": a.MaxPodGracePeriodSeconds,
		"maxNodeProvisionTime": strconv.FormatInt(a.MaxNodeProvisionTimeSeconds, 10) + "s",
		"podPriorityThreshold": a.PodPriorityThreshold}
	if a.MaxNodesTotal > 0 {
		limits["maxNodesTotal"] = a.MaxNodesTotal
	}
	return limits
}

// channel returns the update channel of a release, such as stable-4.19.
func channel(group, version string) string {
	minor := strings.SplitN(version, ".", 3)
	return group + "-" + strings.Join(minor[:min(2, len(minor))], ".")
}

// services returns how the management cluster publishes the services of a control plane. All four
// are required.
func services(c *record.Cluster, m *record.Management) (all []object) {
	for _, name := range []string{"APIServer", "OAuthServer", "Konnectivity", "Ignition"} {
		strategy := object{"type": NodePort, "nodePort": object{"address": m.Address}}
		if m.Publish == LoadBalancer {
			strategy = object{"type": "Route", "route": object{"hostname": strings.ToLower(name) + "." + Domain(c, m)}}
			if name == "APIServer" {
				strategy = object{"type": LoadBalancer, "loadBalancer": object{"hostname": APIName(c, m)}}
			}
		}
		all = append(all, object{"service": name, "servicePublishingStrategy": strategy})
	}
	return all
}

// NodePool returns the bundle with a node pool.
func NodePool(in Input, pool *record.NodePool, p *arm.NodePoolProperties) (Content, error) {
	c := in.Cluster
	name := strings.ToLower(pool.ID.Child)
	s := newSet(in.Management, c.CID+"-"+name, labels(c, "nodepool"))
	s.content.Labels["landfall.io/node-pool"] = name
	selector := object{LabelProfile: p.Platform.VMSize}
	if p.Platform.AvailabilityZone != "" {
		selector[LabelZone] = p.Platform.AvailabilityZone
	}
	spec := object{
		"clusterName": c.Prefix, "release": object{"image": pool.Release.Image}, "arch": "amd64",
		"management": object{"upgradeType": "InPlace", "autoRepair": p.AutoRepair},
		"platform":   object{"type": "Agent", "agent": object{"agentLabelSelector": object{"matchLabels": selector}}},
	}
	if p.AutoScaling != nil {
		spec["autoScaling"] = object{"min": p.AutoScaling.Min, "max": p.AutoScaling.Max}
	} else {
		spec["replicas"] = p.Replicas
	}
	if drain := p.DrainTimeoutMinutes(in.Properties); drain > 0 {
		spec["nodeDrainTimeout"] = strconv.FormatInt(drain, 10) + "m"
	}
	if len(p.Labels) > 0 {
		nodeLabels := object{}
		for _, label := range p.Labels {
			nodeLabels[label.Key] = label.Value
		}
		spec["nodeLabels"] = nodeLabels
	}
	if len(p.Taints) > 0 {
		spec["taints"] = p.Taints
	}
	s.add(manifest{group: hypershift, version: "v1beta1", kind: "NodePool", resource: "nodepools",
		namespace: Namespace(c.CID), name: c.Prefix + "-" + name, labels: map[string]string{bundle.LabelCluster: c.CID},
		body: object{"spec": spec}, feedback: []string{statusRule, "generation=.metadata.generation"}})
	return s.done()
}

// CredentialUser is the prefix of the names of users whose certificates HyperShift's signer of
// break-glass credentials signs.
const CredentialUser = "system:customer-break-glass:"

// Credential returns the bundle that has a certificate signing request signed by a cluster's own
// authority, and that reads the CA of its API server. It is flat in both layouts.
func Credential(c *record.Cluster, id, csr string, seconds int64) (Content, error) {
	s := &set{content: Content{Name: c.CID + "-" + id, Labels: labels(c, bundle.TypeCredential)}}
	namespace, name := ControlPlaneNamespace(c), c.CID+"-"+id
	s.add(manifest{group: "certificates.hypershift.openshift.io", version: "v1alpha1",
		kind: "CertificateSigningRequestApproval", resource: "certificatesigningrequestapprovals", namespace: namespace,
		name: name, body: object{}, feedback: []string{"uid=.metadata.uid"}})
	s.add(manifest{group: "certificates.k8s.io", version: "v1", kind: "CertificateSigningRequest",
		resource: "certificatesigningrequests", name: name,
		body: object{"spec": object{"request": []byte(csr), "signerName": hypershift + "/" + namespace +
			".customer-break-glass", "usages": []string{"client auth"}, "expirationSeconds": seconds}},
		feedback: []string{"certificate=.status.certificate", statusRule}})
	s.add(manifest{version: "v1", kind: "Secret", resource: "secrets", namespace: namespace, name: "root-ca",
		body: object{}, readOnly: true, feedback: []string{`ca=.data.ca\.crt`}})
	return s.content, s.err
}

// Revocation returns the bundle that revokes all credentials of a cluster.
func Revocation(c *record.Cluster, id string) (Content, error) {
	s := &set{content: Content{Name: c.CID + "-revocation", Labels: labels(c, "revocation")}}
	s.add(manifest{group: "certificates.hypershift.openshift.io", version: "v1alpha1",
		kind: "CertificateRevocationRequest", resource: "certificaterevocationrequests",
		namespace: ControlPlaneNamespace(c), name: "revocation-" + id[:8],
		body:     object{"spec": object{"signerClass": "customer-break-glass"}},
		feedback: []string{statusRule}})
	return s.content, s.err
}

// OrphanOption returns the delete option of a bundle whose objects stay on the management cluster.
func OrphanOption() json.RawMessage { return json.RawMessage(`{"propagationPolicy":"Orphan"}`) }
