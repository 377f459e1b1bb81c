package hosts

import (
	"context"
	"errors"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"landfall/appliance/kube/objects"
	"landfall/appliance/kube/objects/agentinstall"
	"landfall/appliance/mirror"
	"landfall/store"
)

// The keys of a mirror registry's ConfigMap, and the names under which its rules are kept.
const (
	keyRegistriesConf = "registries.conf"
	keyCABundle       = "ca-bundle.crt"
	mirrorOfInfraEnv  = "InfraEnv mirrorRegistryRef"
	mirrorOfSite      = "AgentServiceConfig mirrorRegistryRef"
)

func infraEnvLevel(id string) mirror.Level { return mirror.Level{InfraEnv: id} }

// mirrorConfig reads the ConfigMap of a mirror registry; nil if ref is nil.
func (h *Controllers) mirrorConfig(tx *store.Tx, ref *agentinstall.MirrorRegistryReference) (*corev1.ConfigMap, error) {
	if ref == nil {
		return nil, nil
	}
	var config corev1.ConfigMap
	err := h.Objects.Get(tx, objects.ConfigMaps, ref.Namespace, ref.Name, &config)
	if errors.Is(err, store.ErrNotFound) {
		return nil, invalid("Failed to get referenced ConfigMap %s/%s", ref.Namespace, ref.Name)
	}
	if err != nil {
		return nil, err
	}
	if strings.TrimSpace(config.Data[keyRegistriesConf]) == "" {
		return nil, invalid("ConfigMap %s/%s does not contain %s key", ref.Namespace, ref.Name, keyRegistriesConf)
	}
	if _, err := mirror.Parse(rulesOf(&config).Sources(ref.Name)); err != nil {
		return nil, invalid("ConfigMap %s/%s: %v", ref.Namespace, ref.Name, err)
	}
	return &config, nil
}

// rulesOf converts a ConfigMap to mirror rules.
func rulesOf(config *corev1.ConfigMap) *mirror.Import {
	rules := &mirror.Import{Files: []mirror.ImportedFile{{Name: keyRegistriesConf, Kind: mirror.FileRegistriesConf,
		Data: []byte(config.Data[keyRegistriesConf])}}}
	if bundle := config.Data[keyCABundle]; strings.TrimSpace(bundle) != "" {
		rules.Files = append(rules.Files, mirror.ImportedFile{Name: keyCABundle, Kind: mirror.FileCA,
			Data: []byte(bundle)})
	}
	return rules
}

// setMirrors sets the mirror rules of an infra-env to those of its InfraEnv.
func (r infraEnvs) setMirrors(ctx context.Context, task *infraEnvSnapshot) error {
	switch {
	case r.Mirrors != nil && task.mirrors != nil:
		return r.Mirrors.SetMirror(ctx, infraEnvLevel(task.id), mirrorOfInfraEnv, rulesOf(task.mirrors))
	case r.Mirrors != nil && task.stored.Digest != "": // it may have had some
		return r.Mirrors.SetMirror(ctx, infraEnvLevel(task.id), mirrorOfInfraEnv, nil)
	}
	return nil
}
