package mirror

import (
	"bytes"
	"fmt"
	"slices"
)

// Level is where an import of rules holds: everywhere ("", both are empty), for one infra-env, or
// for one cluster. What is said closer goes over what is said further away: a cluster's own rules
// over an infra-env's, and those over the appliance's.
type Level struct {
	Cluster  string `json:"cluster_id,omitempty"`
	InfraEnv string `json:"infra_env_id,omitempty"`
}

// String names the level for people.
func (l Level) String() string {
	switch {
	case l.Cluster != "":
		return "cluster " + l.Cluster
	case l.InfraEnv != "":
		return "infra-env " + l.InfraEnv
	}
	return "appliance"
}

// Layered lays rules of levels over each other, the closest last. A rule goes over those for the
// same prefix that lie below, mirrors, policy and all; of rules for other prefixes the longest that
// matches counts, as always. Catalogs and other objects go over those of the same kind and name.
// CAs add up. Nil and empty levels are fine.
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
		return nil, fmt.Errorf("join the CAs of mirror rules: %w", err)
	}
	if len(ca) == 0 {
		ca = nil
	}
	return newRules(tables, settings, ca, objects)
}

// FollowPolicies returns the rules with the policies that other documents with mirror sets say for
// the same sources, such as manifests that a person gives a cluster: OpenShift takes no mirror set
// at all where two contradict each other. A document that can't be read is somebody else's to
// judge, and left out.
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
