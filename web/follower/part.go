package follower

import (
	"context"
	"net/http"
	"slices"

	"github.com/labstack/echo/v4"

	"landfall/appliance/access"
	"landfall/appliance/agents"
	"landfall/appliance/bmc"
	"landfall/appliance/discovery"
	"landfall/appliance/engine"
	"landfall/appliance/engine/event"
	"landfall/appliance/engine/record"
	"landfall/appliance/fault"
	"landfall/appliance/fleet"
	"landfall/appliance/kube/hosts"
	"landfall/appliance/kube/objects"
	"landfall/appliance/mirror"
	"landfall/appliance/overview"
	"landfall/appliance/progress"
	"landfall/assets"
	"landfall/web"
	webaccess "landfall/web/access"
	"landfall/web/api"
	"landfall/web/console"
	"landfall/web/image"
	"landfall/web/operation"
)

// part is what depends on the URLs of the leader.
type part struct {
	networks  discovery.Networks
	engine    *engine.Engine
	downloads *image.Service
	main      *web.Server
	boot      *web.Server
	registry  *web.Server // nil if the configuration has none
}

func (p *part) isFor(networks discovery.Networks) bool { return slices.Equal(p.networks, networks) }

// server returns the server of a listener, or nil if this member answers nothing there.
func (p *part) server(at fleet.Listener) *web.Server {
	switch at {
	case fleet.Boot:
		return p.boot
	case fleet.Registry:
		return p.registry
	case fleet.Kubernetes:
		return nil // the leader answers all requests
	}
	return p.main
}

// newPart wires what reads need. Nothing of it writes rows or runs in the background.
func (r *Reader) newPart(networks discovery.Networks) (_ *part, err error) {
	p := &part{networks: networks}
	if p.engine, err = r.newEngine(networks[0].URL); err != nil {
		return nil, err
	}
	images := discovery.NewImages(p.engine, r.images, networks)
	p.downloads = r.newDownloads(images, networks)
	links := discovery.NewLinks(r.DB, r.Clock, networks[0].URL)
	allowed := web.NewHosts(r.names(networks)...)
	p.boot = web.New(web.Options{Logger: r.Logger, Hosts: allowed, Instead: r.forward, Stamp: fleet.Stamp(r.DB),
		Wrap: r.answered(p.engine, r.guard(true, links))})
	if err := p.boot.Register(p.downloads.Operations()...); err != nil {
		return nil, err
	}
	if p.registry, err = r.newRegistry(r.answered(p.engine, r.guard(false, links))); err != nil {
		return nil, err
	}
	p.main = web.New(web.Options{Logger: r.Logger, Hosts: allowed, Instead: r.forward, Stamp: fleet.Stamp(r.DB),
		Wrap: r.answered(p.engine, r.guard(false, links)),
		TLS:  &web.TLS{Plain: web.PlainFromMachine, Moved: r.towards(p.boot)}})
	service := &api.Service{Engine: p.engine, Links: links, BootURL: networks[0].Boot, Version: r.Version}
	if err := service.Register(p.main); err != nil {
		return nil, err
	}
	page, err := console.PageOperations(assets.UI())
	if err != nil {
		return nil, err
	}
	rows, err := r.consoleOperations(p.engine)
	if err != nil {
		return nil, err
	}
	return p, p.main.Register(slices.Concat(page, p.downloads.Operations(), rows, elsewhere())...)
}

// names returns the host names and URLs by which clients may address this member.
func (r *Reader) names(networks discovery.Networks) []string {
	names := append(slices.Clone(r.Names), r.Config.AllowedHosts...)
	for _, network := range networks {
		names = append(names, network.URL)
	}
	return names
}

// servers returns the servers with BMCs in the rows of the copy.
func (r *Reader) servers() *bmc.Manager {
	return bmc.New(bmc.Options{DB: r.DB, Clock: r.Clock, Logger: r.Logger})
}

func (r *Reader) newEngine(url string) (*engine.Engine, error) {
	c := r.Config
	minimums, disabled, err := c.Validations.Read()
	if err != nil {
		return nil, err
	}
	return engine.New(engine.Options{DB: r.DB, Site: r.settings, Clock: r.Clock, Logger: r.Logger, URL: url,
		Tokens: r.issuer, Secrets: r.secrets, Requirements: minimums, DisabledValidations: disabled,
		Timeouts:    c.Timeouts.Engine(),
		EventLimits: event.Limits{Each: int64(c.Limits.EventObjectBytes), All: int64(c.Limits.EventBytes)},
		AccessAt:    func(mirror.Level) engine.ImageAccess { return engine.ImageAccess{Mirror: new(mirror.Rules)} }})
}

func (r *Reader) newDownloads(images *discovery.Images, networks discovery.Networks) *image.Service {
	options := image.Options{Source: images, Networks: networks, Logger: r.Logger, Clock: r.Clock,
		StallTimeout: r.Config.Timeouts.ImageStalled, Hold: r.Config.Timeouts.ImageHold,
		Progress: r.reads}
	if r.verifier != nil {
		options.Tokens = r.verifier
	}
	return image.New(options)
}

func (r *Reader) consoleOperations(e *engine.Engine) ([]operation.Operation, error) {
	approvals := hosts.NewApprovals(r.DB, nil, nil)
	if r.Config.Kubernetes.Enabled {
		box, err := r.Key.Box(objects.SecretsPurpose, nil)
		if err != nil {
			return nil, err
		}
		approvals = hosts.NewApprovals(r.DB, objects.New(box, nil), nil)
	}
	notices, err := r.notices()
	if err != nil {
		return nil, err
	}
	return slices.Concat(console.NoticeOperations(notices),
		console.MirrorOperations(shownRules{rules: r.rules, engine: e}, record.Relations{DB: r.DB}),
		console.FeedOperations(console.Feed{Changes: r.DB, ClusterOf: e.OwningCluster, Draining: r.ended,
			Clock: r.Clock, Logger: r.Logger}),
		console.OverviewOperations(overview.NewReader(r.DB, nil, nil, nil, nil, r.Clock)),
		console.ProgressOperations(progress.NewService(progress.Options{DB: r.DB, Events: e.Events, Clock: r.Clock,
			Logger: r.Logger})),
		console.HostOperations(e, r.servers(), approvals), console.FleetOperations(r.Fleet),
		console.AuditOperations(r.Trail, r.Fleet.Trails(r.Trail)), webaccess.FollowerOperations(r.open()),
	), nil
}

// elsewhere returns the routes of the leader's main listener that the page would serve here.
func elsewhere() (all []operation.Operation) {
	for _, path := range []string{"/api", "/apis", "/apis/*", "/ca.crt", "/healthz", "/healthz/*", "/livez", "/livez/*",
		"/openapi/*", "/providers/*", "/readyz", "/readyz/*", "/sealed/*", "/subscriptions/*", "/version"} {
		all = append(all, operation.Operation{Method: http.MethodGet, Head: true, Path: path,
			Access: operation.Public(), Handler: func(echo.Context) error { return fleet.ErrNoLeader }})
	}
	return all
}

// guard returns the guard of a listener.
func (r *Reader) guard(boot bool, links *discovery.Links) *webaccess.Guard {
	options := webaccess.Options{Sessions: &r.credentials, Tokens: &r.credentials, Agents: machines{r},
		Links: links, Relations: record.Relations{DB: r.DB}, Open: r.open(), LinksOnly: boot, Clock: r.Clock}
	if r.certificates != nil {
		options.Certificates = r.certificates
	}
	return webaccess.New(options)
}

// answered returns the handlers of operations: those of which the copy has the answer, behind the
// guard. The others must go to the leader.
func (r *Reader) answered(e *engine.Engine, guard *webaccess.Guard) func(operation.Operation) echo.HandlerFunc {
	return func(o operation.Operation) echo.HandlerFunc {
		if !o.FromCopy && !o.WithoutLeader {
			return func(echo.Context) error { return fleet.ErrNoLeader }
		}
		if here := r.needsOf(o); here != nil {
			o.Handler = ifHere(here, o.Handler)
		}
		if showsContacts(o) {
			o.Handler = r.afterContacts(o, e)
		}
		return guard.Wrap(o)
	}
}

// towards returns a function that returns the URL on the boot listener of a request for an image or
// a boot file, or "".
func (r *Reader) towards(boot *web.Server) func(*http.Request) string {
	return func(request *http.Request) string {
		if r.Port == "" || !boot.Serves(request) {
			return ""
		}
		return web.AtPort(request, "http", r.Port)
	}
}

// machines implements webaccess.Agents. Requests of agents go to the leader.
type machines struct{ *Reader }

// Identify implements webaccess.Agents.
func (machines) Identify(context.Context, agents.Request) (access.Identity, error) {
	return access.Identity{}, fleet.ErrNoLeader
}

// VerifyImage implements webaccess.Agents.
func (m machines) VerifyImage(token string) (string, error) {
	if m.verifier == nil {
		return "", fault.New(fault.Unauthenticated, "this appliance issues no tokens of images")
	}
	return m.verifier.VerifyImage(token)
}

type forwardKey struct{}

func withForward(ctx context.Context, forward http.Handler) context.Context {
	return context.WithValue(ctx, forwardKey{}, forward)
}

// forward lets the leader handle a request that failed here.
func (r *Reader) forward(w http.ResponseWriter, request *http.Request) bool {
	forward, ok := request.Context().Value(forwardKey{}).(http.Handler)
	if !ok || !r.Leader.Led() {
		return false
	}
	forward.ServeHTTP(w, request)
	return true
}
