package acm

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"landfall/appliance/kube/objects"
)

// export collects the files of a Directory.
type export struct {
	api        API
	options    Options
	deployment object
	install    object
	namespace  string // namespace of the cluster's objects
	managed    string // name of the ManagedCluster, and namespace of its objects in ACM
	directory  *Directory
}

func (e *export) run(ctx context.Context) error {
	e.namespace = e.deployment.text("metadata", "namespace")
	install, err := e.api.Get(ctx, objects.AgentClusterInstalls, e.namespace,
		e.deployment.text("spec", "clusterInstallRef", "name"))
	if err != nil {
		return err
	}
	e.install = object{install}
	if err := e.installed(); err != nil {
		return err
	}
	for _, step := range []func(context.Context) error{e.namespaces, e.cluster, e.secrets, e.hosts, e.hub} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	slices.Sort(e.directory.LeftOut)
	e.directory.LeftOut = slices.Compact(e.directory.LeftOut)
	return e.index()
}

// installed returns an error if the cluster is not installed, because a hub can't import it then.
func (e *export) installed() error {
	name := nameOf(e.deployment.content)
	if done, _ := e.deployment.at("spec", "installed").(bool); done {
		return nil
	}
	if status, _ := e.install.condition("Completed"); status == "True" {
		return nil
	}
	state := e.install.text("status", "debugInfo", "stateInfo")
	if _, why := e.install.condition("Completed"); state == "" {
		state = why
	}
	if state == "" {
		return fmt.Errorf("the cluster %s is not installed; a hub imports only installed clusters", name)
	}
	return fmt.Errorf("the cluster %s is not installed (%s); a hub imports only installed clusters", name,
		strings.TrimRight(state, "."))
}

// add adds a file with one object.
func (e *export) add(kind objects.Kind, content map[string]any) error {
	return e.write(kind, content, "")
}

// write adds a file with one object. gives describes what the file gives access to; "" if it
// contains no secret.
func (e *export) write(kind objects.Kind, content map[string]any, gives string) error {
	content = desired(kind, content)
	text, err := toYAML(content)
	if err != nil {
		return fmt.Errorf("write %s %s: %w", kind.Kind, nameOf(content), err)
	}
	name := fmt.Sprintf("%s-%s", strings.ToLower(kind.Kind), nameOf(content))
	if namespace := (object{content}).text("metadata", "namespace"); namespace != "" && namespace != e.namespace {
		name += "-in-" + namespace
	}
	file := File{Name: name + ".yaml", Data: text}
	if gives != "" {
		file.Secret = true
		file.Data = append([]byte("# SECRET: gives access to "+gives+".\n"), text...)
	}
	if slices.ContainsFunc(e.directory.Files, func(f File) bool { return f.Name == file.Name }) {
		return nil // already added: several objects refer to this object
	}
	e.directory.Files = append(e.directory.Files, file)
	return nil
}

// addReferenced adds a referenced object to the export if the object exists.
func (e *export) addReferenced(ctx context.Context, kind objects.Kind, namespace, name string) (object, error) {
	if name == "" {
		return object{}, nil
	}
	content, err := e.api.Get(ctx, kind, namespace, name)
	if err != nil || content == nil {
		return object{}, err
	}
	return object{content}, e.add(kind, content)
}

// secret adds a Secret, or lists it as not exported.
func (e *export) secret(ctx context.Context, namespace, name, gives string, wanted bool) (object, error) {
	if name == "" {
		return object{}, nil
	}
	if !wanted {
		e.directory.LeftOut = append(e.directory.LeftOut, namespace+"/"+name)
		return object{}, nil
	}
	content, err := e.api.Get(ctx, objects.Secrets, namespace, name)
	if err != nil || content == nil {
		return object{}, err
	}
	return object{content}, e.write(objects.Secrets, content, gives)
}

// namespaces adds the namespace of the cluster and, if it is different, the namespace of the
// ManagedCluster.
func (e *export) namespaces(ctx context.Context) error {
	e.managed = nameOf(e.deployment.content)
	if known, err := e.api.Get(ctx, objects.ManagedClusters, "", e.namespace); err != nil {
		return err
	} else if known != nil {
		e.managed = e.namespace
	}
	for _, name := range slices.Compact([]string{e.namespace, e.managed}) {
		content, err := e.api.Get(ctx, objects.Namespaces, "", name)
		if err != nil {
			return err
		}
		if content == nil {
			content = map[string]any{"metadata": map[string]any{"name": name}}
		}
		delete(content, "spec") // spec contains only the finalizers of the namespace
		if err := e.add(objects.Namespaces, content); err != nil {
			return err
		}
	}
	return nil
}

// cluster adds the objects of the cluster, marked as installed and with its ids.
func (e *export) cluster(ctx context.Context) error {
	deployment := desired(objects.ClusterDeployments, e.deployment.content)
	spec, _ := deployment["spec"].(map[string]any)
	spec = maps.Clone(spec)
	spec["installed"] = true
	metadata, ok := spec["clusterMetadata"].(map[string]any)
	if !ok {
		metadata, ok = e.install.at("spec", "clusterMetadata").(map[string]any)
	}
	if !ok {
		return fmt.Errorf("the cluster %s has no spec.clusterMetadata yet; try again in a moment", nameOf(deployment))
	}
	spec["clusterMetadata"], deployment["spec"] = metadata, spec
	e.deployment = object{deployment}
	if err := e.add(objects.ClusterDeployments, deployment); err != nil {
		return err
	}
	if e.install.content == nil {
		return nil
	}
	if err := e.add(objects.AgentClusterInstalls, e.install.content); err != nil {
		return err
	}
	if _, err := e.addReferenced(ctx, objects.ClusterImageSets, "", e.install.text("spec", "imageSetRef",
		"name")); err != nil {
		return err
	}
	names := []string{e.install.text("spec", "manifestsConfigMapRef", "name")}
	refs, _ := e.install.at("spec", "manifestsConfigMapRefs").([]any)
	for _, ref := range refs {
		if fields, ok := ref.(map[string]any); ok {
			names = append(names, object{fields}.text("name"))
		}
	}
	for _, name := range names {
		if _, err := e.addReferenced(ctx, objects.ConfigMaps, e.namespace, name); err != nil {
			return err
		}
	}
	return e.mirrors(ctx, e.install)
}

// mirrors adds the ConfigMap with the mirrors that an object refers to.
func (e *export) mirrors(ctx context.Context, of object) error {
	namespace := of.text("spec", "mirrorRegistryRef", "namespace")
	if namespace == "" {
		namespace = e.namespace
	}
	_, err := e.addReferenced(ctx, objects.ConfigMaps, namespace, of.text("spec", "mirrorRegistryRef", "name"))
	return err
}

// secrets adds the kubeconfig and the password of the cluster, and the Secret with which ACM
// imports the cluster.
func (e *export) secrets(ctx context.Context) error {
	pull := e.deployment.text("spec", "pullSecretRef", "name")
	if _, err := e.secret(ctx, e.namespace, pull, "the registries' credentials", e.options.PullSecret); err != nil {
		return err
	}
	password := e.deployment.text("spec", "clusterMetadata", "adminPasswordSecretRef", "name")
	if _, err := e.secret(ctx, e.namespace, password, "the password of the cluster's administrator", true); err != nil {
		return err
	}
	name := e.deployment.text("spec", "clusterMetadata", "adminKubeconfigSecretRef", "name")
	admin, err := e.secret(ctx, e.namespace, name, "everything in the cluster, as its administrator", true)
	if err != nil {
		return err
	}
	kubeconfig, err := base64.StdEncoding.DecodeString(admin.text("data", "kubeconfig"))
	if err != nil || len(kubeconfig) == 0 {
		return fmt.Errorf("the Secret %s/%s has no kubeconfig, which a hub needs to connect to the cluster",
			e.namespace, name)
	}
	return e.write(objects.Secrets, map[string]any{
		"metadata": map[string]any{"name": importSecret, "namespace": e.managed}, "type": "Opaque",
		"stringData": map[string]any{"autoImportRetry": importRetries, "kubeconfig": string(kubeconfig)},
	}, "everything in the cluster; the hub removes the Secret after the import")
}

// hosts adds the cluster's infra-envs with the objects they refer to, and its BareMetalHosts, which
// the hub must not manage.
func (e *export) hosts(ctx context.Context) error {
	all, err := e.api.List(ctx, objects.InfraEnvs, "")
	if err != nil {
		return err
	}
	for _, content := range all {
		env := object{content}
		if env.text("spec", "clusterRef", "name") != nameOf(e.deployment.content) || env.text("spec", "clusterRef",
			"namespace") != e.namespace {
			continue
		}
		if err := e.infraEnv(ctx, env); err != nil {
			return err
		}
	}
	hosts, err := e.api.List(ctx, objects.BareMetalHosts, e.namespace)
	if err != nil {
		return err
	}
	for _, content := range hosts {
		if err := e.host(ctx, content); err != nil {
			return err
		}
	}
	return nil
}

func (e *export) infraEnv(ctx context.Context, env object) error {
	if err := e.add(objects.InfraEnvs, env.content); err != nil {
		return err
	}
	namespace := env.text("metadata", "namespace")
	if _, err := e.secret(ctx, namespace, env.text("spec", "pullSecretRef", "name"), "the registries' credentials",
		e.options.PullSecret); err != nil {
		return err
	}
	if err := e.mirrors(ctx, env); err != nil {
		return err
	}
	selector, _ := env.at("spec", "nmStateConfigLabelSelector", "matchLabels").(map[string]any)
	if len(selector) == 0 {
		return nil
	}
	configs, err := e.api.List(ctx, objects.NMStateConfigs, namespace)
	if err != nil {
		return err
	}
	for _, content := range configs {
		labels, _ := object{content}.at("metadata", "labels").(map[string]any)
		selected := true
		for key, value := range selector {
			selected = selected && labels[key] == value
		}
		if !selected {
			continue
		}
		if err := e.add(objects.NMStateConfigs, content); err != nil {
			return err
		}
	}
	return nil
}

// host adds a BareMetalHost that is detached, so that the hub does not manage it. An annotation
// contains its status.
func (e *export) host(ctx context.Context, content map[string]any) error {
	status, kept := content["status"]
	content = desired(objects.BareMetalHosts, content)
	metadata, _ := content["metadata"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	annotations = maps.Clone(annotations)
	if annotations == nil {
		annotations = map[string]any{}
	}
	if annotations[pausedAnnotation] == detachedBy {
		delete(annotations, pausedAnnotation)
	}
	if _, detached := annotations[detachedAnnotation]; !detached {
		annotations[detachedAnnotation] = detachedBy
	}
	if kept {
		text, err := json.Marshal(status)
		if err != nil {
			return err
		}
		annotations[statusAnnotation] = string(text)
	}
	metadata["annotations"] = annotations
	gives := ""
	if (object{content}).text("spec", "image", "url") != "" {
		gives = "the discovery image and its content"
	}
	if err := e.write(objects.BareMetalHosts, content, gives); err != nil {
		return err
	}
	_, err := e.secret(ctx, e.namespace, object{content}.text("spec", "bmc", "credentialsName"),
		"the power of a server, through its BMC", e.options.BMCCredentials)
	return err
}

// hub adds the objects for ACM: as they were applied to the appliance, or with ACM's defaults.
func (e *export) hub(ctx context.Context) error {
	managed, err := e.api.Get(ctx, objects.ManagedClusters, "", e.managed)
	if err != nil {
		return err
	}
	if managed == nil {
		managed = map[string]any{
			"metadata": map[string]any{"name": e.managed, "labels": map[string]any{"name": e.managed,
				"cloud": "auto-detect", "vendor": "auto-detect"}},
			"spec": map[string]any{"hubAcceptsClient": true, "leaseDurationSeconds": 60},
		}
	}
	if err := e.add(objects.ManagedClusters, managed); err != nil {
		return err
	}
	addons, err := e.api.Get(ctx, objects.KlusterletAddonConfigs, e.managed, e.managed)
	if err != nil {
		return err
	}
	if addons == nil {
		on := map[string]any{"enabled": true}
		addons = map[string]any{
			"metadata": map[string]any{"name": e.managed, "namespace": e.managed},
			"spec": map[string]any{
				"clusterName": e.managed, "clusterNamespace": e.managed,
				"clusterLabels":      map[string]any{"cloud": "auto-detect", "vendor": "auto-detect"},
				"applicationManager": on, "certPolicyController": on, "policyController": on, "searchCollector": on,
			},
		}
	}
	return e.add(objects.KlusterletAddonConfigs, addons)
}

// index adds the kustomization and a README.
func (e *export) index() error {
	slices.SortFunc(e.directory.Files, func(a, b File) int { return strings.Compare(a.Name, b.Name) })
	var list, secrets bytes.Buffer
	list.WriteString("apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources:\n")
	for _, file := range e.directory.Files {
		fmt.Fprintf(&list, "- %s\n", file.Name)
		if file.Secret {
			fmt.Fprintf(&secrets, "- %s\n", file.Name)
		}
	}
	name := e.deployment.text("spec", "clusterName") + "." + e.deployment.text("spec", "baseDomain")
	var page bytes.Buffer
	fmt.Fprintf(&page, "# %s for a hub\n\nOn the hub: `oc apply -k .`; on another appliance: `landfall import acm "+
		"DIR`. The hub imports the cluster by\n`%s`, whose kubeconfig must be usable on the hub, and then removes "+
		"it. BareMetalHosts are detached: the hub does not\nchange the servers.\n\n", name, importSecret)
	fmt.Fprintf(&page, "These files are SECRETS; only their owner can read them:\n\n%s", secrets.String())
	if len(e.directory.LeftOut) > 0 {
		fmt.Fprintf(&page, "\nThese Secrets are referenced but not exported; create them on the hub first: %s.\n",
			strings.Join(e.directory.LeftOut, ", "))
	}
	e.directory.Files = append(e.directory.Files, File{Name: "kustomization.yaml", Data: list.Bytes()},
		File{Name: "README.md", Data: page.Bytes()})
	return nil
}
