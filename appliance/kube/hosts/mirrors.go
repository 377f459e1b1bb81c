package hosts

import (
	"context"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"landfall/appliance/kube/mirrorconfig"
	"landfall/appliance/kube/objects"
	"landfall/appliance/kube/objects/agentinstall"
	"landfall/appliance/mirror"
	"landfall/store"
)

// The names under which the mirror rules of an InfraEnv and of the AgentServiceConfig are stored.
const (
	mirrorOfInfraEnv = "InfraEnv mirrorRegistryRef"
	mirrorOfSite     = "AgentServiceConfig mirrorRegistryRef"
)

// mirrorConfig holds the data of a mirror registry's ConfigMap, and the mirror rules in it.
type mirrorConfig struct {
	data  map[string]string
	rules *mirror.Import
}

func infraEnvLevel(id string) mirror.Level { return mirror.Level{InfraEnv: id} }

// readMirrorConfig reads the ConfigMap of a mirror registry. It returns nil if ref is nil.
func (h *Controllers) readMirrorConfig(tx *store.Tx, ref *agentinstall.MirrorRegistryReference) (*mirrorConfig, error) {
	if ref == nil {
		return nil, nil
	}
	object, err := objects.Find[corev1.ConfigMap](h.Objects, tx, objects.ConfigMaps, ref.Namespace, ref.Name)
	if err != nil {
		return nil, err
	}
	if object == nil {
		return nil, invalid("%s", mirrorconfig.Missing(ref.Name))
	}
	registriesConf, caBundle := object.Data[mirrorconfig.RegistriesConf], object.Data[mirrorconfig.CABundle]
	if strings.TrimSpace(registriesConf) == "" {
		return nil, invalid("ConfigMap %s/%s does not contain %s key", ref.Namespace, ref.Name,
			mirrorconfig.RegistriesConf)
	}
	if strings.TrimSpace(caBundle) == "" {
		caBundle = ""
	}
	rules, err := mirrorconfig.Parse(ref.Name, registriesConf, caBundle)
	if err != nil {
		return nil, invalid("ConfigMap %s/%s: %v", ref.Namespace, ref.Name, err)
	}
	return &mirrorConfig{object.Data, rules}, nil
}

// setMirrors sets the mirror rules of an infra-env to those of its InfraEnv.
func (r infraEnvs) setMirrors(ctx context.Context, s *infraEnvSnapshot) error {
	switch {
	case r.Mirrors != nil && s.mirrors != nil:
		return r.Mirrors.SetMirror(ctx, infraEnvLevel(s.id), mirrorOfInfraEnv, s.mirrors.rules)
	// also without mirrors: an earlier version of the InfraEnv may have set rules
	case r.Mirrors != nil && s.stored.Digest != "":
		return r.Mirrors.SetMirror(ctx, infraEnvLevel(s.id), mirrorOfInfraEnv, nil)
	}
	return nil
}
