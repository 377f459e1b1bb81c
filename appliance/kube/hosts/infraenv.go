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
	}
}

// retryDeletion is the interval of checks of an infra-env that still has hosts.
const retryDeletion = time.Minute

// infraEnvSnapshot is an InfraEnv with the objects it refers to and its infra-env, read in one
// transaction.
type infraEnvSnapshot struct {
	key     string                 // <namespace>/<name>
	object  *agentinstall.InfraEnv // nil if it does not exist
	id      string                 // of the infra-env; "" if there is none
	stored  record.Object          // the object as the infra-env has it
	cluster string                 // "" for none
	inputs  infraEnvInputs
	mirrors *mirrorConfig // nil: none
	digest  string        // of the inputs except the spec, and of the mirrors
}

// Reconcile registers the infra-env of an InfraEnv, or applies the InfraEnv to it.
func (r infraEnvs) Reconcile(ctx context.Context, namespace, name string) (time.Duration, error) {
	task, missing, err := r.read(namespace, name)
	switch {
	case task == nil || err != nil && !isInvalid(err):
		return 0, err
	case task.object == nil || task.object.DeletionTimestamp != nil:
		return r.delete(ctx, task)
	case missing != "":
		lost := clusterMissing(missing)
		return 0, r.report(ctx, task, &lost)
	}
	if err == nil {
		err = r.sync(ctx, task)
	}
	if err == nil {
		available := imageAvailable()
		return 0, r.report(ctx, task, &available)
	}
	input := isInputError(err)
	fault := imageFault(err, input)
	if err := r.report(ctx, task, &fault); err != nil || input {
		return 0, err
	}
	return 0, &controller.ReportedError{Err: err}
}

// read returns an InfraEnv with everything that its infra-env is made from. missing is the reason
// why its cluster is not known yet.
func (r infraEnvs) read(namespace, name string) (task *infraEnvSnapshot, missing string, err error) {
	for {
		task, missing, err = r.readOnce(namespace, name)
		if task == nil || !r.updateReferences(namespace, name, task.object) {
			return task, missing, err
		} // a change of a new reference may have been missed before the index had it
	}
}

func (r infraEnvs) readOnce(namespace, name string) (task *infraEnvSnapshot, missing string, err error) {
	err = r.DB.View(func(tx *store.Tx) error {
		task = &infraEnvSnapshot{key: namespace + "/" + name}
		rows := r.Engine.Rows(tx)
		var err error
		if task.id, err = rows.InfraEnvOf(task.key); err != nil {
			return err
		}
		if task.id != "" {
			env, err := rows.InfraEnv(task.id)
			if err != nil {
				return err
			}
			task.stored = env.Object
		}
		task.object, err = objects.Find[agentinstall.InfraEnv](r.Objects, tx, objects.InfraEnvs, namespace, name)
		if err != nil || task.object == nil || task.object.DeletionTimestamp != nil {
			return err
		}
		if missing, err = r.clusterFor(tx, task); err != nil || missing != "" {
			return err
		}
		return r.readReferences(tx, task)
	})
	return task, missing, err
}

// clusterFor finds the cluster of an InfraEnv. missing is the reason why there is none yet.
func (r infraEnvs) clusterFor(tx *store.Tx, task *infraEnvSnapshot) (missing string, err error) {
	ref := task.object.Spec.ClusterRef
	if ref == nil {
		return "", nil
	}
	if !r.Objects.Exists(tx, objects.ClusterDeployments, ref.Namespace, ref.Name) {
		return fmt.Sprintf("failed to get clusterDeployment with name %s in namespace %s", ref.Name, ref.Namespace), nil
	}
	if task.cluster, err = r.Engine.Rows(tx).ClusterOf(ref.Namespace + "/" + ref.Name); err != nil ||
		task.cluster != "" {
		return "", err
	}
	return fmt.Sprintf("cluster does not exist: %s, check AgentClusterInstall conditions in namespace %s", ref.Name,
		ref.Namespace), nil
}

// readReferences reads the objects that an InfraEnv refers to.
func (r infraEnvs) readReferences(tx *store.Tx, task *infraEnvSnapshot) error {
	spec := &task.object.Spec
	secret, err := r.pullSecret(tx, task.object.Namespace, spec.PullSecretRef)
	if err != nil {
		return err
	}
	found, err := r.networksOf(tx, task.object.Namespace, &spec.NMStateConfigLabelSelector)
	if err != nil {
		return err
	}
	if task.mirrors, err = r.readMirrorConfig(tx, spec.MirrorRegistryRef); err != nil {
		return err
	}
	task.inputs = infraEnvInputs{
		name: task.object.Name, spec: spec, pullSecret: secret, clusterID: strfmt.UUID(task.cluster),
		version:   r.versionFor(task),
		imageType: imageTypeOf(spec, r.defaultImageType(tx)), networks: found.hosts, from: found.from,
		networked: len(found.hosts) > 0 || task.stored.Digest != "" && task.id != "" && !ownNetwork(task.stored.Digest),
	}
	if r.OSImages != nil && spec.OSImageVersion != "" && !r.OSImages.Known(spec.OSImageVersion, spec.CPUArchitecture) {
		return invalid("Specified OSImageVersion is missing from AgentServiceConfig")
	}
	task.digest, err = task.digestOf()
	return err
}

// versionFor returns the OpenShift version of the base image: the InfraEnv's, else "" for the
// version of its cluster, else the newest one of the architecture.
func (r infraEnvs) versionFor(task *infraEnvSnapshot) string {
	spec := &task.object.Spec
	if spec.OSImageVersion != "" || task.cluster != "" || spec.CPUArchitecture == "" ||
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

// networkElsewhere ends the digests of infra-envs whose networks are not those of NMStateConfigs:
// they were set by REST or in the browser, or there are none.
const networkElsewhere = "-"

func ownNetwork(digest string) bool { return digest[len(digest)-1:] == networkElsewhere }

func (t *infraEnvSnapshot) digestOf() (string, error) {
	text, err := json.Marshal([]any{t.inputs.pullSecret, t.inputs.networks, t.inputs.imageType, t.mirrorData()})
	if err != nil {
		return "", fmt.Errorf("compute a digest of what InfraEnv %s refers to: %w", t.key, err)
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
			invalid("The pullSecretRef names no Secret; name one of the namespace with the pull secret under "+
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
	return string(secret), nil
}

// secretData reads a Secret that an object refers to.
func (h *Controllers) secretData(tx *store.Tx, namespace, name string) (map[string][]byte, error) {
	secret, err := objects.Find[corev1.Secret](h.Objects, tx, objects.Secrets, namespace, name)
	if err != nil {
		return nil, err
	}
	if secret == nil {
		return nil, invalid("failed to find secret %s/%s; it is looked for again when it is made", namespace,
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
func (r infraEnvs) sync(ctx context.Context, task *infraEnvSnapshot) error {
	note := record.Object{Key: task.key, Generation: task.object.Generation, Digest: task.digest}
	if task.id == "" {
		params := task.inputs.create()
		if err := params.Validate(strfmt.Default); err != nil {
			return invalid("%v", err)
		}
		env, err := r.Engine.RegisterInfraEnv(ctx, params, note)
		if err != nil {
			return r.named(task, err)
		}
		task.id = env.ID.String()
		return errors.Join(r.setMirrors(ctx, task), r.ensureRecipe(ctx, task.id))
	}
	if note == task.stored {
		return errors.Join(r.setMirrors(ctx, task), r.ensureRecipe(ctx, task.id))
	}
	params := task.inputs.update()
	if err := params.Validate(strfmt.Default); err != nil {
		return invalid("%v", err)
	}
	if err := r.setMirrors(ctx, task); err != nil {
		return err
	}
	if _, err := r.Engine.UpdateInfraEnv(ctx, task.id, params, note); err != nil {
		return r.named(task, err)
	}
	return r.ensureRecipe(ctx, task.id)
}

// named replaces the numbers of hosts in an error of the engine by the names of their
// NMStateConfigs.
func (r infraEnvs) named(task *infraEnvSnapshot, err error) error {
	var refused *fault.Error
	if !errors.As(err, &refused) || len(task.inputs.from) == 0 {
		return err
	}
	return &fault.Error{Kind: refused.Kind, Reason: (&networks{from: task.inputs.from}).named(refused.Reason),
		Err: err}
}

// ensureRecipe makes the recipe of the image if it could not be made before, because the agent's
// image had to be read from the release payload.
func (r infraEnvs) ensureRecipe(ctx context.Context, id string) error {
	digest, err := r.Engine.RecipeDigest(id)
	if err != nil || digest != "" {
		return err
	}
	_, err = r.Engine.Recipe(ctx, id)
	return err
}

// report writes the status and the finalizer of an InfraEnv, with the result of applying its spec.
func (r infraEnvs) report(ctx context.Context, task *infraEnvSnapshot, outcome *agentinstall.Condition) error {
	namespace, name := objects.SplitKey(task.key)
	err := r.DB.Update(ctx, func(tx *store.Tx) error {
		p := r.writer(tx)
		err := r.Objects.Update(tx, objects.InfraEnvs, namespace, name, func(u *unstructured.Unstructured) error {
			if u.GetDeletionTimestamp() != nil {
				return nil
			}
			objects.AddFinalizer(u, infraEnvFinalizer)
			if task.id != "" {
				return nil
			}
			var object agentinstall.InfraEnv
			if err := objects.Into(u, &object); err != nil {
				return err
			}
			object.Status.AgentLabelSelector = metav1.LabelSelector{MatchLabels: map[string]string{labelInfraEnv: name}}
			object.Status.ISODownloadURL, object.Status.CreatedTime = "", nil
			object.Status.Conditions = setAgentCondition(object.Status.Conditions, p.now, *outcome)
			return objects.SetStatus(u, &object.Status)
		})
		if err != nil || task.id == "" {
			return err
		}
		if notice, told := ignoredDelay(&task.object.Spec); told {
			if err := r.Objects.EventOnce(tx, objects.InfraEnvs, namespace, name, notice, p.now); err != nil {
				return err
			}
		}
		err = p.updateInfraEnv(task.id, outcome)
		if fault.KindOf(err) == fault.NotFound {
			return nil // deleted in the meantime; the deletion queues the InfraEnv
		}
		return err
	})
	return objects.IgnoreNotFound(err)
}

// delete deregisters the infra-env of an InfraEnv that is being deleted or does not exist. Hosts
// that are unbound or installed are deregistered with it. Other hosts block the deletion.
func (r infraEnvs) delete(ctx context.Context, task *infraEnvSnapshot) (time.Duration, error) {
	if task.id != "" {
		busy, err := r.removeHosts(ctx, task.id)
		if err != nil {
			return 0, err
		}
		if len(busy) > 0 {
			return retryDeletion, r.reportBlockedDeletion(ctx, task, busy)
		}
		if r.Mirrors != nil {
			if err := r.Mirrors.SetMirror(ctx, infraEnvLevel(task.id), mirrorOfInfraEnv, nil); err != nil {
				return 0, err
			}
		}
		if err := r.Engine.DeregisterInfraEnv(ctx, task.id); err != nil && fault.KindOf(err) != fault.NotFound {
			return retryDeletion, err
		}
	}
	if task.object == nil || !slices.Contains(task.object.Finalizers, infraEnvFinalizer) {
		return 0, nil
	}
	namespace, name := objects.SplitKey(task.key)
	return 0, r.DB.Update(ctx, func(tx *store.Tx) error {
		p := r.writer(tx)
		return p.deleteAndFinalize(objects.InfraEnvs, namespace, name, infraEnvFinalizer)
	})
}

// removeHosts deregisters the hosts of an infra-env. If a host is bound and not installed, it
// deregisters none and returns those in busy.
func (r infraEnvs) removeHosts(ctx context.Context, id string) (busy []string, err error) {
	hosts, err := r.Engine.Hosts(id)
	if err != nil {
		return nil, err
	}
	for _, host := range hosts {
		if host.ClusterID != nil && !slices.Contains(statesInstalled, conv.Value(host.Status)) {
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

// reportBlockedDeletion writes an Event that says why an InfraEnv is not deleted yet.
func (r infraEnvs) reportBlockedDeletion(ctx context.Context, task *infraEnvSnapshot, busy []string) error {
	if task.object == nil {
		return nil
	}
	namespace, name := objects.SplitKey(task.key)
	return r.DB.Update(ctx, func(tx *store.Tx) error {
		var u unstructured.Unstructured
		if err := r.Objects.Get(tx, objects.InfraEnvs, namespace, name, &u); err != nil {
			return err
		}
		return r.Objects.Event(tx, &u, objects.EventContent{
			Component: objects.AgentController, Warning: true, Reason: "DeletionBlocked",
			Message: fmt.Sprintf("The InfraEnv is deleted when its hosts that are bound to a cluster and not "+
				"installed are gone: %s. Delete or unbind their Agents.", firstNames(busy)),
		}, r.Clock.Now().UTC())
	})
}

// ignoredDelay returns the Event for an InfraEnv that specifies a discovery delay. Upstream's
// script looks for the network cards once, and is delayed for those that appear late.
func ignoredDelay(spec *agentinstall.InfraEnvSpec) (objects.EventContent, bool) {
	if conv.Value(spec.NetworkDiscoveryDelaySeconds) == 0 {
		return objects.EventContent{}, false
	}
	return objects.EventContent{
		Component: objects.AgentController, Reason: "NetworkDiscoveryDelayLeftOut",
		Message: "networkDiscoveryDelaySeconds has no effect: hosts look for the network cards that " +
			"NMStateConfigs name " +
			"until all are there, for up to 30 seconds, and go on at once then.",
	}, true
}

// firstNames lists the first names of a list.
func firstNames(names []string) string {
	const shown = 5
	if len(names) > shown {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:shown], ", "), len(names)-shown)
	}
	return strings.Join(names, ", ")
}

// isInvalid reports whether an error lies in what a user wrote.
func isInvalid(err error) bool {
	_, ok := errors.AsType[*invalidError](err)
	return ok
}

// isInputError reports whether an error stays until a user changes the objects.
func isInputError(err error) bool {
	switch fault.KindOf(err) {
	case fault.Invalid, fault.NotFound, fault.Conflict, fault.Schema, fault.Forbidden:
		return true
	}
	return isInvalid(err)
}

// defaultImageType returns the image type of InfraEnvs that specify none: that of the
// AgentServiceConfig, else the minimal image.
func (h *Controllers) defaultImageType(tx *store.Tx) models.ImageType {
	settings, err := h.serviceSettings(tx)
	if err != nil || settings["ISO_IMAGE_TYPE"] != string(models.ImageTypeFullIso) {
		return models.ImageTypeMinimalIso
	}
	return models.ImageTypeFullIso
}
