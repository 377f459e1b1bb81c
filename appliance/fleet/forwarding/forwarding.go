// Package forwarding says which member of a fleet forwarded a request to the leader. It imports no
// package of the appliance, because all servers need it.
package forwarding

import "context"

// Forwarding says how a request was forwarded.
type Forwarding struct {
	Member    string // name of the member that forwarded it; "": nobody did
	Addressed bool   // the member has the name that the client used
}

type key struct{}

// With returns the context of a request that was forwarded.
func With(ctx context.Context, f Forwarding) context.Context { return context.WithValue(ctx, key{}, f) }

// Of says how the request of a context was forwarded.
func Of(ctx context.Context) Forwarding {
	f, _ := ctx.Value(key{}).(Forwarding)
	return f
}
