// Package agent renders the manifests of the agent that a management cluster runs: Maestro's work
// agent with its connection to the broker.
//
// The flags are those of github.com/openshift-online/maestro, cmd/maestro/agent.
package agent

import (
	"bytes"
	"fmt"
	"net"
	"net/netip"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	"sigs.k8s.io/yaml"

	"landfall/appliance/fault"
	"landfall/appliance/hosted/broker"
)

// Namespace is the namespace of the agent. Engineers' commands expect it.
const Namespace = "maestro"

// neverEvict is the bound from which the agent never removes what an unknown ManifestWork has
// applied. With the agent's default of an hour, a restart of the agent while the appliance is
// silent would delete hosted clusters.
const neverEvict = "876000h"

// Options describes the agent of a management cluster.
type Options struct {
	Consumer string
	// Broker is the host and port of the broker. The agent names its records after it, so it must
	// never change.
	Broker string
	Image  string
	// CA, Certificate and Key are PEM. Without a certificate and a key the agent would connect
	// without TLS.
	CA, Certificate, Key []byte
}

// CheckImage returns an error for an image that can change unnoticed: one without a digest and
// without the tag of a version. No release contains the agent, so there is no default.
func CheckImage(image string) error {
	const advice = "Name it by its digest in the site's mirror, such as registry.example.com/maestro@sha256:…, or by " +
		"the tag of a version (--image)."
	if image == "" {
		return fault.New(fault.Invalid, "The image of the agent is not known. %s", advice)
	}
	reference, err := name.ParseReference(image)
	if err != nil {
		return fault.New(fault.Invalid, "The image %q of the agent is not the name of an image: %s. %s", image, err,
			advice)
	}
	if tag, ok := reference.(name.Tag); ok && tag.TagStr() == name.DefaultTag {
		return fault.New(fault.Invalid, "The image %s of the agent can change unnoticed. %s", image, advice)
	}
	return nil
}

// IsLocal reports whether an address of the broker, a host and a port, leads to it only on the
// appliance's own machine.
func IsLocal(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || err == nil && (ip.Unmap().IsLoopback() || ip.IsUnspecified())
}

// Resources returns the resources of the manifests by their kinds.
func Resources() map[string]string {
	return map[string]string{"Namespace": "namespaces", "CustomResourceDefinition": "customresourcedefinitions",
		"ServiceAccount": "serviceaccounts", "ClusterRoleBinding": "clusterrolebindings", "Secret": "secrets",
		"Deployment": "deployments"}
}

type object = map[string]any

// Manifests returns the manifests as a YAML stream, in the order in which they are applied.
func Manifests(options Options) ([]byte, error) {
	source, agent := broker.Topics(options.Consumer)
	config, err := yaml.Marshal(object{"brokerHost": options.Broker, "caFile": "/broker/ca.crt",
		"clientCertFile": "/broker/tls.crt", "clientKeyFile": "/broker/tls.key",
		"topics": object{"sourceEvents": source, "agentEvents": agent}})
	if err != nil {
		return nil, fmt.Errorf("write the agent's configuration: %w", err)
	}
	metadata := func(name string) object { return object{"name": name, "namespace": Namespace} }
	labels := object{"app": "maestro-agent"}
	var out bytes.Buffer
	for _, manifest := range []object{
		{"apiVersion": "v1", "kind": "Namespace", "metadata": object{"name": Namespace}},
		appliedManifestWorks(),
		{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata("maestro-agent")},
		// Bundles contain any kind of manifest, so the agent needs all rights.
		{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
			"metadata": object{"name": "maestro-agent"},
			"roleRef":  object{"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
			"subjects": []object{{"kind": "ServiceAccount", "name": "maestro-agent", "namespace": Namespace}}},
		{"apiVersion": "v1", "kind": "Secret", "metadata": metadata("maestro-agent-broker"), "type": "Opaque",
			"stringData": object{"config.yaml": string(config), "ca.crt": string(options.CA),
				"tls.crt": string(options.Certificate), "tls.key": string(options.Key)}},
		{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata("maestro-agent"), "spec": object{
			"replicas": 1, "strategy": object{"type": "Recreate"}, "selector": object{"matchLabels": labels},
			"template": object{"metadata": object{"labels": labels}, "spec": object{
				"serviceAccountName": "maestro-agent",
				"containers": []object{{"name": "maestro-agent", "image": options.Image,
					"command": []string{"/usr/local/bin/maestro", "agent",
						"--consumer-name=" + options.Consumer, "--workload-source-driver=mqtt",
						"--workload-source-config=/broker/config.yaml",
						"--cloudevents-client-id=" + options.Consumer + "-work-agent",
						"--appliedmanifestwork-eviction-grace-period=" + neverEvict, "--status-sync-interval=10s",
						"--feature-gates=RawFeedbackJsonString=true"},
					"volumeMounts": []object{{"name": "broker", "mountPath": "/broker", "readOnly": true}}}},
				"volumes": []object{{"name": "broker", "secret": object{"secretName": "maestro-agent-broker"}}}}}}},
	} {
		text, err := yaml.Marshal(manifest)
		if err != nil {
			return nil, fmt.Errorf("write the agent's manifests: %w", err)
		}
		out.WriteString("---\n")
		out.Write(text)
	}
	return out.Bytes(), nil
}

// appliedManifestWorks returns the definition of the kind in which the agent records what it has
// applied.
func appliedManifestWorks() object {
	return object{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": object{"name": "appliedmanifestworks.work.open-cluster-management.io"},
		"spec": object{"group": "work.open-cluster-management.io", "scope": "Cluster",
			"names": object{"kind": "AppliedManifestWork", "listKind": "AppliedManifestWorkList",
				"plural": "appliedmanifestworks", "singular": "appliedmanifestwork"},
			"versions": []object{{"name": "v1", "served": true, "storage": true,
				"subresources": object{"status": object{}},
				"schema": object{"openAPIV3Schema": object{"type": "object",
					"x-kubernetes-preserve-unknown-fields": true}}}}}}
}
