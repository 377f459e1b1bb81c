// Package access describes who calls an operation: the identity, its role and its scope. The
// package [landfall/web/access] finds the identity of each request and stores it in the context.
// Domain packages read it from there.
//
// Design: docs/design.md#one-identity-for-each-request.
package access

import (
	"context"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"landfall/appliance/fault"
)

// Role is what a person or a program may do. A role includes all smaller ones. The zero value may
// do nothing.
type Role int

// Roles, the smallest first.
const (
	None          Role = iota
	Viewer             // reads everything except secrets
	Operator           // installs clusters; reads no secrets and no BMC passwords
	Administrator      // everything
)

// Roles are the roles that an account or a token can have, the smallest first.
func Roles() []Role { return []Role{Viewer, Operator, Administrator} }

// roleNames are the names of roles in the API, on the command line and in the data directory.
var roleNames = [...]string{None: "", Viewer: "viewer", Operator: "operator", Administrator: "admin"}

// String returns the role's name, or "" for None.
func (r Role) String() string {
	if r < None || r > Administrator {
		return fmt.Sprintf("role(%d)", int(r))
	}
	return roleNames[r]
}

// ParseRole returns the role with a name.
func ParseRole(name string) (Role, error) {
	if i := slices.Index(roleNames[:], name); i > int(None) {
		return Role(i), nil
	}
	return None, fmt.Errorf("the role %q does not exist; the roles are viewer, operator and admin", name)
}

// CheckRole returns an error unless an account or a token can have the role. The error is a
// sentence for the user.
func CheckRole(role Role) error {
	if !slices.Contains(Roles(), role) {
		return fault.New(fault.Invalid, "the role is missing; choose viewer, operator or admin")
	}
	return nil
}

// MarshalText implements encoding.TextMarshaler.
func (r Role) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler. It accepts an empty text as None.
func (r *Role) UnmarshalText(text []byte) (err error) {
	if len(text) == 0 {
		*r = None
		return nil
	}
	*r, err = ParseRole(string(text))
	return err
}

// Kind is the kind of an identity.
type Kind string

// Kinds of identities.
const (
	// Nobody is a client without credentials. It is the zero value.
	Nobody Kind = ""
	// Person is a person with a session.
	Person Kind = "person"
	// Program is a program with a token.
	Program Kind = "program"
	// Agent is an agent, an installer or a controller with the token of an infra-env or a cluster.
	Agent Kind = "agent"
	// Link is a client that opened a signed link, or a link with the token of an image.
	Link Kind = "link"
	// Open is any client of an appliance that does not authenticate clients (auth: none).
	Open Kind = "open"
	// Appliance is the appliance itself.
	Appliance Kind = "appliance"
)

// Scope limits an identity to some clusters and infra-envs, by their IDs. The zero value is no
// limit.
type Scope struct {
	Clusters  []string `json:"clusters,omitempty"`
	InfraEnvs []string `json:"infra_envs,omitempty"`
}

// NewScope returns a scope of IDs. A name would match no object, and the identity would see
// nothing.
func NewScope(clusters, infraEnvs []string) (scope Scope, err error) {
	if scope.Clusters, err = ids("cluster", clusters); err != nil {
		return Scope{}, err
	}
	scope.InfraEnvs, err = ids("infra-env", infraEnvs)
	return scope, err
}

// ids returns IDs in the form of the API.
func ids(kind string, given []string) (all []string, err error) {
	for _, text := range given {
		id, err := uuid.Parse(text)
		if err != nil {
			return nil, fault.New(fault.Invalid, "%q is not the ID of a %s; landfall %[2]s list -o wide shows the IDs",
				text, kind)
		}
		all = append(all, id.String())
	}
	return all, nil
}

// Clone returns a copy with lists of its own.
func (s Scope) Clone() Scope { return Scope{slices.Clone(s.Clusters), slices.Clone(s.InfraEnvs)} }

// Equal reports whether two scopes have the same IDs in the same order.
func (s Scope) Equal(other Scope) bool {
	return slices.Equal(s.Clusters, other.Clusters) && slices.Equal(s.InfraEnvs, other.InfraEnvs)
}

// Limited reports whether the scope is a limit.
func (s Scope) Limited() bool { return len(s.Clusters)+len(s.InfraEnvs) > 0 }

// Cluster reports whether a cluster is in the scope.
func (s Scope) Cluster(id string) bool { return !s.Limited() || slices.Contains(s.Clusters, id) }

// InfraEnv reports whether an infra-env or its cluster is in the scope. clusterID is "" for an
// infra-env without a cluster.
func (s Scope) InfraEnv(id, clusterID string) bool {
	return !s.Limited() || slices.Contains(s.InfraEnvs, id) ||
		clusterID != "" && slices.Contains(s.Clusters, clusterID)
}

// Identity is who calls an operation.
type Identity struct {
	Kind  Kind
	Name  string // of the account, the token or the certificate
	Role  Role
	Scope Scope

	// InfraEnv or Cluster is the ID that an agent's token names.
	InfraEnv string
	Cluster  string

	// Session is the ID of a person's session, Token the ID of a program's token, Certificate the
	// serial number of a program's client certificate.
	Session     string
	Token       string
	Certificate string
	// Address is the network address of the client, without a port.
	Address string
}

// String returns a short description for logs and the audit trail, such as "person ana".
func (i Identity) String() string {
	switch {
	case i.Kind == Nobody:
		return "nobody"
	case i.Kind == Agent && i.InfraEnv != "":
		return "agent of infra-env " + i.InfraEnv
	case i.Kind == Agent:
		return "agent of cluster " + i.Cluster
	case i.Name == "":
		return string(i.Kind)
	}
	return string(i.Kind) + " " + i.Name
}

type contextKey struct{}

// With returns a context with an identity.
func With(ctx context.Context, identity Identity) context.Context {
	return context.WithValue(ctx, contextKey{}, identity)
}

// From returns the identity of a context. Without one, it is Nobody.
func From(ctx context.Context) Identity {
	identity, _ := ctx.Value(contextKey{}).(Identity)
	return identity
}

type failureKey struct{}

// WithFailure returns a context with the reason why the credentials of a request are not accepted,
// for operations that nobody may call, too.
func WithFailure(ctx context.Context, failure error) context.Context {
	return context.WithValue(ctx, failureKey{}, failure)
}

// Failure returns the reason of a context, or nil.
func Failure(ctx context.Context) error {
	failure, _ := ctx.Value(failureKey{}).(error)
	return failure
}
