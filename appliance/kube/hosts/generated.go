package hosts

import (
	"errors"
	"strings"

	"github.com/openshift/assisted-service/models"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"

	"landfall/appliance/engine/record"
	"landfall/appliance/engine/view"
	"landfall/appliance/fault"
	"landfall/appliance/kube/objects"
	"landfall/appliance/kube/objects/agentinstall"
	"landfall/store"
)

// An infra-env that was created over REST or in the browser gets an InfraEnv in the namespace of
// its cluster, or in a namespace of its own. Its hosts get Agents.

// labelGenerated marks objects that were created for an infra-env and are deleted with it.
const labelGenerated = objects.MadeForInfraEnv

// generateInfraEnv creates the InfraEnv of an infra-env, and the Agents of its hosts. It does
// nothing while the cluster of the infra-env has no ClusterDeployment.
func (p writer) generateInfraEnv(env *view.InfraEnv) error {
	namespace, name, ref, err := p.placeFor(env)
	if err != nil || name == "" {
		return err
	}
	secret, err := p.rows.InfraEnvPullSecret(env)
	if err != nil {
		return err
	}
	made := map[string]string{labelGenerated: "true"}
	object := &agentinstall.InfraEnv{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: made,
			Finalizers: []string{infraEnvFinalizer}},
		Spec: agentinstall.InfraEnvSpec{
			PullSecretRef: &corev1.LocalObjectReference{Name: pullSecretOf(name)}, ClusterRef: ref,
			CPUArchitecture: env.CPUArchitecture,
			IPXEScriptType:  "DiscoveryImageAlways", ImageType: string(imageTypeShown(env.InfraEnv)),
			AdditionalNTPSources:   commaList(env.AdditionalNtpSources),
			IgnitionConfigOverride: env.IgnitionConfigOverride,
		},
	}
	writeBackInfraEnv(&object.Spec, env)
	if err := setInfraEnvStatus(object, env, p.Projector, p.now); err != nil {
		return err
	}
	applied := infraEnvSnapshot{key: namespace + "/" + name, object: object,
		inputs: infraEnvInputs{pullSecret: secret, imageType: imageTypeOf(&object.Spec, "")}}
	note := record.Object{Key: applied.key, Generation: 1}
	if note.Digest, err = applied.digestOf(); err != nil {
		return err
	}
	if err := errors.Join(
		p.Objects.Create(p.tx, objects.Secrets, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: pullSecretOf(name), Labels: made},
			Type:       corev1.SecretTypeDockerConfigJson,
			Data:       map[string][]byte{corev1.DockerConfigJsonKey: []byte(secret)},
		}, p.now),
		p.Objects.Create(p.tx, objects.InfraEnvs, object, p.now),
		record.NoteInfraEnvObject(p.tx, env.ID.String(), note),
	); err != nil {
		return err
	}
	ids, err := p.rows.InfraEnvHostIDs(env.ID.String())
	for _, id := range ids {
		err = errors.Join(err, p.projectHost(env.ID.String()+"/"+id, nil))
	}
	return err
}

func pullSecretOf(infraEnv string) string { return infraEnv + "-infra-env-pull-secret" }

func imageTypeShown(env *models.InfraEnv) models.ImageType {
	if env.Type == nil {
		return models.ImageTypeFullIso
	}
	return *env.Type
}

// placeFor chooses the namespace and the name of the InfraEnv for an infra-env, and returns the
// ClusterDeployment of its cluster. The name is "" while the ClusterDeployment does not exist.
func (p writer) placeFor(env *view.InfraEnv) (namespace, name string, ref *agentinstall.ClusterReference,
	err error) {
	id := env.ID.String()
	if env.ClusterID != "" {
		cluster, err := p.rows.Cluster(env.ClusterID.String())
		if fault.KindOf(err) == fault.NotFound || err == nil && cluster.Object.Key == "" {
			return "", "", nil, nil
		}
		if err != nil {
			return "", "", nil, err
		}
		namespace, name = objects.SplitKey(cluster.Object.Key)
		ref = &agentinstall.ClusterReference{Namespace: namespace, Name: name}
	} else {
		name = nameFrom(*env.Name, id)
		namespace = name
		if p.Objects.Exists(p.tx, objects.Namespaces, "", namespace) {
			namespace += "-" + id[:8]
		}
		if err := p.Objects.EnsureNamespace(p.tx, namespace, p.now, labelGenerated); err != nil {
			return "", "", nil, err
		}
	}
	if p.Objects.Exists(p.tx, objects.InfraEnvs, namespace, name) || p.Objects.Exists(p.tx, objects.Secrets, namespace,
		pullSecretOf(name)) {
		name += "-" + id[:8]
	}
	return namespace, name, ref, nil
}

// nameFrom converts the user's name of an infra-env to a valid object name.
func nameFrom(text, id string) string {
	name := strings.Trim(strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z', '0' <= r && r <= '9':
			return r
		case 'A' <= r && r <= 'Z':
			return r + 'a' - 'A'
		}
		return '-'
	}, text), "-")
	const room = validation.DNS1123LabelMaxLength - len("-00000000")
	if name = strings.Trim(name[:min(len(name), room)], "-"); name == "" {
		return "infra-env-" + id[:8]
	}
	return name
}

// deleteGenerated deletes the objects that were created with an InfraEnv, and its namespace if that
// is empty.
func (p writer) deleteGenerated(env *agentinstall.InfraEnv) error {
	if env.Labels[labelGenerated] != "true" {
		return nil
	}
	if ref := env.Spec.PullSecretRef; ref != nil {
		if err := p.deleteLabelled(objects.Secrets, env.Namespace, ref.Name); err != nil {
			return err
		}
	}
	for _, kind := range objects.Kinds() {
		if !kind.Namespaced || kind == objects.Events {
			continue
		}
		used := false
		if err := objects.Names(p.tx, kind, env.Namespace,
			func(_, _ string) error { used = true; return store.ErrStop }); err != nil || used {
			return err
		}
	}
	held, err := objects.Find[unstructured.Unstructured](p.Objects, p.tx, objects.Namespaces, "", env.Namespace)
	if err != nil || held == nil || held.GetLabels()[labelGenerated] != "true" {
		return err
	}
	var events []string
	if err := objects.Names(p.tx, objects.Events, env.Namespace,
		func(_, name string) error { events = append(events, name); return nil }); err != nil {
		return err
	}
	for _, name := range events {
		if err := p.Objects.Delete(p.tx, objects.Events, env.Namespace, name, p.now); err != nil {
			return err
		}
	}
	return p.Objects.Delete(p.tx, objects.Namespaces, "", env.Namespace, p.now)
}

func (p writer) deleteLabelled(kind objects.Kind, namespace, name string) error {
	u, err := objects.Find[unstructured.Unstructured](p.Objects, p.tx, kind, namespace, name)
	if err != nil || u == nil || u.GetLabels()[labelGenerated] != "true" {
		return err
	}
	return p.Objects.Delete(p.tx, kind, namespace, name, p.now)
}
