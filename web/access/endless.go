package access

import (
	"context"
	"net/http"
	"reflect"
	"time"

	"landfall/appliance/access"
	"landfall/web/operation"
)

const (
	// headerBackground is the header of requests that the page sends on its own. They do not
	// prolong a session. So an unattended page does not keep its session open.
	headerBackground = "X-Landfall-Background"
	// checkInterval is the interval in which the credentials of endless responses are checked.
	checkInterval = 2 * time.Second
)

func isEndless(o operation.Operation, r *http.Request) bool { return o.Endless != nil && o.Endless(r) }

// isUse reports whether a request is a use of its session. Browsers repeat the requests of the live
// feed on their own, and without other headers.
func isUse(o operation.Operation, r *http.Request) bool {
	return r.Header.Get(headerBackground) == "" && !isEndless(o, r)
}

// whileValid returns a context that ends soon after the credentials of a request become invalid, or
// belong to another identity. The caller calls stop at the end of the response.
func (g *Guard) whileValid(ctx context.Context, r *http.Request, identity access.Identity) (
	_ context.Context, stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	if identity.Kind != access.Person && identity.Kind != access.Program {
		return ctx, cancel
	}
	// A handler may change the headers: the Kubernetes API removes the token of a request.
	r = r.Clone(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		ticker := g.options.Clock.NewTicker(checkInterval)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.Chan():
			}
			found, err := g.identify(r, false)
			found.Address = identity.Address
			if err != nil || !reflect.DeepEqual(found, identity) {
				cancel()
				return
			}
		}
	}()
	return ctx, func() {
		cancel()
		<-ended
	}
}
