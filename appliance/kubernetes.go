package appliance

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"

	"landfall/appliance/engine"
	"landfall/appliance/hosted/views"
	"landfall/appliance/kube/clusters"
	"landfall/appliance/kube/controller"
	"landfall/appliance/kube/hosts"
	"landfall/appliance/kube/objects"
	"landfall/appliance/kube/projection"
	"landfall/appliance/sitekey"
	"landfall/store"
	"landfall/web"
	"landfall/web/kube"
)

// kubernetesObjects is the part of the Kubernetes API that the engine needs: the objects, the queue
// of their controllers, and the listener.
type kubernetesObjects struct {
	box     *sitekey.Box
	objects *objects.Objects
	loop    *controller.Loop

	clusters clusters.Projector
	hosts    hosts.Projector
	deferred *projection.Deferred // the engine's projector

	// separate listener; nil if the main server serves the API, or after the API's server has taken
	// the listener
	listener net.Listener
	address  net.Addr // of the separate listener; nil without one
}

// kubernetesServer is the part of the Kubernetes API that needs the engine: the API server and the
// controllers.
type kubernetesServer struct {
	api         *kube.Server
	controllers []task
	web         *web.Server // on the separate listener; nil if the main server serves the API
	base        *kubernetesObjects
}

// openKubernetes creates the parts of the Kubernetes API that the engine needs. It returns nil if
// the configuration disables the API.
func (a *Appliance) openKubernetes(ctx context.Context) (_ *kubernetesObjects, err error) {
	if !a.config.Kubernetes.Enabled {
		return nil, nil
	}
	k := new(kubernetesObjects)
	if k.box, err = a.siteKey.Box(objects.SecretsPurpose, nil); err != nil {
		return nil, err
	}
	k.objects = objects.New(k.box, nil)
	k.loop = controller.New(a.db, a.clock, a.log)
	k.clusters = clusters.Projector{Objects: k.objects, URL: a.urls[0]}
	k.hosts = hosts.Projector{Objects: k.objects, URL: a.urls[0], BootURL: a.networks[0].Boot}
	k.deferred = projection.NewDeferred(projection.Chain{k.hosts, k.clusters})
	if a.config.Kubernetes.Listen == "" {
		return k, nil
	}
	if k.listener, err = a.inbound.Listen(ctx, a.config.Kubernetes.Listen); err != nil {
		return nil, fmt.Errorf("%s", strings.ReplaceAll(err.Error(), "--listen", "--kubernetes-listen"))
	}
	k.address = k.listener.Addr()
	a.log.Info("The Kubernetes API is served on a separate listener.", "address", k.address.String())
	return k, nil
}

// approvals returns the approvals of hosts that the Kubernetes API installs.
func (a *Appliance) approvals() *hosts.Approvals {
	if a.kubernetes == nil {
		return hosts.NewApprovals(a.db, nil, nil)
	}
	return hosts.NewApprovals(a.db, a.kubernetes.objects, a.catchUp.Current)
}

// projector returns the projector that writes changes of the engine to Kubernetes objects, or
// records them to be written later. While the Kubernetes API is disabled, it only records which
// existing objects are outdated. It is nil if no objects exist.
func (a *Appliance) projector() (engine.Projector, error) {
	if a.kubernetes != nil {
		return a.kubernetes.deferred, nil
	}
	var there bool
	if err := a.db.View(func(tx *store.Tx) (err error) {
		there, err = projection.EverEnabled(tx)
		return err
	}); err != nil || !there {
		return nil, err
	}
	return projection.Recorder{}, nil
}

// kubernetesReady returns a function with a channel that is closed when the Kubernetes API is
// ready. It returns nil if the configuration disables the API.
func (a *Appliance) kubernetesReady() func() <-chan struct{} {
	if a.kubernetes == nil {
		return nil
	}
	return func() <-chan struct{} { return a.kubeServer.api.Ready() }
}

// newKubernetesServer returns the API server with the controllers and their admission rules. It
// registers the operations of the API. It returns nil if the configuration disables the API.
func (a *Appliance) newKubernetesServer() (*kubernetesServer, error) {
	k := a.kubernetes
	if k == nil {
		return nil, nil
	}
	rules, controllers := a.newControllers(k)
	address := a.address
	if k.address != nil {
		address = k.address
	}
	server, own := a.server, (*web.Server)(nil)
	if k.listener != nil {
		own = web.New(web.Options{Logger: a.log, ShutdownTimeout: a.config.Timeouts.Shutdown,
			Connections: a.inbound, Hosts: a.clients.hosts, Wrap: a.wrap(false), Front: a.fleet.Guard(a.db),
			TLS: a.line(web.PlainFromMachine, nil), Stamp: a.fleet.Stamp(a.db)})
		server = own
	}
	s := &kubernetesServer{
		api: kube.New(kube.Options{
			DB: a.db, Objects: k.objects, Box: k.box, Admission: rules, Address: address.String(), Open: a.open(),
			Current: a.catchUp.Current, Watching: a.catchUp.Watching, Clock: a.clock, Logger: a.log,
			Progress: k.loop, Views: views.Kinds(a.config.Hosted.Enabled),
		}),
		controllers: controllers, base: k, web: own,
	}
	k.loop.SetFollower(s.api)
	return s, server.Register(s.api.Operations(own != nil)...)
}

// tasks returns the tasks that serve the API and run the controllers.
func (s *kubernetesServer) tasks() []task {
	if s == nil {
		return nil
	}
	tasks := append([]task{s.api.Run}, s.controllers...)
	if s.web != nil {
		tasks = append(tasks, s.serve)
	}
	return tasks
}

func (s *kubernetesServer) serve(ctx context.Context) error {
	listener := s.base.listener
	s.base.listener = nil // the server closes it
	return s.web.Serve(ctx, listener)
}

func (k *kubernetesObjects) close() error {
	if k == nil || k.listener == nil {
		return nil
	}
	return k.listener.Close()
}

// kubernetesURL returns the URL of the Kubernetes API for a client that uses the given URL of the
// appliance.
func (a *Appliance) kubernetesURL(under *url.URL) (string, error) {
	if a.kubernetes == nil {
		return "", errors.New("the Kubernetes API of this appliance is disabled: start the appliance with " +
			"kubernetes.enabled: true in its configuration, or --kubernetes-enabled")
	}
	scheme := under.Scheme
	if a.transport != nil {
		scheme = "https"
	}
	at := url.URL{Scheme: scheme, Host: under.Host}
	if own := a.kubernetes.address; own != nil {
		host, port, err := net.SplitHostPort(own.String())
		if err != nil {
			return "", err
		}
		if ip := net.ParseIP(host); ip == nil || ip.IsUnspecified() {
			host = under.Hostname()
		}
		if a.transport == nil {
			scheme = "http"
		}
		at = url.URL{Scheme: scheme, Host: net.JoinHostPort(host, port)}
	}
	return at.String(), nil
}
