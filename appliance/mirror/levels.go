package mirror

import (
	"bytes"
	"fmt"
	"slices"
)

// Level is the scope of imported rules: the whole appliance (both fields are empty), one infra-env,
// or one cluster. The rules of a cluster override those of its infra-env, which override those of
// the appliance.
type Level struct {
	Cluster  string `json:"cluster_id,omitempty"`
	InfraEnv string `json:"infra_env_id,omitempty"`
}

// String returns the name of the level for users.
func (l Level) String() string {
	switch {
	case l.Cluster != "":
		return "cluster " + l.Cluster
	case l.InfraEnv != "":
		return "infra-env " + l.InfraEnv
	}
	return "appliance"
}

// Layered merges the rules of levels, the closest level last. A rule replaces the rule of lower
// levels for the same prefix, including its mirrors and policy. Among rules with different prefixes
// the longest match applies, as in one level. Catalogs and other objects replace those of the same
// kind and name. The result contains the CAs of all levels. Nil and empty levels are allowed.
func Layered(levels ...*Rules) (*Rules, error) {
	var tables []table
	var settings confFile
	var authorities []Document
	var objects []Object
	for _, level := range levels {
		if level == nil {
			continue
		}
		for _, t := range level.tables {
			i := slices.IndexFunc(tables, func(below table) bool { return below.prefix == t.prefix })
			if i < 0 {
				tables = append(tables, t)
				continue
			}
			t.over = tables[i].origin
			tables[i] = t
		}
		settings.override(level.settings)
		for _, o := range level.objects {
			objects = putObject(objects, o)
		}
		if len(level.ca) > 0 {
			authorities = append(authorities, Document{"CA bundle", level.ca})
		}
	}
	ca, err := parseCABundles(authorities)
	if err != nil {
		return nil, fmt.Errorf("combine the CAs of mirror rules: %w", err)
	}
	if len(ca) == 0 {
		ca = nil
	}
	return newRules(tables, settings, ca, objects)
}

// FollowPolicies returns the rules with the mirrorSourcePolicy of the mirror sets in other
// documents, such as a user's manifests. OpenShift rejects all mirror sets if two contradict each
// other. FollowPolicies skips unreadable documents, because other checks reject them.
func (r *Rules) FollowPolicies(documents ...[]byte) (*Rules, error) {
	theirs := &mirrorSets{}
	for _, data := range documents {
		if !bytes.Contains(data, []byte("MirrorSet")) && !bytes.Contains(data, []byte("ImageContentSourcePolicy")) {
			continue
		}
		one := &mirrorSets{}
		if err := one.add(Document{"manifest", data}); err == nil {
			theirs.sources = append(theirs.sources, one.sources...)
		}
	}
	if r == nil || len(theirs.sources) == 0 {
		return r, nil
	}
	tables := slices.Clone(r.tables)
	for _, source := range theirs.sources {
		for i := range tables {
			if tables[i].prefix == source.name && len(tables[i].mirrors) > 0 {
				tables[i].blocked = source.policy == neverContact
			}
		}
	}
	return newRules(tables, r.settings, r.ca, r.objects)
}
