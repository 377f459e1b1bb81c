package clusters

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	hiveext "github.com/openshift/assisted-service/api/hiveextension/v1beta1"
	hivev1 "github.com/openshift/hive/apis/hive/v1"
	corev1 "k8s.io/api/core/v1"

	"landfall/appliance/engine/record"
	"landfall/appliance/engine/view"
	"landfall/appliance/kube/controller"
	"landfall/appliance/kube/mirrorconfig"
	"landfall/appliance/kube/objects"
	"landfall/appliance/kube/objects/agentinstall"
	"landfall/appliance/mirror"
	"landfall/store"
)

// snapshot holds a ClusterDeployment, the objects it refers to and the engine's cluster, read in
// one transaction.
type snapshot struct {
	clusterPair
	namespace, name string // namespace and name of the ClusterDeployment

	pendingAgents    bool          // the specs of some Agents are not applied yet
	backoff          time.Duration // remaining delay of the next installation after a failed preparation
	view             *view.Cluster // nil: the engine has no such cluster
	applied          appliedState  // the last applied state of the objects
	storedPullSecret string        // the pull secret that the engine stores for the cluster

	err        error // error in the objects, which are not applied then
	pullSecret string
	imageSet   *hivev1.ClusterImageSet // nil if the objects refer to none
	mirror     *mirror.Import          // nil if the objects refer to none
	endpointCA string                  // CA of the ignition endpoint, base64
	manifests  map[string]string       // by file name
	// manifestsErr is an error in the manifests. mirrorDigest is the digest of the mirror's
	// ConfigMap.
	manifestsErr error
	mirrorDigest string
	labelled     bool // all referenced Secrets and ConfigMaps have the labels of labelReferenced
}

// appliedState is the state of the objects that was last applied to a cluster. It is stored with
// the cluster.
type appliedState struct {
	Spec       string   `json:"spec,omitempty"`       // digest of the specified values
	References string   `json:"references,omitempty"` // digest of the referenced objects
	Mirror     string   `json:"mirror,omitempty"`     // digest of the mirror's ConfigMap
	Manifests  []string `json:"manifests,omitempty"`  // file names of the manifests from ConfigMaps
	// Kept holds digests of the values that still differ from the objects after these were applied,
	// by field.
	Kept map[string]string `json:"kept,omitempty"`
	// Generated reports that the objects were created for a cluster that already existed.
	Generated bool `json:"adopted,omitempty"`
}

func readApplied(object record.Object) (a appliedState, err error) {
	if object.Digest != "" {
		err = json.Unmarshal([]byte(object.Digest), &a)
	}
	return a, err
}

func (a appliedState) object() (record.Object, error) {
	text, err := json.Marshal(a)
	return record.Object{Digest: string(text)}, err
}

func (s *snapshot) key() string { return s.namespace + "/" + s.name }

// installedHere reports whether the ClusterDeployment is installed by an AgentClusterInstall.
func (s *snapshot) installedHere() bool {
	ref := s.cd.Spec.ClusterInstallRef
	return ref != nil && ref.Group == clusterInstallGroup && ref.Kind == clusterInstallKind
}

// installed reports whether the objects mark the cluster as installed.
func (p clusterPair) installed() bool {
	return p.cd.Spec.Installed || installConditionOf(p.aci, hiveext.ClusterCompletedCondition).
		Reason == hiveext.ClusterInstalledReason
}

// onHold reports whether the start of the installation is on hold.
func (p clusterPair) onHold() bool {
	return p.aci.Spec.HoldInstallation || p.cd.Annotations[annotationReconcilePause] == "true"
}

func (c *Controller) read(namespace, name string) (s *snapshot, err error) {
	for {
		s = &snapshot{namespace: namespace, name: name}
		err = c.DB.View(func(tx *store.Tx) error { return c.readSnapshot(tx, s) })
		if err != nil || !c.updateReferences(s) {
			return s, err
		} // a newly referenced object may have changed before its reference was in the index
	}
}

// reread reads the snapshot again after the cluster was registered.
func (c *Controller) reread(s *snapshot) error {
	fresh, err := c.read(s.namespace, s.name)
	if err != nil {
		return err
	}
	if fresh.cd == nil || fresh.aci == nil {
		s.view = nil
		return nil
	}
	*s = *fresh
	return nil
}

func (c *Controller) readSnapshot(tx *store.Tx, s *snapshot) (err error) {
	if s.cd, err = c.deployment(tx, s.namespace, s.name); err != nil {
		return err
	}
	rows := c.Engine.Rows(tx)
	id, err := rows.ClusterOf(s.key())
	if err != nil {
		return err
	}
	if id != "" {
		if s.view, err = rows.Cluster(id); err != nil {
			return err
		}
		if s.applied, err = readApplied(s.view.Object); err != nil {
			return err
		}
		if s.storedPullSecret, err = rows.ClusterPullSecret(s.view); err != nil {
			return err
		}
	}
	if s.cd == nil || !s.installedHere() {
		return nil
	}
	if err := c.readInstall(tx, s); err != nil || s.aci == nil {
		return err
	}
	s.err = c.readReferences(tx, s)
	s.labelled, err = c.allLabelled(tx, s)
	return err
}

func (c Projector) readInstall(tx *store.Tx, s *snapshot) (err error) {
	if s.aci, err = c.install(tx, s.namespace, s.cd.Spec.ClusterInstallRef.Name); err != nil || s.aci == nil {
		return err
	}
	s.ntp, err = c.ntpSources(tx, s.namespace, s.aci.Name)
	return err
}

// ntpSources reads spec.ntpSources, which the Go type lacks.
func (c Projector) ntpSources(tx *store.Tx, namespace, name string) ([]string, error) {
	text, err := c.Objects.Field(tx, objects.AgentClusterInstalls, namespace, name, "spec", "ntpSources")
	if err != nil || text == nil {
		return nil, err
	}
	var sources []string
	if err := json.Unmarshal(text, &sources); err != nil {
		return nil, fmt.Errorf("read spec.ntpSources of AgentClusterInstall %s/%s: %w", namespace, name, err)
	}
	return sources, nil
}

// readReferences reads the objects that the cluster's objects refer to. If it returns an error, the
// objects are not applied.
func (c Projector) readReferences(tx *store.Tx, s *snapshot) (err error) {
	if s.pullSecret, err = c.readPullSecret(tx, s); err != nil {
		return err
	}
	if s.imageSet, err = c.readImageSet(tx, s); err != nil {
		return err
	}
	if ref := s.aci.Spec.MirrorRegistryRef; ref != nil {
		if s.mirror, s.mirrorDigest, err = c.readMirror(tx, ref.Namespace, ref.Name); err != nil {
			return err
		}
	}
	if e := s.aci.Spec.IgnitionEndpoint; e != nil && e.CaCertificateReference != nil {
		if s.endpointCA, err = c.readEndpointCA(tx, e.CaCertificateReference); err != nil {
			return err
		}
	}
	s.manifests, s.manifestsErr = c.readManifests(tx, s)
	return nil
}

func (c Projector) readPullSecret(tx *store.Tx, s *snapshot) (string, error) {
	ref := s.cd.Spec.PullSecretRef
	if ref == nil || ref.Name == "" {
		if s.installed() {
			return "", nil
		}
		return "",
			inputError("PullSecret is required: name a Secret of the namespace in spec.pullSecretRef of "+
				"ClusterDeployment %s", s.cd.Name)
	}
	data, err := c.secretKey(tx, s.namespace, ref.Name, corev1.DockerConfigJsonKey)
	if err != nil {
		return "", fmt.Errorf("the pull secret can't be read: %w", err)
	}
	if _, err := mirror.ParsePullSecret(data); err != nil {
		return "", fmt.Errorf("invalid pull secret data in secret %s: %w", ref.Name, err)
	}
	return data, nil
}

// secretKey reads a key of a Secret.
func (c Projector) secretKey(tx *store.Tx, namespace, name, key string) (string, error) {
	secret := &corev1.Secret{}
	err := c.Objects.Get(tx, objects.Secrets, namespace, name, secret)
	if errors.Is(err, store.ErrNotFound) {
		return "", fmt.Errorf("failed to find secret %s: there is no Secret %s/%s", name, namespace, name)
	}
	if err != nil {
		return "", err
	}
	if text, ok := secret.StringData[key]; ok {
		return text, nil
	}
	data, ok := secret.Data[key]
	if !ok {
		return "", fmt.Errorf("secret %s did not contain key %s", name, key)
	}
	return string(data), nil
}

func (c Projector) readImageSet(tx *store.Tx, s *snapshot) (*hivev1.ClusterImageSet, error) {
	ref := s.aci.Spec.ImageSetRef
	if ref == nil || ref.Name == "" {
		if s.installed() {
			return nil, nil
		}
		return nil,
			inputError("ClusterImageSet must be specified in AgentClusterInstall.Spec.ImageSetRef for cluster that " +
				"is not installed")
	}
	set := &hivev1.ClusterImageSet{}
	err := c.Objects.Get(tx, objects.ClusterImageSets, "", ref.Name, set)
	if errors.Is(err, store.ErrNotFound) {
		if s.view != nil {
			return nil, nil // not needed: the registered cluster has its release
		}
		return nil, fmt.Errorf("ClusterImageSet %s not found. Please ensure the ClusterImageSet exists", ref.Name)
	}
	return set, err
}

// readMirror returns the mirror rules of a ConfigMap, with the digest of its data.
func (c Projector) readMirror(tx *store.Tx, namespace, name string) (*mirror.Import, string, error) {
	config := &corev1.ConfigMap{}
	if err := c.Objects.Get(tx, objects.ConfigMaps, namespace, name, config); err != nil {
		if errors.Is(err, store.ErrNotFound) {
			return nil, "", inputError("%s", mirrorconfig.Missing(name))
		}
		return nil, "", err
	}
	conf, ok := config.Data[mirrorconfig.RegistriesConf]
	if !ok {
		return nil, "", inputError("ConfigMap %s/%s does not contain %s key", namespace, name,
			mirrorconfig.RegistriesConf)
	}
	caBundle := config.Data[mirrorconfig.CABundle]
	rules, err := mirrorconfig.Parse(mirrorName, conf, caBundle)
	if err != nil {
		return nil, "", inputError("ConfigMap %s/%s: %w", namespace, name, err)
	}
	return rules, digest(conf, caBundle), nil
}

func (c Projector) readEndpointCA(tx *store.Tx, ref *hiveext.CaCertificateReference) (string, error) {
	ca, err := c.secretKey(tx, ref.Namespace, ref.Name, corev1.TLSCertKey)
	if err != nil {
		if strings.HasSuffix(err.Error(), "did not contain key "+corev1.TLSCertKey) {
			return "", inputError("CA Secret is missing tls.crt key")
		}
		return "", inputError("the CA of spec.ignitionEndpoint can't be read: %w", err)
	}
	return base64.StdEncoding.EncodeToString([]byte(ca)), nil
}

// referencesDigest returns a digest of the data of the referenced objects, except the mirror's
// ConfigMap.
func (s *snapshot) referencesDigest() string {
	parts := []string{s.pullSecret, s.endpointCA}
	for _, name := range slices.Sorted(maps.Keys(s.manifests)) {
		parts = append(parts, name, s.manifests[name])
	}
	return digest(parts...)
}

// specDigest returns a digest of the values that the specs specify.
func (p clusterPair) specDigest(w *desiredFields) (string, error) {
	text, err := json.Marshal(w)
	if err != nil {
		return "", err
	}
	parts := []string{string(text)}
	for _, name := range []string{annotationInstallConfigOverrides, annotationIgnoredClusterValidations,
		annotationIgnoredHostValidations} {
		value, ok := p.aci.Annotations[name]
		parts = append(parts, fmt.Sprint(ok), value)
	}
	if e := p.aci.Spec.IgnitionEndpoint; e != nil {
		parts = append(parts, e.Url)
	}
	return digest(append(parts, manifestRefs(p.aci)...)...), nil
}

// digest returns a short digest of strings.
func digest(texts ...string) string {
	sum := sha256.New()
	for _, text := range texts {
		fmt.Fprintf(sum, "%d:%s", len(text), text)
	}
	return hex.EncodeToString(sum.Sum(nil)[:12])
}

// deploymentsOfInstall finds the ClusterDeployments that an AgentClusterInstall refers to, and
// those that refer to it. It leaves out the references in damaged objects.
func (c *Controller) deploymentsOfInstall(tx *store.Tx, namespace, name string) ([]controller.Key, error) {
	var keys []controller.Key
	aci, err := objects.SharedAs[hiveext.AgentClusterInstall](c.Objects, tx, objects.AgentClusterInstalls, namespace,
		name)
	if err := store.SkipDamaged(err); err != nil {
		return nil, err
	}
	if aci != nil {
		keys = append(keys, deploymentKey(namespace, aci.Spec.ClusterDeploymentRef.Name))
	}
	err = objects.Names(tx, objects.ClusterDeployments, namespace, func(_, of string) error {
		cd, err := objects.SharedAs[hivev1.ClusterDeployment](c.Objects, tx, objects.ClusterDeployments, namespace, of)
		if err != nil || cd == nil {
			return store.SkipDamaged(err)
		}
		ref, key := cd.Spec.ClusterInstallRef, deploymentKey(namespace, of)
		if ref != nil && ref.Name == name && !slices.Contains(keys, key) {
			keys = append(keys, key)
		}
		return nil
	})
	return keys, err
}

func deploymentKey(namespace, name string) controller.Key {
	return controller.Key{Kind: objects.ClusterDeployments, Namespace: namespace, Name: name}
}

// deploymentsReferringTo finds the ClusterDeployments that refer to a Secret or a ConfigMap.
func (c *Controller) deploymentsReferringTo(tx *store.Tx, namespace, name string) ([]controller.Key, error) {
	return c.references.To(tx, namespace+"/"+name)
}

// listReferences lists the references of all ClusterDeployments and their AgentClusterInstalls.
func listReferences(tx *store.Tx, add func(controller.Key, []string)) error {
	installs := map[string]*hiveext.AgentClusterInstall{}
	if err := objects.EachStored(tx, objects.AgentClusterInstalls, func(aci *hiveext.AgentClusterInstall) error {
		installs[aci.Namespace+"/"+aci.Name] = &hiveext.AgentClusterInstall{ObjectMeta: aci.ObjectMeta, Spec: aci.Spec}
		return nil
	}); err != nil {
		return err
	}
	return objects.EachStored(tx, objects.ClusterDeployments, func(cd *hivev1.ClusterDeployment) error {
		s := snapshot{namespace: cd.Namespace, name: cd.Name, clusterPair: clusterPair{cd: cd}}
		if s.installedHere() {
			s.aci = installs[cd.Namespace+"/"+cd.Spec.ClusterInstallRef.Name]
			add(deploymentKey(cd.Namespace, cd.Name), s.referencedKeys())
		}
		return nil
	})
}

// updateReferences stores the references of a ClusterDeployment and its AgentClusterInstall in the
// index. changed reports whether they changed.
func (c *Controller) updateReferences(s *snapshot) (changed bool) {
	var now []string
	if s.cd != nil && s.installedHere() {
		now = s.referencedKeys()
	}
	return c.references.Set(deploymentKey(s.namespace, s.name), now)
}

// referencedKeys lists the Secrets and ConfigMaps that the objects refer to, by namespace/name. It
// also lists the Secrets of the installed cluster, which are written again when they are gone.
func (s *snapshot) referencedKeys() []string {
	return slices.Concat(s.secretRefs(), s.configRefs(),
		[]string{s.namespace + "/" + kubeconfigSecret(s.cd), s.namespace + "/" + passwordSecret(s.cd)})
}

func (s *snapshot) secretRefs() []string {
	var refs []string
	if ref := s.cd.Spec.PullSecretRef; ref != nil && ref.Name != "" {
		refs = append(refs, s.namespace+"/"+ref.Name)
	}
	if s.aci == nil {
		return refs
	}
	if e := s.aci.Spec.IgnitionEndpoint; e != nil && e.CaCertificateReference != nil {
		refs = append(refs, e.CaCertificateReference.Namespace+"/"+e.CaCertificateReference.Name)
	}
	return refs
}

func (s *snapshot) configRefs() []string {
	if s.aci == nil {
		return nil
	}
	var refs []string
	for _, name := range manifestRefs(s.aci) {
		refs = append(refs, s.namespace+"/"+name)
	}
	if ref := s.aci.Spec.MirrorRegistryRef; ref != nil {
		refs = append(refs, ref.Namespace+"/"+ref.Name)
	}
	return refs
}

// unregistered lists the ClusterDeployments without a cluster in the engine. They may wait for a
// ClusterImageSet.
func (c *Controller) unregistered(tx *store.Tx) ([]controller.Key, error) {
	var keys []controller.Key
	err := objects.Names(tx, objects.ClusterDeployments, "", func(namespace, name string) error {
		id, err := c.Engine.Rows(tx).ClusterOf(namespace + "/" + name)
		if id == "" {
			keys = append(keys, deploymentKey(namespace, name))
		}
		return store.SkipDamaged(err)
	})
	return keys, err
}

// deploymentOfAgent finds the ClusterDeployment that an Agent is bound to.
func (c *Controller) deploymentOfAgent(tx *store.Tx, namespace, name string) ([]controller.Key, error) {
	agent, err := objects.SharedAs[agentinstall.Agent](c.Objects, tx, objects.Agents, namespace, name)
	if err != nil || agent == nil || agent.Spec.ClusterDeploymentName == nil {
		return nil, store.SkipDamaged(err)
	}
	ref := agent.Spec.ClusterDeploymentName
	return []controller.Key{deploymentKey(ref.Namespace, ref.Name)}, nil
}
