package apply

import (
	"context"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"

	"landfall/appliance/kube/objects"
	"landfall/appliance/mirror"
)

// reference is a reference of an object to another object.
type reference struct {
	from            *Object
	field           string
	kind            objects.Kind
	namespace, name string
	keys            []string // required keys of a Secret or ConfigMap
}

// Missing returns the problems of references whose objects are missing: they are neither in the
// manifests nor on the appliance.
func Missing(ctx context.Context, server *Server, list []*Object, options Options) (Problems, error) {
	l := &lookup{server: server, list: list, options: options}
	var missing Problems
	namespaces := map[string]bool{} // missing namespaces that were already reported
	for _, o := range list {
		for _, r := range l.references(o) {
			if r.kind == objects.Namespaces && namespaces[r.name] {
				continue
			}
			text, err := l.missing(ctx, r)
			if err != nil {
				return nil, err
			}
			if text != "" {
				namespaces[r.name] = r.kind == objects.Namespaces
				missing = append(missing, Problem{o.Source, text})
			}
		}
		for _, check := range []func(context.Context, *Object) (string, error){l.unselected, l.warnings} {
			text, err := check(ctx, o)
			if err != nil {
				return nil, err
			}
			if text != "" {
				missing = append(missing, Problem{o.Source, text})
			}
		}
	}
	return missing, nil
}

// lookup finds objects in the manifests and on the appliance.
type lookup struct {
	server  *Server
	list    []*Object
	options Options
}

func (l *lookup) namespace(o *Object) string {
	return o.namespaceFor(resource{Namespaced: namespaced(o)}, l.options)
}

// find returns the content of an object; nil if it does not exist.
func (l *lookup) find(ctx context.Context, kind objects.Kind, namespace, name string) (map[string]any, error) {
	if !kind.Namespaced {
		namespace = ""
	}
	for _, o := range l.list {
		if o.Is(kind) && o.Name == name && l.namespace(o) == namespace {
			return o.Content, nil
		}
	}
	return l.server.Get(ctx, kind, namespace, name)
}

// missing returns the problem of a reference; "" for none.
func (l *lookup) missing(ctx context.Context, r reference) (string, error) {
	content, err := l.find(ctx, r.kind, r.namespace, r.name)
	if fatal(err) != nil {
		return "", err
	}
	named := fmt.Sprintf("%s names the %s %s in %s", r.from, r.kind.Kind, r.name, r.field)
	if r.kind.Namespaced && r.namespace != l.namespace(r.from) {
		named += ", of the namespace " + r.namespace
	}
	switch {
	case err != nil:
		return fmt.Sprintf("%s, and %s", named, err), nil
	case content == nil && r.kind == objects.Namespaces:
		return fmt.Sprintf("%s is in the namespace %s, which is neither in the manifests nor on the appliance; add it",
			r.from, r.name), nil
	case content == nil:
		return named + ", which is neither in the manifests nor on the appliance; add it", nil
	}
	for _, key := range r.keys {
		value, ok := dataOf(content, key)
		if !ok {
			return fmt.Sprintf("%s, which has no key %s; add it", named, key), nil
		}
		if key == pullSecretKey {
			if _, err := mirror.ParsePullSecret(value); err != nil {
				return fmt.Sprintf("%s: %s", named, err), nil
			}
		}
	}
	return "", nil
}

// dataOf returns a value of a Secret or ConfigMap.
func dataOf(content map[string]any, key string) (string, bool) {
	if text, ok := valueAt(content, "stringData", key).(string); ok {
		return text, true
	}
	text, ok := valueAt(content, "data", key).(string)
	if ok && textAt(content, "kind") == objects.Secrets.Kind {
		if plain, err := base64.StdEncoding.DecodeString(text); err == nil {
			return string(plain), true
		}
	}
	return text, ok
}

// Keys that are read from Secrets and ConfigMaps.
const (
	pullSecretKey = ".dockerconfigjson"
	mirrorKey     = "registries.conf"
)

// references returns the references of an object, by the fields of its kind.
func (l *lookup) references(o *Object) []reference {
	var list []reference
	home := l.namespace(o)
	add := func(kind objects.Kind, namespace, name, field string, keys ...string) {
		if namespace == "" {
			namespace = home
		}
		if name != "" {
			list = append(list, reference{o, field, kind, namespace, name, keys})
		}
	}
	named := func(kind objects.Kind, field string, keys ...string) {
		path := strings.Split(field, ".")
		add(kind, o.text(append(slices.Clone(path), "namespace")...), o.text(append(slices.Clone(path), "name")...),
			field, keys...)
	}
	if home != "" && home != metav1Default {
		add(objects.Namespaces, "", home, "metadata.namespace")
	}
	switch {
	case o.Is(objects.ClusterDeployments):
		named(objects.Secrets, "spec.pullSecretRef", pullSecretKey)
		if o.text("spec", "clusterInstallRef", "kind") == objects.AgentClusterInstalls.Kind {
			named(objects.AgentClusterInstalls, "spec.clusterInstallRef")
		}
		if installed, _ := o.at("spec", "installed").(bool); installed {
			named(objects.Secrets, "spec.clusterMetadata.adminKubeconfigSecretRef", "kubeconfig")
		}
	case o.Is(objects.AgentClusterInstalls):
		named(objects.ClusterDeployments, "spec.clusterDeploymentRef")
		named(objects.ClusterImageSets, "spec.imageSetRef")
		named(objects.ConfigMaps, "spec.mirrorRegistryRef", mirrorKey)
		named(objects.Secrets, "spec.ignitionEndpoint.caCertificateReference", "tls.crt")
		refs, _ := o.at("spec", "manifestsConfigMapRefs").([]any)
		for i, ref := range refs {
			add(objects.ConfigMaps, "", textAt(ref, "name"), fmt.Sprintf("spec.manifestsConfigMapRefs[%d]", i))
		}
		if len(refs) == 0 {
			named(objects.ConfigMaps, "spec.manifestsConfigMapRef")
		}
	case o.Is(objects.InfraEnvs):
		named(objects.Secrets, "spec.pullSecretRef", pullSecretKey)
		named(objects.ClusterDeployments, "spec.clusterRef")
		named(objects.ConfigMaps, "spec.mirrorRegistryRef", mirrorKey)
	case o.Is(objects.BareMetalHosts):
		add(objects.Secrets, "", o.text("spec", "bmc", "credentialsName"), "spec.bmc.credentialsName", "username",
			"password")
		add(objects.InfraEnvs, "", o.text("metadata", "labels", infraEnvLabel), "the label "+infraEnvLabel)
	}
	return list
}

// infraEnvLabel names the infra-env whose image a BareMetalHost boots.
const infraEnvLabel = "infraenvs.agent-install.openshift.io"

// unselected returns a problem if no NMStateConfig has the labels that an InfraEnv selects. Without
// this check, the image would first be created without network configuration, and again when the
// NMStateConfigs are applied.
func (l *lookup) unselected(ctx context.Context, o *Object) (string, error) {
	wanted, _ := o.at("spec", "nmStateConfigLabelSelector", "matchLabels").(map[string]any)
	if !o.Is(objects.InfraEnvs) || len(wanted) == 0 || o.withoutNetworks {
		return "", nil
	}
	selector := labels.SelectorFromSet(stringsOf(wanted))
	namespace := l.namespace(o)
	for _, other := range l.list {
		if other.Is(objects.NMStateConfigs) && l.namespace(other) == namespace &&
			selector.Matches(stringsOf(other.at("metadata", "labels"))) {
			return "", nil
		}
	}
	known, err := l.server.List(ctx, objects.NMStateConfigs, namespace)
	if fatal(err) != nil {
		return "", err
	}
	for _, content := range known {
		if selector.Matches(stringsOf(valueAt(content, "metadata", "labels"))) {
			return "", nil
		}
	}
	return fmt.Sprintf("%s selects NMStateConfigs with the labels %s, but %s has none; add them, or "+
		"remove spec.nmStateConfigLabelSelector", o, selector, namespace), nil
}

// PlannedCluster is a cluster in the manifests, with the values that can be checked before the
// installation.
type PlannedCluster struct {
	Source           Source // source of its AgentClusterInstall
	Name, BaseDomain string
	Release          string // pull spec; "" if its ClusterImageSet is missing
	PullSecret       string // the Secret's content; "" if the Secret is missing
	APIVIPs          []string
	IngressVIPs      []string
	// the hosts need the site's DNS, which must resolve the cluster's names before the installation
	UserManaged     bool
	MirrorsOfItsOwn bool // the AgentClusterInstall has a mirrorRegistryRef
}

// PlannedClusters returns the clusters that the objects install, except installed clusters.
func PlannedClusters(ctx context.Context, server *Server, list []*Object, options Options) ([]PlannedCluster, error) {
	l := &lookup{server: server, list: list, options: options}
	var wanted []PlannedCluster
	for _, o := range list {
		if !o.Is(objects.AgentClusterInstalls) {
			continue
		}
		namespace := l.namespace(o)
		deployment, err := l.find(ctx, objects.ClusterDeployments, namespace, o.text("spec", "clusterDeploymentRef",
			"name"))
		if fatal(err) != nil {
			return nil, err
		}
		if installed, _ := valueAt(deployment, "spec", "installed").(bool); deployment == nil || installed {
			continue
		}
		c := PlannedCluster{
			Source: o.Source, Name: textAt(deployment, "spec", "clusterName"), BaseDomain: textAt(deployment, "spec",
				"baseDomain"),
			APIVIPs: vips(o, "apiVIP"), IngressVIPs: vips(o, "ingressVIP"), MirrorsOfItsOwn: o.at("spec",
				"mirrorRegistryRef") != nil,
			UserManaged: o.userManaged(),
		}
		if set, err := l.find(ctx, objects.ClusterImageSets, "", o.text("spec", "imageSetRef",
			"name")); fatal(err) != nil {
			return nil, err
		} else if set != nil {
			c.Release = textAt(set, "spec", "releaseImage")
		}
		if secret, err := l.find(ctx, objects.Secrets, namespace, textAt(deployment, "spec", "pullSecretRef",
			"name")); fatal(err) != nil {
			return nil, err
		} else if secret != nil {
			c.PullSecret, _ = dataOf(secret, pullSecretKey)
		}
		wanted = append(wanted, c)
	}
	return wanted, nil
}

// userManaged reports whether the cluster has no virtual addresses, so that its hosts need the
// site's DNS. It is false for a single node.
func (o *Object) userManaged() bool {
	if managed, said := o.at("spec", "networking", "userManagedNetworking").(bool); said && !managed {
		return o.text("spec", "loadBalancer", "type") == "UserManaged"
	}
	single := fmt.Sprint(o.at("spec", "provisionRequirements", "controlPlaneAgents")) == "1"
	managed, _ := o.at("spec", "networking", "userManagedNetworking").(bool)
	return !single && (managed || o.text("spec", "platformType") == "None") || o.text("spec", "loadBalancer",
		"type") == "UserManaged"
}

func vips(o *Object, field string) []string {
	var list []string
	several, _ := o.at("spec", field+"s").([]any)
	for _, value := range several {
		if text, ok := value.(string); ok {
			list = append(list, text)
		}
	}
	if one := o.text("spec", field); len(list) == 0 && one != "" {
		list = []string{one}
	}
	return list
}

func stringsOf(value any) labels.Set {
	set := labels.Set{}
	fields, _ := value.(map[string]any)
	for key, value := range fields {
		set[key] = fmt.Sprint(value)
	}
	return set
}
