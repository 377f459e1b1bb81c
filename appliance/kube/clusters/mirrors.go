package clusters

import "landfall/appliance/mirror"

// mirrorImportOf reads the mirror rules of a ConfigMap. It returns an error for rules that can't
// be used.
func mirrorImportOf(registriesConf, bundle string) (*mirror.Import, error) {
	rules := &mirror.Import{Files: []mirror.ImportedFile{{Name: mirrorRegistriesConf, Kind: mirror.FileRegistriesConf,
		Data: []byte(registriesConf)}}}
	if bundle != "" {
		rules.Files = append(rules.Files, mirror.ImportedFile{Name: mirrorCABundle, Kind: mirror.FileCA,
			Data: []byte(bundle)})
	}
	_, err := mirror.Parse(rules.Sources(mirrorName))
	return rules, err
}
