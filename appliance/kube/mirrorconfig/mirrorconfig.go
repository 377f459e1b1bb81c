// Package mirrorconfig parses the ConfigMaps that a mirrorRegistryRef names: those of
// AgentClusterInstalls, InfraEnvs and the AgentServiceConfig have the same keys.
package mirrorconfig

import "landfall/appliance/mirror"

// The keys of such a ConfigMap.
const (
	RegistriesConf = "registries.conf"
	CABundle       = "ca-bundle.crt"
)

// Parse returns the mirror rules in the values of the two keys. An empty caBundle adds no CA
// certificates. source names the rules in error texts.
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

// CABundleFile returns a file of CA certificates (PEM) for an import.
func CABundleFile(pem []byte) mirror.ImportedFile {
	return mirror.ImportedFile{Name: CABundle, Kind: mirror.FileCA, Data: pem}
}
