// Package mirrorconfig parses the ConfigMaps that a mirrorRegistryRef names. The ConfigMaps of
// AgentClusterInstalls, InfraEnvs and the AgentServiceConfig have the same keys.
package mirrorconfig

import (
	"fmt"

	"landfall/appliance/mirror"
)

// The keys of a mirror registry's ConfigMap.
const (
	RegistriesConf = "registries.conf"
	CABundle       = "ca-bundle.crt"
)

// Parse returns the mirror rules of a ConfigMap, given the values of both keys. An empty caBundle
// adds no CA certificates. source names the rules in error texts.
func Parse(source, registriesConf, caBundle string) (*mirror.Import, error) {
	rules := &mirror.Import{Files: []mirror.ImportedFile{
		{Name: RegistriesConf, Kind: mirror.FileRegistriesConf, Data: []byte(registriesConf)},
	}}
	if caBundle != "" {
		rules.Files = append(rules.Files, CABundleFile([]byte(caBundle)))
	}
	_, err := mirror.Parse(rules.Sources(source))
	return rules, err
}

// Missing returns the message about a ConfigMap that does not exist. It is that of the Assisted
// Installer, with which tests of hubs compare the whole message of the condition.
func Missing(name string) string {
	return fmt.Sprintf("Failed to get referenced ConfigMap: ConfigMap %q not found", name)
}

// CABundleFile returns CA certificates (PEM) as a file to import.
func CABundleFile(pem []byte) mirror.ImportedFile {
	return mirror.ImportedFile{Name: CABundle, Kind: mirror.FileCA, Data: pem}
}
