package hosted

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"

	"landfall/appliance/engine"
	"landfall/appliance/fault"
	"landfall/appliance/hosted/agent"
	"landfall/appliance/hosted/provider"
	"landfall/appliance/hosted/readiness"
	"landfall/appliance/hosted/record"
	"landfall/appliance/sentence"
	"landfall/store"
)

// CheckManagement returns what a cluster lacks as a management cluster: in the cluster itself if
// the appliance installed it, and in the mirror.
func (s *Service) CheckManagement(ctx context.Context, m *record.Management) []readiness.Finding {
	return append(s.checkCluster(ctx, m), s.checkMirror(ctx, m.AgentImage)...)
}

// ChooseLayout sets the layout of bundles for a cluster that the appliance installed, unless there
// is one. A cluster that can't be read gets the flat layout, which every cluster can apply.
func (s *Service) ChooseLayout(ctx context.Context, m *record.Management) {
	if m.ClusterID == "" || m.Layout != "" {
		return
	}
	client, err := s.connect(m.ClusterID)
	if err != nil {
		return
	}
	defer client.Close()
	m.Layout, _ = readiness.Layout(ctx, client) // "" is the flat layout
}

func (s *Service) checkCluster(ctx context.Context, m *record.Management) []readiness.Finding {
	if m.ClusterID == "" {
		return []readiness.Finding{{ID: "cluster", Severity: readiness.Warning, Sentence: "The cluster was not " +
			"checked, because the appliance did not install it. It needs HyperShift's operator, an assisted service " +
			"with Agents, a default storage class and memory."}}
	}
	client, err := s.connect(m.ClusterID)
	if err != nil {
		return []readiness.Finding{{ID: "cluster", Severity: readiness.Warning, Sentence: readiness.Unchecked(err)}}
	}
	defer client.Close()
	return readiness.Check(ctx, client, m)
}

// checkMirror checks the images of the default release and of the agent.
func (s *Service) checkMirror(ctx context.Context, image string) (findings []readiness.Finding) {
	add := func(severity readiness.Severity, format string, args ...any) []readiness.Finding {
		return append(findings, readiness.Finding{ID: "images", Severity: severity, Sentence: fmt.Sprintf(format,
			args...)})
	}
	releases := s.Provider.Site.Releases()
	var wanted *provider.Release
	for i := range releases {
		if wanted == nil || releases[i].Default {
			wanted = &releases[i]
		}
	}
	if wanted == nil {
		return add(readiness.Error, "The site has no release for hosted clusters. Add one to its settings.")
	}
	site, err := s.Provider.Site.HostedSite()
	if err != nil {
		return add(readiness.Warning, "The mirror was not checked: %s", sentence.Ending(err))
	}
	source := engine.InstallSource{Name: "hosted clusters", Release: wanted.Image, Version: wanted.Version,
		Architecture: "x86_64", Platform: "baremetal", PullSecret: site.PullSecret, TrustBundle: []byte(site.CABundle)}
	wants := "the release " + wanted.Version
	if err := agent.CheckImage(image); err != nil {
		findings = add(readiness.Warning, "%s", sentence.Ending(err))
	} else {
		source.Also = []string{image}
		wants += " or of the agent (" + image + ")"
	}
	proof, err := s.prove(ctx, source)
	switch {
	case err != nil:
		return add(readiness.Warning, "The mirror was not checked: %s", sentence.Ending(err))
	case proof.Images == 0:
		return findings // the release does not come from a mirror
	case !proof.Complete:
		return add(readiness.Error, "The mirror lacks images of %s: %s landfall mirror proofs lists them.", wants,
			proof.Summary)
	}
	return findings
}

// AgentManifests issues a certificate for the agent of a management cluster and returns the agent's
// manifests. address is the host by which the client knows the appliance, and the port of the
// broker. An agent that has no name of the broker yet gets it, or the host of the appliance's URL
// instead of one that leads nowhere from other machines. The host of a configured URL corrects a
// name that no agent has used. An empty image is the one that was named last.
func (s *Service) AgentManifests(ctx context.Context, consumer, address, image string) ([]byte, error) {
	if s.Broker == nil {
		return nil, fault.New(fault.Conflict, "The broker needs TLS, which tls.enabled: false disables.")
	}
	if err := s.CheckPort(); err != nil {
		return nil, err
	}
	candidate, err := s.brokerName(address)
	if err != nil {
		return nil, err
	}
	name, used, err := s.Provider.AgentOf(ctx, consumer, candidate, image)
	if err != nil {
		return nil, err
	}
	issued, err := s.Credentials.Issue(ctx, consumer)
	if err != nil {
		return nil, err
	}
	return agent.Manifests(agent.Options{Consumer: consumer, Broker: name, Image: used, CA: s.Roots,
		Certificate: issued.Certificate, Key: issued.Key})
}

// brokerName returns the name of the broker for a client that knows the appliance by an address.
func (s *Service) brokerName(address string) (provider.Broker, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return provider.Broker{}, fmt.Errorf("read the address of the broker: %w", err)
	}
	if s.host != "" && agent.IsLocal(address) {
		host = s.host
	}
	name := net.JoinHostPort(host, port)
	return provider.Broker{Address: name, Configured: s.configured && host == s.host && !agent.IsLocal(name)}, nil
}

// ApplyAgent applies the agent's manifests to a management cluster that the appliance installed. It
// returns the applied objects in words.
func (s *Service) ApplyAgent(ctx context.Context, consumer, address, image string) (applied []string, err error) {
	var m *record.Management
	if err := s.Provider.DB.View(func(tx *store.Tx) (err error) {
		m, err = record.GetManagement(tx, consumer)
		return err
	}); err != nil {
		return nil, err
	}
	switch {
	case m == nil:
		return nil, fault.New(fault.NotFound, "There is no management cluster %s.", consumer)
	case m.ClusterID == "":
		return nil, fault.New(fault.Conflict, "The appliance did not install the management cluster %s and has no "+
			"kubeconfig of it. Write the agent's manifests to a file, and apply them there.", m.Consumer)
	}
	client, err := s.connect(m.ClusterID)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	text, err := s.AgentManifests(ctx, m.Consumer, address, image)
	if err != nil {
		return nil, err
	}
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), len(text))
	for {
		object := &unstructured.Unstructured{}
		if err := decoder.Decode(object); errors.Is(err, io.EOF) {
			return applied, nil
		} else if err != nil {
			return applied, fmt.Errorf("read the agent's manifests: %w", err)
		}
		kind := object.GroupVersionKind()
		resource, ok := agent.Resources()[kind.Kind]
		if !ok {
			return applied, fmt.Errorf("the agent's manifests have the unknown kind %s", kind.Kind)
		}
		at := schema.GroupVersionResource{Group: kind.Group, Version: kind.Version, Resource: resource}
		if err := client.Apply(ctx, at, object.GetNamespace(), object.GetName(), object.Object); err != nil {
			return applied, fault.New(fault.Unavailable, "The %s %s could not be applied to the management cluster "+
				"%s: %s Nothing runs there until all manifests are applied; try again.", kind.Kind, object.GetName(),
				m.Consumer, sentence.Close(sentence.Clause(err.Error())))
		}
		applied = append(applied, kind.Kind+" "+object.GetName())
	}
}
