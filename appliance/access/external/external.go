// Package external describes people whose accounts an identity provider of the site keeps, and
// derives their role and scope from their groups. The packages oidc and ldap return such people.
//
// Design: docs/design.md#one-identity-for-each-request.
package external

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"landfall/appliance/access"
	"landfall/appliance/fault"
)

// Person is a person whom an identity provider has authenticated. Issuer and Subject together
// identify the person permanently. Name may change, and another person may get it later.
type Person struct {
	Issuer  string // the provider
	Subject string // the person's ID at the provider
	Name    string
	Groups  []string

	// Role and Scope follow from the groups (see [Rules]).
	Role  access.Role
	Scope access.Scope
}

// Identity returns the person as the caller of an operation. The session and the address are
// missing.
func (p Person) Identity() access.Identity {
	return access.Identity{Kind: access.Person, Name: p.Name, Role: p.Role, Scope: p.Scope}
}

// Rules derive roles and scopes from groups. The zero value gives nobody a role.
type Rules struct {
	// Administrators, Operators and Viewers are the groups whose members have the role. A person in
	// several groups has the largest of their roles.
	Administrators, Operators, Viewers []string
	// Scopes limit the members of groups. A person in several of these groups has all their
	// clusters and infra-envs. Groups without a row do not widen the scope.
	Scopes []GroupScope
	// Same reports whether a group of the person is the group that a rule names. Nil compares the
	// texts.
	Same func(group, rule string) bool
}

// GroupScope is the scope of the members of a group.
type GroupScope struct {
	Group string
	Scope access.Scope
}

// Apply completes a person with the role and the scope of the groups. It returns an error of the
// kind Forbidden, and the person without a role, if no group has a role. key is the key of the
// configuration that has the rules, for the error.
func (r Rules) Apply(person Person, key string) (Person, error) {
	for _, row := range []struct {
		role   access.Role
		groups []string
	}{
		{access.Administrator, r.Administrators}, {access.Operator, r.Operators}, {access.Viewer, r.Viewers},
	} {
		if slices.ContainsFunc(row.groups, func(rule string) bool { return r.member(person, rule) }) {
			person.Role = row.role
			break
		}
	}
	for _, row := range r.Scopes {
		if r.member(person, row.Group) {
			person.Scope.Clusters = union(person.Scope.Clusters, row.Scope.Clusters)
			person.Scope.InfraEnvs = union(person.Scope.InfraEnvs, row.Scope.InfraEnvs)
		}
	}
	if person.Role == access.None {
		return person, fault.New(fault.Forbidden,
			"%s has no role at this appliance: none of the groups of %s is in %s; "+
				"ask an administrator to add a group there (groups: %s)",
			person.Name, person.Name, key, listed(person.Groups))
	}
	return person, nil
}

func (r Rules) member(person Person, rule string) bool {
	return slices.ContainsFunc(person.Groups, func(group string) bool {
		return group == rule || r.Same != nil && r.Same(group, rule)
	})
}

func union(a, b []string) []string {
	for _, id := range b {
		if !slices.Contains(a, id) {
			a = append(a, id)
		}
	}
	return a
}

// listedGroups is the number of groups that an error names.
const listedGroups = 10

func listed(groups []string) string {
	switch {
	case len(groups) == 0:
		return "none"
	case len(groups) > listedGroups:
		return fmt.Sprintf("%s and %d more", strings.Join(groups[:listedGroups], ", "), len(groups)-listedGroups)
	}
	return strings.Join(groups, ", ")
}

// maxName is the maximum length of a name in bytes.
const maxName = 256

// CheckName returns an error for a name that pages and logs cannot show: an empty name, a name with
// invisible characters, and a long name.
func CheckName(name string) error {
	switch {
	case name == "":
		return fmt.Errorf("the name is empty")
	case len(name) > maxName:
		return fmt.Errorf("the name is longer than %d bytes", maxName)
	case !utf8.ValidString(name), strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }):
		return fmt.Errorf("the name %+q has invisible characters", name)
	}
	return nil
}
