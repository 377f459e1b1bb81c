package bundle

import "encoding/json"

// Hidden is shown instead of a value of a Secret.
const Hidden = "(sealed)"

// WithoutSecrets returns manifests as decoded JSON without the values of Secrets, also of those
// within ManifestWorks.
func WithoutSecrets(manifests []json.RawMessage) []any {
	shown := make([]any, len(manifests))
	for i, text := range manifests {
		var manifest any
		if json.Unmarshal(text, &manifest) != nil {
			continue // bundles contain objects only
		}
		hideValues(manifest)
		shown[i] = manifest
	}
	return shown
}

func hideValues(value any) {
	switch value := value.(type) {
	case map[string]any:
		if value["kind"] == "Secret" {
			for _, part := range []string{"data", "stringData"} {
				members, _ := value[part].(map[string]any)
				for key := range members {
					members[key] = Hidden
				}
			}
			return
		}
		for _, member := range value {
			hideValues(member)
		}
	case []any:
		for _, member := range value {
			hideValues(member)
		}
	}
}
