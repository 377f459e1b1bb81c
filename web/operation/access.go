package operation

import (
	"slices"

	"landfall/appliance/access"
)

// Access is the rule that decides which clients may call an operation. Package web/access applies
// it. The zero value is invalid: a server does not register an operation without a rule.
//
// Rules are written as a chain, for example For(access.Viewer).OrAgents().
type Access struct {
	// Public permits every client.
	Public bool
	// Role is the smallest role of people and programs that may call the operation.
	Role access.Role
	// Lower has smaller roles that suffice for some values of a query parameter.
	Lower *Lower
	// Agents also permits agents with the token of the infra-env or the cluster in the path.
	Agents bool
	// Links also permits requests with a signed link: the parameter api_key or a signature.
	Links bool
	// CheckedBy names the API that checks its clients itself, or is "".
	CheckedBy string
	// Admits marks an operation of such an API whose handler calls recording.Admit when it has
	// accepted a client. The audit trail records the admitted requests, and counts the refused
	// ones.
	Admits bool
	// Secret marks an operation that returns a secret. The audit trail records its requests.
	Secret bool
	// Scope determines the meaning of the operation for identities with a limited scope.
	Scope Scope
}

// Lower is a smaller role that suffices if a query parameter has one of some values.
type Lower struct {
	Parameter string
	Values    []string
	Role      access.Role
}

// Scope is the part of the site that an operation is about.
type Scope int

const (
	// OfPath is the cluster or the infra-env in the path. Without one, it is the whole site, and
	// identities with a limited scope may not call the operation.
	OfPath Scope = iota
	// Shared is data that is the same for all clusters, for example the known OpenShift versions.
	Shared
	// Filtered is the objects in the identity's scope: the handler omits or rejects all others.
	Filtered
)

// Public is the rule of operations that every client may call.
func Public() Access { return Access{Public: true} }

// For is the rule of operations for people and programs with a role or a larger one.
func For(role access.Role) Access { return Access{Role: role} }

// CheckedBy is the rule of operations of an API that checks its clients itself.
func CheckedBy(api string) Access { return Access{CheckedBy: api} }

// Admitting marks an operation whose handler calls recording.Admit.
func (a Access) Admitting() Access { a.Admits = true; return a }

// OrAgents also permits agents.
func (a Access) OrAgents() Access { a.Agents = true; return a }

// OrLinks also permits signed links.
func (a Access) OrLinks() Access { a.Links = true; return a }

// WithSecret marks an operation that returns a secret.
func (a Access) WithSecret() Access { a.Secret = true; return a }

// OfAll marks an operation whose data is the same for all clusters.
func (a Access) OfAll() Access { a.Scope = Shared; return a }

// OfOwn marks an operation whose handler filters by the identity's scope.
func (a Access) OfOwn() Access { a.Scope = Filtered; return a }

// OrRole permits a smaller role if a query parameter has one of the values.
func (a Access) OrRole(role access.Role, parameter string, values ...string) Access {
	a.Lower = &Lower{Parameter: parameter, Values: values, Role: role}
	return a
}

// Valid reports whether the rule permits any client.
func (a Access) Valid() bool {
	return a.Public || a.Role != access.None || a.Agents || a.Links || a.CheckedBy != ""
}

// RoleFor returns the smallest role that may call the operation with the given query parameters.
func (a Access) RoleFor(parameter func(name string) string) access.Role {
	if a.Lower != nil && slices.Contains(a.Lower.Values, parameter(a.Lower.Parameter)) {
		return a.Lower.Role
	}
	return a.Role
}
