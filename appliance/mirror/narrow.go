package mirror

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
)

// notRegistry is an entry of pull secrets from console.redhat.com that belongs to no registry. It
// authenticates connected clusters to Red Hat.
const notRegistry = "cloud.openshift.com"

// Narrow returns a pull secret with only those entries that a machine can use under the rules: the
// entries for mirrors, for sources that the rules permit, and for the places of the given images.
// Without rules, a machine may pull from every registry. A pull secret that has no other entries
// stays unchanged.
func (r *Rules) Narrow(secret string, images ...string) (string, error) {
	if secret == "" {
		return secret, nil
	}
	var file map[string]json.RawMessage
	var entries map[string]json.RawMessage
	if err := json.Unmarshal([]byte(secret), &file); err != nil {
		return "", fmt.Errorf("read the pull secret: it is not JSON")
	}
	if err := json.Unmarshal(file["auths"], &entries); err != nil {
		return "", fmt.Errorf("read the pull secret: it has no entries")
	}
	places := r.places(images)
	dropped := false
	for key := range entries {
		if !usableAt(normalKey(key), places) {
			delete(entries, key)
			dropped = true
		}
	}
	if !dropped {
		return secret, nil
	}
	narrowed, err := json.Marshal(map[string]any{"auths": entries})
	return string(narrowed), err
}

// places returns the registries and repositories from which a machine may pull. nil means all.
func (r *Rules) places(images []string) []string {
	if r == nil || len(r.tables) == 0 {
		return nil
	}
	places := []string{}
	for i := range r.tables {
		t := &r.tables[i]
		for _, m := range t.mirrors {
			places = append(places, m.location)
		}
		if t.blocked {
			continue
		}
		if places = append(places, t.prefix); t.location != "" {
			places = append(places, t.location)
		}
	}
	for _, image := range images {
		ref, err := name.ParseReference(image)
		if err != nil {
			continue // not configured
		}
		for _, e := range r.Endpoints(ref) {
			places = append(places, hostOf(e.Ref.Context().Registry)+"/"+e.Ref.Context().RepositoryStr())
		}
	}
	return places
}

// usableAt reports whether an entry of a pull secret is for one of the places, for a part of it, or
// for a registry or repository that contains it.
func usableAt(key string, places []string) bool {
	if key == notRegistry {
		return false
	}
	if places == nil {
		return true
	}
	within := func(inner, outer string) bool { return inner == outer || strings.HasPrefix(inner, outer+"/") }
	host, _, _ := strings.Cut(key, "/")
	for _, place := range places {
		if suffix, wildcard := strings.CutPrefix(place, "*"); wildcard && strings.HasSuffix(host, suffix) {
			return true
		}
		if within(key, place) || within(place, key) {
			return true
		}
	}
	return false
}
