package operator

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"
)

// Cluster holds the properties of a cluster that its operators' manifests use.
type Cluster struct {
	Version    string // version of OpenShift
	SingleNode bool
	Operators  []string // including dependencies
	// Compact is true if the control plane runs the storage. Disks is the total number of storage
	// disks.
	Compact bool
	Disks   int
	// ControllerImage contains the oc command for setup jobs.
	ControllerImage string
	// Catalogs maps OpenShift's own catalogs to the CatalogSources that replace them. Other
	// catalogs are used directly.
	Catalogs map[string]string
}

// Manifests holds the manifests that install the operators of a cluster.
type Manifests struct {
	// Install holds the manifests for openshift-install by file name.
	Install map[string][]byte
	// Controller is a file that the controller in the cluster downloads. It holds custom resources,
	// each with the name of an operator. The controller applies them when the operator is
	// available.
	Controller []byte
}

// ControllerFile is the file name under which the controller downloads [Manifests.Controller].
const ControllerFile = "custom_manifests.json"

// controllerManifest is an entry of [ControllerFile]: YAML documents in base64, and the operator
// that must be available first.
type controllerManifest struct {
	Name    string
	Content string
}

// view returns the data of a template for the operator with the given name and namespace.
func (c Cluster) view(name, namespace string) values {
	return values{
		"Name": name, "Namespace": namespace, "ControllerImage": c.ControllerImage,
		"SingleNode": c.SingleNode, "Compact": c.Compact, "Disks": c.Disks,
		"AtLeast": c.AtLeast, "Has": c.Has,
		"HostPath": c.HostPath(), "Mesh": c.Mesh(), "StorageClass": c.StorageClass(),
	}
}

// AtLeast reports whether the cluster's OpenShift version is at least version.
func (c Cluster) AtLeast(version string) bool { return atLeast(c.Version, version) }

// Has reports whether the cluster gets an operator.
func (c Cluster) Has(name string) bool { return slices.Contains(c.Operators, name) }

// HostPath reports whether virtual machines of a single node are stored in host directories. This
// is the case for versions without LVM Storage.
func (c Cluster) HostPath() bool {
	return c.SingleNode && c.AtLeast("4.10") && !c.AtLeast("4.12")
}

// Mesh returns the management state of those components of OpenShift AI that need a service mesh.
func (c Cluster) Mesh() string {
	if c.SingleNode {
		return "Removed"
	}
	return "Managed"
}

// StorageOperator returns the operator that provides volumes, or "" if there is none.
func (c Cluster) StorageOperator() string {
	for _, name := range []string{"odf", "lvm"} {
		if c.Has(name) {
			return name
		}
	}
	return ""
}

// StorageClass returns the class of the storage operator's volumes, or "" if there is none.
func (c Cluster) StorageClass() string {
	return map[string]string{"odf": "ocs-storagecluster-cephfs", "lvm": "lvms-vg1"}[c.StorageOperator()]
}

// manifestTemplates returns the templates of manifests that the table of operators cannot express:
// NAME.install.yaml for openshift-install, NAME.yaml for the controller.
var manifestTemplates = sync.OnceValues(func() (templates, error) {
	return parseTemplates(files, "manifests/*.yaml")
})

// Manifests renders the manifests of the cluster's operators. A cluster without operators has none.
func (c Cluster) Manifests() (*Manifests, error) {
	all := &Manifests{Install: make(map[string][]byte)}
	var applied []controllerManifest
	add := func(operator, template string, v values) error {
		documents, err := render(template, v)
		if err != nil || len(documents) == 0 {
			return err
		}
		text := bytes.Join(documents, []byte("---\n"))
		applied = append(applied, controllerManifest{operator, base64.StdEncoding.EncodeToString(text)})
		return nil
	}
	for _, name := range c.Operators {
		o, ok := ByName(name)
		if !ok {
			return nil, fmt.Errorf("unknown operator %q", name)
		}
		v := c.view(o.Name, o.Namespace.Name)
		if err := c.addInstall(all.Install, o, v); err != nil {
			return nil, err
		}
		if err := add(o.Name, o.Name+".yaml", v); err != nil {
			return nil, err
		}
	}
	if c.Has("mce") && c.StorageOperator() != "" {
		// The resource needs the storage, so it is applied when the storage operator is available.
		if err := add(c.StorageOperator(), "mce-on-storage.yaml", c.view("", "")); err != nil {
			return nil, err
		}
	}
	if len(c.Operators) == 0 {
		return all, nil
	}
	var err error
	if all.Controller, err = json.Marshal(append([]controllerManifest{}, applied...)); err != nil {
		return nil, err
	}
	all.Install["olm_operator_manifests.yaml"], err = c.configMap(applied)
	return all, err
}

// addInstall adds an operator's manifests for openshift-install.
func (c Cluster) addInstall(to map[string][]byte, o *Operator, v values) error {
	objects := map[string]object{"subscription": o.subscription(c)}
	if !o.Namespace.Shared {
		objects["ns"] = o.namespace()
	}
	if o.Group != nil {
		objects["operator_group"] = o.group()
	}
	for part, made := range objects {
		text, err := yaml.Marshal(made)
		if err != nil {
			return err
		}
		to[fileName(o.Name, part)] = text
	}
	documents, err := render(o.Name+".install.yaml", v)
	if err != nil {
		return err
	}
	for _, document := range documents {
		var named struct {
			Kind     string
			Metadata struct{ Name string }
		}
		if err := yaml.Unmarshal(document, &named); err != nil {
			return fmt.Errorf("render the manifests of operator %s: %w", o.Name, err)
		}
		to[fileName(o.Name, strings.ToLower(named.Kind)+"_"+named.Metadata.Name)] = document
	}
	return nil
}

func fileName(operator, part string) string { return "50_openshift-" + operator + "_" + part + ".yaml" }

// render executes a template and returns its non-empty YAML documents. A missing template has no
// documents.
func render(name string, v values) ([][]byte, error) {
	all, err := manifestTemplates()
	if err != nil {
		return nil, err
	}
	tree, ok := all[name]
	if !ok {
		return nil, nil
	}
	var text bytes.Buffer
	if err := all.execute(&text, tree.Root, v); err != nil {
		return nil, fmt.Errorf("render the manifests %s: %w", name, err)
	}
	var documents [][]byte
	decoder := yaml.NewDecoder(&text)
	for {
		var node yaml.Node
		if err := decoder.Decode(&node); errors.Is(err, io.EOF) {
			return documents, nil
		} else if err != nil {
			return nil, fmt.Errorf("parse the rendered manifests %s: %w", name, err)
		}
		if node.Kind == yaml.DocumentNode && node.Content[0].Tag == "!!null" {
			continue
		}
		document, err := yaml.Marshal(&node)
		if err != nil {
			return nil, err
		}
		documents = append(documents, document)
	}
}

// object is a Kubernetes object as YAML.
type object struct {
	APIVersion string            `yaml:"apiVersion"`
	Kind       string            `yaml:"kind"`
	Metadata   metadata          `yaml:"metadata"`
	Spec       any               `yaml:"spec,omitempty"`
	Data       map[string]string `yaml:"data,omitempty"`
}

type metadata struct {
	Name      string            `yaml:"name"`
	Namespace string            `yaml:"namespace,omitempty"`
	Labels    map[string]string `yaml:"labels,omitempty"`
}

func (o *Operator) namespace() object {
	made := object{APIVersion: "v1", Kind: "Namespace", Metadata: metadata{Name: o.Namespace.Name}}
	if o.Namespace.Monitored {
		made.Metadata.Labels = map[string]string{"openshift.io/cluster-monitoring": "true"}
	}
	return made
}

func (o *Operator) group() object {
	spec := map[string]any{"upgradeStrategy": "Default"}
	if !o.Group.All {
		spec["targetNamespaces"] = []string{o.Namespace.Name}
	}
	return object{APIVersion: "operators.coreos.com/v1", Kind: "OperatorGroup",
		Metadata: metadata{Name: o.Group.Name, Namespace: o.Namespace.Name}, Spec: spec}
}

func (o *Operator) subscription(c Cluster) object {
	s := o.SubscriptionFor(c.Version)
	source := s.Catalog
	if other := c.Catalogs[source]; other != "" {
		source = other
	}
	spec := map[string]any{"name": s.Package, "source": source, "sourceNamespace": "openshift-marketplace",
		"installPlanApproval": "Automatic"}
	if s.Channel != "" {
		spec["channel"] = s.Channel
	}
	return object{APIVersion: "operators.coreos.com/v1alpha1", Kind: "Subscription",
		Metadata: metadata{Name: s.Name, Namespace: o.Namespace.Name}, Spec: spec}
}

// configMap returns the content of [ControllerFile] as a ConfigMap for controllers that cannot
// reach the appliance. The ConfigMap has a key for each document, and for each operator a list of
// its documents.
func (c Cluster) configMap(applied []controllerManifest) ([]byte, error) {
	data := make(map[string]string)
	names := make(map[string][]string)
	for _, m := range applied {
		text, err := base64.StdEncoding.DecodeString(m.Content)
		if err != nil {
			return nil, err
		}
		for document := range bytes.SplitSeq(text, []byte("---\n")) {
			name := fmt.Sprintf("%s-%02d.yaml", m.Name, len(names[m.Name])+1)
			names[m.Name] = append(names[m.Name], name)
			data[name] = base64.StdEncoding.EncodeToString(bytes.TrimSpace(document))
		}
	}
	for name, documents := range names {
		o, _ := ByName(name)
		text, err := yaml.Marshal(struct {
			Namespace        string   `yaml:"namespace"`
			SubscriptionName string   `yaml:"subscriptionName"`
			Manifests        []string `yaml:"manifests"`
		}{o.Namespace.Name, o.SubscriptionFor(c.Version).Name, documents})
		if err != nil {
			return nil, err
		}
		data[name+".metadata.yaml"] = string(text)
	}
	return yaml.Marshal(object{APIVersion: "v1", Kind: "ConfigMap", Metadata: metadata{Name: "olm-operator-manifests",
		Namespace: "assisted-installer"}, Data: data})
}
