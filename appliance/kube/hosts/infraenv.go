package hosts

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-openapi/strfmt"
	"github.com/go-openapi/swag/conv"
	"github.com/openshift/assisted-service/models"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/version"

	"landfall/appliance/architecture"
	"landfall/appliance/engine/record"
	"landfall/appliance/fault"
	"landfall/appliance/kube/controller"
	"landfall/appliance/kube/objects"
	"landfall/appliance/kube/objects/agentinstall"
	"landfall/appliance/mirror"
	"landfall/store"
)

// infraEnvs reconciles InfraEnvs.
type infraEnvs struct{ *Controllers }

// Kind implements controller.Reconciler.
func (infraEnvs) Kind() objects.Kind { return objects.InfraEnvs }

// Watches implements controller.Reconciler.
func (r infraEnvs) Watches() []controller.Watch {
	return []controller.Watch{
		{Kind: objects.NMStateConfigs, Map: r.infraEnvsOfNamespace(objects.NMStateConfigs)},
		{Kind: objects.ClusterDeployments, Map: r.infraEnvsReferringTo(objects.ClusterDeployments)},
		{Kind: objects.AgentClusterInstalls, Map: r.infraEnvsOfNamespace(objects.AgentClusterInstalls)},
		{Kind: objects.Secrets, Map: r.infraEnvsReferringTo(objects.Secrets)},
		{Kind: objects.ConfigMaps, Map: r.infraEnvsReferringTo(objects.ConfigMaps)},
		{Kind: objects.Agents, Map: r.infraEnvsOfNamespace(objects.Agents)},
	}
}

// retryDeletion is the interval of checks of an infra-env that still has hosts.
const retryDeletion = time.Minute

// infraEnvSnapshot holds an InfraEnv, the objects it refers to and its infra-env, read in one
// transaction.
type infraEnvSnapshot struct {
	key     string                 // <namespace>/<name>
	object  *agentinstall.InfraEnv // nil if it does not exist
	id      string                 // id of the infra-env; "" if it does not exist
	stored  record.Object          // the generation and digest that were last applied
	cluster string                 // "" for none
	inputs  infraEnvInputs
	mirrors *mirrorConfig // nil: none
	digest  string        // digest of the inputs except the spec, and of the mirrors

	untilExpiry time.Duration // of the code that the status shows; 0: it does not expire
}

// Reconcile registers the infra-env of an InfraEnv, or applies the InfraEnv to it.
func (r infraEnvs) Reconcile(ctx context.Context, namespace, name string) (time.Duration, error) {
	s, missing, err := r.read(namespace, name)
	switch {
	case s == nil || err != nil && !isInvalid(err):
		return 0, err
	case s.object == nil || s.object.DeletionTimestamp != nil:
		return r.delete(ctx, s)
	case missing != "":
		lost := clusterMissing(missing)
		return s.untilExpiry, r.report(ctx, s, &lost)
	}
	if err == nil {
		err = r.sync(ctx, s)
	}
	if err == nil {
		available := imageAvailable()
		return s.untilExpiry, r.report(ctx, s, &available)
	}
	input := isInputError(err)
	failure := imageFault(err, input)
	if err := r.report(ctx, s, &failure); err != nil {
		return 0, err
	}
	if input {
		return s.untilExpiry, nil
	}
	return 0, &controller.ReportedError{Err: err}
}

// read reads an InfraEnv with all inputs of its infra-env. If the cluster of the InfraEnv does not
// exist yet, missing is a message about it.
func (r infraEnvs) read(namespace, name string) (s *infraEnvSnapshot, missing string, err error) {
	for {
		s, missing, err = r.readOnce(namespace, name)
		if s == nil || !r.updateReferences(namespace, name, s.object) {
			return s, missing, err
		} // a newly referenced object may have changed before its reference was in the index
	}
}

func (r infraEnvs) readOnce(namespace, name string) (s *infraEnvSnapshot, missing string, err error) {
	err = r.DB.View(func(tx *store.Tx) error {
		s = &infraEnvSnapshot{key: namespace + "/" + name}
		rows := r.Engine.Rows(tx)
		var err error
		if s.id, err = rows.InfraEnvOf(s.key); err != nil {
			return err
		}
		if s.id != "" {
			env, err := rows.InfraEnv(s.id)
			if err != nil {
				return err
			}
			s.stored = env.Object
			if r.Projector.bootsApart() {
				s.untilExpiry = env.UntilExpiry(r.Clock.Now())
			}
		}
		s.object, err = objects.Find[agentinstall.InfraEnv](r.Objects, tx, objects.InfraEnvs, namespace, name)
		if err != nil || s.object == nil || s.object.DeletionTimestamp != nil {
			return err
		}
		if missing, err = r.clusterFor(tx, s); err != nil || missing != "" {
			return err
		}
		return r.readReferences(tx, s)
	})
	return s, missing, err
}

// clusterFor finds the cluster of an InfraEnv. If the cluster does not exist yet, missing is a
// message about it.
func (r infraEnvs) clusterFor(tx *store.Tx, s *infraEnvSnapshot) (missing string, err error) {
	ref := s.object.Spec.ClusterRef
	if ref == nil {
		return "", nil
	}
	if !r.Objects.Exists(tx, objects.ClusterDeployments, ref.Namespace, ref.Name) {
		return fmt.Sprintf("failed to get clusterDeployment with name %s in namespace %s", ref.Name, ref.Namespace), nil
	}
	if s.cluster, err = r.Engine.Rows(tx).ClusterOf(ref.Namespace + "/" + ref.Name); err != nil ||
		s.cluster != "" {
		return "", err
	}
	return fmt.Sprintf("cluster does not exist: %s, check AgentClusterInstall conditions in namespace %s", ref.Name,
		ref.Namespace), nil
}

// readReferences reads the objects that an InfraEnv refers to.
func (r infraEnvs) readReferences(tx *store.Tx, s *infraEnvSnapshot) error {
	spec := &s.object.Spec
	secret, err := r.pullSecret(tx, s.object.Namespace, spec.PullSecretRef)
	if err != nil {
		return err
	}
	found, err := r.networksOf(tx, s.object.Namespace, &spec.NMStateConfigLabelSelector)
	if err != nil {
		return err
	}
	if s.mirrors, err = r.readMirrorConfig(tx, spec.MirrorRegistryRef); err != nil {
		return err
	}
	s.inputs = infraEnvInputs{
		name: s.object.Name, spec: spec, pullSecret: secret, clusterID: strfmt.UUID(s.cluster),
		version:   r.versionFor(s),
		imageType: imageTypeOf(spec, r.defaultImageType(tx)), networks: found.hosts, from: found.from,
		networked: len(found.hosts) > 0 || s.stored.Digest != "" && s.id != "" && !ownNetwork(s.stored.Digest),
	}
	if r.OSImages != nil && spec.OSImageVersion != "" && !r.OSImages.Known(spec.OSImageVersion, spec.CPUArchitecture) {
		namespace, name := objects.SplitKey(s.key)
		r.Loop.RepeatAtStart(key{Kind: objects.InfraEnvs, Namespace: namespace, Name: name})
		return invalid("Specified OSImageVersion is missing from AgentServiceConfig")
	}
	s.digest, err = s.digestOf()
	return err
}

// versionFor returns the OpenShift version of the base image: the version in the InfraEnv; or "" if
// the engine chooses the version, for a cluster or for x86_64; or the newest version for the
// architecture.
func (r infraEnvs) versionFor(s *infraEnvSnapshot) string {
	spec := &s.object.Spec
	if spec.OSImageVersion != "" || s.cluster != "" || spec.CPUArchitecture == "" ||
		spec.CPUArchitecture == models.ClusterCPUArchitectureX8664 {
		return spec.OSImageVersion
	}
	newest, found := "", version.MustParseGeneric("0.0.0")
	for _, image := range r.Engine.ReleaseList() {
		parsed, err := version.ParseGeneric(image.OpenshiftVersion)
		own := architecture.Of(image.CPUArchitecture)
		fits := own == architecture.Of(spec.CPUArchitecture) || own == architecture.Multi
		if err == nil && fits && found.LessThan(parsed) {
			newest, found = image.OpenshiftVersion, parsed
		}
	}
	return newest
}

// networkElsewhere is appended to the digest if the infra-env's networks do not come from
// NMStateConfigs: the infra-env has no networks, or they were set over REST or in the browser.
const networkElsewhere = "-"

func ownNetwork(digest string) bool { return digest[len(digest)-1:] == networkElsewhere }

func (t *infraEnvSnapshot) digestOf() (string, error) {
	text, err := json.Marshal([]any{t.inputs.pullSecret, t.inputs.networks, t.inputs.imageType, t.mirrorData()})
	if err != nil {
		return "", fmt.Errorf("compute the digest of the objects that InfraEnv %s refers to: %w", t.key, err)
	}
	sum := sha256.Sum256(text)
	digest := hex.EncodeToString(sum[:])
	if len(t.inputs.networks) == 0 {
		digest += networkElsewhere
	}
	return digest, nil
}

func (t *infraEnvSnapshot) mirrorData() map[string]string {
	if t.mirrors == nil {
		return nil
	}
	return t.mirrors.data
}

// pullSecret reads a pull secret from the Secret that a reference names.
func (h *Controllers) pullSecret(tx *store.Tx, namespace string, ref *corev1.LocalObjectReference) (string, error) {
	if ref == nil || ref.Name == "" {
		return "",
			invalid("The pullSecretRef names no Secret; name a Secret of the namespace that has the pull secret under "+
				"the key %s.", corev1.DockerConfigJsonKey)
	}
	data, err := h.secretData(tx, namespace, ref.Name)
	if err != nil {
		return "", err
	}
	secret, ok := data[corev1.DockerConfigJsonKey]
	if !ok {
		return "", invalid("secret %s/%s did not contain key %s", namespace, ref.Name, corev1.DockerConfigJsonKey)
	}
	if _, err := mirror.ParsePullSecret(string(secret)); err != nil {
		return "", invalid("invalid pull secret data in secret %s: %v", ref.Name, err)
	}
	return string(secret), nil
}

// secretData reads a Secret that an object refers to.
func (h *Controllers) secretData(tx *store.Tx, namespace, name string) (map[string][]byte, error) {
	secret, err := objects.Find[corev1.Secret](h.Objects, tx, objects.Secrets, namespace, name)
	if err != nil {
		return nil, err
	}
	if secret == nil {
		return nil, invalid("failed to find secret %s/%s; it is read when it is created", namespace,
			name)
	}
	for key, value := range secret.StringData {
		if secret.Data == nil {
			secret.Data = map[string][]byte{}
		}
		secret.Data[key] = []byte(value)
	}
	return secret.Data, nil
}

// sync applies an InfraEnv to the engine's infra-env.
func (r infraEnvs) sync(ctx context.Context, s *infraEnvSnapshot) error {
	note := record.Object{Key: s.key, Generation: s.object.Generation, Digest: s.digest}
	if s.id == "" {
		params := s.inputs.create()
		if err := params.Validate(strfmt.Default); err != nil {
			return invalid("%v", err)
		}
		env, err := r.Engine.RegisterInfraEnv(ctx, params, note)
		if err != nil {
			return r.named(s, err)
		}
		s.id = env.ID.String()
		return errors.Join(r.setMirrors(ctx, s), r.ensureRecipe(ctx, s.id))
	}
	if note == s.stored {
		return errors.Join(r.setMirrors(ctx, s), r.ensureRecipe(ctx, s.id))
	}
	params := s.inputs.update()
	if err := params.Validate(strfmt.Default); err != nil {
		return invalid("%v", err)
	}
	if err := r.setMirrors(ctx, s); err != nil {
		return err
	}
	if _, err := r.Engine.UpdateInfraEnv(ctx, s.id, params, note); err != nil {
		return r.named(s, err)
	}
	return r.ensureRecipe(ctx, s.id)
}

// named replaces the numbers of hosts in an error of the engine by the names of their
// NMStateConfigs.
func (r infraEnvs) named(s *infraEnvSnapshot, err error) error {
	err = withKnownText(err)
	var refused *fault.Error
	if !errors.As(err, &refused) || len(s.inputs.from) == 0 {
		return err
	}
	return &fault.Error{Kind: refused.Kind, Reason: (&networks{from: s.inputs.from}).named(refused.Reason),
		Err: err}
}

// ensureRecipe creates the image recipe if an earlier attempt failed, because the agent's image
// could not be read from the release payload.
func (r infraEnvs) ensureRecipe(ctx context.Context, id string) error {
	digest, err := r.Engine.RecipeDigest(id)
	if err != nil || digest != "" {
		return err
	}
	_, err = r.Engine.Recipe(ctx, id)
	return err
}

// report writes the status and the finalizer of an InfraEnv, with the result of applying its spec.
func (r infraEnvs) report(ctx context.Context, s *infraEnvSnapshot, outcome *agentinstall.Condition) error {
	namespace, name := objects.SplitKey(s.key)
	err := r.update(ctx, func(tx *store.Tx) error {
		p := r.writer(tx)
		err := objects.UpdateAs(r.Objects, tx, objects.InfraEnvs, namespace, name,
			func(env *agentinstall.InfraEnv) error {
				if env.DeletionTimestamp != nil {
					return nil
				}
				keepInfraEnv(env)
				if s.id != "" {
					return nil
				}
				selector := map[string]string{labelInfraEnv: name}
				env.Status.AgentLabelSelector = metav1.LabelSelector{MatchLabels: selector}
				env.Status.ISODownloadURL, env.Status.CreatedTime = "", nil
				env.Status.Conditions = setAgentCondition(env.Status.Conditions, p.now, *outcome)
				return nil
			})
		if err != nil || s.id == "" {
			return err
		}
		if notice, ignored := ignoredDelay(&s.object.Spec); ignored {
			if err := r.Objects.EventOnce(tx, objects.InfraEnvs, namespace, name, notice, p.now); err != nil {
				return err
			}
		}
		err = p.updateInfraEnv(s.id, outcome)
		if fault.KindOf(err) == fault.NotFound {
			return nil // the deletion of the infra-env in the meantime has queued the InfraEnv
		}
		return err
	})
	return objects.IgnoreNotFound(err)
}

// keepInfraEnv keeps an InfraEnv until its infra-env is deregistered.
func keepInfraEnv(env *agentinstall.InfraEnv) {
	if env.DeletionTimestamp == nil && !slices.Contains(env.Finalizers, infraEnvFinalizer) {
		env.Finalizers = append(env.Finalizers, infraEnvFinalizer)
	}
}

// delete deregisters the infra-env of an InfraEnv that is being deleted or does not exist, with its
// unbound and installed hosts. Other hosts block the deletion.
func (r infraEnvs) delete(ctx context.Context, s *infraEnvSnapshot) (time.Duration, error) {
	if s.id != "" {
		busy, err := r.removeHosts(ctx, s.id)
		if err != nil {
			return 0, err
		}
		if len(busy) > 0 {
			return retryDeletion, r.reportBlockedDeletion(ctx, s, busy)
		}
		if r.Mirrors != nil {
			if err := r.Mirrors.SetMirror(ctx, infraEnvLevel(s.id), mirrorOfInfraEnv, nil); err != nil {
				return 0, err
			}
		}
		if err := r.Engine.DeregisterInfraEnv(ctx, s.id); err != nil && fault.KindOf(err) != fault.NotFound {
			return retryDeletion, err
		}
	}
	if s.object == nil || !slices.Contains(s.object.Finalizers, infraEnvFinalizer) {
		return 0, nil
	}
	namespace, name := objects.SplitKey(s.key)
	return 0, r.DB.Update(ctx, func(tx *store.Tx) error {
		p := r.writer(tx)
		return p.deleteAndFinalize(objects.InfraEnvs, namespace, name, infraEnvFinalizer)
	})
}

// removeHosts deregisters the hosts of an infra-env. If some hosts are bound but not installed, or
// the installation of their cluster goes on, it returns their names in busy and deregisters no
// host.
func (r infraEnvs) removeHosts(ctx context.Context, id string) (busy []string, err error) {
	hosts, err := r.Engine.Hosts(id)
	if err != nil {
		return nil, err
	}
	for _, host := range hosts {
		if host.ClusterID == nil {
			continue
		}
		cluster, err := record.ReadCluster(r.DB, host.ClusterID.String())
		if err != nil {
			return nil, err
		}
		if !slices.Contains(statesInstalled, conv.Value(host.Status)) || cluster.IsInstalling() {
			busy = append(busy, host.ID.String())
		}
	}
	if len(busy) > 0 {
		return busy, nil
	}
	for _, host := range hosts {
		if err := r.Engine.DeregisterHost(ctx, id, host.ID.String()); err != nil &&
			fault.KindOf(err) != fault.NotFound {
			return nil, err
		}
	}
	return nil, nil
}

// reportBlockedDeletion writes an Event about the hosts that block the deletion of an InfraEnv.
func (r infraEnvs) reportBlockedDeletion(ctx context.Context, s *infraEnvSnapshot, busy []string) error {
	if s.object == nil {
		return nil
	}
	namespace, name := objects.SplitKey(s.key)
	return r.DB.Update(ctx, func(tx *store.Tx) error {
		var u unstructured.Unstructured
		if err := r.Objects.Get(tx, objects.InfraEnvs, namespace, name, &u); err != nil {
			return err
		}
		return r.Objects.Event(tx, &u, objects.EventContent{
			Component: objects.AgentController, Warning: true, Reason: "DeletionBlocked",
			Message: fmt.Sprintf("The deletion of the InfraEnv waits for hosts that are bound to a cluster and not "+
				"installed: %s. Delete or unbind their Agents.", firstNames(busy)),
		}, r.Clock.Now().UTC())
	})
}

// ignoredDelay returns the Event for an InfraEnv that specifies a discovery delay. The upstream
// script lists the network interfaces only once, so that slow interfaces require a delay there.
func ignoredDelay(spec *agentinstall.InfraEnvSpec) (objects.EventContent, bool) {
	if conv.Value(spec.NetworkDiscoveryDelaySeconds) == 0 {
		return objects.EventContent{}, false
	}
	return objects.EventContent{
		Component: objects.AgentController, Reason: "NetworkDiscoveryDelayLeftOut",
		Message: "networkDiscoveryDelaySeconds has no effect: a host waits up to 30 seconds for the " +
			"network interfaces that NMStateConfigs name, " +
			"and continues when all have appeared.",
	}, true
}

// firstNames joins the first names of a list, with the number of the others.
func firstNames(names []string) string {
	const shown = 5
	if len(names) > shown {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:shown], ", "), len(names)-shown)
	}
	return strings.Join(names, ", ")
}

// isInvalid reports whether an error is an error in a user's object.
func isInvalid(err error) bool {
	_, ok := errors.AsType[*invalidError](err)
	return ok
}

// isInputError reports whether only a user can correct the cause of an error.
func isInputError(err error) bool {
	switch fault.KindOf(err) {
	case fault.Invalid, fault.NotFound, fault.Conflict, fault.Schema, fault.Forbidden:
		return true
	}
	return isInvalid(err)
}

// defaultImageType returns the image type of InfraEnvs that do not specify one: the type in the
// AgentServiceConfig, else the minimal image.
func (h *Controllers) defaultImageType(tx *store.Tx) models.ImageType {
	settings, err := h.serviceSettings(tx)
	if err != nil || settings["ISO_IMAGE_TYPE"] != string(models.ImageTypeFullIso) {
		return models.ImageTypeMinimalIso
	}
	return models.ImageTypeFullIso
}
